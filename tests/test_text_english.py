"""English: what is written, and what is read aloud."""

from __future__ import annotations

import pytest

from myxtts.text import normalize

NUMBERS = [
    ("I have 3 cats.", "I have three cats."),
    (
        "The population is 1,234,567.",
        "The population is one million two hundred and thirty-four thousand five hundred and sixty-seven.",
    ),
    ("Pi is 3.14159.", "Pi is three point one four one five nine."),
    (".5 of it", "point five of it"),
    ("-5 and -2.5", "minus five and minus two point five"),
    ("007", "zero zero seven"),
    ("1,2,3", "one, two, three"),
    ("100,000.00", "one hundred thousand point zero zero"),
    ("1234567890123456", "one two three four five six seven eight nine zero one two three four five six"),
    (
        "999,000,000,000,000",
        "nine hundred and ninety-nine trillion",
    ),
    ("16:9", "sixteen to nine"),
    ("1e10", "one times ten to the power of ten"),
    ("10^6", "ten to the power of six"),
    ("5 + 3 = 8", "five plus three equals eight"),
    ("1920x1080", "nineteen twenty by one thousand and eighty"),
    ("version 1.2.3", "version one point two point three"),
    ("192.168.1.1", "one hundred and ninety-two point one hundred and sixty-eight point one point one"),
    ("#5", "number five"),
    ("~5", "about five"),
    ("±3", "plus or minus three"),
    ("MP3 and A4", "M-P three and A four"),
    ("COVID-19", "COVID nineteen"),
    ("٣ cats", "three cats"),
    ("１２ cats", "twelve cats"),
]
ORDINALS_AND_FRACTIONS = [
    ("1st, 2nd, 3rd, 21st and 112th", "first, second, third, twenty-first and one hundred and twelfth"),
    ("a 3rd-party tool", "a third-party tool"),
    ("1/2", "one half"),
    ("3/4 cup", "three quarters cup"),
    ("2 1/2 cups", "two and a half cups"),
    ("5½", "five and a half"),
    ("⅔ of them", "two thirds of them"),
    ("24/7", "twenty-four seven"),
    ("17/32", "seventeen over thirty-two"),
]
YEARS_AND_DATES = [
    ("In 1984 we met.", "In nineteen eighty-four we met."),
    (
        "1905, 2000, 2007, 2024, 1800",
        "nineteen oh five, two thousand, two thousand seven, twenty twenty-four, eighteen hundred",
    ),
    ("the 1990s", "the nineteen nineties"),
    ("the '80s", "the eighties"),
    ("the 2000s", "the two thousands"),
    ("1990-1995", "nineteen ninety to nineteen ninety-five"),
    ("1990–95", "nineteen ninety to ninety-five"),
    ("On 2024-05-12 it rained.", "On May twelfth, twenty twenty-four it rained."),
    ("5/12/2024", "May twelfth, twenty twenty-four"),
    ("25/12/2024", "December twenty-fifth, twenty twenty-four"),
    ("12/25/99", "December twenty-fifth, nineteen ninety-nine"),
    ("12.5.2024", "May twelfth, twenty twenty-four"),
    ("May 12, 2024", "May twelfth, twenty twenty-four"),
    ("May 12th", "May twelfth"),
    ("12 May 2024", "the twelfth of May, twenty twenty-four"),
    ("of the 5 may be used", "of the five may be used"),
    ("the 4th of July", "the fourth of July"),
    ("Jan. 5, 1963", "January fifth, nineteen sixty-three"),
    ("Sept. 1999", "September nineteen ninety-nine"),
]
TIMES = [
    ("at 3:30 p.m.", "at three thirty P-M."),
    ("at 3:30 p.m. today", "at three thirty P-M today"),
    ("at 3:05", "at three oh five"),
    ("at 3:00", "at three o'clock"),
    ("at 15:45", "at fifteen forty-five"),
    ("at 17:00", "at seventeen hundred hours"),
    ("5pm", "five P-M"),
    ("5 a.m. sharp", "five A-M sharp"),
    ("10am-5pm", "ten A-M to five P-M"),
    ("9:00-17:30", "nine o'clock to seventeen thirty"),
    ("10:15:30", "ten fifteen and thirty seconds"),
]
MONEY = [
    ("It costs $5.", "It costs five dollars."),
    ("It costs $5.50.", "It costs five dollars and fifty cents."),
    ("$1 and $1.01", "one dollar and one dollar and one cent"),
    ("$0.99", "ninety-nine cents"),
    ("$3.5 million", "three point five million dollars"),
    ("$100k", "one hundred thousand dollars"),
    ("£20", "twenty pounds"),
    ("€1,000.50", "one thousand euros and fifty cents"),
    ("20€", "twenty euros"),
    ("50¢", "fifty cents"),
    ("¥500", "five hundred yen"),
    ("US$5", "five U-S dollars"),
    ("-$5", "minus five dollars"),
    ("5 USD", "five U-S dollars"),
]
MEASURES = [
    ("5%", "five percent"),
    ("10-20%", "ten to twenty percent"),
    ("5 km", "five kilometers"),
    ("5km/h", "five kilometers per hour"),
    ("1 kg", "one kilogram"),
    ("20°C", "twenty degrees Celsius"),
    ("-5 °C", "minus five degrees Celsius"),
    ("50 m²", "fifty square meters"),
    ("16 GB", "sixteen gigabytes"),
    ("2.4 GHz", "two point four gigahertz"),
    ("1,000m", "one thousand meters"),
    ("6'2\" tall", "six foot two tall"),
    ("5 in. wide", "five inches wide"),
    ("in 5 min.", "in five minutes."),
]
PHONES = [
    ("call 555-123-4567", "call five five five, one two three, four five six seven"),
    ("(555) 123-4567", "five five five, one two three, four five six seven"),
    ("+44 20 7946 0958", "plus four four, two zero, seven nine four six, zero nine five eight"),
    ("1-800-555-1234", "one, eight zero zero, five five five, one two three four"),
    ("call 555-1234", "call five five five, one two three four"),
    ("500-1500 people", "five hundred to one thousand five hundred people"),
    ("+1000 points", "plus one thousand points"),
    ("Call 911", "Call nine one one"),
    ("123-45-6789", "one two three, four five, six seven eight nine"),
]
ABBREVIATIONS = [
    ("Dr. Smith and Mr. Jones", "Doctor Smith and Mister Jones"),
    ("Mrs. Brown lives on Main St.", "Missus Brown lives on Main Street."),
    ("St. John lives on Mulholland Dr.", "Saint John lives on Mulholland Drive."),
    ("cats, dogs, etc. are", "cats, dogs, et cetera are"),
    ("and so on, etc.", "and so on, et cetera."),
    ("e.g. this, i.e. that", "for example this, that is that"),
    ("No. 5", "Number five"),
    ("No. I do not.", "No. I do not."),
    ("Vol. 3, pp. 10-20", "Volume three, pages ten to twenty"),
    ("Maj. Gen. Walker", "Major General Walker"),
    ("J. K. Rowling", "J-K Rowling"),
    ("John F. Kennedy", "John F Kennedy"),
    ("U.S.A.", "U-S-A."),
    ("the U.S. army", "the U-S army"),
    ("Ph.D.", "P-H-D."),
    ("NASA and the FBI's", "NASA and the F-B-I's"),
    ("two GPUs", "two G-P-U's"),
    ("HTML", "H-T-M-L"),
    ("THE DOG BARKED", "THE DOG BARKED"),
    ("vitamin C. The end", "vitamin C. The end"),
    ("no 5 star hotel", "no five star hotel"),
    ("To George I said no.", "To George I said no."),
    ("George I, king", "George the first, king"),
    ("Louis XIV", "Louis the fourteenth"),
    ("World War II", "World War two"),
    ("Chapter IV", "Chapter four"),
]
ADDRESSES = [
    ("me@example.com", "me at example dot com"),
    ("Go to example.com.", "Go to example dot com."),
    (
        "Visit https://www.example.com/path?x=1.",
        "Visit W-W-W dot example dot com slash path question mark x equals one.",
    ),
    ("#hashtag", "hashtag hashtag"),
    ("R&D", "R and D"),
]
WRITING = [
    ("“Hello” — she said… ‘yes’", "\"Hello\" — she said… 'yes'"),
    ("well--known", "well — known"),
    ("Wait...what?", "Wait… what?"),
    ("Hello,world", "Hello, world"),
    ("Stop!!!", "Stop!"),
    ("two:fifteen", "two fifteen"),
    ("ﬁne ﬂow", "fine flow"),
    ("cafe\u0301", "café"),
    ("so\u00adft\u200b hy\ufeffphen", "soft hyphen"),
    ("[note] {this}", "(note) (this)"),
    ("  many   spaces \n here ", "many spaces here"),
]
CASES = [
    *NUMBERS,
    *ORDINALS_AND_FRACTIONS,
    *YEARS_AND_DATES,
    *TIMES,
    *MONEY,
    *MEASURES,
    *PHONES,
    *ABBREVIATIONS,
    *ADDRESSES,
    *WRITING,
]


@pytest.mark.parametrize(("written", "said"), CASES)
def test_english_is_written_as_it_is_read(written: str, said: str) -> None:
    assert normalize(written, "en") == said


@pytest.mark.parametrize("said", [said for _, said in CASES])
def test_what_is_read_stays_as_it_is(said: str) -> None:
    assert normalize(said, "en") == said


def test_a_character_without_a_reading_stays_to_be_counted() -> None:
    assert normalize("hello 🤠 world", "en") == "hello 🤠 world"


def test_hand_written_phonemes_are_not_touched() -> None:
    assert normalize("Say [[ˈtəˈmɑːtəʊ 5%]] 5 times.", "en") == "Say [[ˈtəˈmɑːtəʊ 5%]] five times."


def test_regional_codes_use_their_language() -> None:
    assert normalize("5%", "en-GB") == "five percent"


@pytest.mark.long
def test_no_digit_survives_in_real_transcripts(ljspeech_transcripts: list[str]) -> None:
    left = [text for text in ljspeech_transcripts if any(c.isdigit() for c in normalize(text, "en"))]
    assert left == []
