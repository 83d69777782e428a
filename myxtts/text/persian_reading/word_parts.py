"""What a written Persian word is put together from: words joined by ZWNJ, endings, enclitics."""

from __future__ import annotations

import re
from collections.abc import Callable

from myxtts.text.persian_tables import HAMZA_ABOVE, ZWNJ
from myxtts.text.rules import word_set

# Written ending and its sounds, the longest first. A stem before them keeps its reading.
ENDINGS = (
    ("هایشان", "hɑjeʃɑn"),
    ("هایمان", "hɑjemɑn"),
    ("هایتان", "hɑjetɑn"),
    ("ترین", "tarin"),
    ("هایی", "hɑʔi"),
    ("هایم", "hɑjam"),
    ("هایت", "hɑjat"),
    ("هایش", "hɑjaʃ"),
    ("های", "hɑj"),
    ("شان", "eʃɑn"),
    ("مان", "emɑn"),
    ("تان", "etɑn"),
    ("ها", "hɑ"),
    ("تر", "tar"),
    ("ای", "i"),
    ("ام", "am"),
    ("ات", "at"),
    ("اش", "aʃ"),
    ("م", "am"),
    ("ت", "at"),
    ("ش", "aʃ"),
    ("ی", "i"),
)
# A word that ends in one of these has its owner, and cannot carry an ezafe.
ENCLITICS = (
    *(f"{ZWNJ}{ending}" for ending in ("اش", "ات", "ام", "شان", "مان", "تان")),
    *("هایش", "هایت", "هایم", "هایشان", "هایتان", "هایمان"),
)
# Their /-ye/ is part of the word.
NO_EZAFE = word_set("برای دارای")
UNSTRESSED = word_set("و که را به از در با بر تا یا هم این")

# Words that writers join to the next or the last one by ZWNJ («به‌عنوان», «که‌در»), to be tagged by themselves.
_ALWAYS_APART_BEFORE = word_set("به")
_ALWAYS_APART_AFTER = word_set("به از در که با می")
_APART_BEFORE = word_set("به از در که با بر این آن وی هر چه تا یا هم")
_APART_AFTER = word_set("است شد شده شدن شود کرد کردن کرده بود بوده باشد نشده")
_MARK = re.compile("[\u064b-\u0655\u0670]")


def parts_of_word(word: str, knows: Callable[[str], bool]) -> list[str]:
    """The words that `word` consists of, each as the tagger's vocabulary has it where it does; at least one.

    Args:
        word: a word of a normalised text.
        knows: whether the tagger's vocabulary has a word.
    """
    if word.endswith(HAMZA_ABOVE):
        word = word[:-1] + ZWNJ + "ی"  # so it is written in what the tagger was trained on
    word = _MARK.sub("", word) or word
    first, joiner, rest = word.partition(ZWNJ)
    if not joiner:
        return [word]
    before, _, last = word.rpartition(ZWNJ)
    if last in _ALWAYS_APART_AFTER and before:
        return [*parts_of_word(before, knows), last]
    if first in _ALWAYS_APART_BEFORE and rest:
        return [first, *parts_of_word(rest, knows)]
    if knows(word):
        return [word]
    if first in _APART_BEFORE and rest:
        return [first, *parts_of_word(rest, knows)]
    together = word.replace(ZWNJ, "")
    if knows(together):
        return [together]
    if last in _APART_AFTER and before:
        return [*parts_of_word(before, knows), last]
    return [word]
