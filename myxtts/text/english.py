"""English as it is written, to English as it is said.

Addresses first, then abbreviations, numbers (`english_numbers`), letters that are spelled, and finally the signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from myxtts.text.english_numbers import DIGIT_RULES
from myxtts.text.english_tables import (
    ABBREVIATIONS,
    ADDRESS_SIGNS,
    LATIN_ABBREVIATIONS,
    NUMBERED,
    REGNAL,
    SIGNS,
    SPELLED,
    SPELLED_UNLESS_SHOUTED,
)
from myxtts.text.numbers import cardinal, ordinal
from myxtts.text.rules import Match, any_of, apply_digit_rules, say_addresses
from myxtts.text.unicode_cleanup import fold, tidy

_TITLE = re.compile(r"\b(Mr|Mrs|Ms|Dr)\b\.?(?= [A-Z])")
_SAINT = re.compile(r"\bSt\.(?= [A-Z])")
_STREET = re.compile(r"(?<=[a-z] )St\.(?! [A-Z])")
_DRIVE = re.compile(r"\b([A-Z][a-z]{1,30}) Dr\.(?! [A-Z])")
_DOCTOR = re.compile(r"\bDr\.")
_ABBREVIATION = re.compile(rf"\b({any_of(ABBREVIATIONS)})\.(?!\w)")
_LATIN = re.compile(rf"(?<![\w.])({any_of(LATIN_ABBREVIATIONS)})\.?(?![\w.])", re.IGNORECASE)
_DOTTED_LETTERS = re.compile(r"(?<![\w.])(?:[A-Za-z]\.){2,8}(?:[A-Za-z](?![\w.]))?('s\b|s\b)?")
_INITIALS = re.compile(r"(?<![\w.'-])((?:[A-Z]\. ){2,4})(?=[A-Z][a-z])")
# After a name, or a word that a name follows; elsewhere the stop may end a sentence ("vitamin C. The").
_INITIAL = re.compile(
    r"(^|[A-Z][\w'-]{1,20} |\b(?:and|as|by|for|from|name|of|that|to|when|with) )([B-HJ-Z])\.(?= [A-Z][a-z])"
)
_CAPITALS = re.compile(r"(?<![\w'-])([A-Z]{2,6})('?s)?(?![\w-])")
_VOWEL = re.compile(r"[AEIOUY]")
_ROMAN = r"(M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3}))\b"
_ROMAN_NUMBER = re.compile(rf"\b({NUMBERED}) (?=[MDCLXVI]{{1,15}}\b){_ROMAN}")
# "To George I said" is no king's name.
_ROMAN_RANK = re.compile(rf"\b({REGNAL}) (?=[LXVI]{{1,15}}\b)(?!I (?!of\b|was\b|and\b)){_ROMAN}(?!\.[A-Z])")
_COLON_IN_WORD = re.compile(r"(?<=[a-z]):(?=[a-z])")  # "two:fifteen"
_HALF_DAY = re.compile(r"(?<![\w.])([ap])\.m\.?(?!\w)", re.IGNORECASE)
_HASHTAG = re.compile(r"#(?=[A-Za-z])")
_HAS_DIGIT = re.compile(r"[0-9]")
_HAS_SIGN = re.compile("[" + re.escape("".join(SIGNS)) + "]")
_MAY_BE_ABBREVIATED = re.compile(rf"\.(?=.)|\b(?:Mr|Mrs|Ms|Dr)\b|\b(?:{any_of(ABBREVIATIONS)}|St|[A-Za-z])\.$")
_HAS_CAPITALS = re.compile(r"[A-Z]{2}| [IVX]\b")


def say(text: str) -> str:
    """English `text`, cleaned, with everything spelled out as it is read aloud."""
    text = cleaned = tidy(say_addresses(fold(text), ADDRESS_SIGNS, "W-W-W", "en"))
    text = _COLON_IN_WORD.sub(" ", text)
    if _MAY_BE_ABBREVIATED.search(text):
        text = _abbreviations(text)
    if _HAS_DIGIT.search(text):
        text = apply_digit_rules(text, DIGIT_RULES)
    if _HAS_CAPITALS.search(text):
        text = _capitals(text)
    if _HAS_SIGN.search(text):
        text = _HASHTAG.sub("hashtag ", text)
        text = _HAS_SIGN.sub(lambda match: SIGNS[match.group()], text)
    return text if text is cleaned else tidy(text)


def _abbreviations(text: str) -> str:
    end = len(text)

    def keep_stop(match: Match, words: str) -> str:
        """The full stop of an abbreviation also ends the sentence when it ends the text."""
        return words + "." if match.end() == end and match.group().endswith(".") else words

    def swap(pattern: re.Pattern[str], words: Callable[[Match], str]) -> None:
        nonlocal text, end
        end = len(text)
        text = pattern.sub(lambda match: keep_stop(match, words(match)), text)

    swap(_TITLE, lambda m: "Doctor" if m[1] == "Dr" else ABBREVIATIONS[m[1]])
    if "." in text:
        swap(_HALF_DAY, lambda m: m[1].upper() + "-M")
        swap(_SAINT, lambda m: "Saint")
        swap(_STREET, lambda m: "Street")
        swap(_DRIVE, lambda m: m[1] + " Drive")
        swap(_DOCTOR, lambda m: "Doctor")
        swap(_LATIN, lambda m: LATIN_ABBREVIATIONS[m[1].lower()])
        swap(_ABBREVIATION, lambda m: ABBREVIATIONS[m[1]])
        swap(_DOTTED_LETTERS, _dotted_letters)
        text = _INITIALS.sub(lambda m: "-".join(re.findall("[A-Z]", m[1])) + " ", text)
        text = _INITIAL.sub(r"\1\2", text)
    return text


def _capitals(text: str) -> str:
    """Roman numerals in words, and initialisms as letters with hyphens: `F-B-I`."""
    text = _ROMAN_NUMBER.sub(lambda m: f"{m[1]} {cardinal(str(_roman(m[2])), 'en')}", text)
    text = _ROMAN_RANK.sub(lambda m: f"{m[1]} the {ordinal(str(_roman(m[2])), 'en')}", text)
    shouted = not any(character.islower() for character in text)
    return _CAPITALS.sub(lambda m: _initialism(m, shouted), text)


def _dotted_letters(match: Match) -> str:
    letters = [character for character in match.group().partition("'")[0] if character.isalpha()]
    suffix = match[1] or ""
    if suffix == "s":
        letters = letters[:-1] if len(letters) > 1 and letters[-1] == "s" else letters
        suffix = "'s"
    return "-".join(letters).upper() + suffix


def _initialism(match: Match, shouted: bool) -> str:
    letters = match[1]
    if letters in SPELLED or (letters in SPELLED_UNLESS_SHOUTED and not shouted):
        spelled = True
    else:
        spelled = not _VOWEL.search(letters) and not (shouted and len(letters) > 4)
    if not spelled:
        return match.group()
    return "-".join(letters) + ("'s" if match[2] else "")


def _roman(numeral: str) -> int:
    values = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    total = 0
    for letter, following in zip(numeral, numeral[1:] + " ", strict=True):
        value = values[letter]
        total += -value if value < values.get(following, 0) else value
    return total
