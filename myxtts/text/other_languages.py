"""Numbers and signs of the languages that have no module of their own.

A language here is one row of words. Numbers go through num2words; times are read as two numbers; a number
with a percent or currency sign gets the word in the right plural. A language without a row (one added by
configuration) gets the clean-up, its integers in words where num2words knows it, and everything else is left
to espeak-ng.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from myxtts.text.numbers import cardinal, decimal, has_number_words, ordinal, spell_digits
from myxtts.text.rules import Match, Rule, apply_digit_rules, say_addresses, word_set
from myxtts.text.unicode_cleanup import fold, tidy

# Scripts and languages whose spelling needs ZWNJ or ZWJ are only those added by configuration.
_WITHOUT_JOINERS = word_set("es fr de it pt pl tr ru nl cs ar zh ja hu ko")


def _one_or_many(written: str) -> int:
    return 0 if written == "1" else 1


def _always_first(_written: str) -> int:
    return 0


def _east_slavic(written: str) -> int:
    """один доллар, два доллара, пять долларов; fractions take the second form."""
    if not written.isdigit():
        return 1
    last, last_two = int(written[-1]), int(written[-2:])
    if last == 1 and last_two != 11:
        return 0
    return 1 if 2 <= last <= 4 and not 12 <= last_two <= 14 else 2


def _polish(written: str) -> int:
    if written == "1":
        return 0
    if not written.isdigit():
        return 1
    return 1 if 2 <= int(written[-1]) <= 4 and not 12 <= int(written[-2:]) <= 14 else 2


def _czech(written: str) -> int:
    if not written.isdigit():
        return 1
    return 0 if written == "1" else 1 if written in ("2", "3", "4") else 2


@dataclass(frozen=True)
class Words:
    """How one language says what is not a number.

    Attributes:
        minus: before a number below zero.
        percent, dollar, euro, pound: the forms that `form` chooses among.
        form: index of the form that follows a number as it is written.
        time: hours and minutes, in a template.
        ordinal: pattern of what marks a rank after digits, if the language has one.
        signs: other signs in words.
        address: the signs of web addresses.
        decimal_comma: whether 1,5 is one and a half (and 1.500 fifteen hundred) rather than the reverse.
    """

    minus: str
    percent: tuple[str, ...]
    dollar: tuple[str, ...]
    euro: tuple[str, ...]
    pound: tuple[str, ...]
    signs: dict[str, str]
    address: dict[str, str] = field(default_factory=dict)
    form: Callable[[str], int] = _one_or_many
    time: str = "{hour} {minute}"
    ordinal: str = ""
    decimal_comma: bool = True
    spaced: bool = True


def _signs(and_: str, at: str, plus: str, equals: str, degrees: str) -> dict[str, str]:
    return {"&": and_, "@": at, "+": plus, "=": equals, "°": degrees}


def _address(dot: str, slash: str, at: str, dash: str, underscore: str) -> dict[str, str]:
    return {".": dot, "/": slash, "@": at, "-": dash, "_": underscore}


WORDS = {
    "es": Words(
        "menos",
        ("por ciento",) * 2,
        ("dólar", "dólares"),
        ("euro", "euros"),
        ("libra", "libras"),
        _signs("y", "arroba", "más", "igual a", "grados"),
        _address("punto", "barra", "arroba", "guion", "guion bajo"),
        ordinal="[ºª]",
    ),
    "fr": Words(
        "moins",
        ("pour cent",) * 2,
        ("dollar", "dollars"),
        ("euro", "euros"),
        ("livre", "livres"),
        _signs("et", "arobase", "plus", "égale", "degrés"),
        _address("point", "barre oblique", "arobase", "tiret", "tiret bas"),
        time="{hour} heures {minute}",
        ordinal="(?:ers?|ères?|re|èmes?|emes?|es?)",
    ),
    "de": Words(
        "minus",
        ("Prozent",) * 2,
        ("Dollar",) * 2,
        ("Euro",) * 2,
        ("Pfund",) * 2,
        _signs("und", "at", "plus", "gleich", "Grad"),
        _address("Punkt", "Schrägstrich", "at", "Bindestrich", "Unterstrich"),
        time="{hour} Uhr {minute}",
    ),
    "it": Words(
        "meno",
        ("per cento",) * 2,
        ("dollaro", "dollari"),
        ("euro",) * 2,
        ("sterlina", "sterline"),
        _signs("e", "chiocciola", "più", "uguale a", "gradi"),
        _address("punto", "barra", "chiocciola", "trattino", "trattino basso"),
        time="{hour} e {minute}",
        ordinal="[ºª°]",
    ),
    "pt": Words(
        "menos",
        ("por cento",) * 2,
        ("dólar", "dólares"),
        ("euro", "euros"),
        ("libra", "libras"),
        _signs("e", "arroba", "mais", "igual a", "graus"),
        _address("ponto", "barra", "arroba", "hífen", "sublinhado"),
        time="{hour} e {minute}",
        ordinal="[ºª]",
    ),
    "pl": Words(
        "minus",
        ("procent", "procent", "procent"),
        ("dolar", "dolary", "dolarów"),
        ("euro",) * 3,
        ("funt", "funty", "funtów"),
        _signs("i", "małpa", "plus", "równa się", "stopni"),
        _address("kropka", "ukośnik", "małpa", "myślnik", "podkreślenie"),
        form=_polish,
    ),
    "tr": Words(
        "eksi",
        ("yüzde",) * 2,
        ("dolar",) * 2,
        ("avro",) * 2,
        ("sterlin",) * 2,
        _signs("ve", "et", "artı", "eşittir", "derece"),
        _address("nokta", "bölü", "et", "tire", "alt çizgi"),
    ),
    "ru": Words(
        "минус",
        ("процент", "процента", "процентов"),
        ("доллар", "доллара", "долларов"),
        ("евро",) * 3,
        ("фунт", "фунта", "фунтов"),
        _signs("и", "собака", "плюс", "равно", "градусов"),
        _address("точка", "слэш", "собака", "дефис", "нижнее подчёркивание"),
        form=_east_slavic,
    ),
    "nl": Words(
        "min",
        ("procent",) * 2,
        ("dollar",) * 2,
        ("euro",) * 2,
        ("pond",) * 2,
        _signs("en", "apenstaartje", "plus", "is", "graden"),
        _address("punt", "schuine streep", "apenstaartje", "streepje", "laag streepje"),
        time="{hour} uur {minute}",
        ordinal="(?:e|de|ste)",
    ),
    "cs": Words(
        "minus",
        ("procento", "procenta", "procent"),
        ("dolar", "dolary", "dolarů"),
        ("euro", "eura", "eur"),
        ("libra", "libry", "liber"),
        _signs("a", "zavináč", "plus", "rovná se", "stupňů"),
        _address("tečka", "lomítko", "zavináč", "pomlčka", "podtržítko"),
        form=_czech,
    ),
    "ar": Words(
        "ناقص",
        ("بالمائة",) * 2,
        ("دولار",) * 2,
        ("يورو",) * 2,
        ("جنيه",) * 2,
        _signs("و", "آت", "زائد", "يساوي", "درجة") | {"٪": "بالمائة"},
        _address("نقطة", "شرطة مائلة", "آت", "شرطة", "شرطة سفلية"),
        time="{hour} و{minute}",
        decimal_comma=False,
    ),
    "zh": Words(
        "负",
        ("百分之",) * 2,
        ("美元",) * 2,
        ("欧元",) * 2,
        ("英镑",) * 2,
        _signs("和", "艾特", "加", "等于", "度"),
        _address("点", "斜杠", "艾特", "横杠", "下划线"),
        time="{hour}点{minute}分",
        decimal_comma=False,
        spaced=False,
    ),
    "ja": Words(
        "マイナス",
        ("パーセント",) * 2,
        ("ドル",) * 2,
        ("ユーロ",) * 2,
        ("ポンド",) * 2,
        _signs("アンド", "アット", "プラス", "イコール", "ど"),
        _address("ドット", "スラッシュ", "アット", "ハイフン", "アンダーバー"),
        time="{hour}じ{minute}ふん",
        decimal_comma=False,
        spaced=False,
    ),
    "hu": Words(
        "mínusz",
        ("százalék",) * 2,
        ("dollár",) * 2,
        ("euró",) * 2,
        ("font",) * 2,
        _signs("és", "kukac", "plusz", "egyenlő", "fok"),
        _address("pont", "per", "kukac", "kötőjel", "alulvonás"),
        time="{hour} óra {minute}",
    ),
    "ko": Words(
        "마이너스",
        ("퍼센트",) * 2,
        ("달러",) * 2,
        ("유로",) * 2,
        ("파운드",) * 2,
        _signs("그리고", "골뱅이", "더하기", "는", "도"),
        _address("점", "슬래시", "골뱅이", "하이픈", "밑줄"),
        time="{hour}시 {minute}분",
        decimal_comma=False,
    ),
}

# The word stands before the number it belongs to.
_PERCENT_FIRST = frozenset(["tr", "zh"])

_HAS_DIGIT = re.compile(r"[0-9]")
_WHOLE_ONLY = re.compile(r"(?<![0-9])(?<![0-9][.,:/-])[0-9]+(?![0-9]|[.,:/-][0-9])")
_STUCK_BEFORE = re.compile(r"(?<=[^\W\d_])(?=[0-9])")
_STUCK_AFTER = re.compile(r"(?<=[0-9])(?=[^\W\d_])")
_ARABIC_SEPARATORS = str.maketrans({"٫": ".", "٬": ","})
_MARKS = str.maketrans({"~": " ", "*": " ", "_": " ", "|": ",", "^": " ", "\\": " "})


def say(text: str, language: str) -> str:
    """`text` of any language, cleaned, with its numbers and common signs in words."""
    base = language.partition("-")[0]
    text = fold(text, joiners=base not in _WITHOUT_JOINERS)
    words = WORDS.get(base)
    if words is None:
        if _HAS_DIGIT.search(text) and has_number_words(language):
            text = _WHOLE_ONLY.sub(lambda match: f" {cardinal(match.group(), language)} ", text)
        return tidy(text)
    text = tidy(say_addresses(text, words.address, "www", language))
    if base == "ar":
        text = text.translate(_ARABIC_SEPARATORS)
    if _HAS_DIGIT.search(text):
        text = apply_digit_rules(text, _digit_rules(language))
    for sign, word in _bare_signs(base):
        if sign in text:
            text = text.replace(sign, word)
    return tidy(text.translate(_MARKS))


@lru_cache(maxsize=32)
def _bare_signs(base: str) -> tuple[tuple[str, str], ...]:
    words = WORDS[base]
    last = {"%": words.percent[-1], "$": words.dollar[-1], "€": words.euro[-1], "£": words.pound[-1]}
    return tuple((sign, f" {word} ") for sign, word in (words.signs | last).items())


@lru_cache(maxsize=32)
def _digit_rules(language: str) -> tuple[Rule, ...]:
    """The rules that leave no digit, for a language with a row in `WORDS`."""
    base = language.partition("-")[0]
    words = WORDS[base]
    point, group = (",", "[. ]") if words.decimal_comma else (r"\.", ",")
    space = " " if words.spaced else ""
    whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}}){{1,5}}(?![0-9])|[0-9]{{1,18}})"
    number = rf"{whole}(?:{point}[0-9]{{1,18}}(?![0-9]))?"

    def say_number(written: str) -> str:
        whole, _, fraction = written.partition("," if words.decimal_comma else ".")
        digits = re.sub("[^0-9]", "", whole)
        return decimal(digits, fraction, language) if fraction else cardinal(digits, language)

    def with_word(written: str, forms: tuple[str, ...], first: bool = False) -> str:
        digits = re.sub(r"[. ](?=[0-9]{3})" if words.decimal_comma else ",", "", written)
        word = forms[min(words.form(digits), len(forms) - 1)]
        spoken = say_number(written)
        return f"{word}{space}{spoken}" if first else f"{spoken}{space}{word}"

    def money(sign: str, written: str) -> str:
        return with_word(written, {"$": words.dollar, "€": words.euro, "£": words.pound}[sign])

    def time(match: Match) -> str:
        hour = cardinal(str(int(match[1])), language)
        if not int(match[2]):
            return (
                words.time.format(hour=hour, minute="\0").partition("\0")[0].strip()
                if words.spaced
                else (words.time.format(hour=hour, minute="\0").partition("\0")[0])
            )
        return words.time.format(hour=hour, minute=cardinal(str(int(match[2])), language))

    def rank(match: Match) -> str:
        spoken = ordinal(match[1], language)
        feminine = match.group().endswith("ª")
        return re.sub("o( |$)", r"a\1", spoken) if feminine else spoken

    rules: list[Rule] = [
        (re.compile(r"(?<![\w:.,])([01]?[0-9]|2[0-3]):([0-5][0-9])(?![0-9:])"), time),
        (re.compile(rf"([$€£]) ?({number})"), lambda m: money(m[1], m[2])),
        (re.compile(rf"({number}) ?([$€£])"), lambda m: money(m[2], m[1])),
        (re.compile(rf"({number}) ?[%٪]"), lambda m: with_word(m[1], words.percent, base in _PERCENT_FIRST)),
        (re.compile(rf"% ?({number})"), lambda m: with_word(m[1], words.percent, base in _PERCENT_FIRST)),
    ]
    if words.ordinal:
        rules.append((re.compile(rf"(?<![\w.,])([0-9]{{1,6}}){words.ordinal}(?!\w)"), rank))
    if base == "zh":
        rules.append((re.compile(r"(?<![0-9.,])([0-9]{4})(?=年)"), lambda m: spell_digits(m[1], language)))
    if base in ("de", "nl"):
        rules.append(
            (
                re.compile(r"(?<![\w.,])(1[1-9])([0-9]{2})(?![\w]|[.,:/-][0-9])"),
                lambda m: _century_year(m, base),
            )
        )
    rules += [
        (re.compile(r"(?<![\w)])[-−](?=[0-9])"), f"{words.minus}{space}"),
        (re.compile(r"(?<=[0-9]) ?[-/:] ?(?=[0-9])"), " "),
        (re.compile(number), lambda m: f"{space}{say_number(m.group())}{space}"),
        (re.compile(r"[0-9]+"), lambda m: f"{space}{spell_digits(m.group(), language)}{space}"),
    ]
    return tuple(rules)


def _century_year(match: Match, base: str) -> str:
    """1984 as neunzehnhundertvierundachtzig, negentienhonderdvierentachtig."""
    hundred = "hundert" if base == "de" else "honderd"
    rest = cardinal(str(int(match[2])), base) if int(match[2]) else ""
    return cardinal(match[1], base) + hundred + rest
