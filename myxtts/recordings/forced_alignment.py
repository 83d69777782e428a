"""Aligns a long reading with a reference that speaks the same text, sentence by sentence.

The reference is a row of states: the frames of each sentence, and a pause before, between and after them. Every frame
of the reading is at one state, and the next frame at the same one or at one of the next two. Two more ways keep what
does not fit from moving everything after it: speech that the text does not have is a pause that costs more, and a
sentence that nobody reads is left out at a price. The cheapest way is found by dynamic programming, in a band of
states that follows it, so that hours are no problem.

A synthetic voice differs from a reader's. Once a first alignment is known, linear regression makes the reference
sound more like the reader; a second alignment with that reference is far more certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# A frame costs 1 minus the cosine between its features and those of its state: 0 if they are alike, 1 if they have
# nothing to do with each other. (With the distance instead, a state near the mean would be near everything.)
_SILENCE_COST = 0.4
_OTHER_SPEECH_COST = 0.8
_LEFT_OUT_COST = 12.0  # of a sentence
_UNEVEN_COST = 0.05  # of each frame that repeats a state or skips one
_STATES_AROUND = (-4, -2, 0, 2, 4)  # that regression looks at
_RIDGE = 10.0
_SMALLEST = 1e-6
_STAY, _ONE, _TWO, _FROM_PAUSE = 0, 1, 2, 3


@dataclass(frozen=True)
class Reference:
    """The states of a text.

    Attributes:
        features: float32 [states, features]; those of pauses are never looked at.
        pauses: int64 [sentences + 1], the states that are pauses: the first, the last, and those between sentences.
    """

    features: np.ndarray
    pauses: np.ndarray

    @classmethod
    def join(cls, sentences: list[np.ndarray]) -> Reference:
        """Of the frames [n, features] of each sentence."""
        pause = np.zeros((1, sentences[0].shape[1]), np.float32)
        parts = [pause] + [part for sentence in sentences for part in (sentence, pause)]
        lengths = np.array([0] + [len(sentence) + 1 for sentence in sentences])
        return cls(np.concatenate(parts), np.cumsum(lengths))

    @cached_property
    def is_pause(self) -> np.ndarray:
        """bool [states]."""
        marks = np.zeros(len(self.features), bool)
        marks[self.pauses] = True
        return marks

    def every_second(self) -> tuple[Reference, np.ndarray]:
        """The reference at half the frame rate, and for each of its states the state here, int64."""
        spans = zip(self.pauses[:-1].tolist(), self.pauses[1:].tolist(), strict=True)
        kept = [np.arange(begin + 1, end, 2) for begin, end in spans]
        states = np.concatenate(
            [self.pauses[:1]] + [np.append(own, end) for own, end in zip(kept, self.pauses[1:], strict=True)]
        )
        pauses = np.cumsum([0] + [len(own) + 1 for own in kept])
        return Reference(self.features[states], pauses), states

    def like(self, audio: np.ndarray, path: np.ndarray) -> Reference:
        """A reference that sounds like the reader, by regression on an alignment.

        Args:
            audio: float32 [frames, features] of the reading.
            path: int64 [frames], the state of each.
        """
        around = self._around()
        spoken = ~self.is_pause[path]
        known, wanted = around[path[spoken]].astype(np.float64), audio[spoken].astype(np.float64)
        weights = np.linalg.solve(known.T @ known + _RIDGE * np.eye(known.shape[1]), known.T @ wanted)
        return Reference((around @ weights.astype(np.float32)).astype(np.float32), self.pauses)

    def _around(self) -> np.ndarray:
        """The features of the states around each one, side by side, and a 1."""
        states = np.arange(len(self.features))
        places = [np.clip(states + step, 0, len(states) - 1) for step in _STATES_AROUND]
        return np.concatenate([self.features[place] for place in places] + [np.ones((len(states), 1), np.float32)], 1)


@dataclass(frozen=True)
class Alignment:
    """Which state each frame of the reading is at.

    Attributes:
        path: int64 [frames].
        costs: float32 [frames], 0 where it is like its state, 1 where it has nothing to do with it.
    """

    path: np.ndarray
    costs: np.ndarray


def align(
    audio: np.ndarray,
    speech: np.ndarray,
    reference: Reference,
    width: int,
    centre: np.ndarray | None = None,
) -> Alignment:
    """The cheapest way through the reference.

    Args:
        audio: float32 [frames, features] of the reading.
        speech: float32 [frames], 0 where it is silent to 1 where somebody speaks.
        reference: the text.
        width: states that are looked at for each frame.
        centre: int64 [frames], the state in the middle of them, never falling; None: the cheapest one so far.
    """
    sounds, states = _directions(audio), _directions(reference.features)
    pause_costs = (_SILENCE_COST + (_OTHER_SPEECH_COST - _SILENCE_COST) * speech).astype(np.float32)
    path = _cheapest(sounds, pause_costs, states, reference.pauses, width, centre)
    costs = 1 - np.sum(sounds * states[path], axis=1)
    return Alignment(path, np.where(reference.is_pause[path], pause_costs, costs))


def _cheapest(
    sounds: np.ndarray,
    pause_costs: np.ndarray,
    states: np.ndarray,
    pauses: np.ndarray,
    width: int,
    centre: np.ndarray | None,
) -> np.ndarray:
    width = min(width, len(states))
    steps = np.zeros((len(sounds), width), np.uint8)
    lows = np.zeros(len(sounds), np.int64)
    beyond = np.full(width + 2, np.inf, np.float32)
    scores = np.full(width, np.inf, np.float32)
    scores[0] = 0
    uneven = np.float32(_UNEVEN_COST)
    low = 0
    for frame, sound in enumerate(sounds):
        middle = low + int(scores.argmin()) if centre is None else int(centre[frame])
        moved = min(max(low, middle - width // 2), len(states) - width)
        shift = moved - low
        # The scores of the frame before, for the states from two below the band on.
        before = np.concatenate([beyond[:2], scores, beyond])[shift : shift + width + 2]
        first, last = np.searchsorted(pauses, (moved, moved + width))
        here = pauses[first:last] - moved
        best, one, two = before[2:] + uneven, before[1:-1], before[:-2] + uneven
        best[here] -= uneven
        step = steps[frame]
        for code, other in ((_ONE, one), (_TWO, two)):
            better = other <= best
            step[better] = code
            np.copyto(best, other, where=better)
        for number in range(max(first, 1), last):
            source, target = int(pauses[number - 1]) - low, int(pauses[number]) - moved
            if 0 <= source < width and scores[source] + _LEFT_OUT_COST < best[target]:
                best[target], step[target] = scores[source] + _LEFT_OUT_COST, _FROM_PAUSE
        costs = 1 - states[moved : moved + width] @ sound
        costs[here] = pause_costs[frame]
        scores = best + costs
        scores -= scores.min()
        low = lows[frame] = moved
    return _trace(steps, lows, scores, pauses)


def _directions(features: np.ndarray) -> np.ndarray:
    """float32 [n, features], each of length 1."""
    lengths = np.sqrt(np.sum(features**2, axis=1, keepdims=True))
    return (features / np.maximum(lengths, _SMALLEST)).astype(np.float32)


def _trace(steps: np.ndarray, lows: np.ndarray, scores: np.ndarray, pauses: np.ndarray) -> np.ndarray:
    """The states of the cheapest way, from its end back to its beginning."""
    end = int(pauses[-1] - lows[-1])
    if end >= len(scores) or not np.isfinite(scores[end]):
        end = int(scores.argmin())
    path = np.zeros(len(steps), np.int64)
    state = int(lows[-1]) + end
    for frame in range(len(steps) - 1, -1, -1):
        path[frame] = state
        step = int(steps[frame, state - lows[frame]])
        if step == _FROM_PAUSE:
            state = int(pauses[np.searchsorted(pauses, state) - 1])
        else:
            state -= step
    return path
