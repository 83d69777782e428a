"""Chooses the clips of an evaluation, and the clips they are compared with. Every choice follows from the seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash

from myxtts.data.clips import Clip

# A clip is of about the same length as another if they differ by at most this share of the other's length.
LIKE_LENGTH = 0.15


@dataclass(frozen=True)
class Selection:
    """Chooses among the clips of a data set.

    Attributes:
        clips: of the whole data set.
        lengths: int64 [N], their frames.
        seed: of all choices.
    """

    clips: Sequence[Clip]
    lengths: np.ndarray
    seed: int = 0

    def sentences(self, rows: Sequence[int], most: int) -> list[int]:
        """At most `most` of the rows, chosen at random, in the order of the data set."""
        chosen = sorted(rows, key=lambda row: self._draw("sentence", row))[:most]
        return sorted(chosen)

    def like_length(self, row: int) -> list[int]:
        """Clips of the same speaker and about the same length with another text, in random order."""
        wanted = self.lengths[row]
        near = [
            other
            for other in self._others(row)
            if abs(self.lengths[other] - wanted) <= LIKE_LENGTH * wanted and self.lengths[other] > 0
        ]
        return sorted(near, key=lambda other: self._draw(f"like {self.clips[row].id}", other))

    def another(self, row: int) -> int | None:
        """A clip with another text, of the same speaker where there is one: of about the same length, or else the
        nearest in length. None if all clips have the same text."""
        near = self.like_length(row)
        if near:
            return near[0]
        text = self.clips[row].text
        others = self._others(row) or [other for other, clip in enumerate(self.clips) if clip.text != text]
        return min(others, key=lambda other: (abs(self.lengths[other] - self.lengths[row]), other), default=None)

    def reference(self, row: int, frames: int) -> int | None:
        """A clip of the same speaker with another text to take the voice from: one of at least `frames` frames, or
        else the longest. None if the speaker has no other text."""
        others = self._others(row)
        long_enough = [other for other in others if self.lengths[other] >= frames]
        if long_enough:
            return min(long_enough, key=lambda other: self._draw(f"reference {self.clips[row].id}", other))
        return max(others, key=lambda other: (self.lengths[other], -other), default=None)

    def voice_trials(self, rows: Sequence[int], voices: int, most: int) -> list[tuple[int, ...]]:
        """Trials: clips of one sentence in different voices, the first of them among `rows`. It is spoken with the
        voice of that clip, and compared with all of them.

        Every voice has its first trial before any has its second, and so on.

        Args:
            rows: clips to choose from.
            voices: how many are compared, the right one included; fewer if fewer speak the sentence.
            most: how many trials at most.
        """
        turns: dict[str, int] = {}
        queue: list[tuple[int, int, int]] = []
        for row in sorted(rows, key=lambda row: self._draw("trial", row)):
            speaker = self.clips[row].speaker
            if len(self._speakers_of[_sentence(self.clips[row])]) > 1 and len(self._of_speaker[speaker]) > 1:
                turn = turns.get(speaker, 0)
                turns[speaker] = turn + 1
                queue.append((turn, self._draw("trial", row), row))
        return [self._trial(row, voices) for _, _, row in sorted(queue)[:most]]

    def _trial(self, row: int, voices: int) -> tuple[int, ...]:
        clip = self.clips[row]
        by_speaker = self._speakers_of[_sentence(clip)]
        others = [other for speaker, other in by_speaker.items() if speaker != clip.speaker]
        others.sort(key=lambda other: self._draw(f"voices {clip.id}", other))
        return (row, *others[: voices - 1])

    def _others(self, row: int) -> list[int]:
        """Clips of the same speaker with another text."""
        clip = self.clips[row]
        return [other for other in self._of_speaker[clip.speaker] if self.clips[other].text != clip.text]

    def _draw(self, purpose: str, row: int) -> int:
        """A random number for this clip and purpose, independent of the other clips."""
        return xxhash.xxh3_64_intdigest(f"{self.seed}\0{purpose}\0{self.clips[row].id}".encode())

    @cached_property
    def _of_speaker(self) -> dict[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for row, clip in enumerate(self.clips):
            rows.setdefault(clip.speaker, []).append(row)
        return rows

    @cached_property
    def _speakers_of(self) -> dict[tuple[str, str], dict[str, int]]:
        """For each sentence the first clip of each speaker who speaks it."""
        rows: dict[tuple[str, str], dict[str, int]] = {}
        for row, clip in enumerate(self.clips):
            rows.setdefault(_sentence(clip), {}).setdefault(clip.speaker, row)
        return rows


def _sentence(clip: Clip) -> tuple[str, str]:
    return clip.language, " ".join(clip.text.split())
