"""How the languages without a module of their own say what is not a number: one row of words each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


def one_or_many(written: str) -> int:
    return 0 if written == "1" else 1


def east_slavic(written: str) -> int:
    """один доллар, два доллара, пять долларов; fractions take the second form."""
    if not written.isdigit():
        return 1
    last, last_two = int(written[-1]), int(written[-2:])
    if last == 1 and last_two != 11:
        return 0
    return 1 if 2 <= last <= 4 and not 12 <= last_two <= 14 else 2


def polish(written: str) -> int:
    if written == "1":
        return 0
    if not written.isdigit():
        return 1
    return 1 if 2 <= int(written[-1]) <= 4 and not 12 <= int(written[-2:]) <= 14 else 2


def czech(written: str) -> int:
    if not written.isdigit():
        return 1
    return 0 if written == "1" else 1 if written in ("2", "3", "4") else 2


@dataclass(frozen=True)
class Words:
    """The words of one language.

    Attributes:
        minus: before a number below zero.
        units: `%` and the currency signs, each with the forms that `form` chooses among.
        form: the index of the form that follows a number as it is written.
        exact: a number with its sign that is said in a way of its own, such as `1€`.
        percent_first: whether percent is said before its number.
        signs: other signs in words.
        address: the signs of web addresses.
        time: hours and minutes, in a template.
        time_marks: pattern of what stands between hours and minutes.
        after_time: a word that may follow a written time and is part of how it is said.
        ordinal: pattern of what marks a rank after digits, if the language has one.
        decimal_comma: whether 1,5 is one and a half, and 1.500 fifteen hundred.
        spaced: whether words are written apart.
    """

    minus: str
    units: dict[str, tuple[str, ...]]
    signs: dict[str, str]
    address: dict[str, str]
    form: Callable[[str], int] = one_or_many
    exact: dict[str, str] = field(default_factory=dict)
    percent_first: bool = False
    time: str = "{hour} {minute}"
    time_marks: str = ":"
    after_time: str = ""
    ordinal: str = ""
    decimal_comma: bool = True
    spaced: bool = True


def _units(percent: str, dollar: str, euro: str, pound: str, **local: str) -> dict[str, tuple[str, ...]]:
    """Forms apart by `/`; `local` are the currencies that only this language's text has."""
    names = {"%": percent, "$": dollar, "€": euro, "£": pound} | {
        _SIGNS[name]: forms for name, forms in local.items()
    }
    return {sign: tuple(forms.split("/")) for sign, forms in names.items()}


_SIGNS = {
    "real": "R$",
    "lira": "₺",
    "rouble": "₽",
    "zloty": "zł",
    "koruna": "Kč",
    "forint": "Ft",
    "yen": "¥",
    "won": "₩",
}


def _signs(and_: str, at: str, plus: str, equals: str, degrees: str, celsius: str) -> dict[str, str]:
    return {"°C": celsius, "&": and_, "@": at, "+": plus, "=": equals, "°": degrees}


def _address(dot: str, slash: str, at: str, dash: str, underscore: str) -> dict[str, str]:
    return {".": dot, "/": slash, "@": at, "-": dash, "_": underscore}


WORDS = {
    "es": Words(
        "menos",
        _units("por ciento", "dólar/dólares", "euro/euros", "libra/libras"),
        _signs("y", "arroba", "más", "igual a", "grados", "grados Celsius"),
        _address("punto", "barra", "arroba", "guion", "guion bajo"),
        exact={"1$": "un dólar", "1€": "un euro", "1£": "una libra"},
        ordinal="[ºª]",
    ),
    "fr": Words(
        "moins",
        _units("pour cent", "dollar/dollars", "euro/euros", "livre/livres"),
        _signs("et", "arobase", "plus", "égale", "degrés", "degrés Celsius"),
        _address("point", "barre oblique", "arobase", "tiret", "tiret bas"),
        exact={"1£": "une livre"},
        time="{hour} heures {minute}",
        time_marks="(?::| ?h ?)",
        ordinal="(?:ers?|ères?|re|èmes?|emes?|es?)",
    ),
    "de": Words(
        "minus",
        _units("Prozent", "Dollar", "Euro", "Pfund"),
        _signs("und", "at", "plus", "gleich", "Grad", "Grad Celsius"),
        _address("Punkt", "Schrägstrich", "at", "Bindestrich", "Unterstrich"),
        exact={"1%": "ein Prozent", "1$": "ein Dollar", "1€": "ein Euro", "1£": "ein Pfund"},
        time="{hour} Uhr {minute}",
        after_time="Uhr",
    ),
    "it": Words(
        "meno",
        _units("per cento", "dollaro/dollari", "euro", "sterlina/sterline"),
        _signs("e", "chiocciola", "più", "uguale a", "gradi", "gradi Celsius"),
        _address("punto", "barra", "chiocciola", "trattino", "trattino basso"),
        exact={"1$": "un dollaro", "1€": "un euro", "1£": "una sterlina"},
        time="{hour} e {minute}",
        ordinal="[ºª°]",
    ),
    "pt": Words(
        "menos",
        _units("por cento", "dólar/dólares", "euro/euros", "libra/libras", real="real/reais"),
        _signs("e", "arroba", "mais", "igual a", "graus", "graus Celsius"),
        _address("ponto", "barra", "arroba", "hífen", "sublinhado"),
        exact={"1£": "uma libra"},
        time="{hour} e {minute}",
        time_marks="(?::| ?h ?)",
        ordinal="[ºª]",
    ),
    "pl": Words(
        "minus",
        _units("procent", "dolar/dolary/dolarów", "euro", "funt/funty/funtów", zloty="złoty/złote/złotych"),
        _signs("i", "małpa", "plus", "równa się", "stopni", "stopni Celsjusza"),
        _address("kropka", "ukośnik", "małpa", "myślnik", "podkreślenie"),
        form=polish,
        exact={"1€": "jedno euro"},
    ),
    "tr": Words(
        "eksi",
        _units("yüzde", "dolar", "avro", "sterlin", lira="lira"),
        _signs("ve", "et", "artı", "eşittir", "derece", "santigrat derece"),
        _address("nokta", "bölü", "et", "tire", "alt çizgi"),
        percent_first=True,
    ),
    "ru": Words(
        "минус",
        _units(
            "процент/процента/процентов",
            "доллар/доллара/долларов",
            "евро",
            "фунт/фунта/фунтов",
            rouble="рубль/рубля/рублей",
        ),
        _signs("и", "собака", "плюс", "равно", "градусов", "градусов Цельсия"),
        _address("точка", "слэш", "собака", "дефис", "нижнее подчёркивание"),
        form=east_slavic,
    ),
    "nl": Words(
        "min",
        _units("procent", "dollar", "euro", "pond"),
        _signs("en", "apenstaartje", "plus", "is", "graden", "graden Celsius"),
        _address("punt", "schuine streep", "apenstaartje", "streepje", "laag streepje"),
        time="{hour} uur {minute}",
        after_time="uur",
        ordinal="(?:e|de|ste)",
    ),
    "cs": Words(
        "minus",
        _units(
            "procento/procenta/procent",
            "dolar/dolary/dolarů",
            "euro/eura/eur",
            "libra/libry/liber",
            koruna="koruna/koruny/korun",
        ),
        _signs("a", "zavináč", "plus", "rovná se", "stupňů", "stupňů Celsia"),
        _address("tečka", "lomítko", "zavináč", "pomlčka", "podtržítko"),
        form=czech,
        exact={
            "1%": "jedno procento",
            "2%": "dvě procenta",
            "1$": "jeden dolar",
            "1€": "jedno euro",
            "2€": "dvě eura",
            "2£": "dvě libry",
            "2Kč": "dvě koruny",
        },
    ),
    "ar": Words(
        "ناقص",
        _units("بالمائة", "دولار", "يورو", "جنيه"),
        _signs("و", "آت", "زائد", "يساوي", "درجة", "درجة مئوية"),
        _address("نقطة", "شرطة مائلة", "آت", "شرطة", "شرطة سفلية"),
        exact={"1$": "دولار واحد", "2$": "دولاران", "1€": "يورو واحد", "1£": "جنيه واحد", "2£": "جنيهان"},
        time="{hour} و{minute}",
        decimal_comma=False,
    ),
    "zh": Words(
        "负",
        _units("百分之", "美元", "欧元", "英镑", yen="元"),
        _signs("和", "艾特", "加", "等于", "度", "摄氏度"),
        _address("点", "斜杠", "艾特", "横杠", "下划线"),
        percent_first=True,
        time="{hour}点{minute}分",
        decimal_comma=False,
        spaced=False,
    ),
    "ja": Words(
        "マイナス",
        _units("パーセント", "ドル", "ユーロ", "ポンド", yen="えん"),
        _signs("アンド", "アット", "プラス", "イコール", "ど", "ど"),
        _address("ドット", "スラッシュ", "アット", "ハイフン", "アンダーバー"),
        time="{hour}じ{minute}ふん",
        decimal_comma=False,
        spaced=False,
    ),
    "hu": Words(
        "mínusz",
        _units("százalék", "dollár", "euró", "font", forint="forint"),
        _signs("és", "kukac", "plusz", "egyenlő", "fok", "Celsius-fok"),
        _address("pont", "per", "kukac", "kötőjel", "alulvonás"),
        exact={"2%": "két százalék", "2$": "két dollár", "2€": "két euró", "2£": "két font", "2Ft": "két forint"},
        time="{hour} óra {minute}",
    ),
    "ko": Words(
        "마이너스",
        _units("퍼센트", "달러", "유로", "파운드", won="원"),
        _signs("그리고", "골뱅이", "더하기", "는", "도", "도"),
        _address("점", "슬래시", "골뱅이", "하이픈", "밑줄"),
        time="{hour}시 {minute}분",
        decimal_comma=False,
    ),
}
