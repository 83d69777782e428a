"""Numbers and signs of the languages that have no module of their own.

Numbers go through num2words; a number with a percent or currency sign gets the word in the right plural. A
language without a row of words (one added by configuration) gets the clean-up, its integers in words where
num2words knows it, and everything else is left to espeak-ng.
"""

from __future__ import annotations

import re
from functools import lru_cache

from myxtts.text.language_words import WORDS, Words
from myxtts.text.numbers import cardinal, decimal, has_number_words, ordinal, spell_digits
from myxtts.text.rules import Match, Rule, any_of, apply_digit_rules, say_addresses
from myxtts.text.unicode_cleanup import fold, tidy

_HAS_DIGIT = re.compile(r"[0-9]")
_WHOLE_ONLY = re.compile(r"(?<![0-9])(?<![0-9][.,:/-])[0-9]+(?![0-9]|[.,:/-][0-9])")
_GROUPING_SPACE = re.compile(r"(?<=[0-9]) (?=[0-9]{3}(?![0-9]))")
_ARABIC_SEPARATORS = str.maketrans({"٫": ".", "٬": ",", "٪": "%"})
_MARKS = str.maketrans({"~": " ", "*": " ", "_": " ", "|": ",", "^": " ", "\\": " "})
# « and » open and close; in the others they stand the other way round.
_REVERSED_QUOTES = frozenset(["cs", "de", "hu", "pl"])
_SPACE_IN_QUOTES = re.compile(r"(?<=«)[ \u00a0\u202f]|[ \u00a0\u202f](?=»)")


def say(text: str, language: str) -> str:
    """`text` of any language, cleaned, with its numbers and common signs in words."""
    base = language.partition("-")[0]
    words = WORDS.get(base)
    if words is None:
        return _say_unlisted(text, language)
    if base not in _REVERSED_QUOTES and "«" in text:
        text = _SPACE_IN_QUOTES.sub("", text)
    text = fold(text)
    if base == "ar":
        text = text.translate(_ARABIC_SEPARATORS)
    text = tidy(say_addresses(text, words.address, "www", language))
    if _HAS_DIGIT.search(text):
        text = apply_digit_rules(text, _digit_rules(language))
    for sign, word in _bare_signs(base):
        if sign in text:
            text = text.replace(sign, word)
    return tidy(text.translate(_MARKS))


def _say_unlisted(text: str, language: str) -> str:
    text = tidy(fold(text, joiners=True))
    if _HAS_DIGIT.search(text) and has_number_words(language):
        text = _GROUPING_SPACE.sub("", text)
        text = tidy(_WHOLE_ONLY.sub(lambda match: f" {cardinal(match.group(), language)} ", text))
    return text


@lru_cache(maxsize=32)
def _bare_signs(base: str) -> tuple[tuple[str, str], ...]:
    """Signs without a number, longer ones first; letters that are only signs beside a number stay."""
    words = WORDS[base]
    names = words.signs | {sign: forms[-1] for sign, forms in words.units.items() if not sign.isalpha()}
    return tuple((sign, f" {names[sign]} ") for sign in sorted(names, key=len, reverse=True))


@lru_cache(maxsize=32)
def _digit_rules(language: str) -> tuple[Rule, ...]:
    """The rules that leave no digit, for a language with a row of words."""
    base = language.partition("-")[0]
    words = WORDS[base]
    point, group = (",", "[. ]") if words.decimal_comma else (r"\.", ",")
    whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}}){{1,5}}(?![0-9])|[0-9]{{1,18}})"
    number = rf"{whole}(?:{point}[0-9]{{1,18}}(?![0-9]))?"
    money = any_of(sign for sign in words.units if sign != "%")

    rules: list[Rule] = [
        (
            re.compile(
                rf"(?<![0-9A-Za-z:.,])([01]?[0-9]|2[0-3]){words.time_marks}([0-5][0-9])(?![0-9:])"
                + (rf"(?: ?{words.after_time}\b)?" if words.after_time else "")
            ),
            lambda m: _time(m, words, language),
        ),
        (re.compile(rf"({number}) ?%"), lambda m: _with_unit(m[1], "%", words, language)),
        (re.compile(rf"% ?({number})"), lambda m: _with_unit(m[1], "%", words, language)),
        (re.compile(rf"({money}) ?({number})"), lambda m: _with_unit(m[2], m[1], words, language)),
        (re.compile(rf"({number}) ?({money})(?![^\W\d_])"), lambda m: _with_unit(m[1], m[2], words, language)),
    ]
    if words.ordinal:
        rank = re.compile(rf"(?<![\w.,])([0-9]{{1,6}}){words.ordinal}(?!\w)")
        rules.append((rank, lambda m: _rank(m, language)))
    if base == "zh":
        rules.append((re.compile(r"(?<![0-9.,])([0-9]{4})(?=年)"), lambda m: spell_digits(m[1], language)))
    if base in ("de", "nl"):
        year = re.compile(r"(?<![\w.,])(1[1-9])([0-9]{2})(?!\w|[.,:/-][0-9])")
        rules.append((year, lambda m: _century_year(m, base)))
    space = " " if words.spaced else ""
    rules += [
        (re.compile(r"(?<![\w)])-(?=[0-9])"), f"{words.minus}{space}"),
        (re.compile(r"(?<=[0-9]) ?[-/:] ?(?=[0-9])"), " "),
    ]
    if words.spaced:
        rules.append((re.compile(r"(?<=[^\W\d_])(?=[0-9])|(?<=[0-9])(?=[^\W\d_])"), " "))
    rules += [
        (re.compile(rf"{number}(?![0-9])"), lambda m: _number(m.group(), words, language)),
        (re.compile(r"[0-9]+"), lambda m: spell_digits(m.group(), language)),
    ]
    return tuple(rules)


def _number(written: str, words: Words, language: str) -> str:
    whole, _, fraction = written.partition("," if words.decimal_comma else ".")
    digits = re.sub("[^0-9]", "", whole)
    return decimal(digits, fraction, language) if fraction else cardinal(digits, language)


def _with_unit(written: str, sign: str, words: Words, language: str) -> str:
    digits = re.sub(r"[. ](?=[0-9]{3})" if words.decimal_comma else ",", "", written)
    exact = words.exact.get(digits + sign)
    if exact:
        return exact
    forms = words.units[sign]
    unit = forms[min(words.form(digits), len(forms) - 1)]
    spoken = _number(written, words, language)
    order = (unit, spoken) if sign == "%" and words.percent_first else (spoken, unit)
    return (" " if words.spaced else "").join(order)


def _time(match: Match, words: Words, language: str) -> str:
    hour = cardinal(str(int(match[1])), language)
    if int(match[2]):
        return words.time.format(hour=hour, minute=cardinal(str(int(match[2])), language))
    on_the_hour = words.time.partition("{minute}")[0].format(hour=hour)
    return on_the_hour.removesuffix(" e ").removesuffix(" و").rstrip()


def _rank(match: Match, language: str) -> str:
    spoken = ordinal(match[1], language)
    return re.sub("o( |$)", r"a\1", spoken) if match.group().endswith("ª") else spoken


def _century_year(match: Match, base: str) -> str:
    """1984 as neunzehnhundertvierundachtzig, negentienhonderdvierentachtig."""
    hundred = "hundert" if base == "de" else "honderd"
    rest = cardinal(str(int(match[2])), base) if int(match[2]) else ""
    return cardinal(match[1], base) + hundred + rest
