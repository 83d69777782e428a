"""The clip table as graph operations: a batch's text, and which frames of which clip are its references."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.data.batching import EMPTY
from myxtts.data.clip_table import (
    COLUMNS,
    FIRST_MEMBER,
    LANGUAGE,
    MEL_LENGTH,
    MEMBER,
    MEMBERS,
    SPEAKER,
    TOKEN_LENGTH,
    TOKEN_OFFSET,
    ClipTable,
)
from myxtts.data.order import GOLDEN
from myxtts.data.order_in_graph import mix_in_graph


class TableInGraph:
    """The clip table as tensors: a batch's columns are one gather and one unpacking.

    Args:
        table: the clips.

    Attributes:
        dtype: of the columns: int32 while every offset fits, which halves the work on indices.
    """

    def __init__(self, table: ClipTable) -> None:
        self.dtype = tf.int32 if table.values.max(initial=0) < np.iinfo(np.int32).max // 2 else tf.int64
        self._values = tf.constant(table.values.T, self.dtype)  # [COLUMNS, N + 1]
        self._members = tf.constant(table.members if len(table.members) else np.zeros(1, np.int64))
        self._empty = len(table.values) - 1

    def columns(self, rows: tf.Tensor) -> list[tf.Tensor]:
        """COLUMNS tensors [B], zeros for an empty place."""
        place = tf.where(rows < 0, tf.constant(self._empty, tf.int64), rows)
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
            "index": rows,
        }

    def references(
        self, rows: tf.Tensor, columns: list[tf.Tensor], draw: tf.Tensor, frames: int
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
        """For each place another clip of the same speaker, or the clip itself where there is no other.

        Returns:
            The clips' rows, int64 [B], −1 for an empty place; their columns; and the frames of the crop
            [B, `frames`]. A clip shorter than the crop begins again, so that the crop has no padding to be told from
            the voice.
        """
        place = tf.cast(tf.range(1, 1 + 2 * tf.size(rows)), tf.uint64)
        drawn = mix_in_graph(draw + place * tf.constant(GOLDEN, tf.uint64))
        drawn = tf.cast(tf.bitwise.right_shift(drawn, tf.constant(1, tf.uint64)), tf.int64)
        which, where = tf.split(drawn, 2)

        member, members, first = (tf.cast(columns[name], tf.int64) for name in (MEMBER, MEMBERS, FIRST_MEMBER))
        other = (member + 1 + which % tf.maximum(members - 1, 1)) % tf.maximum(members, 1)
        chosen = tf.where(members > 0, tf.gather(self._members, first + other), tf.constant(EMPTY, tf.int64))
        columns = self.columns(chosen)
        length = columns[MEL_LENGTH]
        start = tf.cast(where % tf.cast(tf.maximum(length - frames + 1, 1), tf.int64), self.dtype)
        frame = start[:, tf.newaxis] + tf.range(frames, dtype=self.dtype)
        return chosen, columns, frame % tf.maximum(length, 1)[:, tf.newaxis]
