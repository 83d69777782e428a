"""Batches to measure with: a stream that starts again at its end, a replay buffer, and what a batch consists of."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

_MOST_BATCHES = 24
_PADDED_BATCHES = 8
_MOST_BYTES = 512 << 20
_UNKNOWN_DEPTH = 8
_DEEPEST = 32
_PLAIN = (str, bytes, int, float, type(None))

Shapes = tuple[tuple[int, ...], ...]


class BatchStream:
    """Endless batches from any iterable, pass after pass, as an epoch loop takes them.

    Args:
        dataset: a `tf.data` pipeline, a data loader, a list, a generator. A generator gives one pass only.

    Attributes:
        is_tf_data: whether it is a `tf.data` pipeline, whose nodes can be timed.
        is_torch_loader: whether it is PyTorch's `DataLoader`, whose settings can be changed.
        is_one_pass: whether it cannot start again.
        passes: how many passes are complete, that is, the epoch.
    """

    def __init__(self, dataset: Iterable[Any]) -> None:
        tensorflow = sys.modules.get("tensorflow")
        torch_data = sys.modules.get("torch.utils.data")
        self.dataset: Any = dataset
        self.is_torch_loader = torch_data is not None and isinstance(dataset, torch_data.DataLoader)
        self.is_tf_data = tensorflow is not None and isinstance(dataset, tensorflow.data.Dataset)
        self.is_one_pass = iter(dataset) is dataset if isinstance(dataset, Iterator) else False
        self.passes = 0

    def batches(self, dataset: Iterable[Any] | None = None) -> Generator[Any]:
        """Batches from the beginning, of the dataset or of a variant of it."""
        dataset = self.dataset if dataset is None else dataset
        while True:
            empty = True
            for batch in dataset:
                empty = False
                yield batch
            if empty or self.is_one_pass:
                return
            self.passes += 1

    @property
    def depth(self) -> int:
        """How many batches may be ready before the first one is asked for."""
        if self.is_tf_data:
            from myxtts.performance.graph_nodes import buffered_batches

            return min(_DEEPEST, buffered_batches(self.dataset))
        workers = getattr(self.dataset, "num_workers", None)
        if workers is not None:  # PyTorch's DataLoader, and what looks like it
            return min(_DEEPEST, workers * (getattr(self.dataset, "prefetch_factor", None) or 0))
        return 0 if isinstance(self.dataset, (list, tuple)) or self.is_one_pass else _UNKNOWN_DEPTH

    @property
    def prepares_ahead(self) -> bool:
        """Whether batches are visibly prepared in advance."""
        if self.is_tf_data:
            from myxtts.performance.graph_nodes import ends_with_prefetch

            return ends_with_prefetch(self.dataset)
        return bool(getattr(self.dataset, "num_workers", 0))


class ReplayBuffer:
    """Keeps a few dozen batches in memory for replay, within a limit of bytes."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self._bytes = 0
        self._shapes: set[Any] = set()

    def add(self, batch: Any) -> None:
        """Keeps a batch if there is room; the first one always."""
        size = batch_bytes(batch)
        room = self._bytes + size <= _MOST_BYTES
        if (room and len(self.batches) < _MOST_BATCHES) or not self.batches:
            self.batches.append(batch)
            self._bytes += size

    def take_new(self) -> list[Any]:
        """One batch of every shape that is new since the last call."""
        by_shape = {batch_shapes(batch): batch for batch in self.batches}
        new = [batch for shape, batch in by_shape.items() if shape not in self._shapes]
        self._shapes.update(by_shape)
        return new

    @property
    def padding(self) -> float:
        """The share of the first batches that is padding, 0 to 1."""
        return padding_share(self.batches[:_PADDED_BATCHES])

    def replay(self) -> Iterator[Any]:
        """The batches, over and over."""
        while self.batches:
            yield from self.batches


def padding_share(batches: Iterable[Any]) -> float:
    """The share of the batches' bytes that is padding: one value repeated up to the end of a row.

    Rows are clips (the first dimension) over time (the second). Arrays without both dimensions do not count.
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
            # A single last value is not padding; if no row varies at all, padding cannot be told from data.
            trailing = np.where(trailing <= 1, 0, trailing) * bool(varies.any())
            size = float(_bytes(leaf))
            padding += size * float(trailing.sum()) / values.size
            total += size
    return padding / total if total else 0.0


def batch_bytes(batch: Any) -> int:
    """Of the arrays of a batch."""
    return sum(_bytes(leaf) for leaf in leaves(batch))


def count_objects(batch: Any) -> int:
    """The arrays and other values of a batch, each by itself."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    return sum(map(count_objects, batch)) if isinstance(batch, (tuple, list)) else 1


def _bytes(leaf: Any) -> int:
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return 0
    dtype = getattr(leaf, "dtype", None)
    size = getattr(dtype, "size", None) or getattr(dtype, "itemsize", None)
    return int(np.prod([int(one) for one in shape], dtype=np.int64)) * int(size or 4)


def batch_shapes(batch: Any) -> Shapes:
    """The shapes of a batch's arrays, in order."""
    return tuple(tuple(int(size) for size in leaf.shape) for leaf in leaves(batch) if hasattr(leaf, "shape"))


def wait_until_ready(batch: Any) -> None:
    """Return when the bytes of a batch are in memory, as they must be before a device can copy them.

    What `tf.data` and PyTorch deliver on the host is complete when `next()` returns. A JAX array may still be
    computed, and a memory-mapped NumPy array has not been read yet: the one is waited for, the other read.
    """
    for leaf in leaves(batch):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
        elif isinstance(leaf, np.ndarray) and _is_mapped(leaf):
            leaf.copy()


def leading_dimension(batch: Any) -> int:
    """The first dimension of the first array in a batch, 1 if it has none."""
    shape: Any = getattr(next(leaves(batch), None), "shape", ())
    return int(shape[0]) if len(shape) else 1


def leaves(batch: Any) -> Iterator[Any]:
    """The arrays of a batch, however they are nested in mappings, tuples and lists.

    A list of plain values is one leaf: looking at each of a million would take longer than a step.
    """
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    if isinstance(batch, (tuple, list)) and not (batch and isinstance(batch[0], _PLAIN)):
        for part in batch:
            yield from leaves(part)
    else:
        yield batch


def _is_mapped(array: np.ndarray) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)
