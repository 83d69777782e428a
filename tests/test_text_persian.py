"""Persian: what is written, and what is read aloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from myxtts.text import TextSettings, Tokenizer, normalize
from myxtts.text.espeak import available

SENTENCES = (Path(__file__).parent / "data" / "persian_sentences.txt").read_text(encoding="utf-8").splitlines()

LETTERS = [
    ("سلام دنيا، اين يك كتاب است.", "سلام دنیا، این یک کتاب است."),
    ("مدرسة", "مدرسه"),
    ("دائرةالمعارف", "دائرت‌المعارف"),
    ("خانۀ من", "خانهٔ من"),
    ("خانه ی من", "خانهٔ من"),
    ("خانه‌ی من", "خانهٔ من"),
    ("أحمد", "احمد"),
    ("إيران", "ایران"),
    ("تأثير", "تأثیر"),
    ("مسئول و مؤمن", "مسئول و مؤمن"),
    ("موسیٰ و رحمٰن", "موسی و رحمان"),
    ("حتمًا", "حتماً"),
    ("ســـلام", "سلام"),
    ("مَرد و مِهر", "مَرد و مِهر"),
    ("بِسْمِ", "بِسمِ"),
    ("ﺳﻼم", "سلام"),
    ("هٔمه", "هٔمه"),
]
ZWNJ = [
    ("می روم", "می‌روم"),
    ("نمی خواهم", "نمی‌خواهم"),
    ("می روم و می آیم", "می‌روم و می‌آیم"),
    ("کتاب ها", "کتاب‌ها"),
    ("کتاب های من", "کتاب‌های من"),
    ("بزرگ تر و بزرگ ترین", "بزرگ‌تر و بزرگ‌ترین"),
    ("رفته اند", "رفته‌اند"),
    ("خانه ای", "خانه‌ای"),
    ("می‌‌روم", "می‌روم"),
    ("کار‌ها", "کارها"),
    ("کتاب‌ ها", "کتاب‌ها"),
    ("سلام‌.", "سلام."),
    ("ماه می ۲۰۲۴", "ماه می دو هزار و بیست و چهار"),
    ("به ام", "به ام"),
]
PUNCTUATION = [
    ("آیا می‌آیی?", "آیا می‌آیی؟"),
    ("بله, البته; شاید", "بله، البته؛ شاید"),
    ("“سلام” گفت", "«سلام» گفت"),
    ("«سلام » گفت", "«سلام» گفت"),
    ("سلام!!!", "سلام!"),
    ("صبر کن...", "صبر کن…"),
    ("نان و پنیر و ...", "نان و پنیر و غیره"),
    ("سلام ، خوبی ؟", "سلام، خوبی؟"),
]
NUMBERS = [
    ("۱۲۳", "صد و بیست و سه"),
    ("123", "صد و بیست و سه"),
    ("١٢٣", "صد و بیست و سه"),
    ("۱۲٬۵۰۰ تومان", "دوازده هزار و پانصد تومان"),
    ("12,500 تومان", "دوازده هزار و پانصد تومان"),
    ("۱۰۰۰", "هزار"),
    ("۲۰۰۰", "دو هزار"),
    ("1000000", "یک میلیون"),
    ("۱۲۳۴۵۶۷۸۹", "صد و بیست و سه میلیون و چهارصد و پنجاه و شش هزار و هفتصد و هشتاد و نه"),
    ("۰۰۷", "صفر صفر هفت"),
    ("1234567890123456789", "یک دو سه چهار پنج شش هفت هشت نه صفر یک دو سه چهار پنج شش هفت هشت نه"),
    ("۳٫۱۴", "سه و چهارده صدم"),
    ("3.14", "سه و چهارده صدم"),
    ("۲٫۵ میلیون", "دو و نیم میلیون"),
    ("۰٫۵", "نیم"),
    ("۲.۰۵", "دو و پنج صدم"),
    ("۱.۲۳۴۵۶", "یک ممیز دو سه چهار پنج شش"),
    ("۲/۵ درصد", "دو و نیم درصد"),
    ("۱/۲", "یک دوم"),
    ("۳/۴", "سه چهارم"),
    ("۲ ۱/۲", "دو و نیم"),
    ("-۵", "منفی پنج"),
    ("+۱۰۰۰", "مثبت هزار"),
    ("۲۰٪ ۳۰", "بیست درصد سی"),
    ("+۵", "مثبت پنج"),
    ("۱۰-۱۵", "ده تا پانزده"),
    ("۳-۲", "سه بر دو"),
    ("۱.۲.۳", "یک نقطه دو نقطه سه"),
    ("۵ × ۳ = ۱۵", "پنج در سه مساوی پانزده"),
    ("۲م", "دوم"),
    ("۳ام", "سوم"),
    ("۳۰ام", "سی‌ام"),
    ("۲۰مین", "بیستمین"),
    ("قرن ۲۱", "قرن بیست و یکم"),
    ("2نفر", "دو نفر"),
]
DATES = [
    ("۱۴۰۳/۰۵/۱۲", "دوازدهم مرداد هزار و چهارصد و سه"),
    ("1403/05/12", "دوازدهم مرداد هزار و چهارصد و سه"),
    ("١٤٠٣-٠٥-١٢", "دوازدهم مرداد هزار و چهارصد و سه"),
    ("12/05/1403", "دوازدهم مرداد هزار و چهارصد و سه"),
    ("۱/۱/۱۴۰۲", "اول فروردین هزار و چهارصد و دو"),
    ("۹۹/۱۲/۳۰", "سی‌ام اسفند هزار و سیصد و نود و نه"),
    ("۱۲ مرداد ۱۴۰۳", "دوازدهم مرداد هزار و چهارصد و سه"),
    ("۲۲ بهمن ۱۳۵۷", "بیست و دوم بهمن هزار و سیصد و پنجاه و هفت"),
    ("از ۱ تا ۱۰ مرداد", "از اول تا دهم مرداد"),
    ("2024/05/12", "دوازدهم مه دو هزار و بیست و چهار"),
    ("۵ مه ۲۰۲۴", "پنجم مه دو هزار و بیست و چهار"),
    ("۱۳۵۷–۱۳۹۹", "هزار و سیصد و پنجاه و هفت تا هزار و سیصد و نود و نه"),
    ("سال ۲۰۲۴ م", "سال دو هزار و بیست و چهار میلادی"),
    ("سال ۱۳۰۰ ه.ش.", "سال هزار و سیصد هجری شمسی"),
    ("۵۳۹ ق.م", "پانصد و سی و نه پیش از میلاد"),
]
TIMES = [
    ("ساعت ۱۴:۳۰", "ساعت چهارده و سی دقیقه"),
    ("ساعت ۸:۰۰ صبح", "ساعت هشت صبح"),
    ("ساعت ۸:۱۵ صبح", "ساعت هشت و پانزده دقیقهٔ صبح"),
    ("۱۰:۱۵:۲۰", "ده و پانزده دقیقه و بیست ثانیه"),
]
MONEY_AND_MEASURES = [
    ("۵۰۰۰ ریال", "پنج هزار ریال"),
    ("۵۰۰﷼", "پانصد ریال"),
    ("$۵۰", "پنجاه دلار"),
    ("50$", "پنجاه دلار"),
    ("$۲٫۵ میلیون", "دو و نیم میلیون دلار"),
    ("۱۰۰€", "صد یورو"),
    ("۲۰٪", "بیست درصد"),
    ("%20", "بیست درصد"),
    ("٪۲۰", "بیست درصد"),
    ("۵ km", "پنج کیلومتر"),
    ("۱۲۰ km/h", "صد و بیست کیلومتر بر ساعت"),
    ("۱۲۰ کیلومتر/ساعت", "صد و بیست کیلومتر بر ساعت"),
    ("20°C", "بیست درجهٔ سانتی‌گراد"),
    ("۵۰ m²", "پنجاه متر مربع"),
    ("16GB", "شانزده گیگابایت"),
]
PHONES = [
    ("۰۹۱۲۱۲۳۴۵۶۷", "صفر نهصد و دوازده، صد و بیست و سه، چهل و پنج، شصت و هفت"),
    ("۰۹۱۲-۱۲۳-۴۵۶۷", "صفر نهصد و دوازده، صد و بیست و سه، چهل و پنج، شصت و هفت"),
    ("+98 912 123 4567", "مثبت نود و هشت، نهصد و دوازده، صد و بیست و سه، چهل و پنج، شصت و هفت"),
    ("۰۲۱-۸۸۷۷۶۶۵۵", "صفر بیست و یک، هشتاد و هشت، هفتاد و هفت، شصت و شش، پنجاه و پنج"),
    ("۰۹۳۵ ۰۰۱ ۰۲ ۰۳", "صفر نهصد و سی و پنج، صفر صفر یک، صفر دو، صفر سه"),
    ("۶۰۳۷-۹۹۱۱-۲۲۳۳-۴۴۵۵", "شصت، سی و هفت، نود و نه، یازده، بیست و دو، سی و سه، چهل و چهار، پنجاه و پنج"),
]
LATIN_AND_ABBREVIATIONS = [
    ("از GPT-4 استفاده کردم", "از GPT چهار استفاده کردم"),
    ("OpenAI در ۲۰۲۳", "OpenAI در دو هزار و بیست و سه"),
    ("info@example.com", "info ات example نقطه com"),
    ("www.example.ir", "دبلیو دبلیو دبلیو نقطه example نقطه ir"),
    ("ص. ۲۳", "صفحهٔ بیست و سه"),
    ("پیامبر (ص)", "پیامبر صلی‌الله علیه و آله"),
    ("و/یا", "و یا"),
    ("[[ketˈɒːb]] خواندم", "[[ketˈɒːb]] خواندم"),
]
CASES = [
    *LETTERS,
    *ZWNJ,
    *PUNCTUATION,
    *NUMBERS,
    *DATES,
    *TIMES,
    *MONEY_AND_MEASURES,
    *PHONES,
    *LATIN_AND_ABBREVIATIONS,
]


@pytest.mark.parametrize(("written", "said"), CASES)
def test_persian_is_written_as_it_is_read(written: str, said: str) -> None:
    assert normalize(written, "fa") == said


@pytest.mark.parametrize("said", [said for _, said in CASES])
def test_what_is_read_stays_as_it_is(said: str) -> None:
    assert normalize(said, "fa") == said


def test_the_sentence_set_is_large_and_varied() -> None:
    assert len(set(SENTENCES)) >= 200
    assert sum(any(c.isdigit() for c in sentence) for sentence in SENTENCES) >= 60
    assert sum("\u200c" in sentence for sentence in SENTENCES) >= 60
    assert sum(any(c.isascii() and c.isalpha() for c in sentence) for sentence in SENTENCES) >= 12


def test_the_sentences_leave_no_digit_and_no_arabic_letter_form() -> None:
    for sentence in SENTENCES:
        said = normalize(sentence, "fa")
        assert not any(c.isdigit() for c in said), said
        assert not set(said) & set("يكةۀإ"), said


@pytest.mark.parametrize("symbols", ["graphemes", "phonemes"])
def test_the_sentences_have_no_unknown_symbol_and_come_back_from_their_ids(symbols: str) -> None:
    if symbols == "phonemes" and not available():
        pytest.skip("espeak-ng is not installed")
    tokenizer = Tokenizer(TextSettings(symbols=symbols, add_blank=False))  # type: ignore[arg-type]
    encoded = tokenizer.encode_batch(SENTENCES, ["fa"] * len(SENTENCES))
    assert not tokenizer.unknown
    transcribed = tokenizer.transcribe([normalize(sentence, "fa") for sentence in SENTENCES], "fa")
    for ids, expected in zip(encoded, transcribed, strict=True):
        assert "".join(tokenizer.decode(ids)[1:-1]) == expected


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
def test_and_inside_a_number_is_said_o() -> None:
    tokenizer = Tokenizer(TextSettings(symbols="phonemes"))
    number, phrase = tokenizer.transcribe(["بیست و سه", "نان و پنیر"], "fa")
    assert " o " in number
    assert " o " not in phrase
