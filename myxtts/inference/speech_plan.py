"""What is spoken, piece by piece, before anything is computed: symbols, silences, and where each word was written.

Needs no TensorFlow: every runtime speaks the same plan.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from myxtts.errors import TextError, UsageError
from myxtts.inference.sentences import (
    PARAGRAPH_PAUSE,
    SENTENCE_PAUSE,
    Piece,
    pause_after,
    split_paragraphs,
    split_sentences,
)
from myxtts.inference.word_times import WordTime, spoken_frames
from myxtts.text.languages import known_language
from myxtts.text.markup import LONGEST_PAUSE, Markup, Segment
from myxtts.text.normalization import normalize
from myxtts.text.spoken_words import SpokenWords, written_words
from myxtts.text.symbols import GROUPS
from myxtts.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

SLOWEST, FASTEST = 0.25, 4.0
_PUNCTUATION = frozenset(GROUPS["punctuation"])


@dataclass(eq=False)
class PlannedUtterance:
    """A sentence to be spoken, or a part of one.

    Attributes:
        text: normalised.
        symbols: of the text.
        tokens: int32 [T], their ids.
        symbol_of_token: int32 [T], the place in `symbols` of each; -1 for begin, end and blanks.
        paragraph: that it is part of.
        place: where its text begins in the paragraph's.
        speed: 2 is twice as fast.
        silence_before: seconds.
        pause: seconds of silence after it by its punctuation.
        written_pause: seconds of silence after it by a mark, instead of that; None: there is no such mark.
    """

    text: str
    symbols: str
    tokens: np.ndarray
    symbol_of_token: np.ndarray
    paragraph: Paragraph
    place: int
    speed: float
    pause: float
    silence_before: float = 0.0
    written_pause: float | None = None

    @property
    def language(self) -> str:
        """Its code."""
        return self.paragraph.language

    @property
    def voice(self) -> str | None:
        """The name of its voice; None: the voice of the whole text."""
        return self.paragraph.segment.style.voice

    @property
    def gain(self) -> float:
        """Factor of the samples."""
        return self.paragraph.segment.style.gain

    @property
    def silence_after(self) -> float:
        """Seconds."""
        return self.pause if self.written_pause is None else self.written_pause

    def words(self, alignment: np.ndarray, frame_seconds: float, start: float) -> tuple[WordTime, ...]:
        """When each written word is spoken.

        Args:
            alignment: int32 [F], the token of each frame.
            frame_seconds: from one frame to the next.
            start: seconds of the whole audio before the first frame.
        """
        paragraph = self.paragraph
        stop = self.place + len(self.text)
        of_symbols = paragraph.spoken_words.in_symbols(
            self.text, paragraph.owners[self.place : stop], self.symbols, self.language
        )
        of_symbols[[symbol in _PUNCTUATION for symbol in self.symbols]] = -1
        spans = spoken_frames(np.append(of_symbols, -1)[self.symbol_of_token], alignment)

        times = []
        end = start
        for number in paragraph.numbers(self.place, stop):
            word = paragraph.words[number]
            begin = end
            if number in spans:
                begin, end = (start + frame * frame_seconds for frame in spans[number])
            elif not paragraph.spoken_words.has_sound(word.written, self.language):
                continue
            # Otherwise its sound is part of the word before it, such as the vowel of an ezafe written apart.
            if word.text:
                times.append(WordTime(word.text, begin, end, word.first, word.last))
        return tuple(times)


@dataclass(frozen=True)
class SpeechPlan:
    """All that is spoken.

    Attributes:
        utterances: at least one.
        ignored: what the markup has and the speech does not.
    """

    utterances: tuple[PlannedUtterance, ...]
    ignored: tuple[str, ...]


def plan_speech(markup: Markup, tokenizer: Tokenizer, speed: float = 1.0, voices: Container[str] = ()) -> SpeechPlan:
    """
    Args:
        markup: the text.
        tokenizer: of the model that will speak.
        speed: 2 is twice as fast; what the markup says is relative to it.
        voices: the names of voices that the markup may use.

    Raises:
        TextError: there is no text, or nothing in it can be spoken.
        UsageError: an unknown language, or a speed out of range.
    """
    if not SLOWEST <= speed <= FASTEST:
        raise UsageError(f"speed should be between {SLOWEST:g} and {FASTEST:g} (got {speed:g})")
    if not any(segment.text.strip() for segment in markup.segments):
        raise TextError("there is no text to speak")
    ignored = dict.fromkeys(markup.ignored)
    utterances: list[PlannedUtterance] = []
    lead = 0.0
    for segment, pieces in _transcribed(markup, tokenizer):
        style = segment.style
        if style.voice is not None and style.voice not in voices:
            ignored[f"<voice> {style.voice[:40]}"] = None
        wanted = speed * style.rate
        segment_speed = min(max(wanted, SLOWEST), FASTEST)
        if segment_speed != wanted:
            ignored[f"a rate beyond {SLOWEST:g} to {FASTEST:g}"] = None
        for spoken in pieces:
            pause = spoken.piece.pause / segment_speed
            tokens, symbol_of_token = tokenizer.encode_symbols(spoken.symbols)
            if _is_speakable(tokenizer.decode(tokens)):
                utterances.append(
                    PlannedUtterance(
                        spoken.piece.text,
                        spoken.symbols,
                        tokens,
                        symbol_of_token,
                        spoken.paragraph,
                        spoken.place,
                        segment_speed,
                        pause,
                    )
                )
            elif utterances:  # marks alone have their pause, after what was said before them
                utterances[-1].pause = max(utterances[-1].pause, pause)
        if utterances and segment.ends:
            ending = PARAGRAPH_PAUSE if segment.ends == "paragraph" else SENTENCE_PAUSE
            utterances[-1].pause = ending / segment_speed
        if segment.pause is not None and utterances:
            utterances[-1].written_pause = min((utterances[-1].written_pause or 0.0) + segment.pause, LONGEST_PAUSE)
        elif segment.pause is not None:
            lead = min(lead + segment.pause, LONGEST_PAUSE)
    if tokenizer.unknown:
        unknown = " ".join(sorted(tokenizer.unknown))
        logger.warning("symbols the model does not know, spoken as best it can: %s", unknown)
        tokenizer.unknown.clear()
    if not utterances:
        text, language = markup.shown.strip()[:40], markup.segments[0].style.language
        raise TextError(f"nothing to speak in '{text}': no letters or numbers of '{language}'")
    utterances[0].silence_before = lead
    utterances[-1].pause = 0.0
    return SpeechPlan(tuple(utterances), tuple(ignored))


def _is_speakable(symbols: Sequence[str]) -> bool:
    """Whether any symbol is a letter, digit or phoneme that the table has: punctuation alone is not spoken."""
    return any(len(symbol) == 1 and symbol.isalnum() for symbol in symbols)


@dataclass(frozen=True)
class PlacedWord:
    """A written word of a paragraph.

    Attributes:
        text: as a reader sees it, without the punctuation around it.
        first: place of its first character in the source.
        last: place after its last one.
        written: what is normalised and spoken for it.
    """

    text: str
    first: int
    last: int
    written: str


class Paragraph:
    """Text of one segment between two empty lines.

    Args:
        markup: that it is part of.
        segment: likewise.
        start: where it begins in the segment's text.
        stop: where it ends.
        language: its code, one that the model knows.
        spoken_words: finds words again.

    Attributes:
        normalized: the text as it is read aloud.
    """

    def __init__(
        self, markup: Markup, segment: Segment, start: int, stop: int, language: str, spoken_words: SpokenWords
    ) -> None:
        self.segment = segment
        self.language = language
        self.spoken_words = spoken_words
        self._markup = markup
        self._start, self._stop = start, stop
        self._written = segment.text[start:stop]
        self.normalized = normalize(" ".join(self._written.split()), language)

    @property
    def owners(self) -> np.ndarray:
        """The word of each character of the normalised text, int32 [len(normalized)]: a place in `words`."""
        return self._words_and_owners[1]

    @property
    def words(self) -> list[PlacedWord]:
        """The written words. What `<sub>` and its like replace is one word, however much is said for it."""
        return self._words_and_owners[0]

    def numbers(self, start: int, stop: int) -> range:
        """The words from one place of the normalised text to another, with those that left no trace in it."""
        owners = self.owners
        last = len(self.words) if stop >= len(owners) else int(owners[stop:].min(initial=len(self.words)))
        first = int(owners[start]) if start else 0
        return range(max(first, 0), max(last, int(owners[stop - 1]) + 1))

    @cached_property
    def _words_and_owners(self) -> tuple[list[PlacedWord], np.ndarray]:
        # Takes milliseconds, which nobody should wait for who does not ask for words.
        found = written_words(self._written, self.language)
        owners = self.spoken_words.in_normalized(self._written, found, self.normalized, self.language)
        firsts = self.segment.firsts[self._start : self._stop]
        lasts = self.segment.lasts[self._start : self._stop]
        words: list[PlacedWord] = []
        numbers = []
        for word in found:
            first, last = int(firsts[word.first]), int(lasts[word.last - 1])
            written = self._written[word.start : word.stop]
            if words and first < words[-1].last:
                before = words.pop()
                first, last, written = before.first, max(before.last, last), f"{before.written} {written}"
            numbers.append(len(words))
            text = " ".join(self._markup.shown_between(first, last).split())
            words.append(PlacedWord(text, first, last, written))
        return words, np.asarray([*numbers, -1], np.int32)[owners]


@dataclass(frozen=True)
class _SpokenPiece:
    """A piece of a paragraph, where it begins in it, and its symbols."""

    paragraph: Paragraph
    place: int
    piece: Piece
    symbols: str


def _transcribed(markup: Markup, tokenizer: Tokenizer) -> list[tuple[Segment, list[_SpokenPiece]]]:
    """The pieces of each segment, with their symbols."""
    spoken_words = SpokenWords(tokenizer)
    placed: list[list[tuple[Paragraph, int, Piece]]] = []
    for segment in markup.segments:
        language = known_language(segment.style.language, tokenizer.settings.extra_languages)
        paragraphs = [
            Paragraph(markup, segment, start, stop, language, spoken_words)
            for start, stop in split_paragraphs(segment.text)
        ]
        pieces = [found for paragraph in paragraphs for found in _pieces(paragraph)]
        if pieces:  # the paragraph may go on in the next segment
            paragraph, place, piece = pieces[-1]
            pieces[-1] = paragraph, place, Piece(piece.text, pause_after(piece.text))
        placed.append(pieces)
    symbols = _symbols([(piece.text, paragraph.language) for row in placed for paragraph, _, piece in row], tokenizer)
    following = iter(symbols)
    return [
        (segment, [_SpokenPiece(*found, next(following)) for found in row])
        for segment, row in zip(markup.segments, placed, strict=True)
    ]


def _pieces(paragraph: Paragraph) -> Iterator[tuple[Paragraph, int, Piece]]:
    place = 0
    for piece in split_sentences(paragraph.normalized):
        place = paragraph.normalized.index(piece.text, place)
        yield paragraph, place, piece
        place += len(piece.text)


def _symbols(texts: Sequence[tuple[str, str]], tokenizer: Tokenizer) -> list[str]:
    """The symbols of texts in their languages; all of one language at once, which is much faster."""
    result = [""] * len(texts)
    for language in dict.fromkeys(language for _, language in texts):
        chosen = [place for place, (_, code) in enumerate(texts) if code == language]
        for place, symbols in zip(
            chosen, tokenizer.transcribe([texts[place][0] for place in chosen], language), strict=True
        ):
            result[place] = symbols
    return result
