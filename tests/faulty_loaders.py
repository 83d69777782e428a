"""PyTorch loaders and Python iterables with one real fault each, beside the same without it, and healthy ones.

Where possible, a fault costs time without using the CPU, so that it shows on two cores. Datasets need no base class
of PyTorch's, so reading this file needs no torch; making a loader does.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from fault_case import STEP, Case, compute, simulated

CLIPS = 1 << 16
BATCH = 8
FRAMES, BANDS = 24, 8


def loader(dataset: Any, num_workers: int, **settings: Any) -> Any:
    """A DataLoader whose workers stay, unless a case is about their start."""
    import warnings

    from torch.utils.data import DataLoader

    batches = {} if "batch_sampler" in settings else {"batch_size": BATCH}
    persistent = {"persistent_workers": True} if num_workers else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than CPUs are the fault
        return DataLoader(dataset, num_workers=num_workers, **(batches | persistent | settings))


class Clips:
    """Clips that wait for their bytes, and are computed.

    Args:
        wait: seconds without the CPU, for every clip.
        work: seconds on the CPU.
        slow: every so-manyth clip takes `slow_wait` seconds; 0: none does.
        count: clips in an epoch.
    """

    def __init__(
        self, wait: float = 0.0, work: float = 0.0, slow: int = 0, slow_wait: float = 0.6, count: int = CLIPS
    ) -> None:
        self.wait, self.work = wait, work
        self.slow, self.slow_wait = slow, slow_wait
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> np.ndarray:
        is_slow = self.slow and number % self.slow == self.slow - 1
        time.sleep(self.slow_wait if is_slow else self.wait)
        if self.work:
            compute(self.work)
        return np.full([FRAMES, BANDS], number, np.float32)


def streamed(wait: float) -> Any:
    """An iterable dataset, whose workers share its clips."""
    from torch.utils.data import IterableDataset, get_worker_info

    class Stream(IterableDataset):
        def __iter__(self) -> Iterator[np.ndarray]:
            worker = get_worker_info()
            of, place = (worker.num_workers, worker.id) if worker else (1, 0)
            clips = Clips(wait)
            for number in range(place, CLIPS, of):
                yield clips[number]

    return Stream()


class WholeBatches:
    """A dataset that gives whole batches, as one that reads shards does."""

    def __init__(self, wait: float) -> None:
        self.wait = wait

    def __len__(self) -> int:
        return CLIPS

    def __getitem__(self, number: int) -> np.ndarray:
        time.sleep(self.wait)
        return np.full([BATCH, FRAMES, BANDS], number, np.float32)


class Throttled:
    """Clips behind a link of fixed bandwidth, shared by all workers."""

    def __init__(self, seconds_per_clip: float) -> None:
        self.seconds = seconds_per_clip
        self.free = multiprocessing.Value("d", 0.0)

    def __len__(self) -> int:
        return CLIPS

    def __getitem__(self, number: int) -> np.ndarray:
        with self.free.get_lock():
            self.free.value = max(self.free.value, time.perf_counter()) + self.seconds
            ready = self.free.value
        time.sleep(max(0.0, ready - time.perf_counter()))
        return np.full([FRAMES, BANDS], number, np.float32)


class Disk:
    """Clips on a disk with a head: it seeks back and forth when more than `MOST` read at once."""

    MOST = 2

    def __init__(self) -> None:
        self.readers = multiprocessing.Value("i", 0)

    def __len__(self) -> int:
        return CLIPS

    def __getitem__(self, number: int) -> np.ndarray:
        with self.readers.get_lock():
            self.readers.value += 1
            readers = self.readers.value
        try:
            time.sleep(0.004 if readers <= self.MOST else 0.012 * readers)
        finally:
            with self.readers.get_lock():
                self.readers.value -= 1
        return np.full([FRAMES, BANDS], number, np.float32)


# What is done with the clips of a batch.

TENSORS = 150
ROWS = [{"id": number, "values": [float(k) for k in range(3_000)]} for number in range(90)]


def stacked(clips: Sequence[np.ndarray]) -> Any:
    import torch

    return torch.from_numpy(np.stack(clips))


def value_by_value(clips: Sequence[np.ndarray]) -> Any:
    """A loop in Python over every value."""
    compute(0.09)
    return stacked(clips)


def as_lists(clips: Sequence[np.ndarray]) -> Any:
    """Python numbers, as from a JSON file: a quarter of a million objects."""
    return ROWS, stacked(clips)


def as_one_array(clips: Sequence[np.ndarray]) -> Any:
    return {"ids": np.arange(90), "values": np.arange(270_000, dtype=np.float64)}, stacked(clips)


def many_tensors(clips: Sequence[np.ndarray]) -> Any:
    import torch

    return [torch.full([2], float(number)) for number in range(TENSORS)], stacked(clips)


def one_tensor(clips: Sequence[np.ndarray]) -> Any:
    import torch

    return torch.zeros([TENSORS, 2]), stacked(clips)


def read_lexicon(worker: int) -> None:
    """What every worker does first."""
    time.sleep(0.4)


def long_blocking_step() -> Callable[[Any], None]:
    """Long beside the millisecond or two in which the loop itself receives a batch from a worker."""
    return lambda batch: time.sleep(0.08)


# Python iterables, without a framework.


class Generated:
    """Batches from a Python loop that keeps the interpreter lock while it makes each, as Python code does.

    Args:
        microseconds: for a batch. They pass without the CPU, so that a busy machine does not change them.
    """

    def __init__(self, microseconds: int) -> None:
        self.microseconds = microseconds

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            yield self.make_batch()

    def make_batch(self) -> np.ndarray:
        ctypes.PyDLL(None).usleep(self.microseconds)
        return np.zeros([BATCH, FRAMES, BANDS], np.float32)


class Waiting:
    """Batches from a Python loop that waits for each."""

    def __init__(self, wait: float) -> None:
        self.wait = wait

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            time.sleep(self.wait)
            yield np.zeros([BATCH, FRAMES, BANDS], np.float32)


SHORT_EPOCH = 10 * BATCH

LOADER_CASES: dict[str, Case] = {
    "no workers": Case(
        "too-few-workers", lambda: loader(Clips(0.008), 0), lambda: loader(Clips(0.008), 4), long_blocking_step
    ),
    "one worker for slow reads": Case(
        "too-few-workers", lambda: loader(Clips(0.01), 1), lambda: loader(Clips(0.01), 8)
    ),
    "one worker for a stream": Case(
        "too-few-workers", lambda: loader(streamed(0.01), 1), lambda: loader(streamed(0.01), 8)
    ),
    "whole batches, without workers": Case(
        "too-few-workers",
        lambda: loader(WholeBatches(0.05), 0, batch_size=None),
        lambda: loader(WholeBatches(0.05), 4, batch_size=None),
    ),
    "a loop over values in collate_fn": Case(
        "slow-collate",
        lambda: loader(Clips(), 2, collate_fn=value_by_value),
        lambda: loader(Clips(), 2, collate_fn=stacked),
        num_batches=20,
    ),
    "clips computed one by one": Case(
        "per-clip-work", lambda: loader(Clips(work=0.012), 2), lambda: loader(Clips(), 2), num_batches=20
    ),
    "Python numbers in batches": Case(
        "hand-over",
        lambda: loader(Clips(), 2, collate_fn=as_lists),
        lambda: loader(Clips(), 2, collate_fn=as_one_array),
        simulated(0.015),
    ),
    "a tensor for every value": Case(
        "hand-over",
        lambda: loader(Clips(), 2, collate_fn=many_tensors),
        lambda: loader(Clips(), 2, collate_fn=one_tensor),
        simulated(0.015),
    ),
    "workers forked in every epoch": Case(
        "worker-start",
        lambda: loader(Clips(count=SHORT_EPOCH), 2, persistent_workers=False, worker_init_fn=read_lexicon),
        lambda: loader(Clips(count=SHORT_EPOCH), 2, worker_init_fn=read_lexicon),
        num_batches=40,
    ),
    "workers spawned in every epoch": Case(
        "worker-start",
        lambda: loader(Clips(count=SHORT_EPOCH), 1, persistent_workers=False, multiprocessing_context="spawn"),
        lambda: loader(Clips(count=SHORT_EPOCH), 1, multiprocessing_context="spawn"),
        num_batches=20,
    ),
    "a few slow clips, in workers": Case(
        "slow-clips",
        lambda: loader(Clips(0.002, slow=80), 4),
        lambda: loader(Clips(0.002), 4),
        simulated(0.02),
        num_batches=80,
    ),
    "a slow link for all workers": Case(
        "slow-storage", lambda: loader(Throttled(0.01), 4), lambda: loader(Throttled(0.0005), 4)
    ),
    "a disk that seeks for too many": Case("too-many-workers", lambda: loader(Disk(), 16), lambda: loader(Disk(), 2)),
    "a slow Python generator": Case(
        "python-function", lambda: iter(Generated(12_000)), lambda: Generated(500), simulated(0.006), num_batches=60
    ),
    "a Python loop that waits": Case(
        "low-parallelism", lambda: Waiting(0.05), lambda: loader(WholeBatches(0.05), 4, batch_size=None)
    ),
    "a Python loop in the training loop": Case(
        "no-prefetch",
        lambda: Waiting(0.03),
        lambda: loader(WholeBatches(0.03), 2, batch_size=None),
        long_blocking_step,
    ),
}

HEALTHY_LOADERS: dict[str, Callable[[], Any]] = {
    "two workers that keep up": lambda: loader(Clips(0.002), 2),
    "no workers, and none needed": lambda: loader(Clips(), 0),
    "a quick Python loop": lambda: Waiting(0.001),
}

__all__ = ["HEALTHY_LOADERS", "LOADER_CASES", "STEP"]
