"""Numbers of English: dates, times, money, measures, telephone numbers, and finally any digits that are left.

`DIGIT_RULES` run in order, from the most specific reading to the most general. Usage is American where it
differs from British (5/12 is May twelfth).
"""

from __future__ import annotations

import re

from myxtts.text.english_tables import (
    CURRENCIES,
    DOLLAR_COUNTRIES,
    MAGNITUDES,
    MONTH_ABBREVIATIONS,
    MONTHS,
    NUMBERED_ABBREVIATIONS,
    UNITS,
)
from myxtts.text.numbers import cardinal, decimal, ordinal, spell_digits
from myxtts.text.rules import Match, Rule, any_of

_INTEGER = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,6}(?![0-9])|[0-9]{1,18})"
_NUMBER = rf"(?:{_INTEGER}(?:\.[0-9]{{1,18}})?|\.[0-9]{{1,18}})"
_ALONE_BEFORE = r"(?<![\w.,/:-])"
_MONTH = any_of((*MONTHS, *MONTH_ABBREVIATIONS))
_DAY = r"(3[01]|[12][0-9]|0?[1-9])(?:st|nd|rd|th)?"
_YEAR = r"([12][0-9]{3})(?![0-9,/:]|\.[0-9]|-[0-9])"
_NUMBERED_ABBREVIATION = re.compile(rf"\b({any_of(NUMBERED_ABBREVIATIONS)})\. ?(?=[0-9])")
_ISO_DATE = re.compile(
    r"(?<![\w/.-])([12][0-9]{3})([-/.])(0?[1-9]|1[0-2])\2(3[01]|[12][0-9]|0?[1-9])(?![\w/-]|\.[0-9])"
)
_SLASH_DATE = re.compile(r"(?<![\w/.-])([0-9]{1,2})([-/.])([0-9]{1,2})\2([12][0-9]{3}|[0-9]{2})(?![\w/-]|\.[0-9])")
_MONTH_DAY = re.compile(rf"\b({_MONTH})\b\.? {_DAY}(?![\w:/]|[.,][0-9])(?:,? {_YEAR})?")
_DAY_MONTH = re.compile(rf"(?<![\w./:-])((?:[Tt]he )?){_DAY} (?:of )?({_MONTH})\b\.?(?:,? {_YEAR})?")
_MONTH_YEAR = re.compile(rf"\b({any_of(MONTH_ABBREVIATIONS)})\b\.? (?=[12][0-9]{{3}}\b)")
_DECADE = re.compile(r"(?<![\w.,])([12][0-9])?([0-9])0'?s\b|(?<!\w)'([2-9])0s\b")
_TIME = re.compile(
    r"(?<![\w:.])([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?(?![0-9:])(?: ?([ap])\.? ?m\b\.?)?",
    re.IGNORECASE,
)
_HOUR = re.compile(r"(?<![\w:.])(1[0-2]|0?[1-9]) ?([ap])\.?m\b\.?", re.IGNORECASE)
_MONEY_BEFORE = re.compile(
    rf"(-)?(?<![A-Za-z])(US|CA|C|A|AU|NZ|HK)?([$€£¥₹₽₩₺₪₿]) ?({_NUMBER})(?: ?({any_of(MAGNITUDES)})\b)?"
)
_MONEY_AFTER = re.compile(
    rf"{_ALONE_BEFORE}(-)?({_NUMBER})(?: ?({any_of(MAGNITUDES)}))?"
    r" ?([$€£¥₹₽₩₺₪₿¢]|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD)\b)"
)
_FEET_INCHES = re.compile(r"(?<![\w.])([0-9]{1,2})'([0-9]{1,2})(?:\"|'')")
_MEASURE = re.compile(rf"(?<![\w.,/:])(-)?({_NUMBER})(?:-({_NUMBER}))?[ -]?({any_of(UNITS)})(?![\w²³])")
_PHONE = re.compile(
    r"(?<![\w.+-])(?:"
    r"\+(?=(?:[ ().-]{0,2}[0-9]){8})[0-9]{1,3}(?:[ .-]?\(?[0-9]{1,4}\)?){2,6}"
    r"|(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[0-9]{3}[ .-][0-9]{4}"
    r")(?![\w-])"
)
_LOCAL_PHONE = re.compile(
    r"\b(call(?:ed|ing)?|dial(?:l?ed|l?ing)?|fax|number|phone|tel|telephone|text)\b([ :.]{1,2}(?:is |at )?)"
    r"([2-9][0-9]{2}-[0-9]{4})(?![\w-])",
    re.IGNORECASE,
)
_DIGIT_CHAIN = re.compile(r"(?<![\w.,-])[0-9]{1,12}(?:-[0-9]{1,12}){2,8}(?![\w-]|[.,][0-9])")
_ORDINAL = re.compile(r"(?<![\w.])([0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:st|nd|rd|th)\b", re.IGNORECASE)
_FRACTION = re.compile(r"(?<![\w./,])(?:([0-9]{1,6})[ -])?([0-9]{1,3})/([0-9]{1,3})(?![\w/]|\.[0-9])")
_SAID_AS_PAIR = re.compile(r"(?<![\w/.])(24/7|9/11)(?![\w/])")
_DIALLED = re.compile(r"\b([Cc]all(?:ed|ing)?|[Dd]ial(?:l?ed|l?ing)?) ([0-9]{3,6})(?![\w-]|[.,][0-9])")
_TIME_RANGE = re.compile(r"(?<=[0-9])( ?[apAP]\.?[mM]\.?) ?- ?(?=[0-9])|(?<=:[0-9]{2}) ?- ?(?=[0-9]{1,2}:[0-9]{2})")
_RATIO = re.compile(r"(?<=[0-9]):(?=[0-9])")
_BY = re.compile(r"(?<=[0-9]) ?[x×] ?(?=[0-9])")
_RANGE = re.compile(rf"{_ALONE_BEFORE}({_NUMBER})(%?) ?- ?({_NUMBER})(?![\w-])")
_POINTED = re.compile(r"(?<![\w.])[0-9]{1,9}(?:\.[0-9]{1,9}){2,8}(?![\w]|\.[0-9])")
_POWER = re.compile(r"\^ ?(?=[0-9-])")
_MINUS = re.compile(r"(?<![\w)])-(?=\.?[0-9])")
_NUMBER_SIGN = re.compile(r"# ?(?=[0-9])")
_ABOUT = re.compile(r"~ ?(?=[0-9])")
_TIMES = re.compile(r"(?<=[0-9]) ?\* ?(?=[0-9])")
_SCIENTIFIC = re.compile(r"(?<![\w.])([0-9]{1,15}(?:\.[0-9]{1,15})?)[eE]([+-]?)([0-9]{1,3})(?!\w)")
_ANY_NUMBER = re.compile(rf"({_INTEGER})(?![0-9])(?:\.([0-9]{{1,18}})(?![0-9]))?|\.([0-9]{{1,18}})|[0-9]+")
_STUCK_BEFORE = re.compile(r"(?<=[^\W\d_])(?=[0-9])")
_STUCK_AFTER = re.compile(r"(?<=[0-9])(?=[^\W\d_])")
_HYPHEN_TO_DIGIT = re.compile(r"(?<=[^\W\d_])-(?=[0-9])|(?<=[0-9])-(?=[^\W\d_])")
_HALVES = {2: ("half", "halves"), 4: ("quarter", "quarters")}


def _year(digits: str) -> str:
    """1984 as nineteen eighty-four, 1905 as nineteen oh five, 2007 as two thousand seven."""
    number = int(digits)
    century, rest = divmod(number, 100)
    if not 1100 <= number <= 2099 or 2000 <= number <= 2009:
        return f"two thousand {cardinal(str(rest), 'en')}" if 2000 < number <= 2009 else cardinal(digits, "en")
    first = cardinal(str(century), "en")
    if rest == 0:
        return f"{first} hundred"
    if rest < 10:
        return f"{first} oh {cardinal(str(rest), 'en')}"
    return f"{first} {cardinal(str(rest), 'en')}"


def _date(year: str | None, month: int, day: str) -> str:
    spoken = f"{MONTHS[month - 1]} {ordinal(day, 'en')}"
    return f"{spoken}, {_year(year)}" if year else spoken


def _iso_date(match: Match) -> str:
    return _date(match[1], int(match[3]), match[4])


def _slash_date(match: Match) -> str:
    month, day, year = int(match[1]), int(match[3]), match[4]
    if match[2] == "." or month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return match.group()
    if len(year) == 2:
        if match[2] != "/":
            return match.group()
        year = ("20" if int(year) < 50 else "19") + year
    return _date(year, month, str(day))


def _month_number(name: str) -> int:
    return MONTHS.index(MONTH_ABBREVIATIONS.get(name, name)) + 1


def _month_day(match: Match) -> str:
    return _date(match[3], _month_number(match[1]), match[2])


def _day_month(match: Match) -> str:
    spoken = f"{match[1] or 'the '}{ordinal(match[2], 'en')} of {MONTHS[_month_number(match[3]) - 1]}"
    return f"{spoken}, {_year(match[4])}" if match[4] else spoken


def _decade(match: Match) -> str:
    century, tens = match[1], match[2] or match[3]
    if century and tens == "0":
        return "two thousands" if century == "20" else f"{cardinal(century, 'en')} hundreds"
    if tens in "01":
        return match.group()
    spoken = cardinal(tens + "0", "en")[:-1] + "ies"
    return f"{cardinal(century, 'en')} {spoken}" if century else spoken


def _time(match: Match) -> str:
    hour, minute, second, half = match[1], match[2], match[3], match[4]
    spoken = cardinal(str(int(hour)), "en")
    if int(minute):
        spoken += (" oh " if minute[0] == "0" else " ") + cardinal(str(int(minute)), "en")
    elif not half and not second:
        spoken += " o'clock" if 1 <= int(hour) <= 12 else " hundred hours"
    if second:
        spoken += f" and {cardinal(str(int(second)), 'en')} {'second' if int(second) == 1 else 'seconds'}"
    return _with_half_day(match, spoken, half)


def _hour(match: Match) -> str:
    return _with_half_day(match, cardinal(str(int(match[1])), "en"), match[2])


def _with_half_day(match: Match, spoken: str, half: str | None) -> str:
    if not half:
        return spoken
    ends_sentence = match.group().endswith(".") and match.end() == len(match.string)
    return f"{spoken} {half.upper()}-M" + ("." if ends_sentence else "")


def _number(written: str) -> str:
    """A number with its commas and point, not as a year."""
    whole, _, fraction = written.replace(",", "").partition(".")
    if not whole:
        return f"point {spell_digits(fraction, 'en')}"
    return decimal(whole, fraction, "en") if fraction else cardinal(whole, "en")


def _is_one(written: str) -> bool:
    return written == "1"


def _money(minus: str | None, written: str, magnitude: str | None, sign: str, country: str | None) -> str:
    one, many, hundredth, hundredths = CURRENCIES[sign]
    if sign == "$" and country:
        one, many = (f"{DOLLAR_COUNTRIES[country]} {name}" for name in (one, many))
    prefix = "minus " if minus else ""
    whole, _, fraction = written.replace(",", "").partition(".")
    if magnitude:
        return f"{prefix}{_number(written)} {MAGNITUDES[magnitude]} {many}"
    if len(fraction) == 2 and hundredth and len(whole) <= 15:
        parts = []
        if int(whole or "0") or fraction == "00":
            parts.append(f"{cardinal(str(int(whole or '0')), 'en')} {one if whole == '1' else many}")
        if int(fraction):
            parts.append(f"{cardinal(str(int(fraction)), 'en')} {hundredth if fraction == '01' else hundredths}")
        return prefix + " and ".join(parts)
    return f"{prefix}{_number(written)} {one if _is_one(written) else many}"


def _feet_inches(match: Match) -> str:
    return f"{cardinal(str(int(match[1])), 'en')} foot {cardinal(str(int(match[2])), 'en')}"


def _measure(match: Match) -> str:
    minus, first, second, unit = match.groups()
    one, many = UNITS[unit]
    spoken = ("minus " if minus else "") + _number(first)
    if second:
        spoken += " to " + _number(second)
    return f"{spoken} {one if _is_one(first) and not second else many}"


def _phone(match: Match) -> str:
    return ("plus " if match.group()[0] == "+" else "") + _digit_groups(match.group())


def _digit_groups(written: str) -> str:
    return ", ".join(spell_digits(group, "en") for group in re.findall(r"[0-9]+", written))


def _fraction(match: Match) -> str:
    whole, top, bottom = match[1], int(match[2]), int(match[3])
    if top == 0 or bottom < 2 or bottom > 20 or (top > bottom and whole):
        spoken = f"{cardinal(str(top), 'en')} over {cardinal(str(bottom), 'en')}"
    else:
        one, many = _HALVES.get(bottom) or (ordinal(str(bottom), "en"), ordinal(str(bottom), "en") + "s")
        if whole and top == 1:
            return f"{cardinal(whole, 'en')} and {'an' if one[0] in 'aeiou' else 'a'} {one}"
        spoken = f"{cardinal(str(top), 'en')} {one if top == 1 else many}"
    return f"{cardinal(whole, 'en')} and {spoken}" if whole else spoken


def _range(match: Match) -> str:
    first, percent, second = match.groups()
    years = re.fullmatch(r"[12][0-9]{3}", first) and re.fullmatch(r"[12][0-9]{3}|[0-9]{2}", second)
    if years:
        last = _year(second) if len(second) == 4 else cardinal(second, "en")
        return f"{_year(first)} to {last}"
    return f"{_number(first)}{' percent' if percent else ''} to {_number(second)}"


def _pointed(match: Match) -> str:
    return " point ".join(cardinal(part, "en") for part in match.group().split("."))


def _scientific(match: Match) -> str:
    minus = "minus " if match[2] == "-" else ""
    return f"{_number(match[1])} times ten to the power of {minus}{cardinal(str(int(match[3])), 'en')}"


def _any_number(match: Match) -> str:
    whole, fraction, bare_fraction = match.groups()
    if bare_fraction:
        return f"point {spell_digits(bare_fraction, 'en')}"
    if whole is None:
        return spell_digits(match.group(), "en")
    digits = whole.replace(",", "")
    if fraction:
        return decimal(digits, fraction, "en")
    if len(whole) == 4 and "1100" <= whole <= "2099":
        return _year(whole)
    return cardinal(digits, "en")


DIGIT_RULES: tuple[Rule, ...] = (
    (_NUMBERED_ABBREVIATION, lambda m: NUMBERED_ABBREVIATIONS[m[1]] + " "),
    (_ISO_DATE, _iso_date),
    (_SLASH_DATE, _slash_date),
    (_MONTH_DAY, _month_day),
    (_DAY_MONTH, _day_month),
    (_MONTH_YEAR, lambda m: MONTH_ABBREVIATIONS[m[1]] + " "),
    (_SAID_AS_PAIR, lambda m: " ".join(cardinal(part, "en") for part in m[1].split("/"))),
    (_DIALLED, lambda m: f"{m[1]} {spell_digits(m[2], 'en')}"),
    (_TIME_RANGE, lambda m: f"{m[1] or ''} to "),
    (_TIME, _time),
    (_HOUR, _hour),
    (_MONEY_BEFORE, lambda m: _money(m[1], m[4], m[5], m[3], m[2])),
    (_MONEY_AFTER, lambda m: _money(m[1], m[2], m[3], m[4], None)),
    (_PHONE, _phone),
    (_LOCAL_PHONE, lambda m: f"{m[1]}{m[2]}{_digit_groups(m[3])}"),
    (_DIGIT_CHAIN, _phone),
    (_DECADE, _decade),
    (_SCIENTIFIC, _scientific),
    (_FEET_INCHES, _feet_inches),
    (_MEASURE, _measure),
    (_ORDINAL, lambda m: ordinal(m[1].replace(",", ""), "en")),
    (_FRACTION, _fraction),
    (_RATIO, " to "),
    (_BY, " by "),
    (_TIMES, " times "),
    (_RANGE, _range),
    (_POINTED, _pointed),
    (_POWER, " to the power of "),
    (_MINUS, "minus "),
    (_NUMBER_SIGN, "number "),
    (_ABOUT, "about "),
    (_HYPHEN_TO_DIGIT, " "),
    (_STUCK_BEFORE, " "),
    (_STUCK_AFTER, " "),
    (_ANY_NUMBER, _any_number),
)
