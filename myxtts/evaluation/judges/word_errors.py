"""Word and character errors of a transcript: edit distances of texts that were brought to one spelling."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.text.normalization import normalize

# Signs that stand inside a word without ending it: don't, 'em.
_INSIDE_WORDS = re.compile("['’ʼ]")


@dataclass(frozen=True)
class TextErrors:
    """What a transcript has wrong.

    Attributes:
        word_errors: words inserted, left out or replaced.
        words: of the text.
        character_errors: the same of characters, the space between two words being one.
        characters: of the text.
    """

    word_errors: int
    words: int
    character_errors: int
    characters: int


def comparable(text: str, language: str) -> str:
    """A text as words separated by single spaces: read aloud (numbers in words), lower case, no punctuation."""
    spoken = unicodedata.normalize("NFKC", normalize(text, language)).lower()
    joined = _INSIDE_WORDS.sub("", spoken)
    return " ".join("".join(sign if _is_part_of_word(sign) else " " for sign in joined).split())


def text_errors(text: str, transcript: str, language: str) -> TextErrors:
    """The errors of a transcript of a text, both in any spelling."""
    wanted, heard = comparable(text, language), comparable(transcript, language)
    words = wanted.split()
    return TextErrors(edit_distance(words, heard.split()), len(words), edit_distance(wanted, heard), len(wanted))


def edit_distance(wanted: Sequence[str], found: Sequence[str]) -> int:
    """The least number of items to insert, leave out or replace to make one sequence of the other (Levenshtein)."""
    numbers: dict[str, int] = {}
    first, second = (
        np.array([numbers.setdefault(item, len(numbers)) for item in items], np.int64) for items in (wanted, found)
    )
    places = np.arange(len(second) + 1)
    row = places.copy()
    for number, item in enumerate(first, 1):
        above = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + (second != item))])
        # A run of insertions ends where it began plus its length: a running minimum instead of a loop.
        row = np.minimum.accumulate(above - places) + places
    return int(row[-1])


def _is_part_of_word(sign: str) -> bool:
    return unicodedata.category(sign)[0] in "LMN"
