"""The other languages: numbers and signs in words, and the numbers of the languages themselves."""

from __future__ import annotations

import pytest

from myxtts.errors import UsageError
from myxtts.text import LANGUAGES, language_id, normalize
from myxtts.text.numbers import cardinal, ordinal

CASES = [
    ("es", "Cuesta 5,50 €.", "Cuesta cinco coma cinco cero euros."),
    ("es", "El 20% de 1.000", "El veinte por ciento de mil"),
    ("es", "el 1º y la 2ª", "el primero y la segunda"),
    ("es", "¿Cuántos? ¡10!", "¿Cuántos? ¡diez!"),
    ("es", "1 €", "un euro"),
    ("fr", "à 15h30", "à quinze heures trente"),
    ("fr", "« oui »", '"oui"'),
    ("fr", "1er et 21ème", "premier et vingt et unième"),
    ("fr", "1 234", "mille deux cent trente-quatre"),
    ("de", "um 15:30 Uhr", "um fünfzehn Uhr dreißig"),
    ("de", "1984 und 2024", "neunzehnhundertvierundachtzig und zweitausendvierundzwanzig"),
    ("de", "»Hallo«, 3,14", '"Hallo", drei Komma eins vier'),
    ("de", "1 €", "ein Euro"),
    ("it", "l’8 maggio", "l'otto maggio"),
    ("it", "3,5%", "tre virgola cinque per cento"),
    ("pt", "R$ 5", "cinco reais"),
    ("pt", "às 15h30", "às quinze e trinta"),
    ("pl", "1 $, 2 $, 5 $, 22 zł", "jeden dolar, dwa dolary, pięć dolarów, dwadzieścia dwa złote"),
    ("tr", "%20 ve 1984", "yüzde yirmi ve bin dokuz yüz seksen dört"),
    (
        "ru",
        "1%, 2%, 5%, 11%, 21%",
        "один процент, два процента, пять процентов, одиннадцать процентов, двадцать один процент",
    ),
    ("ru", "3,14", "три целых четырнадцать сотых"),
    ("nl", "€ 5 in 1984", "vijf euro in negentienhonderdvierentachtig"),
    ("cs", "1%, 2%, 5%", "jedno procento, dvě procenta, pět procent"),
    ("cs", "1984", "tisíc devět set osmdesát čtyři"),
    ("ar", "٢٠٪", "عشرون بالمائة"),
    ("ar", "200 و ٣٫١٤", "مئتان و ثلاثة فاصلة واحد أربعة"),
    ("zh", "2024年5月12日", "二零二四年五月十二日"),
    ("zh", "20% 12345 10005", "百分之二十 一万两千三百四十五 一万零五"),
    ("zh", "下午3:30", "下午三点三十分"),
    ("ja", "1984", "せんきゅうひゃくはちじゅうよん"),
    ("ja", "$5", "ごドル"),
    ("hu", "2 € és 3,14", "két euró és három egész tizennégy század"),
    ("ko", "123", "백이십삼"),
    ("ko", "₩1000", "천 원"),
    ("sv", "1 000 kr", "etttusen kr"),
    ("hi", "१९८४", "1984"),
]


@pytest.mark.parametrize(("language", "written", "said"), CASES)
def test_numbers_and_signs_are_said_in_the_language(language: str, written: str, said: str) -> None:
    assert normalize(written, language) == said
    assert normalize(said, language) == said


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_reads_every_kind_of_number(language: str) -> None:
    said = normalize("0 7 12 100 2024 3,5 1.5 20% $5 15:30 -4 123456789012345678901234567890", language)
    assert said
    assert not any(character.isdigit() for character in said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_up_to_ten_thousand_differ_from_each_other(language: str) -> None:
    numbers = [*range(1000), *range(1000, 10_001, 37)]
    assert len({cardinal(str(number), language) for number in numbers}) == len(numbers)


def test_an_ordinal_without_words_falls_back_to_the_number() -> None:
    assert ordinal("5", "cs") == "pět"


def test_language_numbers_are_fixed() -> None:
    expected = "en es fr de it pt pl tr ru nl cs ar zh ja hu ko fa".split()  # noqa: SIM905
    assert [language_id(code) for code in expected] == list(range(17))
    assert list(LANGUAGES) == expected


def test_extra_languages_are_numbered_after_the_fixed_ones() -> None:
    assert [language_id(code, ("sv", "el")) for code in ("fa", "sv", "el")] == [16, 17, 18]


def test_a_region_means_its_language_unless_listed_itself() -> None:
    assert language_id("zh-cn") == language_id("ZH") == language_id("zh_TW") == 12
    assert language_id("en-gb", ("en-gb",)) == 17
    assert language_id("en-gb") == 0


@pytest.mark.parametrize("code", ["", "klingon", "xx", "e", "en us", "سلام", "../en", "en\0"])
def test_an_unknown_language_is_refused(code: str) -> None:
    with pytest.raises(UsageError, match="language"):
        language_id(code)
