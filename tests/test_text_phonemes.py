"""Phonemes of whole texts: punctuation kept, lexicon first, unreadable characters counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.text import LANGUAGES, TextSettings, Tokenizer, normalize
from myxtts.text.espeak import available

pytestmark = pytest.mark.skipif(not available(), reason="espeak-ng is not installed")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(TextSettings(symbols="phonemes", add_blank=False))


def say(tokenizer: Tokenizer, text: str, language: str = "en") -> str:
    return tokenizer.transcribe([text], language)[0]


def with_lexicon(folder: Path, language: str, lines: str) -> Tokenizer:
    path = folder / f"{language}.tsv"
    path.write_text(lines, encoding="utf-8")
    return Tokenizer(TextSettings(symbols="phonemes", add_blank=False, lexicons={language: path}))


def test_punctuation_keeps_its_place(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "Yes; no, maybe… why? Go!") == "jˈɛs; nˈoʊ, mˈeɪbiː… wˈaɪ? ɡˈoʊ!"


def test_quotes_and_parentheses_do_not_tear_words_apart(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "eat the apple") == "ˈiːt ðɪ ˈæpəl"
    assert say(tokenizer, 'eat the "apple" (now)') == 'ˈiːt ðɪ "ˈæpəl" (nˈaʊ)'


def test_quotes_stay_where_espeak_ng_joins_two_words(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, 'of the "apple"').count('"') == 2
    assert say(tokenizer, '"of the" apple').startswith('"ʌvðə"')


def test_punctuation_of_other_scripts_becomes_the_shared_one(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "سلام، «دنیا»؟", "fa") == 'salˈɑm, "donjˈɑ"?'
    assert say(tokenizer, "你好。", "zh").endswith(".")


def test_hand_written_phonemes_are_taken_as_they_are(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "say [[tə.ˈmɑː.təʊ]] now") == "sˈeɪ tə.ˈmɑː.təʊ nˈaʊ"


def test_latin_words_in_persian_are_read_in_english(tokenizer: Tokenizer) -> None:
    assert say(tokenizer, "یک hello است", "fa") == "jˈek həlˈəʊ ˈast"


@pytest.mark.parametrize(
    ("language", "text", "unknown"),
    [("en", "hello 🤠 привет", "🤠привет"), ("fa", "سلام 日本", "日本"), ("ja", "これは日本", "日本")],
)
def test_what_espeak_ng_cannot_read_is_counted_as_unknown(language: str, text: str, unknown: str) -> None:
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    tokenizer.encode(text, language)
    assert sorted(tokenizer.unknown.elements()) == sorted(unknown)


def test_the_lexicon_is_looked_up_first(tmp_path: Path) -> None:
    tokenizer = with_lexicon(tmp_path, "fa", "# names\nتهران\ttehrˈɒːn\nكتاب\tketˈɒːb\n")
    assert say(tokenizer, "کتاب تهران را دیدم.", "fa").startswith("ketˈɒːbe tehrˈɒːn ")


def test_a_lexicon_word_does_not_change_its_neighbours(tmp_path: Path) -> None:
    tokenizer = with_lexicon(tmp_path, "en", "linux\tlˈɪnəks\n")
    assert say(tokenizer, "a Linux box to go") == "ɐ lˈɪnəks bˈɑːks tə ɡˈoʊ"
    assert say(tokenizer, "Linux, 'linux' and \"LINUX\"") == 'lˈɪnəks, lˈɪnəks ænd "lˈɪnəks"'


def test_a_lexicon_word_is_placed_where_espeak_ng_joins_other_words(tmp_path: Path) -> None:
    tokenizer = with_lexicon(tmp_path, "en", "linux\tlˈɪnəks\n")
    said = say(tokenizer, "one of the linux users of the world")
    assert said.split().count("lˈɪnəks") == 1
    assert said.index("lˈɪnəks") > said.index("ʌvðə")
    assert said.endswith("wˈɜːld")


def test_a_lexicon_finds_words_in_writing_without_spaces(tmp_path: Path) -> None:
    tokenizer = with_lexicon(tmp_path, "ja", "日本\tɲihõɴ\n日本語\tɲihoŋɡo\n")
    tokenizer.encode("これは日本語です。", "ja")
    assert not tokenizer.unknown
    assert "ɲihoŋɡo" in say(tokenizer, "これは日本語です。", "ja")


def test_phonemes_of_a_text_are_the_same_alone_and_in_any_batch(
    tokenizer: Tokenizer, ljspeech_transcripts: list[str]
) -> None:
    texts = [normalize(text, "en") for text in ljspeech_transcripts[::40]]
    together = tokenizer.transcribe(texts, "en")
    order = list(range(len(texts)))
    random.Random(3).shuffle(order)
    shuffled = tokenizer.transcribe([texts[place] for place in order], "en")
    assert [shuffled[order.index(place)] for place in range(len(texts))] == together
    assert [say(tokenizer, text) for text in texts] == together


@pytest.mark.parametrize("part", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_ljspeech_has_no_unknown_symbol_and_comes_back_from_its_ids(
    ljspeech_transcripts: list[str], part: int
) -> None:
    tokenizer = Tokenizer(TextSettings(symbols="phonemes", add_blank=False))
    assert len(ljspeech_transcripts) == 13_100
    texts = ljspeech_transcripts[::part]
    encoded = tokenizer.encode_batch(texts, ["en"] * len(texts))
    assert not tokenizer.unknown
    assert all("<unk>" not in tokenizer.decode(ids) for ids in encoded)
    spoken = tokenizer.transcribe([normalize(text, "en") for text in texts[::10]], "en")
    assert ["".join(tokenizer.decode(ids)[1:-1]) for ids in encoded[::10]] == spoken


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60), st.sampled_from(LANGUAGES))
def test_any_text_has_phonemes_or_is_counted_as_unknown(text: str, language: str) -> None:
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    ids = tokenizer.encode(text, language)
    assert (ids == 1).sum() == sum(tokenizer.unknown.values())


def test_a_language_of_espeak_ng_is_added_by_configuration_alone() -> None:
    tokenizer = Tokenizer(TextSettings(symbols="phonemes", extra_languages=("sv", "hi")))
    tokenizer.encode_batch(["Jag har 5 hundar, 3,5 kg.", "नमस्ते दुनिया 20%"], ["sv", "hi"])
    assert not tokenizer.unknown
