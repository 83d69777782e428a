"""From an alignment to clips: where each sentence lies, where it is safe to cut, and how certain that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from myxtts.recordings.forced_alignment import Alignment, Reference
from myxtts.recordings.pauses import Pause, find_pause, runs
from myxtts.recordings.reading_features import FRAME_SECONDS

# Mean cost of a sentence that is read as it is written, with the adapted reference; what is unrelated costs 1, but
# the cheapest way through it about 0.65.
_GOOD_COST = 0.45
_USUAL_RATES = (0.6, 1.7)  # frames of the reading for one of the reference
_OTHER_SPEECH_SECONDS = 0.7  # between two sentences: from here on it is not part of a pause
_BRIDGED_SECONDS = 0.5
_LONGEST_SILENCE_SECONDS = 0.3  # at the ends of a clip
_EDGE_SECONDS = 0.5  # at the ends of the reading a clip may begin or end without a pause


@dataclass(frozen=True)
class PlacedSentence:
    """A sentence that was found in the reading; times in seconds."""

    number: int
    begin: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Cut:
    """A clip: sentences that follow each other, and where it begins and ends in the reading, in seconds.

    Attributes:
        sentences: their numbers; more than one where nobody pauses between them.
        begin, end: in the middle of a pause, or 0.3 s away from the speech if the pause is long.
        confidence: of its least certain sentence, 0 to 1.
    """

    sentences: tuple[int, ...]
    begin: float
    end: float
    confidence: float


def place_sentences(alignment: Alignment, reference: Reference) -> list[PlacedSentence]:
    """The sentences that the alignment did not leave out."""
    placed = []
    bounds = zip(reference.pauses[:-1].tolist(), reference.pauses[1:].tolist(), strict=True)
    for number, (before, after) in enumerate(bounds):
        first, last = np.searchsorted(alignment.path, (before + 1, after)).tolist()
        if last <= first:
            continue
        cost = float(alignment.costs[first:last].mean())
        rate = (last - first) / (after - before - 1)
        certain = min((1 - cost) / (1 - _GOOD_COST), rate / _USUAL_RATES[0], _USUAL_RATES[1] / rate, 1.0)
        placed.append(
            PlacedSentence(number, first * FRAME_SECONDS, last * FRAME_SECONDS, round(max(certain, 0.0), 3))
        )
    return placed


def cut_clips(
    placed: list[PlacedSentence], levels: np.ndarray, other_speech: list[tuple[float, float]], seconds: float
) -> tuple[list[Cut], list[int]]:
    """The clips, and the numbers of sentences at whose ends nobody pauses and no clip can begin or end.

    Args:
        placed: the sentences, in order.
        levels: float32, dB of each 10 ms of the reading.
        other_speech: what the text does not have, as `speech_without_text` finds it.
        seconds: length of the reading.
    """
    cuts: list[Cut] = []
    without_pause: list[int] = []
    group: list[PlacedSentence] = []
    start: Pause | None = None
    for place, sentence in enumerate(placed):
        if not group:
            start = start or _edge(levels, sentence, sentence.begin, seconds)
        group.append(sentence)
        following = placed[place + 1] if place + 1 < len(placed) else None
        apart = following is None or _between(other_speech, sentence.end, following.begin)
        if following is None or apart:
            stop = _edge(levels, sentence, sentence.end, seconds)
        else:
            between = (sentence.end, max(sentence.end, following.begin))
            stop = find_pause(levels, (sentence.begin, following.end), between)
            if stop is None:
                continue
        if start is None or stop is None:
            without_pause += [one.number for one in group]
        else:
            cuts.append(_cut(group, start, stop))
        group, start = [], None if apart else stop
    return cuts, without_pause


def speech_without_text(alignment: Alignment, reference: Reference, speech: np.ndarray) -> list[tuple[float, float]]:
    """Begin and end in seconds of what is said between the sentences; `speech` [frames] as in `align`."""
    other = reference.is_pause[alignment.path] & (speech > 0.5)
    joined: list[list[int]] = []
    for begin, end in runs(other):
        if joined and (begin - joined[-1][1]) * FRAME_SECONDS < _BRIDGED_SECONDS:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    spans = [(begin * FRAME_SECONDS, end * FRAME_SECONDS) for begin, end in joined]
    return [(round(begin, 2), round(end, 2)) for begin, end in spans if end - begin >= _OTHER_SPEECH_SECONDS]


def _between(spans: list[tuple[float, float]], low: float, high: float) -> bool:
    return any(begin < high and end > low for begin, end in spans)


def _edge(levels: np.ndarray, sentence: PlacedSentence, place: float, seconds: float) -> Pause | None:
    """The pause at one end of a sentence that has nothing of the text beside it."""
    found = find_pause(levels, (sentence.begin - _EDGE_SECONDS, sentence.end + _EDGE_SECONDS), (place, place))
    if found is None and place < _EDGE_SECONDS:
        return Pause(0.0, 0.0)
    if found is None and place > seconds - _EDGE_SECONDS:
        return Pause(seconds, seconds)
    return found


def _cut(group: list[PlacedSentence], start: Pause, stop: Pause) -> Cut:
    begin = max(start.middle, start.end - _LONGEST_SILENCE_SECONDS)
    end = min(stop.middle, stop.begin + _LONGEST_SILENCE_SECONDS)
    numbers = tuple(one.number for one in group)
    return Cut(numbers, round(begin, 3), round(end, 3), min(one.confidence for one in group))
