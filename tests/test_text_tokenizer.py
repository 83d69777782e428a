"""Texts to ids and back, the settings, and what they depend on."""

from __future__ import annotations

import logging
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.config.config import DataConfig
from myxtts.errors import MissingExtraError, TextError, UsageError
from myxtts.text import LANGUAGES, TextSettings, Tokenizer, espeak, normalize
from myxtts.text import tokenizer as tokenizer_module

GRAPHEMES = TextSettings(symbols="graphemes", add_blank=False)


@pytest.fixture
def without_espeak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)  # what a missing package looks like to an import
    monkeypatch.setattr(tokenizer_module, "_logged", set())


def test_ids_are_begin_symbols_end() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    ids = tokenizer.encode("Room 5.", "en")
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == ["<bos>", *"room five.", "<eos>"]


def test_blanks_stand_around_every_symbol() -> None:
    tokenizer = Tokenizer(TextSettings(symbols="graphemes", add_blank=True))
    assert "".join(tokenizer.decode(tokenizer.encode("ab", "en"))) == "<bos><blank>a<blank>b<blank><eos>"
    assert "".join(tokenizer.decode(tokenizer.encode("", "en"))) == "<bos><blank><eos>"


def test_padding_never_occurs() -> None:
    assert 0 not in Tokenizer(GRAPHEMES).encode("anything 🤠 at all", "en")


def test_unknown_symbols_are_counted_and_keep_their_place() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    ids = tokenizer.encode("a🤠b🤠", "en")
    assert tokenizer.decode(ids) == ["<bos>", "a", "<unk>", "b", "<unk>", "<eos>"]
    assert tokenizer.unknown == {"🤠": 2}


def test_a_letter_outside_the_table_is_taken_apart_if_its_parts_are_known() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    assert tokenizer.decode(tokenizer.encode("ế", "en"))[1:-1] == ["e", "\u0302", "\u0301"]
    assert not tokenizer.unknown


def test_a_batch_gives_what_single_texts_give() -> None:
    texts = ["Room 5.", "در ۱۴۰۳/۰۵/۱۲", "Straße", "Room 5.", "한국"]
    languages = ["en", "fa", "de", "en-gb", "ko"]
    batch = Tokenizer(GRAPHEMES).encode_batch(texts, languages)
    for ids, text, language in zip(batch, texts, languages, strict=True):
        np.testing.assert_array_equal(ids, Tokenizer(GRAPHEMES).encode(text, language))


def test_given_phonemes_stand_in_for_the_text() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    first, second, third = tokenizer.encode_batch(["one", "two", "three"], ["en"] * 3, [None, "tuː, t͡ʃ", " "])
    assert tokenizer.decode(second)[1:-1] == list("tuː, tʃ")
    assert tokenizer.decode(first)[1:-1] == list("one")
    assert tokenizer.decode(third)[1:-1] == list("three")


def test_letters_in_given_phonemes_that_are_no_ipa_are_unknown() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    tokenizer.encode("x", "fa", ipa="ketɒːb کتاب")
    assert set(tokenizer.unknown) == set("کتاب")


def test_inline_phonemes_work_among_letters() -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    assert "".join(tokenizer.decode(tokenizer.encode("Say [[təˈmɑːtəʊ]]!", "en"))[1:-1]) == "say təˈmɑːtəʊ!"


def test_a_lexicon_works_among_letters(tmp_path: Path) -> None:
    path = tmp_path / "en.tsv"
    path.write_text("linux\tlˈɪnəks\n", encoding="utf-8")
    tokenizer = Tokenizer(TextSettings(symbols="graphemes", add_blank=False, lexicons={"en": path}))
    assert "".join(tokenizer.decode(tokenizer.encode("The Linux Box", "en"))[1:-1]) == "the lˈɪnəks box"
    assert "".join(tokenizer.decode(tokenizer.encode("Linux", "de"))[1:-1]) == "linux"


def test_chinese_letters_are_refused_with_the_remedy() -> None:
    with pytest.raises(TextError, match="phonemes"):
        Tokenizer(GRAPHEMES).encode("你好", "zh")
    assert len(Tokenizer(GRAPHEMES).encode("你好", "zh", ipa="ni˨˩˦ xɑʊ˨˩˦")) == 14


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40), st.sampled_from([code for code in LANGUAGES if code != "zh"]))
def test_any_text_has_ids_that_say_what_was_unknown(text: str, language: str) -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    ids = tokenizer.encode(text, language)
    assert ids.min() > 0
    assert ids.max() < tokenizer.vocab_size
    assert (ids == 1).sum() == sum(tokenizer.unknown.values())


def test_symbols_of_graphemes_come_back_from_their_ids(ljspeech_transcripts: list[str]) -> None:
    tokenizer = Tokenizer(GRAPHEMES)
    texts = ljspeech_transcripts[::20]
    for text, ids in zip(texts, tokenizer.encode_batch(texts, ["en"] * len(texts)), strict=True):
        assert "".join(tokenizer.decode(ids)[1:-1]) == normalize(text, "en").lower()
    assert not tokenizer.unknown


@pytest.mark.parametrize("ids", [[-1], [10_000]])
def test_ids_outside_the_table_are_refused(ids: list[int]) -> None:
    with pytest.raises(UsageError, match="ids go from 0"):
        Tokenizer(GRAPHEMES).decode(ids)


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(UsageError, match="for each text"):
        Tokenizer(GRAPHEMES).encode_batch(["a", "b"], ["en"])


def test_an_unknown_language_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="extra_languages"):
        Tokenizer(GRAPHEMES).encode("a", "sv")


def test_a_tokenizer_survives_the_way_to_another_process() -> None:
    tokenizer = pickle.loads(pickle.dumps(Tokenizer(GRAPHEMES)))
    assert tokenizer.decode(tokenizer.encode("a", "en")) == ["<bos>", "a", "<eos>"]


def test_settings_come_from_the_data_configuration(tmp_path: Path) -> None:
    path = tmp_path / "fa.tsv"
    path.write_text("تهران\ttehrˈɒːn\n", encoding="utf-8")
    config = DataConfig(text_symbols="graphemes", add_blank=False, lexicons={"fa": str(path)}, extra_languages=["sv"])
    assert TextSettings.from_config(config) == TextSettings(
        symbols="graphemes", add_blank=False, lexicons={"fa": path}, extra_languages=("sv",)
    )


def test_defaults_are_those_of_the_data_configuration() -> None:
    assert TextSettings.from_config(DataConfig()) == TextSettings()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"symbols": "letters"}, "auto, graphemes or phonemes"),
        ({"extra_languages": ("fa",)}, "already a language"),
        ({"extra_languages": ("sv", "SV")}, "already a language"),
        ({"extra_languages": ("klingon",)}, "not a language code"),
        ({"lexicons": {"xx": Path("a")}}, "none of"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        TextSettings(**wrong)


def test_the_fingerprint_changes_with_every_setting(tmp_path: Path) -> None:
    path = tmp_path / "fa.tsv"
    path.write_text("تهران\ttehrˈɒːn\n", encoding="utf-8")
    base = {"symbols": "graphemes", "add_blank": False}
    prints = [
        TextSettings(**(base | change)).fingerprint()  # type: ignore[arg-type]
        for change in ({}, {"add_blank": True}, {"extra_languages": ("sv",)}, {"lexicons": {"fa": path}})
    ]
    path.write_text("تهران\ttehrˈaːn\n", encoding="utf-8")
    prints.append(TextSettings(**base, lexicons={"fa": path}).fingerprint())  # type: ignore[arg-type]
    assert all(a != b for i, a in enumerate(prints) for b in prints[:i])


def test_the_fingerprint_holds_plain_values_and_what_auto_became() -> None:
    fingerprint = TextSettings(symbols="auto").fingerprint()
    assert fingerprint["text_symbols"] in ("graphemes", "phonemes")
    assert all(isinstance(value, str | int) for value in fingerprint.values())
    assert ("espeak_ng" in fingerprint) == (fingerprint["text_symbols"] == "phonemes")


@pytest.mark.usefixtures("without_espeak")
def test_without_espeak_ng_phonemes_name_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"phonemes needs the 'speech' extra"):
        Tokenizer(TextSettings(symbols="phonemes"))


@pytest.mark.usefixtures("without_espeak")
def test_without_espeak_ng_auto_uses_letters_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "myxtts"):
        assert Tokenizer(TextSettings()).symbols == "graphemes"
        Tokenizer(TextSettings())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "myxtts[speech]" in caplog.text


@pytest.mark.skipif(not espeak.available(), reason="espeak-ng is not installed")
def test_with_espeak_ng_auto_uses_phonemes_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_module, "_logged", set())
    with caplog.at_level(logging.INFO, "myxtts"):
        assert Tokenizer(TextSettings()).symbols == "phonemes"
        Tokenizer(TextSettings())
    assert len(caplog.records) == 1


@pytest.mark.skipif(not espeak.available(), reason="espeak-ng is not installed")
def test_an_extra_language_espeak_ng_does_not_know_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="espeak-ng has no language 'qqq'"):
        Tokenizer(TextSettings(symbols="phonemes", extra_languages=("qqq",)))
