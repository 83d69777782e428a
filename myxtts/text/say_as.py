"""SSML's `<say-as>`: a text read as what its writer says it is, where the rules would read it as something else."""

from __future__ import annotations

import re
import unicodedata

from myxtts.text.numbers import cardinal, has_number_words, ordinal, spell_digits

SAY_AS = frozenset(
    ["cardinal", "number", "ordinal", "characters", "spell-out", "verbatim", "digits", "date", "telephone"]
)

_FORMATS = {"mdy", "dmy", "ymd"}
_DIGITS = re.compile(r"[0-9]+")
_GROUPING = re.compile(r"(?<=[0-9])[,.'٬ ](?=[0-9]{3}(?![0-9]))")


def say_as(text: str, kind: str, form: str, language: str) -> str | None:
    """What is said for `text`, or None if it is not of this kind, so that the usual rules read it.

    Args:
        text: as written.
        kind: one of `SAY_AS`.
        form: of a date: mdy, dmy or ymd.
        language: its code.
    """
    text = "".join(_plain_digit(character) for character in text).strip()
    if kind in ("characters", "spell-out", "verbatim"):
        return _spelled(text, language)
    if kind == "date":
        return _date(text, form.strip().lower(), language)
    if not has_number_words(language):
        return None
    if kind == "digits":
        digits = "".join(_DIGITS.findall(text))
        return spell_digits(digits, language) if digits else None
    if kind == "telephone":
        groups = _DIGITS.findall(text)
        return ", ".join(spell_digits(group, language) for group in groups) if groups else None
    number = _GROUPING.sub("", text).lstrip("+")
    if not _DIGITS.fullmatch(number):
        return None
    digits = number.lstrip("0") or "0"
    return ordinal(digits, language) if kind == "ordinal" else cardinal(digits, language)


def _plain_digit(character: str) -> str:
    return str(unicodedata.digit(character)) if unicodedata.category(character) == "Nd" else character


def _spelled(text: str, language: str) -> str | None:
    """Letter by letter. English ones are joined by hyphens, so that none is read as a word ("A-B", not "a b")."""
    spoken = []
    english = language.partition("-")[0] == "en"
    for character in text:
        if character in "0123456789":
            spoken.append(spell_digits(character, language))
        elif character.isalpha():
            spoken.append(character.upper() if english and character.isascii() else character)
    return ("-" if english else " ").join(spoken) or None


def _date(text: str, form: str, language: str) -> str | None:
    """A date as the rules of its language know it; other languages say its numbers in the order of `form`."""
    parts = _DIGITS.findall(text)
    if form not in _FORMATS or len(parts) != 3:
        return None
    values = dict(zip(form, parts, strict=True))
    year, month, day = values["y"], int(values["m"]), int(values["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    base = language.partition("-")[0]
    if len(year) == 4 and base == "en":
        return f"{year}-{month:02}-{day:02}"
    if len(year) == 4 and base == "fa":
        return f"{year}/{month:02}/{day:02}"
    return " ".join(parts)
