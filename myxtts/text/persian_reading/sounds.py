"""Sounds of Persian words: one spelling of them, the ezafe at their end, the stress.

Words carry the sounds that espeak-ng's Persian voice uses, without vowel length (it distinguishes nothing) and
without the glottal stop before a first vowel (it is automatic). A stress mark stands right before the vowel, as
espeak-ng writes it.
"""

from __future__ import annotations

import re

VOWELS = "aeiouɑ"
_TO_DROP = str.maketrans("", "", "ˈˌː ")
_VOWEL = re.compile(f"[{VOWELS}]")
_AFTER_I = re.compile("i(?=[aeouɑ])")
_TWO_VOWELS = re.compile(f"(?<=[{VOWELS}])(?=[{VOWELS}])")
_THREE_EQUAL = re.compile(r"(.)\1\1+")
_LAST_DOUBLE = re.compile(rf"(dʒ|tʃ|[^{VOWELS}])\1$")
_VERB_PREFIX = re.compile(rf"(?:bar|dar|bɑz|foru|farɑ)?(nemi|mi|na|ne|be|bo)(?=.*[{VOWELS}])")
_PERSON_ENDING = re.compile(r"(?:am|i|(?<!ɑm)ad|im|id|and)$")
_ONLY_PERSIAN = re.compile(r"[ˈˌː a-zɑɡʃʒʔ]*")


def plain_sounds(ipa: str) -> str:
    """espeak-ng's IPA of a word without stress and length, a consonant between vowels: /siɑsi/ is /sijɑsi/."""
    sounds = _THREE_EQUAL.sub(r"\1\1", ipa.translate(_TO_DROP))
    return _TWO_VOWELS.sub("ʔ", _AFTER_I.sub("ij", sounds))


def is_persian(ipa: str) -> bool:
    """Whether `ipa` has only sounds of Persian words, and no English ones from a word in Latin letters."""
    return _ONLY_PERSIAN.fullmatch(ipa) is not None


def without_ezafe(sounds: str, written: str) -> str:
    """`sounds` without the ezafe that espeak-ng's dictionary has at the end of a few words («توسط», «نحوه»)."""
    if not sounds.endswith("e") or len(sounds) < 3:
        return sounds
    if written.endswith(("ای", "وی")) and sounds.endswith("je"):
        return sounds[:-1]
    if written.endswith("ه"):
        return sounds[:-2] if sounds.endswith("eje") else sounds
    return sounds if written.endswith(("ی", "ا", "و", "\u0650")) else sounds[:-1]


def ezafe_ending(sounds: str) -> str:
    """-e after a consonant, -ye after a vowel."""
    return "je" if sounds[-1:] and sounds[-1] in VOWELS else "e"


def with_single_end(sounds: str) -> str:
    """A double consonant at the end of a word as one: the second is heard only before a vowel."""
    return _LAST_DOUBLE.sub(r"\1", sounds)


def stressed(sounds: str, tail: int, is_verb: bool) -> str:
    """`sounds` with the stress marked.

    Args:
        sounds: plain sounds.
        tail: how many of them, at the end, cannot be stressed: ezafe and other enclitics.
        is_verb: verbs are stressed on می، نـ and بـ, or before the ending of the person; other words on the last
            syllable.
    """
    base = sounds[: len(sounds) - tail]
    if is_verb:
        prefix = _VERB_PREFIX.match(base)
        if prefix:
            base = base[: prefix.end()]
        else:
            stem = _PERSON_ENDING.sub("", base)
            base = stem if _VOWEL.search(stem) else base
    vowels = [match.start() for match in _VOWEL.finditer(base)]
    if not vowels:
        return sounds
    place = vowels[0] if is_verb and base.startswith("nemi") else vowels[-1]
    return f"{sounds[:place]}ˈ{sounds[place:]}"
