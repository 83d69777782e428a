"""When each written word is spoken: which symbols are its own, and the files that say so."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import TextError, UsageError
from myxtts.inference.speech_plan import plan_speech
from myxtts.inference.word_times import WordTime, group_cues, spoken_frames, write_timestamps
from myxtts.text import LANGUAGES, TextSettings, Tokenizer, normalize
from myxtts.text.character_matching import match_parts
from myxtts.text.espeak import available
from myxtts.text.markup import parse_markup
from myxtts.text.spoken_words import SpokenWords, written_words

LETTERS = Tokenizer(TextSettings(symbols="graphemes"))
phonemes = pytest.mark.skipif(not available(), reason="needs the 'speech' extra")
FRAMES = 2  # of each token, in the alignments made here


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(TextSettings(symbols="phonemes"))


def spoken(text, language, tokenizer):
    """Each written word and its symbols, without the marks around them."""
    words = written_words(text, language)
    normalized = normalize(text, language)
    finder = SpokenWords(tokenizer)
    owners = finder.in_normalized(text, words, normalized, language)
    symbols = tokenizer.transcribe([normalized], language)[0]
    of_symbols = finder.in_symbols(normalized, owners, symbols, language)
    return {
        text[word.first : word.last]: "".join(
            symbol for symbol, owner in zip(symbols, of_symbols, strict=True) if owner == number
        ).strip(" .,;:!?—…\"()")
        for number, word in enumerate(words)
    }  # fmt: skip


def times(text, language="en", tokenizer=LETTERS, **options):
    """The words of a text whose tokens all take `FRAMES` frames of a second each."""
    words: list[WordTime] = []
    seconds = 0.0
    for utterance in plan_speech(parse_markup(text, language), tokenizer, **options).utterances:
        alignment = np.repeat(np.arange(len(utterance.tokens)), FRAMES)
        words += utterance.words(alignment, 1.0, seconds + utterance.silence_before)
        seconds += utterance.silence_before + len(alignment) + utterance.silence_after
    return words


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ('"Hello," he (Dr. Who) said.', "en", ["Hello", "he", "Dr", "Who", "said"]),
        ("It's U.S. law—or 1914–18…so", "en", ["It's", "U.S.", "law", "or", "1914–18", "so"]),
        ("$3.50 & 20% [[a b]].", "en", ["$3.50", "&", "20%", "[[a b]]", "."]),
        ("۲۰٪، «کتاب‌ها»", "fa", ["۲۰٪", "کتاب‌ها"]),
        ("我有3.5%，OK？", "zh", ["我", "有", "3.5%", "，", "OK", "？"]),
        ("きょうラーメン", "ja", ["きょ", "う", "ラー", "メ", "ン"]),
        ("", "en", []),
    ],
)
def test_words_are_found_as_they_are_written(text, language, words):
    assert [text[word.first : word.last] for word in written_words(text, language)] == words


@pytest.mark.parametrize(
    ("parts", "whole", "owners"),
    [
        (["ab", "cd"], "ab cd", "aaabb"),
        (["ab", "cd"], "abcd", "aabb"),
        (["ɔn", "ðə"], "ɔnðɪ", "aabb"),
        (["lˈɪ", "ˈa"], "lɪˈa", "aabb"),  # a stress mark belongs to what follows it
        (["Louis", "XIV"], "Louis the fourteenth", "aaaaaa" + "b" * 14),
        (["ab", "", "cd"], "ab cd", "aaacc"),
    ],
)
def test_each_character_has_the_part_that_says_it(parts, whole, owners):
    assert "".join("abc"[number] for number in match_parts(parts, whole, whole_words=" " in whole)) == owners


def test_a_long_text_is_matched_word_by_word_from_those_that_occur_once():
    numbers = [f"w{number}x" for number in range(2000)]
    whole = " ".join(f"{word}'s" if place % 7 else word for place, word in enumerate(numbers))
    owners = match_parts(numbers, whole)
    for place, (start, stop) in enumerate((m.start(), m.end()) for m in re.finditer(r"\S+", whole)):
        assert set(owners[start:stop]) == {place}


def test_a_text_without_any_word_in_common_is_spread_evenly():
    owners = match_parts(["a" * 50] * 100, "bc" * 3000, spaced=False)
    assert (np.diff(owners) >= 0).all()
    assert set(owners) == set(range(100))


@phonemes
@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Pay $3.50 on the spot, Dr. Smith.",
         {"$3.50": "θɹˈiː dˈɑːlɚz ænd fˈɪfti sˈɛnts", "on": "ɔn", "the": "ðə", "spot": "spˈɑːt", "Dr": "dˈɑːktɚ"}),
        ("en", "Louis XIV paid $3.5 million for 5 km.",
         {"XIV": "ðə fˈɔːɹtiːnθ", "$3.5": "θɹˈiː pˈɔɪnt fˈaɪv", "million": "mˈɪliən dˈɑːlɚz", "5": "fˈaɪv"}),
        ("en", "May 12, 2024: it was a bit [[əˈvən]] odd.",
         {"12": "twˈɛlfθ", "2024": "twˈɛnti twˈɛntifˈɔːɹ", "a": "ɐ", "[[əˈvən]]": "əˈvən", "odd": "ˈɑːd"}),
        ("fa", "در ۱۴۰۳/۰۵/۱۲ کتاب ها را می برد.",
         {"۱۴۰۳/۰۵/۱۲": "davɑzdahˈome mordˈɑde hezˈɑr o tʃahɑrsˈad o sˈe", "کتاب": "ketɑb", "ها": "hˈɑ"}),
        ("de", "Es kostete 3,50 € und 20 % mehr.",
         {"3,50": "dɾˈaɪ kˈɔmɑː fˈʏnf nˈʊl", "€": "ˈɔøroː", "mehr": "mˈeːɾ"}),
        ("fr", "Il y a 21 amis.", {"a": "a", "21": "vˈɛ̃t e œ̃n", "amis": "amˈi"}),
        ("zh", "我有3.5%的钱。", {"我": "wˈo˨˩˦", "的": "tˈə˩", "钱": "tɕʰˈiɛ˧˥n"}),
        ("ja", "きょうは", {"きょ": "k\u02b2o\u031e", "う": "ˈ\u026fᵝ", "は": "ha\u0308"}),
    ],
)  # fmt: skip
def test_symbols_map_back_to_what_was_written(tokenizer, language, text, expected):
    found = spoken(text, language, tokenizer)
    assert {word: found[word] for word in expected} == expected


@phonemes
def test_words_that_espeak_joins_are_told_apart(tokenizer):
    text = "It was a bit of an odd one, and on the hill he would have been one of the best of them."
    symbols = tokenizer.transcribe([text], "en")[0]
    assert len(symbols.split()) < len(text.split())
    found = spoken(text, "en", tokenizer)
    assert all(found.values())
    assert (found["an"], found["on"], found["would"]) == ("ən", "ɔn", "wʊd")


@phonemes
def test_every_word_of_real_sentences_has_its_symbols(tokenizer, ljspeech_transcripts):
    missing, words = 0, 0
    for text in ljspeech_transcripts[:1300:13]:
        found = spoken(text, "en", tokenizer)
        words += len(found)
        missing += sum(not symbols and any(map(str.isalnum, word)) for word, symbols in found.items())
    assert words > 1200
    assert missing == 0


@phonemes
def test_a_word_of_the_lexicon_has_its_symbols(tmp_path):
    (tmp_path / "names.tsv").write_text("Linux\tlˈiːnʊks\n", encoding="utf-8")
    with_lexicon = Tokenizer(TextSettings(symbols="phonemes", lexicons={"en": tmp_path / "names.tsv"}))
    assert spoken("I use Linux on the road.", "en", with_lexicon)["Linux"] == "lˈiːnʊks"


def test_places_of_ids_are_those_of_their_symbols():
    for blanks in (True, False):
        tokenizer = Tokenizer(TextSettings(symbols="graphemes", add_blank=blanks))
        ids, places = tokenizer.encode_symbols("aế🙂.")  # ế has three ids, 🙂 is unknown
        np.testing.assert_array_equal(ids, tokenizer.encode("aế🙂.", "en", normalized=True))
        said = [tokenizer.decode([number])[0] for number in ids[places >= 0]]
        assert said == ["a", "e", "\u0302", "\u0301", "<unk>", "."]
        assert places[places >= 0].tolist() == [0, 1, 1, 1, 2, 3]


def frames_of(durations):
    return np.repeat(np.arange(len(durations)), durations)


def test_a_word_is_spoken_while_its_tokens_are_and_the_blank_after_it_begins():
    owners = np.array([-1, -1, 0, -1, 0, -1, -1, -1, 1, -1])
    assert spoken_frames(owners, frames_of([9, 3, 4, 1, 5, 1, 1, 1, 6, 2])) == {0: (9, 23), 1: (23, 32)}


def test_a_word_after_a_pause_begins_shortly_before_its_first_sound():
    owners = np.array([-1, 0, -1, -1, -1, 1, -1])
    assert spoken_frames(owners, frames_of([1, 4, 5, 20, 5, 6, 1])) == {0: (0, 6), 1: (32, 42)}


def test_words_without_a_space_between_them_touch():
    owners = np.array([-1, 0, -1, 1, -1])
    assert spoken_frames(owners, frames_of([5, 4, 2, 6, 3])) == {0: (2, 10), 1: (10, 18)}


def test_words_have_their_text_their_place_and_rising_times():
    text = "Hello, Dr. Smith: pay $3.50!\n\nNow?"
    words = times(text)
    assert [word.text for word in words] == ["Hello", "Dr", "Smith", "pay", "$3.50", "Now"]
    assert [text[word.first : word.last] for word in words] == [word.text for word in words]
    assert all(word.start < word.end for word in words)
    assert all(before.end <= after.start for before, after in itertools.pairwise(words))


def test_times_are_those_of_the_whole_audio():
    words = times("[pause:5] A b. [pause:9] C.")
    assert words[0].start >= 5
    assert words[2].start - words[1].end >= 9


def test_what_ssml_replaces_is_one_word_as_it_is_written():
    text = '<speak>The <sub alias="World Wide Web">W3C</sub>, AT&amp;T <break/>and <b>so</b> on</speak>'
    words = times(text)
    assert [word.text for word in words] == ["The", "W3C", "AT&T", "and", "so", "on"]
    assert text[words[2].first : words[2].last] == "AT&amp;T"


def test_a_word_without_a_sound_of_its_own_takes_no_time():
    words = times("به خانه ی ما", "fa")
    assert [word.text for word in words] == ["به", "خانه", "ی", "ما"]
    assert words[2].start == words[2].end == words[1].end


def test_marks_alone_are_no_words():
    assert [word.text for word in times("One — *** … two (!) &")] == ["One", "two", "&"]


PARTS = ["a", "Hello,", "$3.50", "5", "km", "—", "…", "“so”", "x.", "1914–18", "\n\n", "[pause]", "[[a]]", "😀", "می",
         "روم", "北京", "3%", "U.S.", "I", "XIV"]  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=12),
    st.sampled_from([language for language in LANGUAGES if language != "zh"]),
)  # fmt: skip
def test_whatever_the_text_words_are_in_order_and_inside(parts, language):
    text = " ".join(parts)
    try:
        words = times(text, language)
    except TextError:
        return  # nothing in it can be spoken
    places = [(word.first, word.last) for word in words]
    assert places == sorted(places)
    assert all(0 <= first < last <= len(text) for first, last in places)
    assert all(word.start <= word.end for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


def at(text, *pauses):
    """The words of a text, each half a second long; a pause before each."""
    words, now = [], 0.0
    for match, pause in zip(re.finditer(r"[\w.'&<>]*\w", text), [*pauses, *[0.05] * 200], strict=False):
        now += pause
        words.append(WordTime(match.group(), now, now + 0.5, match.start(), match.end()))
        now += 0.5
    return words


def cues(text, *pauses):
    return [cue.text for cue in group_cues(at(text, *pauses), lambda first, last: text[first:last])]


def test_a_cue_ends_with_a_sentence_or_a_silence():
    text = "“Dr. Who?” Yes. No"
    assert cues(text, 0, 0.05, 0.4, 0.4) == ["“Dr. Who?”", "Yes.", "No"]
    assert cues("One two three", 0, 0.7, 0.1) == ["One", "two three"]


def test_a_long_sentence_is_cut_after_a_clause_to_what_can_be_read():
    text = "one of them was there, " * 12
    found = cues(text.strip())
    assert all(len(cue) <= 84 and cue.endswith(",") for cue in found)
    assert " ".join(found) == text.strip()


def test_a_short_cue_is_shown_for_a_second_but_not_into_the_next():
    text = "Yes. No."
    words = [WordTime("Yes", 0.0, 0.2, 0, 3), WordTime("No", 0.5, 0.6, 5, 7)]
    first, second = group_cues(words, lambda first, last: text[first:last])
    assert (first.end, second.end) == (0.5, 1.5)


def test_json_has_words_with_their_times_and_places(tmp_path):
    write_timestamps(tmp_path / "w.json", at("سلام، دنیا"), 2.0, lambda *_: "")
    content = json.loads((tmp_path / "w.json").read_text(encoding="utf-8"))
    assert content["seconds"] == 2.0
    assert content["words"][1] == {"text": "دنیا", "start": 0.6, "end": 1.1, "first": 6, "last": 10}


def test_subrip_and_webvtt_have_numbered_and_escaped_cues(tmp_path):
    text = "Tom & <Co>. Yes."
    words = at(text, 3599.2, 0.1, 0.5)
    for suffix in (".srt", ".vtt"):
        write_timestamps(tmp_path / f"w{suffix}", words, 4000.0, lambda first, last: text[first:last])
    srt = (tmp_path / "w.srt").read_text(encoding="utf-8")
    assert srt.startswith("1\n00:59:59,200 --> 01:00:00,")
    assert "Tom & <Co>.\n\n2\n" in srt
    vtt = (tmp_path / "w.vtt").read_text(encoding="utf-8")
    assert vtt.startswith("WEBVTT\n\n00:59:59.200 --> 01:00:00.")
    assert "Tom &amp; &lt;Co&gt;." in vtt


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("w.txt", "name it .json, .srt, .vtt"),
        ("no/such/w.srt", "does not exist"),
        ("folder.srt", "cannot be written"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_so(tmp_path, name, said):
    (tmp_path / "folder.srt").mkdir()
    with pytest.raises(UsageError, match=said):
        write_timestamps(tmp_path / name, [], 1.0, lambda *_: "")
