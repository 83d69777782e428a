"""The pause between two sentences, in whose middle a reading can be cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from myxtts.recordings.reading_features import LEVEL_SECONDS

SHORTEST_PAUSE_SECONDS = 0.04

_REACH_SECONDS = 0.2  # around the place where the alignment has the end of the sentence
_LONGEST_BENEFIT_SECONDS = 0.4  # a pause that is longer is not more of a pause
_QUIET_SHARE = 0.35  # of the way from the noise to the speech, in dB
_LEAST_DEPTH_DB = 10.0
_NOISE_PERCENTILE, _SPEECH_PERCENTILE = 5, 90
_DISTANCE_WEIGHT = 2.0


@dataclass(frozen=True)
class Pause:
    """A stretch without speech, in seconds from the beginning of the reading."""

    begin: float
    end: float

    @property
    def middle(self) -> float:
        return (self.begin + self.end) / 2


def find_pause(levels: np.ndarray, sentences: tuple[float, float], between: tuple[float, float]) -> Pause | None:
    """The best place to cut between two sentences, or None if nobody pauses there.

    Long pauses are better than short ones, which may be the silence before a "t", and near ones than far ones.

    Args:
        levels: float32, dB of each 10 ms of the whole reading.
        sentences: begin of the first and end of the second, in seconds: they tell how loud speech and noise are here.
        between: end of the first and begin of the second as the alignment has them, in seconds.
    """
    around = levels[_index(sentences[0]) : _index(sentences[1]) + 1]
    if not len(around):
        return None
    noise, speech = np.percentile(around, (_NOISE_PERCENTILE, _SPEECH_PERCENTILE)).tolist()
    if speech - noise < _LEAST_DEPTH_DB:
        return None
    quiet = levels < noise + _QUIET_SHARE * (speech - noise)
    low, high = between[0] - _REACH_SECONDS, between[1] + _REACH_SECONDS
    first, last = max(0, _index(low)), min(len(levels), _index(high) + 1)
    found = [
        Pause((first + begin) * LEVEL_SECONDS, (first + end) * LEVEL_SECONDS)
        for begin, end in runs(quiet[first:last])
        if (end - begin) * LEVEL_SECONDS >= SHORTEST_PAUSE_SECONDS
    ]

    def score(pause: Pause) -> float:
        distance = max(between[0] - pause.end, pause.begin - between[1], 0)
        return min(pause.end - pause.begin, _LONGEST_BENEFIT_SECONDS) - _DISTANCE_WEIGHT * distance

    return max(found, key=score, default=None)


def runs(marks: np.ndarray) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of true values."""
    steps = np.diff(marks.astype(np.int8), prepend=0, append=0)
    yield from zip(np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist(), strict=True)


def _index(seconds: float) -> int:
    return max(0, int(seconds / LEVEL_SECONDS))
