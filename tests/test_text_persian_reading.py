"""Persian read aloud: ezafe, readings by context, the sounds of words."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.corpus.sentences import sentences
from myxtts.errors import TextError
from myxtts.text import TextSettings, Tokenizer, normalize
from myxtts.text.espeak import available
from myxtts.text.lexicon import Lexicon
from myxtts.text.persian_reading import PERSIAN_READING_VERSION
from myxtts.text.persian_reading import reader as reader_module
from myxtts.text.persian_reading.reader import ReadWord
from myxtts.text.persian_reading.sounds import ezafe_ending, stressed, with_single_end
from myxtts.text.persian_reading.tagger import Tagger
from myxtts.text.persian_reading.word_parts import parts_of_word
from myxtts.text.symbols import PHONEME_IDS
from myxtts.text.words import tokens

needs_espeak = pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
FOLDER = Path(reader_module.__file__).parent


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    if not available():
        pytest.skip("espeak-ng is not installed")
    return Tokenizer(TextSettings(symbols="phonemes", add_blank=False))


def read(tokenizer: Tokenizer, text: str) -> list[ReadWord]:
    return tokenizer.words([normalize(text, "fa")], "fa")[0]


def said(tokenizer: Tokenizer, text: str, word: str) -> str:
    """What is said for a word of a text, without stress."""
    return next(found.ipa for found in read(tokenizer, text) if found.written == word).replace("ˈ", "")


def with_ezafe(tokenizer: Tokenizer, text: str) -> list[str]:
    return [word.written for word in read(tokenizer, text) if word.ezafe]


# Ezafe


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("کتاب جدید من روی میز بزرگ است.", ["کتاب", "جدید", "روی", "میز"]),
        ("دانشگاه تهران در مرکز شهر است.", ["دانشگاه", "مرکز"]),
        ("او به مدرسه رفت و کتاب را آورد.", []),
        ("قیمت نفت در بازار جهانی افزایش یافت.", ["قیمت", "بازار"]),
    ],
)
def test_words_carry_an_ezafe_where_a_reader_says_one(tokenizer: Tokenizer, text: str, expected: list[str]) -> None:
    assert with_ezafe(tokenizer, text) == expected


@pytest.mark.parametrize(
    ("text", "word", "sounds"),
    [
        ("کتاب من اینجاست.", "کتاب", "ketɑbe"),
        ("خانه ما بزرگ است.", "خانه", "xɑneje"),
        ("هوای تهران سرد است.", "هوای", "havɑje"),
        ("کتاب‌های من اینجاست.", "کتاب‌های", "ketɑbhɑje"),
        ("کشتی نوح بزرگ بود.", "کشتی", "keʃtije"),
    ],
)
def test_the_ezafe_is_e_after_a_consonant_and_ye_after_a_vowel(
    tokenizer: Tokenizer, text: str, word: str, sounds: str
) -> None:
    assert said(tokenizer, text, word) == sounds


@pytest.mark.parametrize("text", ["او کتابِ است", "او کتابِ.", "رفت خانهٔ.", "رفت خانه‌ی.", "رفت خانۀ."])
def test_an_ezafe_that_the_author_wrote_always_counts(tokenizer: Tokenizer, text: str) -> None:
    assert any(word.ezafe and word.ipa.endswith("e") for word in read(tokenizer, text))


def test_no_ezafe_is_added_at_the_end_of_a_clause(tokenizer: Tokenizer) -> None:
    assert "کتاب" not in with_ezafe(tokenizer, "کتاب، دفتر و مداد خرید.")
    assert with_ezafe(tokenizer, "کتاب") == []


def test_a_word_with_its_owner_carries_no_ezafe(tokenizer: Tokenizer) -> None:
    assert "خانه‌اش" not in with_ezafe(tokenizer, "خانه‌اش بزرگ است.")


def test_a_joined_preposition_is_read_and_tagged_by_itself(tokenizer: Tokenizer) -> None:
    words = read(tokenizer, "به‌عنوان معلم آمد.")
    assert words[0].written == "به‌عنوان"
    assert words[0].ezafe
    assert words[0].ipa.replace("ˈ", "") == "beonvɑne"
    assert parts_of_word("به‌عنوان", lambda word: True) == ["به", "عنوان"]


@pytest.mark.parametrize(("sounds", "ending"), [("ketɑb", "e"), ("xɑne", "je"), ("ɑqɑ", "je"), ("ʃahri", "je")])
def test_forms_of_the_ezafe(sounds: str, ending: str) -> None:
    assert ezafe_ending(sounds) == ending


# Readings


@pytest.mark.parametrize(
    ("text", "word", "sounds"),
    [
        ("تیم کشتی ایران مدال گرفت.", "کشتی", "koʃtije"),
        ("کشتی در دریا غرق شد.", "کشتی", "keʃti"),
        ("گوسفندان در مرتع به چرا رفتند.", "چرا", "tʃarɑ"),
        ("چرا دیر آمدی؟", "چرا", "tʃerɑ"),
        ("این دارو مسکن درد است.", "مسکن", "mosakkene"),
        ("قیمت مسکن بالا رفت.", "مسکن", "maskan"),
        ("پرنده بال و پر زد.", "پر", "par"),
        ("لیوان را پر کرد.", "پر", "por"),
        ("یک قاشق شکر در چای ریخت.", "شکر", "ʃekar"),
        ("خدا را شکر که آمدی.", "شکر", "ʃokr"),
        ("کرم ابریشم برگ می‌خورد.", "کرم", "kerme"),
        ("با چاقو نان را می‌برد.", "می‌برد", "miborad"),
        ("بچه را به مدرسه می‌برد.", "می‌برد", "mibarad"),
        ("تیم ملی قطر در دوحه بازی کرد.", "قطر", "qatar"),
        ("قطر دایره دو برابر شعاع است.", "قطر", "qotre"),
    ],
)
def test_a_word_is_read_as_its_sentence_means_it(tokenizer: Tokenizer, text: str, word: str, sounds: str) -> None:
    assert said(tokenizer, text, word) == sounds


def test_the_reason_is_told(tokenizer: Tokenizer) -> None:
    word = next(word for word in read(tokenizer, "کشتی در دریا غرق شد.") if word.written == "کشتی")
    assert "near دریا" in word.why
    assert not word.ambiguous


def test_a_word_of_which_nothing_chooses_a_reading_is_ambiguous(tokenizer: Tokenizer) -> None:
    assert read(tokenizer, "کرم")[0].ambiguous
    assert not read(tokenizer, "به او گفت")[0].ambiguous


def test_vowel_marks_of_the_author_decide(tokenizer: Tokenizer) -> None:
    assert said(tokenizer, "کِرم ضدآفتاب برای پوست", "کِرم").startswith("kerm")
    assert read(tokenizer, "نُه")[0].why == "vowel marks"


def test_marks_without_letters_are_silent(tokenizer: Tokenizer) -> None:
    for text in ("\u0650", "\u064b\u0651"):
        assert [(word.ipa, word.ezafe) for word in read(tokenizer, text)] == [("", False)]


def test_our_tables_are_lexicons_in_known_symbols() -> None:
    for name in ("readings.tsv", "words.tsv", "reference_words.tsv"):
        assert len(Lexicon(FOLDER / name, "fa")) == len(Lexicon(FOLDER / name, "fa", normalized=True))


# Words


@pytest.mark.parametrize(
    ("written", "sounds"),
    [
        ("میگم", "miɡam"),
        ("می‌گم", "miɡam"),
        ("میخوام", "mixɑm"),
        ("اینا", "inɑ"),
        ("نمیدونم", "nemidunam"),
        ("می‌روم", "miravam"),
        ("نمی‌خواهم", "nemixɑham"),
        ("کتاب‌ها", "ketɑbhɑ"),
        ("بزرگ‌ترین", "bozorɡtarin"),
        ("کتاب‌هایشان", "ketɑbhɑjeʃɑn"),
        ("سیاسی", "sijɑsi"),
        ("رئیس", "raʔis"),
    ],
)
def test_words_are_read_as_spoken(tokenizer: Tokenizer, written: str, sounds: str) -> None:
    assert said(tokenizer, written, normalize(written, "fa")) == sounds


def test_an_ending_keeps_the_reading_of_its_stem(tokenizer: Tokenizer) -> None:
    assert said(tokenizer, "نامه‌ها را به پست‌ها سپرد", "پست‌ها") == "posthɑ"


def test_and_in_a_number_is_o(tokenizer: Tokenizer) -> None:
    assert said(tokenizer, "بیست و سه", "و") == "o"
    assert said(tokenizer, "نان و پنیر", "و") == "va"


def test_an_invented_word_is_unknown(tokenizer: Tokenizer) -> None:
    words = read(tokenizer, "غژمبلستان بزرگ است")
    assert [word.known for word in words] == [False, True, True]


def test_words_met_are_counted() -> None:
    if not available():
        pytest.skip("espeak-ng is not installed")
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    tokenizer.encode_batch(["غژمبلستان کرم", "غژمبلستان"], ["fa", "fa"])
    assert tokenizer.unknown_words == {"غژمبلستان": 2}
    assert tokenizer.ambiguous_words == {"کرم": 1}


@pytest.mark.parametrize(
    ("sounds", "tail", "is_verb", "expected"),
    [
        ("ketɑb", 0, False, "ketˈɑb"),
        ("ketɑbe", 1, False, "ketˈɑbe"),
        ("miravam", 0, True, "mˈiravam"),
        ("nemiravam", 0, True, "nˈemiravam"),
        ("raftam", 0, True, "rˈaftam"),
        ("", 0, False, ""),
        ("ʃ", 0, True, "ʃ"),
    ],
)
def test_stress(sounds: str, tail: int, is_verb: bool, expected: str) -> None:
    assert stressed(sounds, tail, is_verb) == expected


def test_a_double_consonant_is_heard_only_before_a_vowel(tokenizer: Tokenizer) -> None:
    assert with_single_end("samm") == "sam"
    assert said(tokenizer, "سم مار کشنده است", "سم") == "samme"


# The lexicon


@needs_espeak
def test_a_lexicon_comes_first_and_may_have_hints(tmp_path: Path) -> None:
    path = tmp_path / "fa.tsv"
    path.write_text("# names\nمهسا\tmahsˈɑ\nکرم\tkerˈem\nکرم\tkˈerm\tnear=باغچه\nتهران\ttehrˈɒːn\n", encoding="utf-8")
    tokenizer = Tokenizer(TextSettings(symbols="phonemes", lexicons={"fa": path}))
    assert read(tokenizer, "کرم")[0].ipa == "kerˈem"
    words = read(tokenizer, "کرم در باغچه بود")
    assert words[0].ipa == "kˈerm"
    assert words[0].why == "lexicon: near باغچه"
    assert read(tokenizer, "شهر تهران بزرگ است")[1].ipa == "tehrˈɒːn"
    assert read(tokenizer, "تهرانِ ما")[0].ipa == "tehrˈɒːne"


@pytest.mark.parametrize(
    ("content", "language", "message"),
    [
        ("کرم\tkerm\tsometimes", "fa", ":1: 'sometimes' is not a hint"),
        ("کرم\tkerm\tnear=خاک\nکرم\tkarm\nکرم\tkerem", "fa", ":3: 'کرم' already has another pronunciation in line 2"),
        ("read\tɹɛd\tverb", "en", ":1: only a Persian lexicon can have hints"),
    ],
)
def test_a_wrong_hint_is_named_with_its_line(tmp_path: Path, content: str, language: str, message: str) -> None:
    path = tmp_path / "lexicon.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TextError, match=message):
        Lexicon(path, language)


# Whole texts


def test_marks_and_phonemes_by_hand_stay_in_their_places(tokenizer: Tokenizer) -> None:
    text = normalize("«سلام»، [[tˈest]] خوبی؟", "fa")
    assert tokenizer.transcribe([text], "fa") == ['"salˈɑm", tˈest xubˈi?']


def test_a_sentence_does_not_depend_on_the_others(tokenizer: Tokenizer) -> None:
    texts = [normalize(text, "fa") for text in sentences("fa", seed=3, count=300)]
    assert tokenizer.transcribe(texts, "fa") == [tokenizer.transcribe([text], "fa")[0] for text in texts]


def assert_whole(tokenizer: Tokenizer, texts: list[str]) -> None:
    """Every word of each text is there, and every word in Persian letters is said, in symbols of the table."""
    normalized = [normalize(text, "fa") for text in texts]
    for text, words in zip(normalized, tokenizer.words(normalized, "fa"), strict=True):
        written = [match.group() for match in tokens("fa").finditer(text) if match.lastgroup == "word"]
        assert [word.written for word in words] == written
        for word in words:
            assert set(word.ipa) <= PHONEME_IDS.keys()
            assert word.ipa or not any("آ" <= letter <= "ی" and letter.isalpha() for letter in word.written)
    tokenizer.encode_batch(texts, ["fa"] * len(texts))


@pytest.mark.long
def test_no_generated_sentence_loses_a_word(tokenizer: Tokenizer) -> None:
    assert_whole(tokenizer, sentences("fa", seed=11, count=2000))


@needs_espeak
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=5))
def test_no_text_raises_or_loses_a_word(texts: list[str]) -> None:
    assert_whole(Tokenizer(TextSettings(symbols="phonemes")), texts)


@needs_espeak
@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(
        st.text(alphabet="ابپتدرسشعفکگلمنوهیآئأؤءة \u200c\u0650\u0654\u064b\u0651،.؟«»(5a-'", max_size=60), max_size=5
    )
)
def test_no_text_of_persian_letters_raises_or_loses_a_word(texts: list[str]) -> None:
    assert_whole(Tokenizer(TextSettings(symbols="phonemes")), texts)


# The tagger and its data


def test_the_tagger_gives_probabilities_of_each_word() -> None:
    tagger = Tagger(FOLDER / "tagger.npz")
    long, empty, short = tagger.probabilities([["کتاب", "من", "است", "."], [], ["کتاب"]])
    assert long.shape == (4, len(tagger.labels))
    assert empty.shape == (0, len(tagger.labels))
    assert short.shape == (1, len(tagger.labels))
    assert long.sum(axis=1) == pytest.approx(1, abs=1e-4)
    assert tagger.labels[long[0].argmax()] == "Ne"
    assert tagger.knows("کتاب")
    assert not tagger.knows("غژمبلستان")


@needs_espeak
def test_without_its_files_espeak_reads_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reader_module, "_FOLDER", tmp_path)
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    with caplog.at_level(logging.WARNING):
        assert tokenizer.transcribe(["کتاب من"], "fa") == ["kˈetɑb mˈan"]
        assert tokenizer.words(["کتاب من"], "fa") == [[]]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "espeak-ng alone" in lines[0]


@needs_espeak
def test_the_version_is_in_the_fingerprint_of_phonemes() -> None:
    assert TextSettings(symbols="phonemes").fingerprint()["persian_reading"] == PERSIAN_READING_VERSION
    assert "persian_reading" not in TextSettings(symbols="graphemes").fingerprint()


@needs_espeak
def test_neither_tensorflow_nor_scipy_is_imported() -> None:
    program = (
        "import sys; from myxtts.text import Tokenizer, TextSettings; "
        "Tokenizer(TextSettings(symbols='phonemes')).encode('کتاب من', 'fa'); "
        "sys.exit(any(name in sys.modules for name in ('tensorflow', 'torch', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
