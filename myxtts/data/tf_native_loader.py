"""Batch requests to padded batches in one graph, with no Python function and no work clip by clip.

From a store, the packed mels are one read-only tensor mapped from their file. A padded batch is a single gather of
rows from it: each place's row numbers run through its clip and then stay on the store's last row, the padding row.
Nothing is parsed, decoded or concatenated, so loading runs at the speed at which memory can be copied.

In runtime mode the same requests are met from 16-bit PCM WAV files that are read, decoded and turned into mels in
graph. With `feature_device: accelerator` the batch carries the samples and the compiled step computes the mel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from myxtts.data.batching import EMPTY
from myxtts.data.clip_table import (
    FIRST_MEMBER,
    LANGUAGE,
    MEL_LENGTH,
    MEL_OFFSET,
    MEMBER,
    MEMBERS,
    SPEAKER,
    TOKEN_LENGTH,
    TOKEN_OFFSET,
    ClipTable,
)
from myxtts.data.order import GOLDEN
from myxtts.data.order_in_graph import mix_in_graph
from myxtts.data.store import FeatureStore

INT32_MAX = np.iinfo(np.int32).max


class StoreLoader:
    """Batches from a feature store.

    Args:
        store: an open store. It is mapped once, here; a version published later does not change what is loaded.
        rows: the clips of the split, among which references are chosen; None for all.
        reference_frames: frames of `reference_mel`; 0 for none.
    """

    def __init__(
        self, store: FeatureStore, rows: np.ndarray | None = None, reference_frames: int = 0
    ) -> None:
        self.store = store
        self.reference_frames = reference_frames
        rows = np.arange(len(store)) if rows is None else rows
        self._table = _TableInGraph(ClipTable.build(store, store.mel_offsets, rows))
        self._mels = mapped_tensor(store)
        self._tokens = tf.constant(store.token_data)
        self._row_type = tf.int32 if store.mel_rows <= INT32_MAX else tf.int64

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for (DESIGN.md, section 4)."""
        rows = request["rows"][: request["size"]]
        clips = self._table.clips(rows)
        batch = self._table.text_columns(rows, clips, request["tokens"], self._tokens)
        length = tf.minimum(tf.cast(clips[MEL_LENGTH], tf.int32), request["frames"])
        frame = tf.range(request["frames"])  # [F]
        batch["mel"] = self._gather(clips[MEL_OFFSET], frame, frame < length[:, tf.newaxis])
        batch["mel_lengths"] = length
        if self.reference_frames:
            clips, frame = self._table.references(rows, clips, request["draw"], self.reference_frames)
            batch["reference_mel"] = self._gather(
                clips[MEL_OFFSET], frame, clips[MEL_LENGTH, :, tf.newaxis] > 0
            )
        return batch

    def _gather(self, offset: tf.Tensor, frame: tf.Tensor, exists: tf.Tensor) -> tf.Tensor:
        """Mels [B, F, n_mels] of the frames [B, F] or [F] of clips that begin at `offset` [B]; the padding row where
        a frame does not exist."""
        padding_row = tf.constant(self.store.mel_rows - 1, self._row_type)
        row = tf.cast(offset, self._row_type)[:, tf.newaxis] + tf.cast(frame, self._row_type)
        return tf.gather(self._mels, tf.where(exists, row, padding_row))


class _TableInGraph:
    """The clip table as tensors, a column per row so that a batch's columns are slices of one gather."""

    def __init__(self, table: ClipTable) -> None:
        self._values = tf.constant(table.values)
        self._members = tf.constant(table.members if len(table.members) else np.zeros(1, np.int64))
        self._empty = len(table.values) - 1

    def clips(self, rows: tf.Tensor) -> tf.Tensor:
        """int64 [COLUMNS, B], zeros for an empty place."""
        return tf.transpose(
            tf.gather(self._values, tf.where(rows < 0, tf.constant(self._empty, tf.int64), rows))
        )

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
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """For each place another clip of the same speaker, or the clip itself where there is no other.

        Returns:
            The clips' columns [COLUMNS, B], and the frames of the crop, int64 [B, `frames`]. A clip shorter than the
            crop begins again, so that the crop has no padding to be told from the voice.
        """
        place = tf.cast(tf.range(1, 1 + 2 * tf.size(rows)), tf.uint64)
        drawn = mix_in_graph(draw + place * tf.constant(GOLDEN, tf.uint64))
        drawn = tf.cast(tf.bitwise.right_shift(drawn, tf.constant(1, tf.uint64)), tf.int64)
        which, where = tf.split(drawn, 2)

        members = tf.maximum(clips[MEMBERS], 1)
        other = (clips[MEMBER] + 1 + which % tf.maximum(members - 1, 1)) % members
        chosen = tf.gather(self._members, clips[FIRST_MEMBER] + other)
        clips = self.clips(tf.where(clips[MEMBERS] > 0, chosen, tf.constant(EMPTY, tf.int64)))
        length = clips[MEL_LENGTH]
        first = where % tf.maximum(length - frames + 1, 1)
        frame = first[:, tf.newaxis] + tf.range(frames, dtype=tf.int64)
        return clips, frame % tf.maximum(length, 1)[:, tf.newaxis]


def mapped_tensor(store: FeatureStore) -> tf.Tensor:
    """The store's mels as a tensor [rows, n_mels] that is the file itself, or a copy without memory mapping.

    `ImmutableConst` checks nothing, and a shape beyond the file's end kills the process on first touch. Opening
    the store has compared the file's size with the index, and published files never change.
    """
    if not store.memory_map:
        return tf.constant(store.mel_data)
    return tf.raw_ops.ImmutableConst(
        dtype=tf.as_dtype(store.mel_dtype),
        shape=[store.mel_rows, store.n_mels],
        memory_region_name=str(store.mel_path),
    )
