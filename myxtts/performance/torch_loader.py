"""PyTorch's `DataLoader`: its settings, the same loader with others, and one that times its parts.

The parts are timed where they work, in the loader's real workers: dataset and `collate_fn` are wrapped, and every
batch carries its times along. It pickles itself, as the loader's queue would have it pickled, so that handing it over
between the processes is timed at both ends. Workers may be forked or spawned: the wrappers can be pickled.

This module imports torch, so only what was given a `DataLoader` imports this module.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_start_method
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from myxtts.performance.batches import leaves
from myxtts.performance.facts import LoaderSettings, PinnedCopy
from myxtts.performance.graph_nodes import Node

_COPIES = 8


def read_settings(loader: DataLoader) -> LoaderSettings:
    context = loader.multiprocessing_context
    method = get_start_method() if context is None else context.get_start_method()
    sampler = loader.sampler if loader.batch_size is not None else loader.batch_sampler or loader.sampler
    return LoaderSettings(
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor,
        pin_memory=bool(loader.pin_memory),
        persistent_workers=bool(loader.persistent_workers),
        batch_size=loader.batch_size,
        sampler=type(sampler).__name__,
        collate_fn=_name(loader.collate_fn),
        start_method=method,
    )


def rebuilt(loader: DataLoader, **changes: Any) -> DataLoader:
    """A loader of the same batches; `changes` are arguments of `DataLoader`."""
    settings = {
        "dataset": loader.dataset,
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
    } | changes
    if not settings["num_workers"]:
        settings |= {"prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None}
    if isinstance(loader.dataset, IterableDataset):
        settings |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is not None:
        settings["batch_sampler"] = loader.batch_sampler
    else:
        settings |= {"batch_size": None, "sampler": loader.sampler}
    return DataLoader(**settings)


@dataclass(frozen=True)
class ItemTime:
    """A call of the dataset, in seconds.

    Attributes:
        key: what it was asked for; None if it was not asked for anything by name.
        count: items that it gave.
        seconds: that it took.
    """

    key: Any
    count: int
    seconds: float


@dataclass(frozen=True)
class BatchTimes:
    """What one batch took, in seconds.

    Attributes:
        items: the calls of the dataset for it.
        collate: in `collate_fn`.
        send: pickled in the worker, its arrays moved to shared memory; 0 without workers.
        receive: unpickled in the process that trains, its arrays mapped.
        pin: copied to pinned memory.
    """

    items: tuple[ItemTime, ...]
    collate: float
    send: float = 0.0
    receive: float = 0.0
    pin: float = 0.0


class TimedLoader:
    """The batches of a loader, with the times of its parts.

    It has the loader's settings, except that its workers are started once: a new epoch does not disturb the times.

    Attributes:
        times: of the batches that were taken, in order.
    """

    def __init__(self, loader: DataLoader) -> None:
        log: list[ItemTime] = []
        wrapper = _TimedIterable if isinstance(loader.dataset, IterableDataset) else _TimedDataset
        self.times: list[BatchTimes] = []
        self._loader = rebuilt(
            loader,
            dataset=wrapper(loader.dataset, log),
            collate_fn=_TimedCollate(loader.collate_fn, log),
            persistent_workers=loader.num_workers > 0,
        )

    def __iter__(self) -> Iterator[Any]:
        for timed in self._loader:
            self.times.append(timed.times)
            yield timed.batch


def loader_nodes(times: Sequence[BatchTimes], settings: LoaderSettings, dataset: str) -> list[Node]:
    """The parts of a loader as nodes, from its end to its source: receive, pin, send, collate, dataset.

    Receiving and pinning happen in the process that trains, the rest in its workers, one after the other.
    """
    if not times:
        return []
    workers = max(1, settings.num_workers)
    items = [item for one in times for item in one.items]
    named = (
        ("Receive", "hand-over, received", "receive", 1),
        ("Pin", "copy to pinned memory", "pin", 1),
        ("Send", "hand-over, sent", "send", workers),
        ("Collate", f"collate_fn {settings.collate_fn}", "collate", workers),
    )
    nodes = [
        Node(name, kind, float(np.mean([getattr(one, field) for one in times])), 1.0, threads)
        for kind, name, field, threads in named
    ]
    count = sum(item.count for item in items) / len(times)
    nodes.append(Node(dataset, "Dataset", sum(item.seconds for item in items) / len(times), count, workers))
    return nodes


def dataset_name(loader: DataLoader) -> str:
    """Of the method that gives a clip."""
    method = "__iter__" if isinstance(loader.dataset, IterableDataset) else "__getitem__"
    if hasattr(loader.dataset, "__getitems__"):
        method = "__getitems__"
    return f"{type(loader.dataset).__name__}.{method}"


def time_item(loader: DataLoader, key: Any) -> float:
    """Seconds of one more call of the dataset, in this process; infinity if it cannot be called here."""
    began = time.perf_counter()
    try:
        loader.dataset[key]
    except Exception:  # what only a worker has, say
        return float("inf")
    return time.perf_counter() - began


def pinned_copy(loader: DataLoader, batches: Sequence[Any]) -> PinnedCopy | None:
    """Times the copy of batches to the GPU, from memory that is pinned and that is not.

    None without a GPU, with a loader that pins already, and for batches that are on the GPU.
    """
    if loader.pin_memory or not torch.cuda.is_available():
        return None
    tensors = [[leaf for leaf in leaves(batch) if isinstance(leaf, torch.Tensor)] for batch in batches[:_COPIES]]
    if not any(tensors) or any(leaf.is_cuda or leaf.is_pinned() for batch in tensors for leaf in batch):
        return None
    pinned = [[leaf.pin_memory() for leaf in batch] for batch in tensors]
    _copy_seconds(tensors[0])  # the first copy is slower than all others
    return PinnedCopy(
        float(np.median([_copy_seconds(batch) for batch in tensors])),
        float(np.median([_copy_seconds(batch) for batch in pinned])),
    )


def _copy_seconds(tensors: Sequence[torch.Tensor]) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    copies = [tensor.to("cuda", non_blocking=True) for tensor in tensors]
    torch.cuda.synchronize()
    del copies
    return time.perf_counter() - began


class _TimedDataset(Dataset):
    """A dataset whose calls are noted in a list."""

    def __init__(self, dataset: Any, log: list[ItemTime]) -> None:
        self._dataset = dataset
        self._log = log

    def __getitem__(self, key: Any) -> Any:
        return self._timed(lambda: self._dataset[key], key, 1)

    def __getattr__(self, name: str) -> Any:
        # The wrapper has `__getitems__` only if the dataset has it: the loader asks.
        if name.startswith("_") and name != "__getitems__":
            raise AttributeError(name)
        found = getattr(self._dataset, name)
        if name == "__getitems__":
            return lambda keys: self._timed(lambda: found(keys), None, len(keys))
        return found

    def __len__(self) -> int:
        return len(self._dataset)

    def _timed(self, call: Callable[[], Any], key: Any, count: int) -> Any:
        began = time.perf_counter()
        value = call()
        self._log.append(ItemTime(key, count, time.perf_counter() - began))
        return value


class _TimedIterable(IterableDataset):
    """The same for a dataset that can only be iterated over."""

    def __init__(self, dataset: Any, log: list[ItemTime]) -> None:
        self._dataset = dataset
        self._log = log

    def __iter__(self) -> Iterator[Any]:
        items = iter(self._dataset)
        while True:
            began = time.perf_counter()
            try:
                item = next(items)
            except StopIteration:
                return
            self._log.append(ItemTime(None, 1, time.perf_counter() - began))
            yield item

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._dataset, name)


class _TimedCollate:
    """A `collate_fn` whose batches carry their times."""

    def __init__(self, collate_fn: Callable[[Any], Any], log: list[ItemTime]) -> None:
        self._collate_fn = collate_fn
        self._log = log

    def __call__(self, items: Any) -> _TimedBatch:
        began = time.perf_counter()
        batch = self._collate_fn(items)
        times = BatchTimes(tuple(self._log), time.perf_counter() - began)
        self._log.clear()
        return _TimedBatch(batch, times)


class _TimedBatch:
    def __init__(self, batch: Any, times: BatchTimes) -> None:
        self.batch = batch
        self.times = times

    def __reduce__(self) -> tuple[Any, ...]:
        began = time.perf_counter()
        packed = bytes(ForkingPickler.dumps(self.batch))
        return _received, (packed, replace(self.times, send=time.perf_counter() - began))

    def pin_memory(self) -> _TimedBatch:
        """Called by the loader's thread that pins."""
        from torch.utils.data._utils.pin_memory import pin_memory

        began = time.perf_counter()
        pinned = pin_memory(self.batch)
        return _TimedBatch(pinned, replace(self.times, pin=time.perf_counter() - began))


def _received(packed: bytes, times: BatchTimes) -> _TimedBatch:
    began = time.perf_counter()
    batch = pickle.loads(packed)
    return _TimedBatch(batch, replace(times, receive=time.perf_counter() - began))


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
