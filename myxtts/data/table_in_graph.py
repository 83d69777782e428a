"""The clip table as graph operations: a batch's text, and which frames of which clip are its references."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.data.batching import EMPTY
from myxtts.data.clip_table import (
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
    """The clip table as tensors, a column per row so that a batch's columns are slices of one gather."""

    def __init__(self, table: ClipTable) -> None:
        self._values = tf.constant(table.values)
        self._members = tf.constant(table.members if len(table.members) else np.zeros(1, np.int64))
        self._empty = len(table.values) - 1

    def clips(self, rows: tf.Tensor) -> tf.Tensor:
        """int64 [COLUMNS, B], zeros for an empty place."""
        return tf.transpose(tf.gather(self._values, tf.where(rows < 0, tf.constant(self._empty, tf.int64), rows)))

    def text_columns(
        self, rows: tf.Tensor, clips: tf.Tensor, width: tf.Tensor, tokens: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """What a batch holds beside sound.

        Args:
            rows: int64 [B].
            clips: their columns [COLUMNS, B].
            width: int32, T.
            tokens: int32, all tokens, the padding id last.
        """
        length = tf.minimum(tf.cast(clips[TOKEN_LENGTH], tf.int32), width)
        position = tf.range(width)  # [T]
        entry = clips[TOKEN_OFFSET, :, tf.newaxis] + tf.cast(position, tf.int64)
        padding = tf.constant(tokens.shape[0] - 1, tf.int64)
        return {
            "tokens": tf.gather(tokens, tf.where(position < length[:, tf.newaxis], entry, padding)),  # [B, T]
            "token_lengths": length,
            "speaker": tf.cast(clips[SPEAKER], tf.int32),
            "language": tf.cast(clips[LANGUAGE], tf.int32),
            "index": rows,
        }

    def references(
        self, rows: tf.Tensor, clips: tf.Tensor, draw: tf.Tensor, frames: int
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """For each place another clip of the same speaker, or the clip itself where there is no other.

        Returns:
            The clips' rows, int64 [B], −1 for an empty place; their columns, int64 [COLUMNS, B]; and the frames of
            the crop, int64 [B, `frames`]. A clip shorter than the crop begins again, so that the crop has no padding
            to be told from the voice.
        """
        place = tf.cast(tf.range(1, 1 + 2 * tf.size(rows)), tf.uint64)
        drawn = mix_in_graph(draw + place * tf.constant(GOLDEN, tf.uint64))
        drawn = tf.cast(tf.bitwise.right_shift(drawn, tf.constant(1, tf.uint64)), tf.int64)
        which, where = tf.split(drawn, 2)

        members = tf.maximum(clips[MEMBERS], 1)
        other = (clips[MEMBER] + 1 + which % tf.maximum(members - 1, 1)) % members
        chosen = tf.gather(self._members, clips[FIRST_MEMBER] + other)
        chosen = tf.where(clips[MEMBERS] > 0, chosen, tf.constant(EMPTY, tf.int64))
        clips = self.clips(chosen)
        length = clips[MEL_LENGTH]
        first = where % tf.maximum(length - frames + 1, 1)
        frame = first[:, tf.newaxis] + tf.range(frames, dtype=tf.int64)
        return chosen, clips, frame % tf.maximum(length, 1)[:, tf.newaxis]
