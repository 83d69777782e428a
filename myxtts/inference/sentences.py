"""Splits long text into pieces that are spoken one by one, with pauses between them.

Text is cut at the ends of sentences, by the punctuation of any language. Normalise it first: then every full stop
that is left ends a sentence ("Dr. Smith paid 3.50" has none left). A very long sentence is cut at clauses, then at
spaces. Phonemes in `[[ … ]]` are never cut.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from dataclasses import dataclass

# Seconds of silence after a piece, by its ending; careful readers pause about this long.
PARAGRAPH_PAUSE = 0.7
SENTENCE_PAUSE = 0.4
CLAUSE_PAUSE = 0.2
WORD_PAUSE = 0.0

# Of Latin, Arabic and Persian (؟ ۔), Devanagari (।), Chinese and Japanese. The last kind needs no space after it.
_ENDS = ".!?…؟۔।"
_WIDE_ENDS = "。！？"
_CLAUSES = ",;:—–،؛、，；："
_CLOSING = "\"'”’»›)]」』）"
_PHONEMES = r"\[\[[^\[\]]*\]\]"
_CLOSINGS = f"[{re.escape(_CLOSING)}]*"
# In each pattern phonemes in brackets match first, and as a whole, so that they are never cut.
_SENTENCE = re.compile(rf"{_PHONEMES}|(?P<cut>[{re.escape(_ENDS)}]+{_CLOSINGS}(?=\s|$)|[{_WIDE_ENDS}]+{_CLOSINGS})")
_CLAUSE = re.compile(rf"{_PHONEMES}|(?P<cut>[{re.escape(_CLAUSES)}]+{_CLOSINGS}(?=\s|$)|[、，；：]+)")
_SPACE = re.compile(rf"{_PHONEMES}|(?P<cut>\s+)")
_ANYWHERE = re.compile(rf"(?P<cut>{_PHONEMES}|.)", re.DOTALL)
_NEXT = re.compile(r"\s*(\S)")
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class Piece:
    """A part of a text that is spoken without a pause.

    Attributes:
        text: not empty, without white space at its ends.
        pause: seconds of silence after it.
    """

    text: str
    pause: float


def split_paragraphs(text: str) -> list[tuple[int, int]]:
    """Where the parts between empty lines begin and end."""
    ends = [(match.start(), match.end()) for match in _PARAGRAPH.finditer(text)]
    starts = [0, *(stop for _, stop in ends)]
    stops = [*(start for start, _ in ends), len(text)]
    return [(start, stop) for start, stop in zip(starts, stops, strict=True) if text[start:stop].strip()]


def split_sentences(paragraph: str, longest: int = 300) -> list[Piece]:
    """The sentences of one paragraph, in order.

    Args:
        paragraph: normalised text without empty lines.
        longest: most characters of a piece; a longer sentence is cut at clauses, else at spaces.

    Returns:
        Pieces; the last one has `PARAGRAPH_PAUSE`. An empty list for a paragraph of white space.
    """
    pieces: list[Piece] = []
    places = [place for place in _places(paragraph, _SENTENCE) if not _goes_on(paragraph, place)]
    for sentence in _parts(paragraph, places):
        parts = _limit(sentence, longest)
        pieces += [Piece(part, _pause_inside(part)) for part in parts[:-1]]
        pieces += [Piece(part, SENTENCE_PAUSE) for part in parts[-1:]]
    if pieces:
        pieces[-1] = Piece(pieces[-1].text, PARAGRAPH_PAUSE)
    return pieces


def pause_after(text: str) -> float:
    """Seconds of silence after a text that is followed by more of its paragraph, by its last mark."""
    text = text.rstrip()
    places = _places(text, _SENTENCE)
    if places and places[-1] == len(text):
        return SENTENCE_PAUSE
    return _pause_inside(text) if text else WORD_PAUSE


def _parts(text: str, places: list[int]) -> list[str]:
    """`text` cut at `places`; stripped, without empty parts."""
    parts = [text[start:stop].strip() for start, stop in itertools.pairwise([0, *places, len(text)])]
    return [part for part in parts if part]


def _goes_on(text: str, place: int) -> bool:
    """Whether the sentence goes on after `"Really?"` or `well…`: a lower-case letter follows."""
    if text[place - 1] not in _CLOSING + "…" and not text.endswith("...", 0, place):
        return False
    following = _NEXT.match(text, place)
    return following is not None and following[1].islower()


def _limit(sentence: str, longest: int) -> list[str]:
    """`sentence` in parts of about the same length, with at most `longest` characters (phonemes in brackets may be
    longer)."""
    if len(sentence) <= longest:
        return [sentence]
    kinds = [_places(sentence, cuts) for cuts in (_CLAUSE, _SPACE, _ANYWHERE)]
    chosen = [0]
    while (rest := len(sentence) - chosen[-1]) > longest:
        aim = chosen[-1] + rest / math.ceil(rest / longest)
        for places in kinds:
            after = bisect.bisect_right(places, chosen[-1])
            within = places[after : bisect.bisect_right(places, chosen[-1] + longest)]
            if within:
                break
        else:
            within = places[after : after + 1]
        chosen.append(min(within, key=lambda place: abs(place - aim)))
    return _parts(sentence, chosen[1:])


def _places(text: str, cuts: re.Pattern[str]) -> list[int]:
    """Where matches of `cuts` end."""
    return [match.end() for match in cuts.finditer(text) if match["cut"]]


def _pause_inside(part: str) -> float:
    return CLAUSE_PAUSE if part[-1] in _CLAUSES + _CLOSING else WORD_PAUSE
