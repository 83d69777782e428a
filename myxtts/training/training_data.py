"""The data of a run, and what is known about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig
from myxtts.data.batches.position import Position


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Batches, and where they come from if that is known.

    Attributes:
        train: batches without end.
        validation: one pass over the validation batches, or None.
        batches_per_epoch: None if not known.
        expected_shapes: how many shapes the batches come in; None if not known.
        position: where `train` begins; None for data that cannot be resumed.
        ids: of the clips; a batch's `index` are positions in this list.
        token_lengths: int [N], of the same clips.
        origin: what checkpoints say about the data: `speakers`, and `clips`, a hash of the training clips.
    """

    train: tf.data.Dataset
    validation: tf.data.Dataset | None = None
    batches_per_epoch: int | None = None
    expected_shapes: int | None = None
    position: Position | None = None
    ids: Sequence[str] | None = None
    token_lengths: np.ndarray | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)

    def total_steps(self, config: TrainingConfig) -> int:
        """Optimizer steps of the whole run: `max_steps`, or those of all epochs."""
        if config.max_steps is not None or self.batches_per_epoch is None:
            return config.max_steps or 1
        return max(1, config.epochs * self.batches_per_epoch // config.gradient_accumulation_steps)

    def epoch_of(self, batch: int) -> int:
        """The epoch of batch number `batch`, both from 0."""
        return batch // self.batches_per_epoch if self.batches_per_epoch else 0

    def clip_names(self, index: Sequence[int]) -> list[str]:
        """Names of the clips of a batch, without empty places."""
        rows = [row for row in index if row >= 0]
        return [str(row) if self.ids is None else self.ids[row] for row in rows]
