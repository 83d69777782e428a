"""Persian as it is written, to Persian as it is said.

Letters first (Arabic shapes, kashida, marks), then numbers and signs from the most specific rule to the most
general, affixes and ZWNJ last. The policy, with its reasons, is in docs/text.md.
"""

from __future__ import annotations

import re
import unicodedata

from myxtts.text.numbers import cardinal, ordinal, spell_digits
from myxtts.text.persian_tables import (
    ABBREVIATIONS,
    ADDRESS_SIGNS,
    BEFORE_MAY,
    CALENDARS,
    COMPARATIVE_ENDINGS,
    CURRENCIES,
    GREGORIAN_MONTHS,
    HAMZA_ABOVE,
    HONORIFICS,
    LETTERS,
    NON_JOINING,
    NUMBERED_ABBREVIATIONS,
    OTHER_MONTHS,
    PLURAL_ENDINGS,
    SHORT_WORDS_IN_HEH,
    SIGNS,
    SILENT_MARKS,
    SOLAR_MONTHS,
    UNITS,
    VERB_ENDINGS,
    ZWNJ,
)
from myxtts.text.rules import Match, Rule, any_of, apply_digit_rules, say_addresses
from myxtts.text.unicode_cleanup import fold, tidy

_LETTER = "آ-غف-ئپچژکگیأؤئء\u064b-\u0651"
_NOT_IN_WORD = rf"(?<![{_LETTER}{ZWNJ}])"
_END_OF_WORD = rf"(?![{_LETTER}{ZWNJ}])"

_TRANSLATION = str.maketrans(
    LETTERS
    | dict.fromkeys(SILENT_MARKS)
    | {
        "\u200d": None,
        "“": "«",
        "„": "«",
        "”": "»",
        "‟": "»",
        "‹": "«",
        "›": "»",
        "‘": "'",
        "’": "'",
        "`": "'",
    }
)
_SUPERSCRIPT_ALEF = re.compile(r"(?<=ی)\u0670|\u0670(?=ا)")
_FIRST_HAMZA = re.compile(rf"{_NOT_IN_WORD}أ")
_TEH_BEFORE_ARTICLE = re.compile(rf"ة{ZWNJ}?(?=ال)")
_TANVIN_BEFORE_ALEF = re.compile("\u064bا")
_EZAFE_AFTER_HEH = re.compile(rf"ه[ {ZWNJ}]ی{_END_OF_WORD}")
_NEEDLESS_ZWNJ = re.compile(
    rf"{ZWNJ}{{2,}}|(?<=[{NON_JOINING}]){ZWNJ}|{ZWNJ}(?![^\W\d_]|{HAMZA_ABOVE})|(?<![^\W\d_]){ZWNJ}"
    rf"|(?<=[A-Za-z0-9]){ZWNJ}|{ZWNJ}(?=[A-Za-z0-9])"
)
_PREFIX = re.compile(rf"{_NOT_IN_WORD}(?:([{_LETTER}]{{2,6}}) )?(ن?می) (?=[{_LETTER}]{{2}})")
_ENDING = re.compile(rf"(?<=[{_LETTER}]) ({PLURAL_ENDINGS}|{COMPARATIVE_ENDINGS}){_END_OF_WORD}")
_VERB_ENDING = re.compile(rf"{_NOT_IN_WORD}([{_LETTER}{ZWNJ}]{{2,30}}ه) ({VERB_ENDINGS}){_END_OF_WORD}")

_LATIN_MARKS = str.maketrans({",": "،", ";": "؛", "?": "؟"})
_COMMA_IN_NUMBER = re.compile(r"(?<=[0-9])[,،٬'](?=[0-9]{3}(?![0-9]))")
_ARABIC_DECIMAL = re.compile(r"(?<=[0-9])٫(?=[0-9])")
_SPACE_INSIDE_QUOTES = re.compile(r"(?<=«) | (?=»)")
_QUOTE_AGAINST_WORD = re.compile(r"(?<=[^\W_])(?=«)|(?<=»)(?=[^\W_])")

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_MONTH = any_of((*SOLAR_MONTHS, *GREGORIAN_MONTHS, *OTHER_MONTHS))
_ABBREVIATION = re.compile(rf"(?<![\w.])({any_of(ABBREVIATIONS)})\.?(?![\w.])")
_AND_SO_ON = re.compile(r"(?<= و)…")
_HONORIFIC = re.compile(rf"\(({any_of(HONORIFICS)})\)")
_NUMBERED_ABBREVIATION = re.compile(rf"{_NOT_IN_WORD}({any_of(NUMBERED_ABBREVIATIONS)})\. ?(?=[0-9])")

_DATE = re.compile(r"(?<![\w/.-])([0-9]{4})([/.-])(0?[1-9]|1[0-2])\2(3[01]|[12][0-9]|0?[1-9])(?![0-9/-]|\.[0-9])")
_DATE_REVERSED = re.compile(
    r"(?<![\w/.-])(3[01]|[12][0-9]|0?[1-9])([/.-])(0?[1-9]|1[0-2])\2([12][0-9]{3})(?![0-9/-]|\.[0-9])"
)
_SHORT_DATE = re.compile(r"(?<![\w/.-])([0-9]{2})/(0?[1-9]|1[0-2])/(3[01]|[12][0-9]|0?[1-9])(?![0-9/-]|\.[0-9])")
_DAY_MONTH = re.compile(rf"(?<![\w./:-])(3[01]|[12][0-9]|0?[1-9]) ?({_MONTH}){_END_OF_WORD}")
_DAYS_MONTH = re.compile(
    rf"(?<![\w./:-])(3[01]|[12][0-9]|0?[1-9]) ?(?:تا|-) ?(?=(?:3[01]|[12][0-9]|0?[1-9]) ?(?:{_MONTH}){_END_OF_WORD})"
)
_CENTURY = re.compile(rf"{_NOT_IN_WORD}(قرن|سدهٔ|سده) ([0-9]{{1,2}})(?![0-9.:/-]|ا?م)")
_CALENDAR = re.compile(rf"(?<![\w.])([0-9]{{3,4}}) ?({any_of(CALENDARS)})\.?{_END_OF_WORD}")
_TIME = re.compile(
    r"(?<![\w:.])([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?(?![0-9:])(?= (صبح|ظهر|عصر|شب|بامداد|بعدازظهر))?"
)
_MOBILE = re.compile(
    r"(?<![\w+])((?:\+|00)98[ -]?|0)(9[0-9]{2})[ -]?([0-9]{3})[ -]?([0-9]{2})[ -]?([0-9]{2})(?![0-9])"
)
_LANDLINE = re.compile(r"(?<![\w+])\(?(0[1-8][0-9])\)?[ -]?([0-9]{4})[ -]?([0-9]{4})(?![0-9])")
_FOREIGN_PHONE = re.compile(
    r"(?<![\w+])\+(?=(?:[ ()-]{0,2}[0-9]){8})[0-9]{1,3}(?:[ -]?\(?[0-9]{2,4}\)?){2,5}(?![0-9])"
)
_CARD = re.compile(r"(?<![\w-])[0-9]{4}(?:[ -]?[0-9]{4}){3}(?![0-9-])")
_DIGIT_CHAIN = re.compile(r"(?<![\w.-])[0-9]{1,12}(?:-[0-9]{1,12}){2,8}(?![0-9-])")
_MONEY_BEFORE = re.compile(rf"([$€£¥₺₽₹₩₿]) ?({_NUMBER})((?: (?:هزار|میلیون|میلیارد|تریلیون)){{0,2}})")
_MONEY_AFTER = re.compile(
    r"(?<=[0-9])((?: (?:هزار|میلیون|میلیارد|تریلیون)){0,2}) ?([$€£¥₺₽₹₩₿]|(?:USD|EUR|GBP|IRR|AED)\b)"
)
_PERCENT_BEFORE = re.compile(rf"(?<![0-9])(?<![0-9] )[%٪] ?({_NUMBER})")
_SLASH_DECIMAL = re.compile(r"(?<![\w./])([0-9]{1,12})/([0-9]{1,6})(?= ?(?:درصد|[%٪]))")
_MEASURE = re.compile(rf"(?<=[0-9]) ?({any_of(UNITS)})(?![A-Za-z0-9²³])")
_SQUARE = re.compile(r"(?<=متر)([²³])")
_PER = re.compile(rf"(متر|گرم|لیتر|تومان|ریال|بایت)/(?=[{_LETTER}])")
_ORDINAL = re.compile(rf"(?<![\w.])([0-9]{{1,15}})[ {ZWNJ}]?(?:اُم|ام|م)(ین)?{_END_OF_WORD}")
_FRACTION = re.compile(r"(?<![\w./])(?:([0-9]{1,6}) )?([0-9]{1,3})/([0-9]{1,6})(?![\w/]|\.[0-9])")
_BY = re.compile(r"(?<=[0-9]) ?[x×*] ?(?=[0-9])")
_RANGE = re.compile(rf"(?<![\w.,/:-])({_NUMBER}) ?- ?({_NUMBER})(?![0-9-])")
_POINTED = re.compile(r"(?<![\w.])[0-9]{1,9}(?:\.[0-9]{1,9}){2,8}(?![0-9]|\.[0-9])")
_MINUS = re.compile(r"(?<![\w)])-(?=[0-9])")
_PLUS = re.compile(r"(?<![\w)])\+(?=[0-9])")
_HYPHEN_TO_DIGIT = re.compile(r"(?<=[^\W\d_])-(?=[0-9])|(?<=[0-9])-(?=[^\W\d_])")
_STUCK_BEFORE = re.compile(r"(?<=[^\W\d_])(?=[0-9])")
_STUCK_AFTER = re.compile(r"(?<=[0-9])(?=[^\W\d_])")
_ANY_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18})(?![0-9]))?(?![0-9])|[0-9]+")
_AND_OR = re.compile(r"(?<=\bو)/(?=یا\b)")

_HAS_DIGIT = re.compile(r"[0-9]")
_HAS_SIGN = re.compile("[" + re.escape("".join(SIGNS)) + "]")
_PARTS_OF_TEN = {1: "دهم", 2: "صدم", 3: "هزارم", 4: "ده‌هزارم"}


def say(text: str) -> str:
    """Persian `text`, cleaned, in Persian letters, with everything spelled out as it is read aloud."""
    text = fold(text, joiners=True, quotes=False)
    text = tidy(say_addresses(text, ADDRESS_SIGNS, "دبلیو دبلیو دبلیو", "fa"))
    text = _letters(text)
    if _HAS_DIGIT.search(text):
        text = _digits(text)
    text = _AND_OR.sub(" ", text)
    if _HAS_SIGN.search(text):
        text = _HAS_SIGN.sub(lambda match: SIGNS[match.group()], text)
    text = tidy(text.translate(_LATIN_MARKS))
    text = _SPACE_INSIDE_QUOTES.sub("", text)
    text = _QUOTE_AGAINST_WORD.sub(" ", text)
    return _affixes(text)


def _letters(text: str) -> str:
    text = text.translate(_TRANSLATION)
    if "\u0670" in text:
        text = _SUPERSCRIPT_ALEF.sub("", text).replace("\u0670", "ا")
    text = _FIRST_HAMZA.sub("ا", text)
    if "ة" in text:
        text = _TEH_BEFORE_ARTICLE.sub("ت" + ZWNJ, text).replace("ة", "ه")
    text = _TANVIN_BEFORE_ALEF.sub("ا\u064b", text)
    text = _EZAFE_AFTER_HEH.sub("ه" + HAMZA_ABOVE, text)
    if "." in text:
        text = _ABBREVIATION.sub(lambda match: ABBREVIATIONS[match[1]], text)
    if "…" in text:
        text = _AND_SO_ON.sub(" غیره", text)
    if "(" in text:
        text = _HONORIFIC.sub(lambda match: HONORIFICS[match[1]], text)
    return unicodedata.normalize("NFC", text)


def _affixes(text: str) -> str:
    """Prefixes and endings written apart joined by ZWNJ, and ZWNJ only where it shows."""
    text = _PREFIX.sub(_prefix, text)
    text = _ENDING.sub(rf"{ZWNJ}\1", text)
    text = _VERB_ENDING.sub(_verb_ending, text)
    if ZWNJ in text:
        text = _NEEDLESS_ZWNJ.sub(lambda match: ZWNJ if len(match.group()) > 1 else "", text)
    return text


def _prefix(match: Match) -> str:
    before = match[1]
    if before in BEFORE_MAY:
        return match.group()
    return (f"{before} " if before else "") + match[2] + ZWNJ


def _verb_ending(match: Match) -> str:
    word, ending = match.groups()
    if word in SHORT_WORDS_IN_HEH:
        return match.group()
    return word + ZWNJ + ending


def _digits(text: str) -> str:
    """Every digit of `text` in words, most specific reading first."""
    text = _COMMA_IN_NUMBER.sub("", text)
    text = _ARABIC_DECIMAL.sub(".", text)
    return apply_digit_rules(text, _DIGIT_RULES)


def _said_date(year: str, month: int, day: str) -> str:
    months = SOLAR_MONTHS if int(year) < 1700 else GREGORIAN_MONTHS
    return f"{_day(day)} {months[month - 1]} {cardinal(str(int(year)), 'fa')}"


def _day(day: str) -> str:
    return "اول" if int(day) == 1 else ordinal(day, "fa")


def _short_date(match: Match) -> str:
    year = match[1]
    if not "70" <= year <= "99" and not year.startswith("0"):
        return match.group()
    return _said_date(("13" if year >= "70" else "14") + year, int(match[2]), match[3])


def _time(match: Match) -> str:
    hour, minute, second, part_of_day = match.groups()
    spoken = cardinal(str(int(hour)), "fa")
    if int(minute):
        spoken += f" و {cardinal(str(int(minute)), 'fa')} دقیقه"
    if second and int(second):
        return f"{spoken} و {cardinal(str(int(second)), 'fa')} {'ثانیهٔ' if part_of_day else 'ثانیه'}"
    return spoken + (HAMZA_ABOVE if part_of_day and int(minute) else "")


def _range(match: Match) -> str:
    """۱۰-۲۰ as «ده تا بیست»; falling, ۳-۲, it is a score: «سه بر دو»."""
    first, second = match.groups()
    return f"{first} {'تا' if float(first) <= float(second) else 'بر'} {second}"


def _group(digits: str) -> str:
    """A group of a telephone number: leading zeros named, the rest as a number."""
    rest = digits.lstrip("0")
    zeros = ["صفر"] * (len(digits) - len(rest))
    return " ".join([*zeros, cardinal(rest, "fa")] if rest else zeros)


def _mobile(match: Match) -> str:
    prefix, *groups = match.groups()
    country = "مثبت نود و هشت، " if "98" in prefix else "صفر "
    return country + "، ".join(_group(group) for group in groups)


def _landline(match: Match) -> str:
    code, first, second = match.groups()
    pairs = (first[:2], first[2:], second[:2], second[2:])
    return "، ".join(_group(group) for group in (code, *pairs))


def _foreign_phone(match: Match) -> str:
    return "مثبت " + "، ".join(_group(group) for group in re.findall("[0-9]+", match.group()))


def _card(match: Match) -> str:
    digits = re.sub(r"[^0-9]", "", match.group())
    return "، ".join(_group(digits[i : i + 2]) for i in range(0, 16, 2))


def _digit_chain(match: Match) -> str:
    return "، ".join(
        _group(group) if len(group) < 5 else spell_digits(group, "fa") for group in match.group().split("-")
    )


def _decimal(whole: str, fraction: str) -> str:
    """۲٫۵ as «دو و نیم», ۳٫۱۴ as «سه و چهارده صدم», more than four places digit by digit."""
    kept = fraction.rstrip("0")
    said_whole = cardinal(whole, "fa")
    if not kept:
        return f"{said_whole} ممیز صفر"
    if len(fraction) > 4:
        return f"{said_whole} ممیز {spell_digits(fraction, 'fa')}"
    part = "نیم" if fraction == "5" else f"{cardinal(fraction.lstrip('0'), 'fa')} {_PARTS_OF_TEN[len(fraction)]}"
    return part if not int(whole) else f"{said_whole} و {part}"


def _fraction(match: Match) -> str:
    whole, top, bottom = match.groups()
    if len(bottom) > 3 or int(top) >= int(bottom) or int(top) == 0 or bottom[0] == "0":
        # Iran also writes the decimal point as a slash.
        spoken = _decimal(top, bottom)
    elif (top, bottom) == ("1", "2") and whole:
        spoken = "نیم"
    else:
        spoken = f"{cardinal(top, 'fa')} {ordinal(bottom, 'fa')}"
    if not whole:
        return spoken
    joint = " و " if int(top) < int(bottom) else " "
    return f"{cardinal(whole, 'fa')}{joint}{spoken}"


def _ordinal(match: Match) -> str:
    return ordinal(match[1], "fa") + (match[2] or "")


def _any_number(match: Match) -> str:
    whole, fraction = match.groups()
    if whole is None:
        return spell_digits(match.group(), "fa")
    return _decimal(whole, fraction) if fraction else cardinal(whole, "fa")


_DIGIT_RULES: tuple[Rule, ...] = (
    (_NUMBERED_ABBREVIATION, lambda m: NUMBERED_ABBREVIATIONS[m[1]] + " "),
    (_DATE, lambda m: _said_date(m[1], int(m[3]), m[4])),
    (_DATE_REVERSED, lambda m: _said_date(m[4], int(m[3]), m[1])),
    (_SHORT_DATE, _short_date),
    (_DAYS_MONTH, lambda m: f"{_day(m[1])} تا "),
    (_DAY_MONTH, lambda m: f"{_day(m[1])} {m[2]}"),
    (_CENTURY, lambda m: f"{m[1]} {ordinal(m[2], 'fa')}"),
    (_CALENDAR, lambda m: f"{cardinal(m[1], 'fa')} {CALENDARS[m[2]]}"),
    (_TIME, _time),
    (_MOBILE, _mobile),
    (_LANDLINE, _landline),
    (_FOREIGN_PHONE, _foreign_phone),
    (_CARD, _card),
    (_DIGIT_CHAIN, _digit_chain),
    (_MONEY_BEFORE, lambda m: f"{m[2]}{m[3]} {CURRENCIES[m[1]]}"),
    (_MONEY_AFTER, lambda m: f"{m[1]} {CURRENCIES[m[2]]}"),
    (_PERCENT_BEFORE, r"\1 درصد"),
    (_SLASH_DECIMAL, r"\1.\2"),
    (_MEASURE, lambda m: f" {UNITS[m[1]]}"),
    (_SQUARE, lambda m: " مربع" if m[1] == "²" else " مکعب"),
    (_PER, r"\1 بر "),
    (_ORDINAL, _ordinal),
    (_FRACTION, _fraction),
    (_BY, " در "),
    (_RANGE, _range),
    (_POINTED, lambda m: " نقطه ".join(cardinal(part, "fa") for part in m.group().split("."))),
    (_MINUS, "منفی "),
    (_PLUS, "مثبت "),
    (_HYPHEN_TO_DIGIT, " "),
    (_STUCK_BEFORE, " "),
    (_STUCK_AFTER, " "),
    (_ANY_NUMBER, _any_number),
)
