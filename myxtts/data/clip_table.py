"""Where each clip's features lie, and which clip of the same speaker it takes its reference from, as one table.

Both loaders, in graph and in Python, read the same table and follow the same arithmetic, so they give the same
batches. One row per clip keeps what a batch needs of its clips to a single gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from myxtts.data.store import FeatureStore
from myxtts.text import language_id

MEL_OFFSET, MEL_LENGTH, TOKEN_OFFSET, TOKEN_LENGTH, SPEAKER, LANGUAGE, MEMBER, MEMBERS, FIRST_MEMBER = range(9)
COLUMNS = 9


class Clips(Protocol):
    """The columns that a feature store and a data set without one have in common; entry i is clip i of both."""

    def __len__(self) -> int: ...

    @property
    def mel_lengths(self) -> np.ndarray: ...

    @property
    def token_offsets(self) -> np.ndarray: ...

    @property
    def token_lengths(self) -> np.ndarray: ...

    @property
    def token_data(self) -> np.ndarray: ...

    @property
    def speaker_ids(self) -> np.ndarray: ...

    @property
    def language_ids(self) -> np.ndarray: ...

    @property
    def languages(self) -> Sequence[str]: ...


@dataclass(frozen=True, eq=False)
class ClipTable:
    """One row per clip and a last row of zeros for an empty place.

    Attributes:
        values: int64 [N + 1, COLUMNS]. MEMBER is a clip's place among the MEMBERS clips of its speaker, the first
            of which is at FIRST_MEMBER in `members`.
        members: int64, clips that may serve as references, grouped by speaker.
    """

    values: np.ndarray
    members: np.ndarray

    @classmethod
    def build(cls, clips: Clips, rows: np.ndarray | None, extra_languages: Sequence[str]) -> ClipTable:
        """The table of all clips.

        Args:
            clips: a store, or what stands for one in runtime mode.
            rows: the clips of the split, the only ones that serve as references; None for all.
            extra_languages: those beside the built-in ones; a batch carries the numbers that models know.
        """
        count = len(clips)
        values = np.zeros((count + 1, COLUMNS), np.int64)
        if isinstance(clips, FeatureStore):
            values[:count, MEL_OFFSET] = clips.mel_offsets
        values[:count, MEL_LENGTH] = clips.mel_lengths
        values[:count, TOKEN_OFFSET] = clips.token_offsets
        values[:count, TOKEN_LENGTH] = clips.token_lengths
        values[:count, SPEAKER] = clips.speaker_ids
        numbers = np.array([language_id(code, extra_languages) for code in clips.languages], np.int64)
        values[:count, LANGUAGE] = numbers[clips.language_ids]

        rows = np.arange(count) if rows is None else rows
        usable = rows[values[rows, MEL_LENGTH] > 0]
        members = usable[np.argsort(values[usable, SPEAKER], kind="stable")]
        speakers, first, sizes = np.unique(values[members, SPEAKER], return_index=True, return_counts=True)
        group = np.searchsorted(speakers, values[members, SPEAKER])
        values[members, MEMBER] = np.arange(len(members)) - first[group]
        values[members, MEMBERS] = sizes[group]
        values[members, FIRST_MEMBER] = first[group]
        return cls(values, members)
