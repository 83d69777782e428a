"""Batch requests to padded batches from a store, in one graph, with no work clip by clip.

The packed mels are one read-only tensor mapped from their file. A padded batch is a single gather of rows from it:
each place's row numbers run through its clip and then stay on the store's last row, the padding row. Nothing is
parsed, decoded or concatenated, so loading runs at the speed at which memory can be copied.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from myxtts.data.batches.clip_table import MEL_LENGTH, MEL_OFFSET, ClipTable, TableInGraph
from myxtts.data.batches.host_tensor import HostTensor
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.store import FeatureStore


class StoreLoader:
    """Batches from a feature store.

    Args:
        store: an open store. A version published later does not change what is loaded.
        table: its clips.
        reference_frames: frames of `reference_mel`; 0 for none.
        share: which places of a batch are loaded.
    """

    def __init__(
        self, store: FeatureStore, table: ClipTable, reference_frames: int = 0, share: Share = WHOLE
    ) -> None:
        self.store = store
        self.reference_frames = reference_frames
        self._table = TableInGraph(table, share)
        self._mels = HostTensor(store.mel_data)
        self._tokens = HostTensor(store.token_data)

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The batch that a request of `order_in_graph.batch_requests` asks for."""
        rows = self._table.rows(request)
        columns = self._table.columns(rows)
        batch = self._table.text(rows, columns, request["tokens"], self._tokens.tensor())
        frames = tf.cast(request["frames"], self._table.dtype)
        length = tf.minimum(columns[MEL_LENGTH], frames)
        frame = tf.range(frames)  # [F]
        batch["mel"] = self._gather(columns[MEL_OFFSET], frame, frame < length[:, tf.newaxis])
        batch["mel_lengths"] = tf.cast(length, tf.int32)
        if self.reference_frames:
            _, columns, frame = self._table.references(request, columns, self.reference_frames)
            exists = columns[MEL_LENGTH][:, tf.newaxis] > 0
            batch["reference_mel"] = self._gather(columns[MEL_OFFSET], frame, exists)
        return batch | self._table.whole_batch(request)

    def _gather(self, offset: tf.Tensor, frame: tf.Tensor, exists: tf.Tensor) -> tf.Tensor:
        """Mels [B, F, n_mels] of the frames [B, F] or [F] of clips that begin at `offset` [B]; the padding row where
        a frame does not exist."""
        padding_row = tf.constant(self.store.mel_rows - 1, self._table.dtype)
        return tf.gather(self._mels.tensor(), tf.where(exists, offset[:, tf.newaxis] + frame, padding_row))
