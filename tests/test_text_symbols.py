"""The symbol table: fixed, without doubles, and wide enough."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
import xxhash

from myxtts.text.ipa import canonical_ipa
from myxtts.text.symbols import (
    GROUPS,
    PHONEME_IDS,
    SYMBOL_IDS,
    SYMBOLS,
    SYMBOLS_VERSION,
    graphemes,
    shared_punctuation,
)

INVISIBLE_GROUPS = ("combining marks", "Arabic marks, ZWNJ")
ALPHABETS = {
    "en": string.ascii_lowercase,
    "es": "abcdefghijklmnñopqrstuvwxyzáéíóúü¿¡",
    "fr": "abcdefghijklmnopqrstuvwxyzàâæçéèêëîïôœùûüÿ",
    "de": "abcdefghijklmnopqrstuvwxyzäöüß",
    "it": "abcdefghijklmnopqrstuvwxyzàèéìíîòóùú",
    "pt": "abcdefghijklmnopqrstuvwxyzáâãàçéêíóôõú",
    "pl": "aąbcćdeęfghijklłmnńoóprsśtuwyzźż",
    "tr": "abcçdefgğhıijklmnoöprsştuüvyzâîû",
    "ru": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    "nl": "abcdefghijklmnopqrstuvwxyzéëïóöüèê",
    "cs": "aábcčdďeéěfghiíjklmnňoópqrřsštťuúůvwxyýzž",
    "ar": "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىي\u064b\u064c\u064d\u064e\u064f\u0650\u0651\u0652",
    "ja": "あいうえおがぎぐげごぱぴぷぺぽっゃゅょんーアイウエオヴッャン",
    "hu": "aábcdeéfghiíjklmnoóöőpqrstuúüűvwxyz",
    "ko": "가나다라마바사아자차카타파하깎뽕읽없",
    "fa": "ءآأؤئابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی\u200c\u0654\u064b\u064e\u064f\u0650\u0651",
}


def test_the_table_is_the_one_its_version_names() -> None:
    # Stores and checkpoints hold these numbers: if this fails, append instead, or raise SYMBOLS_VERSION.
    digest = xxhash.xxh3_64_hexdigest("\x1f".join(SYMBOLS).encode())
    assert (SYMBOLS_VERSION, len(SYMBOLS), digest) == (1, 613, "b7330b9bd43da047")


def test_the_table_in_the_documents_is_this_one() -> None:
    document = (Path(__file__).parents[1] / "docs" / "text.md").read_text(encoding="utf-8")
    first = 0
    for name, symbols in GROUPS.items():
        shown = " ".join(f"U+{ord(s):04X}" if name in INVISIBLE_GROUPS else s.replace(" ", "space") for s in symbols)
        assert f"| {first} to {first + len(symbols) - 1} | {name} | `{shown}` |" in document
        first += len(symbols)


def test_no_symbol_stands_twice_and_padding_is_zero() -> None:
    assert len(SYMBOL_IDS) == len(SYMBOLS)
    assert SYMBOLS[:5] == ("<pad>", "<unk>", "<bos>", "<eos>", "<blank>")


@pytest.mark.parametrize("language", ALPHABETS)
def test_the_alphabet_of_each_language_is_in_the_table(language: str) -> None:
    letters = graphemes(ALPHABETS[language] + ALPHABETS[language].upper(), language)
    assert [letter for letter in letters if letter not in SYMBOL_IDS] == []


def test_capital_i_is_dotless_in_turkish_only() -> None:
    assert graphemes("IŞIK İZ", "tr") == "ışık iz"
    assert graphemes("IS", "en") == "is"


def test_hangul_is_taken_apart_and_katakana_is_hiragana() -> None:
    assert graphemes("한", "ko") == "\u1112\u1161\u11ab"
    assert graphemes("カタカナ", "ja") == "かたかな"


def test_punctuation_of_all_languages_shares_its_numbers() -> None:
    assert shared_punctuation("،؛؟«»。、") == ',;?"".,'


def test_ipa_is_brought_to_one_spelling() -> None:
    assert canonical_ipa("t͡ʃɔ̃ gäç  ʤ") == "tʃɔ̃ ɡa\u0308ç dʒ"


@pytest.mark.parametrize(
    "ipa",
    [
        "pbtdʈɖcɟkɡqɢʔ",
        "mɱnɳɲŋɴʙrʀⱱɾɽ",
        "ɸβfvθðszʃʒʂʐçʝxɣχʁħʕhɦ",
        "ɬɮʋɹɻjɰlɭʎʟ",
        "iyɨʉɯuɪʏʊeøɘɵɤoəɛœɜɞʌɔæɐaɶɑɒ",
        "ˈˌːˑʰʲʷˠˤ˥˦˧˨˩",
    ],
)
def test_the_ipa_chart_is_in_the_table(ipa: str) -> None:
    assert [symbol for symbol in ipa if symbol not in PHONEME_IDS] == []


def test_letters_of_other_scripts_are_no_phonemes() -> None:
    assert not set("жبあ가é") & set(PHONEME_IDS)
