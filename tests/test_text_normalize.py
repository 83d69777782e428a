"""What holds for normalising any string in any language."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from myxtts.errors import UsageError
from myxtts.text import LANGUAGES, normalize

# Pieces that rules look for, to be put together in ways nobody writes.
PIECES = """
1 2024 12/05/1403 1403/05/12 $ € 5.5 % - — -- ... . .. , ، ؟ Mr. Dr. St. No. U.S. a.m. p.m. 3:30 10-20 1/2 ½ ² km °C
# @ example.com https://a.b/c?d [[ ]] [[aɪ]] ( ) " « » ' ’ می ها تر ه ی ای ة ال ۀ ٔ ً ا ٫ ٬ ٪ و ص. (ص) XIV Louis FBI I
A. B. etc. e.g. ـ x 1,000 007 99999999999999999999 +98 0912 ۱۲۳ ٣ مرداد مه م ش ام th st 1st s 90s x² ¼ ① Ⅷ ﷺ ﷼ ﬁ 🤠 日
年 1年 ね 한 ß İ ı é & + = < > / \\ | ~ * _ ^ № ™ º ª 1º 1er US$ k M bn -5 ! !! ? ?! ; : • · 0 00 .5 5. 1.2.3 1-2-3
555-1234 قرن ۲۱ سال USD €5 5€ %5 in. min. May Jan. 5th of the GPUs 's 1e5 x5 3x4 ﴾ zł 5zł Uhr 15h30 www.
"""
INVISIBLE = [" ", "  ", "\n", "\t", "\u200c", "\u200d", "\ufe0f", "\u00ad", "\u0301", "\ud800", "\0"]
FRAGMENTS = [*PIECES.split(), *INVISIBLE, "World War"]
FRAGMENT = st.sampled_from(FRAGMENTS)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(FRAGMENT, max_size=10).map("".join),
    st.lists(FRAGMENT, max_size=10).map(" ".join),
    st.lists(st.one_of(FRAGMENT, st.text(max_size=3)), max_size=10).map("".join),
    st.text(alphabet="0123456789.,:/-+%$ ", max_size=30),
)
CODES = st.sampled_from([*LANGUAGES, "en-gb", "pt-pt", "sv", "hi", "vi", "uk"])


def check(text: str, language: str) -> None:
    once = normalize(text, language)
    assert isinstance(once, str)
    assert normalize(once, language) == once
    assert unicodedata.is_normalized("NFC", once) or "[[" in once
    assert once == once.strip()


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS, CODES)
def test_any_string_becomes_a_string_that_stays_as_it_is(text: str, language: str) -> None:
    check(text, language)


@pytest.mark.soak
@settings(max_examples=100_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(TEXTS, CODES)
def test_any_string_becomes_a_string_that_stays_as_it_is_many_times_over(text: str, language: str) -> None:
    check(text, language)


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "fa", "de", "zh", "sv"])
def test_every_single_character_is_accepted(language: str) -> None:
    for code in (*range(0x3100), *range(0xA000, 0xAC00), *range(0xD7B0, 0x10000), *range(0x1D400, 0x1FB00, 7)):
        check(chr(code), language)


HOSTILE = [
    "9", "1,", "1.", "1/", "1-", "1:", "-", ".", "..", "…", "!", " ", " -", "- ", "a.", "A.", "A. ", "a@", "a.b",
    "1 ", "I", "M", "$1", "%", "(", "[[", "]]", "[[a", "'", '"', "\u200c", "ه ", "می ", " ها", "http://", "www.",
    "e.g.", "\u0301", "ة", "x²", "+1 ", "1e", "٫1", "ک\u200c", "No. ", "st. ", "12:00 ", "*", "_", "« ", "€", "ﷺ",
]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "fa", "fr"])
@pytest.mark.parametrize("piece", HOSTILE)
def test_long_repetitions_come_to_an_end_and_stay_as_they_are(piece: str, language: str) -> None:
    # A rule that backtracked over its whole input would not come to an end here.
    text = piece * (10_000 // len(piece))
    once = normalize(text, language)
    assert normalize(once, language) == once


@pytest.mark.parametrize("language", ["", "e", "english", "en us", "سلام", "en/../fa"])
def test_what_is_no_language_code_is_refused(language: str) -> None:
    with pytest.raises(UsageError, match="language code"):
        normalize("text", language)


def test_inline_phonemes_keep_their_place_and_their_spaces() -> None:
    assert normalize("a [[b  c]]d [[e]] 5", "en") == "a [[b c]]d [[e]] five"
    assert normalize("[[ɑ]], 5 [[ɑ]].", "en") == "[[ɑ]], five [[ɑ]]."


def test_brackets_that_are_not_closed_are_ordinary_brackets() -> None:
    assert normalize("a [[b 5", "en") == "a ((b five"
    assert normalize("[[]]", "en") == "(())"


def test_text_needs_neither_tensorflow_nor_espeak_ng() -> None:
    program = (
        "import sys; import myxtts.text as t\n"
        "t.Tokenizer(t.TextSettings(symbols='graphemes')).encode('Room 5', 'en')\n"
        "assert 'tensorflow' not in sys.modules and 'espeakng_loader' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=1800)
