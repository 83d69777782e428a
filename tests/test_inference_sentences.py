"""Where text is cut into what is spoken in one go, and how long the pauses are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.inference.sentences import (
    CLAUSE_PAUSE,
    PARAGRAPH_PAUSE,
    SENTENCE_PAUSE,
    WORD_PAUSE,
    split_paragraphs,
    split_sentences,
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Hello there. How are you? Fine!", ["Hello there.", "How are you?", "Fine!"]),
        ("no capital. no matter", ["no capital.", "no matter"]),
        ("Wait... What?", ["Wait...", "What?"]),
        ("Well… yes.", ["Well… yes."]),
        ("“Really?” she said. “Yes.” He left.", ["“Really?” she said.", "“Yes.”", "He left."]),
        ("(It rained.) They stayed.", ["(It rained.)", "They stayed."]),
        ("One; two: three, four.", ["One; two: three, four."]),
        ("a.b.c is no sentence.", ["a.b.c is no sentence."]),
        ("سلام. حال شما چطور است؟ خوبم؛ ممنون!", ["سلام.", "حال شما چطور است؟", "خوبم؛ ممنون!"]),
        ("هل أنت بخير؟ نعم.", ["هل أنت بخير؟", "نعم."]),
        ("今天天气很好。我们去公园吧！好吗？", ["今天天气很好。", "我们去公园吧！", "好吗？"]),
        ("यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("Say [[həˈl.oʊ. wɜːld]] now. Good.", ["Say [[həˈl.oʊ. wɜːld]] now.", "Good."]),
        ("", []),
        ("   ", []),
    ],
)
def test_sentences_end_where_people_end_them(text, sentences):
    assert [piece.text for piece in split_sentences(text)] == sentences


def test_pauses_follow_from_what_ends():
    pieces = split_sentences("One. Two.")
    assert [piece.pause for piece in pieces] == [SENTENCE_PAUSE, PARAGRAPH_PAUSE]


def test_empty_lines_part_paragraphs_and_single_ones_do_not():
    text = "One\ntwo.\n\n \n Three.\n"
    assert [text[start:stop].strip() for start, stop in split_paragraphs(text)] == ["One\ntwo.", "Three."]


def test_a_long_sentence_is_cut_at_clauses():
    sentence = ", ".join(["and so they walked along the river"] * 12) + "."
    pieces = split_sentences(sentence, longest=150)
    assert all(len(piece.text) <= 150 for piece in pieces)
    assert all(piece.text.endswith(",") and piece.pause == CLAUSE_PAUSE for piece in pieces[:-1])


def test_a_long_clause_is_cut_at_spaces_without_a_pause():
    pieces = split_sentences("word " * 100 + "end.", longest=150)
    assert all(len(piece.text) <= 150 for piece in pieces)
    assert {piece.pause for piece in pieces[:-1]} == {WORD_PAUSE}
    assert set(" ".join(piece.text for piece in pieces).split()) == {"word", "end."}


def test_parts_of_a_long_sentence_are_about_equally_long():
    lengths = [len(piece.text) for piece in split_sentences("word " * 62, longest=300)]
    assert len(lengths) == 2
    assert max(lengths) - min(lengths) < 20


def test_writing_without_spaces_is_cut_too():
    pieces = split_sentences("字" * 700, longest=300)
    assert [len(piece.text) for piece in pieces] == pytest.approx([233, 233, 233], abs=1)


def test_phonemes_in_brackets_stay_whole_however_long():
    spelled = "[[" + "a " * 200 + "]]"
    assert spelled in [piece.text for piece in split_sentences(f"Before {spelled} after.", longest=100)]


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=400), longest=st.integers(1, 60))
def test_nothing_is_lost_whatever_the_text(text, longest):
    pieces = split_sentences(text, longest)
    assert "".join("".join(piece.text.split()) for piece in pieces) == "".join(text.split())
    assert all(piece.text == piece.text.strip() != "" for piece in pieces)
