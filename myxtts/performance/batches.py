"""Batches to measure with: a source that can be begun anew, batches kept for replay, how much of them is padding."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from myxtts.performance.simulated_accelerator import leaves
from myxtts.performance.step_run import batch_shapes

_MOST_KEPT = 24
_MOST_BYTES = 512 << 20
_UNKNOWN_DEPTH = 8
_DEEPEST = 32


class Source:
    """Batches without end from anything that can be iterated over, pass after pass, as an epoch loop does it.

    Args:
        dataset: a `tf.data` pipeline, a data loader, a list, a generator. One that cannot be begun anew is used up.

    Attributes:
        is_tf_data: whether it is a `tf.data` pipeline, which can be looked into.
        passes: how often the source was begun anew, that is, the epoch.
        lengths: batches of each complete pass.
    """

    def __init__(self, dataset: Iterable[Any]) -> None:
        tensorflow = sys.modules.get("tensorflow")
        self.dataset = dataset
        self.is_tf_data = tensorflow is not None and isinstance(dataset, tensorflow.data.Dataset)
        self.is_one_pass = iter(dataset) is dataset if isinstance(dataset, Iterator) else False
        self.passes = 0
        self.lengths: list[int] = []

    def batches(self, dataset: Iterable[Any] | None = None) -> Iterator[Any]:
        """Batches from the beginning, of the source or of a variant of it."""
        dataset = self.dataset if dataset is None else dataset
        while True:
            count = 0
            for batch in dataset:
                count += 1
                yield batch
            if not count or self.is_one_pass:
                return
            self.lengths.append(count)
            self.passes += 1

    @property
    def depth(self) -> int:
        """Batches that may be ready before the first is asked for."""
        if self.is_tf_data:
            from myxtts.performance.graph_nodes import buffered_batches

            return min(_DEEPEST, buffered_batches(self.dataset))
        workers = getattr(self.dataset, "num_workers", None)
        if workers is not None:  # PyTorch's DataLoader
            return min(_DEEPEST, workers * (getattr(self.dataset, "prefetch_factor", None) or 0))
        return 0 if isinstance(self.dataset, (list, tuple)) or self.is_one_pass else _UNKNOWN_DEPTH

    @property
    def has_batches_ahead(self) -> bool:
        """Whether batches are made while nobody waits for them, as far as one can see."""
        if self.is_tf_data:
            from myxtts.performance.graph_nodes import ends_with_prefetch

            return ends_with_prefetch(self.dataset)
        return bool(getattr(self.dataset, "num_workers", 0))


class Kept:
    """Keeps batches in memory for replay: a few dozen, within a limit of bytes."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self._bytes = 0
        self._shapes: set[Any] = set()

    def __call__(self, batch: Any) -> None:
        size = sum(_bytes(leaf) for leaf in leaves(batch))
        room = self._bytes + size <= _MOST_BYTES
        if (room and len(self.batches) < _MOST_KEPT) or not self.batches:
            self.batches.append(batch)
            self._bytes += size

    def take_new(self) -> list[Any]:
        """A batch of every shape that was kept since the last call, and not before."""
        by_shape = {batch_shapes(batch): batch for batch in self.batches}
        new = [batch for shape, batch in by_shape.items() if shape not in self._shapes]
        self._shapes.update(by_shape)
        return new

    def replay(self) -> Iterator[Any]:
        """The kept batches, over and over."""
        while self.batches:
            yield from self.batches


def padding_share(batches: Iterable[Any]) -> float:
    """The share of the bytes in batches that only fills them up: the same value from some place to the row's end.

    The first dimension is taken for clips, the second for time. Arrays without both do not count.
    """
    padding = total = 0.0
    for batch in batches:
        for leaf in leaves(batch):
            shape: Any = getattr(leaf, "shape", ())
            if len(shape) < 2 or shape[1] is None or shape[1] < 2 or 0 in tuple(shape):
                continue
            values = np.asarray(leaf[:, :, ...] if len(shape) == 2 else leaf[:, :, ..., 0])
            values = values.reshape(values.shape[0], values.shape[1], -1)[:, :, 0]
            if values.dtype.kind not in "biuf":
                continue
            differs = values[:, ::-1] != values[:, -1:]
            varies = differs.any(axis=1)
            trailing = np.where(varies, differs.argmax(axis=1), values.shape[1])
            # A row that ends with one value of its own is not padded; if no row varies at all, nothing can be said.
            trailing = np.where(trailing <= 1, 0, trailing) * bool(varies.any())
            size = float(_bytes(leaf))
            padding += size * float(trailing.sum()) / values.size
            total += size
    return padding / total if total else 0.0


def _bytes(leaf: Any) -> int:
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return 0
    size = getattr(getattr(leaf, "dtype", None), "size", None) or getattr(
        getattr(leaf, "dtype", None), "itemsize", None
    )
    return int(np.prod([int(one) for one in shape], dtype=np.int64)) * int(size or 4)
