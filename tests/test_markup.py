"""Marks in a text: what they change, what is ignored and named, and every way in which SSML can be wrong."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.errors import TextError, UsageError
from myxtts.inference.sentences import PARAGRAPH_PAUSE, SENTENCE_PAUSE
from myxtts.inference.speech_plan import plan_speech
from myxtts.text import TextSettings, Tokenizer
from myxtts.text.markup import DEFAULT_PAUSE, LONGEST_PAUSE, parse_markup
from myxtts.text.ssml import DEEPEST, LONGEST_SSML

TOKENIZER = Tokenizer(TextSettings(symbols="graphemes"))


def parsed(text, language="en", **options):
    return parse_markup(text, language, **options)


def speak(inside, **attributes):
    written = "".join(f' {name.replace("_", ":")}="{value}"' for name, value in attributes.items())
    return parsed(f"<speak{written}>{inside}</speak>")


def texts(markup):
    return [" ".join(segment.text.split()) for segment in markup.segments]


def planned(markup, **options):
    return plan_speech(markup, TOKENIZER, **options).utterances


def test_a_text_without_marks_is_one_segment_of_itself():
    markup = parsed("Two < three & [so] on.")
    assert texts(markup) == ["Two < three & [so] on."]
    assert (markup.shown, markup.ignored) == (markup.source, ())


def test_a_pause_parts_segments_and_has_its_length():
    markup = parsed("One [pause] two [PAUSE:1.5] three [pause:.25][pause:1]")
    assert texts(markup) == ["One", "two", "three"]
    assert [segment.pause for segment in markup.segments] == [DEFAULT_PAUSE, 1.5, 1.25]
    assert "pause" not in markup.shown


def test_phonemes_in_brackets_are_no_pause():
    assert texts(parsed("[[pause]] [[a]]")) == ["[[pause]] [[a]]"]


@pytest.mark.parametrize("mark", ["[pause:]", "[pause:x]", "[pause:-1]", "[pause:11]", "[pause:1e9]", "[pause:nan]"])
def test_a_pause_of_no_length_that_makes_sense_is_refused(mark):
    with pytest.raises(TextError, match=r"write seconds from 0 to 10, such as \[pause:1.5\]"):
        parsed(f"One {mark} two")


def test_pauses_in_a_row_are_no_longer_than_one():
    markup = parsed("One" + "[pause:9]" * 50)
    assert markup.segments[0].pause == LONGEST_PAUSE


def test_silence_is_before_between_and_after_as_marked():
    first, second = planned(parsed("[pause:2] One. [pause:3] Two. [pause:4]"))
    assert (first.silence_before, first.silence_after) == (2, 3)
    assert (second.silence_before, second.silence_after) == (0, 4)


def test_a_pause_in_marks_alone_belongs_to_what_was_said_before():
    (first, second) = planned(parsed("One [pause:1] … [pause:2] Two"))
    assert first.silence_after == 3
    assert second.silence_after == 0


def test_a_marked_pause_is_as_long_at_any_speed_and_others_are_not():
    first, second, _ = planned(parsed("One. Two [pause:3] three"), speed=2)
    assert (first.silence_after, second.silence_after) == (SENTENCE_PAUSE / 2, 3)


@pytest.mark.parametrize(
    "text", ["[pause:2]", "<speak/>", "<speak><break/></speak>", "<speak> <desc>a</desc></speak>"]
)
def test_marks_alone_are_nothing_to_speak(text):
    with pytest.raises(TextError, match="no text to speak"):
        planned(parsed(text))


@pytest.mark.parametrize(
    "text",
    ["<speak>a</speak>", " \n<speak>a</speak>", "\ufeff<speak>a</speak>", '<?xml version="1.0"?><speak>a</speak>',
     "<!-- so --><speak>a</speak>"],
)  # fmt: skip
def test_ssml_is_recognised_by_how_it_begins(text):
    assert texts(parsed(text)) == ["a"]


def test_what_begins_otherwise_is_text_unless_it_is_called_ssml():
    assert texts(parsed("Say <speak>a</speak>")) == ["Say <speak>a</speak>"]
    with pytest.raises(TextError, match="SSML, line 1"):
        parsed("Say <speak>a</speak>", ssml=True)


def test_ssml_called_text_is_text():
    assert texts(parsed("<speak>a</speak>", ssml=False)) == ["<speak>a</speak>"]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ('<break time="500ms"/>', 0.5),
        ('<break time="1.5s"/>', 1.5),
        ('<break time="+.5s"/>', 0.5),
        ('<break strength="none"/>', 0.0),
        ('<break strength="x-strong"/>', 1.2),
        ("<break/>", 0.4),
        ("[pause:2]", 2.0),
    ],
)
def test_a_break_has_a_time_or_a_strength(written, seconds):
    assert speak(f"One {written} two").segments[0].pause == seconds


def test_given_sounds_and_other_words_are_spoken_and_what_is_written_is_shown():
    markup = speak('The <sub alias="World Wide  Web">W3C</sub> ate a <phoneme ph="təˈmɑːtəʊ">tomato</phoneme>.')
    assert texts(markup) == ["The World Wide Web ate a [[təˈmɑːtəʊ]]."]
    assert markup.shown == "The W3C ate a tomato."


@pytest.mark.parametrize(
    ("attributes", "content", "spoken"),
    [
        ('interpret-as="cardinal"', "1984", "one thousand, nine hundred and eighty-four"),
        ('interpret-as="number"', "2,000", "two thousand"),
        ('interpret-as="ordinal"', "3", "third"),
        ('interpret-as="digits"', "۲۴", "two four"),
        ('interpret-as="telephone"', "555-12", "five five five, one two"),
        ('interpret-as="characters"', "NASA1", "N-A-S-A-one"),
        ('interpret-as="spell-out"', "ab", "A-B"),
        ('interpret-as="date" format="dmy"', "3.4.2024", "2024-04-03"),
        ('interpret-as="date" format="mdy"', "3.4.2024", "2024-03-04"),
    ],
)
def test_say_as_reads_by_what_is_said_of_it(attributes, content, spoken):
    (text,) = texts(speak(f"<say-as {attributes}>{content}</say-as>"))
    assert text.replace("thousand nine", "thousand, nine") == spoken


def test_say_as_follows_the_language():
    markup = speak('<lang xml:lang="de"><say-as interpret-as="ordinal">3</say-as></lang>')
    assert texts(markup) == ["dritte"]
    markup = speak('<say-as interpret-as="date" format="ymd">1403-5-12</say-as>', xml_lang="fa")
    assert texts(markup) == ["1403/05/12"]


@pytest.mark.parametrize("content", ["abc", "", "3 and 4"])
def test_what_is_not_of_the_kind_is_read_as_usual_and_named(content):
    markup = speak(f'a<say-as interpret-as="cardinal">{content}</say-as>')
    assert texts(markup) == [f"a{content}"]
    assert markup.ignored == (f"<say-as> cardinal of '{content}'",)


@pytest.mark.parametrize(
    ("rate", "factor"),
    [("slow", 0.75), ("x-fast", 1.8), ("80%", 0.8), ("+20%", 1.2), ("-50%", 0.5), ("1.5", 1.5), ("medium", 1.0)],
)
def test_rate_is_speed(rate, factor):
    (segment,) = speak(f'<prosody rate="{rate}">a</prosody>').segments
    assert segment.style.rate == pytest.approx(factor)


@pytest.mark.parametrize(
    ("volume", "factor"),
    [("silent", 0.0), ("soft", 0.5), ("loud", 1.6), ("-6dB", 0.501), ("+6dB", 1.995), ("50", 0.5), ("+50%", 1.5),
     ("default", 1.0), ("+99dB", 10.0)],
)  # fmt: skip
def test_volume_is_gain(volume, factor):
    (segment,) = speak(f'<prosody volume="{volume}">a</prosody>').segments
    assert segment.style.gain == pytest.approx(factor, abs=0.001)


def test_inside_each_other_signed_values_add_up_and_names_do_not():
    markup = speak('<prosody rate="50%">a<prosody rate="+50%">b</prosody><prosody rate="fast">c</prosody></prosody>d')
    assert [segment.style.rate for segment in markup.segments] == [0.5, 0.75, 1.35, 1.0]


def test_a_rate_beyond_what_is_understood_is_limited_and_named():
    plan = plan_speech(speak('<prosody rate="900%">a</prosody>'), TOKENIZER)
    assert plan.utterances[0].speed == 4
    assert plan.ignored == ("a rate beyond 0.25 to 4",)


def test_languages_and_voices_hold_for_their_part():
    markup = speak('a <lang xml:lang="fr-FR">b</lang> <voice name="Anna">c</voice> d', xml_lang="en-US")
    plan = plan_speech(markup, TOKENIZER, voices={"Anna"})
    assert [utterance.language for utterance in plan.utterances] == ["en", "fr", "en", "en"]
    assert [utterance.voice for utterance in plan.utterances] == [None, None, "Anna", None]
    assert plan.ignored == ()


def test_a_voice_that_nobody_gave_is_named():
    assert plan_speech(speak('<voice name="Anna">c</voice>'), TOKENIZER).ignored == ("<voice> Anna",)


def test_an_unknown_language_is_refused():
    with pytest.raises(UsageError, match="tlh"):
        planned(speak('<lang xml:lang="tlh">nuqneH</lang>'))


def test_paragraphs_and_sentences_end_without_punctuation_and_line_breaks_mean_nothing():
    one, two, three, _ = planned(speak("<p><s>One</s><s>two\n\n2</s></p><p>three</p>four"))
    assert [part.text for part in (one, two, three)] == ["One", "two two", "three"]
    assert [part.silence_after for part in (one, two, three)] == [SENTENCE_PAUSE, PARAGRAPH_PAUSE, PARAGRAPH_PAUSE]


def test_a_sentence_is_not_torn_apart_by_a_pause_where_the_style_changes():
    first, second, third = planned(speak('I said <prosody rate="slow">no</prosody> to him, twice.'))
    assert (first.silence_after, second.silence_after, third.silence_after) == (0, 0, 0)


@pytest.mark.parametrize(
    ("inside", "ignored"),
    [
        ('<prosody pitch="high" contour="(0%,+20Hz)">a</prosody>', ("pitch of <prosody>", "contour of <prosody>")),
        ("<emphasis>a</emphasis>", ("<emphasis>",)),
        ('<amazon:effect name="whispered">a</amazon:effect>', ("<amazon:effect>",)),
        ('<phoneme alphabet="x-sampa" ph="a">a</phoneme>', ("<phoneme> in x-sampa",)),
        ('<say-as interpret-as="time">a</say-as>', ("<say-as> time",)),
        ('<sub alias="a"><b>x</b></sub>', ("<b> inside <sub>",)),
        ('<voice name="x" gender="female">a</voice>', ("gender of <voice>",)),
        ("a<speak/>", ("<speak>",)),
        ("<emphasis/><emphasis>a</emphasis>", ("<emphasis>",)),
    ],
)
def test_what_is_ignored_is_named_once_and_its_text_is_spoken(inside, ignored):
    markup = speak(inside)
    assert texts(markup) == ["a"]
    assert markup.ignored == ignored


def test_a_flood_of_unknown_tags_is_not_named_to_the_last():
    markup = speak("a" + "".join(f"<t{number}/>" for number in range(500)))
    assert len(markup.ignored) == 21
    assert markup.ignored[-1] == "and more"


@pytest.mark.parametrize("tag", ["desc", "metadata", "title", "meta", "lexicon"])
def test_what_is_not_for_the_ear_is_not_spoken(tag):
    assert texts(speak(f"a <{tag}>never <b>this</b> [pause:3]</{tag}>")) == ["a"]


def test_comments_and_instructions_are_not_spoken_and_raw_text_is():
    assert texts(speak("a<!-- never --><?never this?> <![CDATA[<b> & c]]>")) == ["a <b> & c"]


def test_every_character_knows_where_it_was_written():
    source = '\ufeff<speak>é &amp;&#252; <sub alias="x y">W&lt;3</sub>\r\n<![CDATA[z]]></speak>'
    markup = parsed(source)
    (segment,) = markup.segments
    written = [source[first:last] for first, last in zip(segment.firsts, segment.lasts, strict=True)]
    assert written[:5] == ["é", " ", "&amp;", "&#252;", " "]
    assert written[5:8] == ["W&lt;3"] * 3
    assert written[-1] == "z"
    assert markup.shown_between(source.index("W"), source.index("</sub>")) == "W<3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<speak>a", "line 1: no element found"),
        ("<speak>\n\n<p>a</speak>", "line 3: mismatched tag"),
        ("<speak>a</speak>b", "junk after document element"),
        ("<speak>a & b</speak>", "not well-formed"),
        ("<speak>a < b</speak>", "not well-formed"),
        ("<speak>&nbsp;</speak>", "undefined entity"),
        ("<speak>&#0;</speak>", "invalid character"),
        ("<speak>\x00</speak>", "not well-formed"),
        ("<speak>\ud800</speak>", "not well-formed"),
        ("<speak a='1' a='2'>x</speak>", "duplicate attribute"),
        ("<?xml version='1.0'?>", "no element found"),
        ("<SPEAK>a</SPEAK>", "the document is <SPEAK>"),
        ("<?xml version='1.0'?><html>a</html>", "the document is <html>"),
        ("<!DOCTYPE speak><speak>a</speak>", "a document type"),
        ('<!DOCTYPE speak SYSTEM "file:///etc/passwd"><speak>a</speak>', "a document type"),
        ('<!DOCTYPE speak [<!ENTITY a SYSTEM "file:///etc/passwd">]><speak>&a;</speak>', "a document type"),
        ('<!DOCTYPE speak [<!ENTITY % a "b">%a;]><speak>a</speak>', "a document type"),
        ("<speak>" + "<p>" * (DEEPEST + 1), f"more than {DEEPEST} deep"),
        (f"<speak>{'a' * LONGEST_SSML}</speak>", "at most 200,000 are accepted"),
        ('<speak><break time="11s"/></speak>', 'time="11s" of <break>: it can be 500ms or 1.5s, at most 10s'),
        ('<speak><break time="1"/></speak>', 'time="1" of <break>'),
        ('<speak><break strength="huge"/></speak>', 'strength="huge" of <break>: it can be none, x-weak'),
        ('<speak><prosody rate="quick">a</prosody></speak>', 'rate="quick" of <prosody>: it can be x-slow'),
        ('<speak><prosody rate="-100%">a</prosody></speak>', 'rate="-100%" of <prosody>'),
        ('<speak><prosody rate="+3">a</prosody></speak>', 'rate="+3" of <prosody>'),
        ('<speak><prosody volume="101">a</prosody></speak>', 'volume="101" of <prosody>'),
        ("<speak><lang>a</lang></speak>", "<lang> needs a language"),
        ("<speak><sub>a</sub></speak>", "<sub> needs what is spoken"),
        ('<speak><phoneme ph=" ">a</phoneme></speak>', "<phoneme> needs its sounds in IPA"),
        ('<speak><phoneme ph="]]a[[">a</phoneme></speak>', "<phoneme> needs its sounds in IPA"),
        ("<speak>[pause:99]</speak>", "write seconds from 0 to 10"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text, said):
    with pytest.raises(TextError, match=re.escape(said)):
        parsed(text)


def test_a_bomb_of_entities_is_refused_before_it_is_read():
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    with pytest.raises(TextError, match="a document type"):
        parsed(f"<!DOCTYPE speak [{entities}]><speak>&a11;</speak>")


def test_a_language_that_is_no_code_is_refused():
    with pytest.raises(UsageError, match="not a language code"):
        speak('<lang xml:lang="!!">a</lang>')


TAGS = ["speak", "p", "s", "break", "phoneme", "sub", "prosody", "say-as", "lang", "voice", "emphasis", "desc", "qqq"]
VALUES = st.sampled_from(
    ["", "1", "-1", "+20%", "slow", "ipa", "fr", "zz", "cardinal", "date", "dmy", "3s", "a&lt;b"]
)
NAMES = st.sampled_from(["rate", "volume", "pitch", "time", "strength", "ph", "alphabet", "alias", "interpret-as",
                         "format", "name", "xml:lang"])  # fmt: skip
TEXT = st.sampled_from(
    ["One two. ", "3.50", "[pause]", "[pause:x]", "[[a]]", "&amp;", "&bad;", "<", "\n\n", "é ", "]]>"]
)


@st.composite
def documents(draw):
    """Nearly SSML: tags that fit, or do not."""
    parts = []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["open", "close", "both", "text", "text"]))
        tag = draw(st.sampled_from(TAGS))
        attributes = draw(st.dictionaries(NAMES, VALUES, max_size=3))
        written = "".join(f' {name}="{value}"' for name, value in attributes.items())
        if kind == "text":
            parts.append(draw(TEXT))
        elif kind == "open":
            parts.append(f"<{tag}{written}>")
        elif kind == "close":
            parts.append(f"</{tag}>")
        else:
            parts.append(f"<{tag}{written}>{draw(TEXT)}</{tag}>")
    return "".join(parts)


@pytest.mark.long
@settings(max_examples=150)
@given(documents())
def test_nearly_ssml_is_spoken_without_its_tags_or_refused_in_words(inside):
    source = f"<speak>{inside}</speak>"
    try:
        markup = parsed(source)
        plan = plan_speech(markup, TOKENIZER)
    except (TextError, UsageError):
        return
    spoken = " ".join(utterance.text for utterance in plan.utterances)
    assert not re.search(r"emphasis|qqq|prosody|alias|interpret|speak", spoken)
    for segment in markup.segments:
        assert len(segment.firsts) == len(segment.lasts) == len(segment.text)
        assert (np.diff(segment.firsts) >= 0).all()
        assert segment.lasts.max(initial=0) <= len(source)
    assert (np.diff(markup.places) > 0).all()


@settings(max_examples=100)
@given(st.text(alphabet="<>/&;!?[]-='\"speakb pause:1.5 \n", max_size=60))
def test_any_string_is_text_or_refused_in_words(text):
    for ssml in (None, True):
        with contextlib.suppress(TextError, UsageError):
            parsed(text, ssml=ssml)
