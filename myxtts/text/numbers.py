"""Numbers in words, by num2words, with its gaps filled and its mistakes corrected.

Everything here takes digits as a string, so that leading zeros and length are seen, and never fails: what a
language's rules cannot say is read digit by digit, and a language without number words keeps its digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# Longer integers are read digit by digit. num2words goes wrong above (Persian returns "", others overflow),
# and nobody follows a number of sixteen digits by ear.
LONGEST_CARDINAL = 15

_NUM2WORDS_NAMES = {"pt": "pt_BR", "pt-pt": "pt", "pt-br": "pt_BR", "kk": "kz", "nb": "no"}
# Languages whose numbers after the point can be read, and what they call it.
POINT = {
    "ar": "فاصلة",
    "cs": "celých",
    "de": "Komma",
    "en": "point",
    "es": "coma",
    "fr": "virgule",
    "hu": "egész",
    "it": "virgola",
    "ja": "てん",
    "ko": "점",
    "nl": "komma",
    "pl": "przecinek",
    "pt": "vírgula",
    "ru": "запятая",
    "tr": "virgül",
    "zh": "点",
}
_TURKISH_PARTS = re.compile(
    "sıfır|bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|altmış|yetmiş|seksen|doksan|yüz|bin|milyon|milyar|trilyon"
)
_CHINESE_DIGITS = "零一二三四五六七八九"
_CHINESE_GROUPS = ("", "万", "亿", "万亿")


def cardinal(digits: str, language: str) -> str:
    """The integer written by `digits` in words: `("21", "en")` gives `twenty-one`.

    Leading zeros and more than fifteen digits are read digit by digit.
    """
    if (len(digits) > 1 and digits[0] == "0") or len(digits) > LONGEST_CARDINAL:
        return spell_digits(digits, language)
    return _cardinal(int(digits), language)


def spell_digits(digits: str, language: str) -> str:
    """Each digit by its name: `("05", "en")` gives `zero five`."""
    return _between(language).join(_cardinal(int(digit), language) for digit in digits)


def ordinal(digits: str, language: str) -> str:
    """The rank written by `digits`: `("21", "en")` gives `twenty-first`; the cardinal where there is none."""
    if len(digits) > LONGEST_CARDINAL:
        return cardinal(digits, language)
    return _ordinal(int(digits), language)


def decimal(whole: str, fraction: str, language: str) -> str:
    """A number with digits after the point: `("3", "14", "en")` gives `three point one four`."""
    base = language.partition("-")[0]
    if base in ("hu", "ru") and len(whole) <= LONGEST_CARDINAL and len(fraction) <= 3 and fraction.strip("0"):
        # Both name the decimal places: три целых четырнадцать сотых.
        return _places(f"{int(whole)}.{fraction}", base)
    if base == "cs":
        point = "celá" if whole == "1" else "celé" if whole in ("2", "3", "4") else "celých"
    else:
        point = POINT[base]
    return _between(language).join((cardinal(whole or "0", language), point, spell_digits(fraction, language)))


def has_number_words(language: str) -> bool:
    """Whether numbers of this language can be put in words."""
    return _converter(language) is not None


@lru_cache(maxsize=2048)
def _places(number: str, base: str) -> str:
    import num2words

    return str(num2words.num2words(number, lang=base))


def _between(language: str) -> str:
    return "" if language.partition("-")[0] in ("ja", "zh") else " "


@lru_cache(maxsize=8192)
def _cardinal(number: int, language: str) -> str:
    converter = _converter(language)
    if converter is None:
        return str(number)
    return _corrected(converter(number, "cardinal"), language.partition("-")[0])


@lru_cache(maxsize=2048)
def _ordinal(number: int, language: str) -> str:
    base = language.partition("-")[0]
    converter = _converter(language)
    if converter is None:
        return str(number)
    if base == "fa":
        return _persian_ordinal(_cardinal(number, language))
    try:
        return converter(number, "ordinal")
    except (NotImplementedError, KeyError, IndexError, OverflowError):
        return _cardinal(number, language)


@lru_cache(maxsize=64)
def _converter(language: str) -> Callable[[int, str], str] | None:
    base = language.partition("-")[0]
    if base == "zh":
        return lambda number, _to: _chinese(number)
    import num2words  # slow to import, and most texts have no digits

    names = (_NUM2WORDS_NAMES.get(language), language, _NUM2WORDS_NAMES.get(base), base)
    name = next((name for name in names if name in num2words.CONVERTER_CLASSES), None)
    if name is None:
        return None
    options = {"reading": True} if base == "ja" else {}

    def convert(number: int, to: str) -> str:
        return str(num2words.num2words(number, lang=name, to=to, **options)).replace(",", "").strip()

    return convert


def _corrected(words: str, language: str) -> str:
    """num2words's cardinals with the mistakes of single languages corrected."""
    if language == "ar":
        # The construct forms it ends round numbers with stand only before a noun.
        words = re.sub(r"(مئتا|ألفا|مليونا|مليارا)$", r"\1ن", words)
        words = words.replace(" و ", " و")
    elif language == "cs":
        words = re.sub(r"(dvě)(stě)|(tři|čtyři)(sta)|(pět|šest|sedm|osm|devět)(set)", _czech_hundreds, words)
    elif language == "tr":
        words = " ".join(_TURKISH_PARTS.findall(words)) or words
    elif language == "ru":
        words = re.sub(r"^одна тысяча", "тысяча", words)
    return words


def _czech_hundreds(match: re.Match[str]) -> str:
    return " ".join(filter(None, match.groups()))


def _persian_ordinal(words: str) -> str:
    if words.endswith("سه"):
        return words[:-2] + "سوم"
    if words.endswith("سی"):
        return words + "\u200cام"
    return words + "م"


def _chinese(number: int) -> str:
    if number == 0:
        return _CHINESE_DIGITS[0]
    groups = []
    while number:
        number, group = divmod(number, 10_000)
        groups.append(group)
    words = ""
    gap = False
    for place in range(len(groups) - 1, -1, -1):
        group = groups[place]
        if group == 0:
            gap = True
            continue
        if words and (gap or group < 1000):
            words += "零"
        words += ("两" if group == 2 and place else _chinese_group(group)) + _CHINESE_GROUPS[place]
        gap = False
    return words.removeprefix("一") if words.startswith("一十") else words


def _chinese_group(number: int) -> str:
    words = ""
    gap = False
    for value, unit in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, number = divmod(number, value)
        if digit:
            name = "两" if digit == 2 and value == 1000 else _CHINESE_DIGITS[digit]
            words += ("零" if gap else "") + name + unit
            gap = False
        elif words:
            gap = True
    return words
