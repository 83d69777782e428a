"""Which reading of an ambiguous word a sentence means: hints in a table are weighed against the words around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from myxtts.text.lexicon import Reading
from myxtts.text.persian_tables import NUMBER_WORDS, ZWNJ

_PART_OF_SPEECH = {
    "N": "noun",
    "V": "verb",
    "AJ": "adjective",
    "ADV": "adverb",
    "NUM": "number",
    "P": "preposition",
    "POSTP": "postposition",
    "PRO": "pronoun",
}
# A neighbour says more than a word far away. Chosen on FarsDat and the development sentences.
_ADJACENT, _CLOSE, _FAR, _PART = 3.0, 2.0, 1.2, 2.5
GUESS = "guess"
_CLOSE_WORDS = 4
_ENDING = re.compile("(?:هایشان|هایمان|هایتان|هایی|هایم|هایت|هایش|های|ها|ترین|تر|ان|ات|ی|م|ت|ش|د|ند)$")
_SHORTEST_STEM = 3


@lru_cache(maxsize=20_000)
def word_forms(word: str) -> frozenset[str]:
    """What a word may be in a list of hints: itself, its parts, and it without an ending."""
    forms = {word}
    for part in (word, *word.split(ZWNJ)):
        forms.add(part)
        stem = _ENDING.sub("", part)
        if len(stem) >= _SHORTEST_STEM:
            forms.add(stem)
    if word in NUMBER_WORDS:
        forms.add("number")
    return frozenset(forms)


def choose(readings: Sequence[Reading], sentence: Sequence[str], place: int, tag: str) -> tuple[Reading, str]:
    """The reading that fits best, and why; the first if none fits better, which is a guess if it has a hint itself.

    Args:
        readings: at least one.
        sentence: its words and marks.
        place: where the word stands.
        tag: the tagger's label of the word.
    """
    best, best_score, best_reason = readings[0], 0.0, GUESS if readings[0].has_hint else "usual reading"
    forms = [word_forms(word) for word in sentence]
    part = _PART_OF_SPEECH.get(tag.removesuffix("e"), "")
    for reading in readings:
        score, reasons = 0.0, []
        if place > 0 and (found := reading.after & forms[place - 1]):
            score += _ADJACENT
            reasons.append(f"after {min(found)}")
        if place + 1 < len(forms) and (found := reading.before & forms[place + 1]):
            score += _ADJACENT
            reasons.append(f"before {min(found)}")
        for other, words in enumerate(forms):
            if other != place and (found := reading.near & words):
                score += _CLOSE if abs(other - place) <= _CLOSE_WORDS else _FAR
                reasons.append(f"near {min(found)}")
        if reading.parts_of_speech:
            if part in reading.parts_of_speech:
                score += _PART
                reasons.append(part)
            elif not reasons:
                continue
        if score > best_score:
            best, best_score, best_reason = reading, score, ", ".join(reasons)
    return best, best_reason
