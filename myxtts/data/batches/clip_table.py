"""Where each clip's features lie, and which clip of the same speaker it takes its reference from, as one table.

The loaders in graph (`TableInGraph`) and in Python read the same table and follow the same arithmetic, so they give
the same batches. One row per clip keeps what a batch needs of its clips to a single gather.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from myxtts.data.batches.order import GOLDEN
from myxtts.data.batches.order_in_graph import mix_in_graph
from myxtts.data.batches.plan import EMPTY
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.store import FeatureStore
from myxtts.text import language_id

if TYPE_CHECKING:
    from myxtts.data.batches.store_windows import WindowClips

MEL_OFFSET, MEL_LENGTH, TOKEN_OFFSET, TOKEN_LENGTH, SPEAKER, LANGUAGE, MEMBER, MEMBERS, FIRST_MEMBER = range(9)
COLUMNS = 9


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
    def build(
        cls, clips: FeatureStore | WindowClips | RuntimeClips, rows: np.ndarray | None, extra_languages: Sequence[str]
    ) -> ClipTable:
        """The table of all clips.

        Args:
            clips: a store, some clips of one, or what stands for one in runtime mode.
            rows: the clips of the split, the only ones that serve as references; None for all.
            extra_languages: those beside the built-in ones; a batch carries the numbers that models know.
        """
        count = len(clips)
        values = np.zeros((count + 1, COLUMNS), np.int64)
        if not isinstance(clips, RuntimeClips):
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

    @property
    def some_members(self) -> np.ndarray:
        """`members`, or an entry that no clip refers to where there are none: a gather needs one."""
        return self.members if len(self.members) else np.zeros(1, np.int64)


class TableInGraph:
    """The clip table as tensors: a batch's columns are one gather and one unpacking.

    Args:
        table: of the clips.
        share: which places of a batch are loaded.

    Attributes:
        dtype: of the columns: int32 while every offset fits, which halves the work on indices.
    """

    def __init__(
        self, values: tf.Tensor, members: tf.Tensor, names: tf.Tensor | None = None, share: Share = WHOLE
    ) -> None:
        """
        Args:
            values: [COLUMNS, N + 1], the table, each column in a piece.
            members: int64, as in `ClipTable`, with at least one entry.
            names: int64 [N + 1], what a batch calls the clips, −1 last; None: as the table does.
            share: which places of a batch are loaded.
        """
        self.dtype = values.dtype
        self._values, self._members, self._names = values, members, names
        self._share = share

    @classmethod
    def of(cls, table: ClipTable, share: Share = WHOLE) -> TableInGraph:
        """A table that stays the same, as constants."""
        dtype = tf.int32 if table.values.max(initial=0) < np.iinfo(np.int32).max // 2 else tf.int64
        return cls(tf.constant(table.values.T, dtype), tf.constant(table.some_members), share=share)

    @classmethod
    def of_request(cls, request: Mapping[str, tf.Tensor], share: Share = WHOLE) -> TableInGraph:
        """The table that comes with a request of `windows_in_graph.window_requests`."""
        return cls(request["table"], request["members"], request["names"], share)

    def rows(self, request: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The clips that a request asks this process for, int64 [B], −1 for an empty place."""
        rows = _all_rows(request)
        if self._share.is_whole:
            return rows
        missing = -request["size"] % self._share.ranks
        return tf.pad(rows, [[0, missing]], constant_values=EMPTY)[self._share.rank :: self._share.ranks]

    def whole_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What a process that has a share of a batch must know about all of it; nothing if it has all of it.

        Returns:
            `place` int32 [b], where this share's clips are in the batch of size B; and of all its clips
            `all_index` int64 [B], `all_mel_lengths` and `all_token_lengths` int32 [B].
        """
        if self._share.is_whole:
            return {}
        every = _all_rows(request)
        columns = self.columns(every)
        lengths = {
            "all_mel_lengths": tf.minimum(tf.cast(columns[MEL_LENGTH], tf.int32), request["frames"]),
            "all_token_lengths": tf.minimum(tf.cast(columns[TOKEN_LENGTH], tf.int32), request["tokens"]),
        }
        return {"place": self._places(request["size"]), "all_index": self._named(every), **lengths}

    def columns(self, rows: tf.Tensor) -> list[tf.Tensor]:
        """COLUMNS tensors [B], zeros for an empty place."""
        place = self._place(rows)
        return tf.unstack(tf.gather(self._values, place, axis=1), num=COLUMNS)

    def text(
        self, rows: tf.Tensor, columns: list[tf.Tensor], width: tf.Tensor, tokens: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What a batch holds beside sound.

        Args:
            rows: int64 [B].
            columns: theirs.
            width: int32, T.
            tokens: int32, all tokens, the padding id last.
        """
        width = tf.cast(width, self.dtype)
        length = tf.minimum(columns[TOKEN_LENGTH], width)
        position = tf.range(width)  # [T]
        entry = columns[TOKEN_OFFSET][:, tf.newaxis] + position
        padding = tf.constant(tokens.shape[0] - 1, self.dtype)
        return {
            "tokens": tf.gather(tokens, tf.where(position < length[:, tf.newaxis], entry, padding)),  # [B, T]
            "token_lengths": tf.cast(length, tf.int32),
            "speaker": tf.cast(columns[SPEAKER], tf.int32),
            "language": tf.cast(columns[LANGUAGE], tf.int32),
            "index": self._named(rows),
        }

    def _named(self, rows: tf.Tensor) -> tf.Tensor:
        """What a batch calls the clips of these rows."""
        return rows if self._names is None else tf.gather(self._names, self._place(rows))

    def _place(self, rows: tf.Tensor) -> tf.Tensor:
        clips = self._values.shape[1] or tf.shape(self._values, tf.int64)[1]
        return tf.where(rows < 0, tf.cast(clips - 1, tf.int64), rows)

    def references(
        self, request: Mapping[str, tf.Tensor], columns: list[tf.Tensor], frames: int
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
        """For each place another clip of the same speaker, or the clip itself where there is no other.

        Args:
            request: for the batch.
            columns: of the clips in it.
            frames: of a crop.

        Returns:
            The clips' rows, int64 [B], −1 for an empty place; their columns; and the frames of the crop
            [B, `frames`]. A clip shorter than the crop begins again, so that the crop has no padding to be told from
            the voice.
        """
        # Of a whole batch: first one number for every place, then a second one.
        places = self._places(request["size"])
        number = tf.cast(1 + tf.stack([places, request["size"] + places]), tf.uint64)
        drawn = mix_in_graph(request["draw"] + number * tf.constant(GOLDEN, tf.uint64))
        drawn = tf.cast(tf.bitwise.right_shift(drawn, tf.constant(1, tf.uint64)), tf.int64)
        which, where = tf.unstack(drawn)

        member, members, first = (tf.cast(columns[name], tf.int64) for name in (MEMBER, MEMBERS, FIRST_MEMBER))
        other = (member + 1 + which % tf.maximum(members - 1, 1)) % tf.maximum(members, 1)
        chosen = tf.where(members > 0, tf.gather(self._members, first + other), tf.constant(EMPTY, tf.int64))
        columns = self.columns(chosen)
        length = columns[MEL_LENGTH]
        start = tf.cast(where % tf.cast(tf.maximum(length - frames + 1, 1), tf.int64), self.dtype)
        frame = start[:, tf.newaxis] + tf.range(frames, dtype=self.dtype)
        return chosen, columns, frame % tf.maximum(length, 1)[:, tf.newaxis]

    def _places(self, size: tf.Tensor) -> tf.Tensor:
        """`Share.places`, int32."""
        return tf.range(self._share.rank, size + -size % self._share.ranks, self._share.ranks)


def _all_rows(request: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return request["rows"][: request["size"]]
