"""Whole batches built in NumPy from the packed file: the loop that peers run in their workers, the loop that blocks
the training thread, and the limit of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from loading.data import BenchData
from loading.source import Source
from myxtts.data.store import FeatureStore
from myxtts.data.store.allocation import keep_freed_memory
from myxtts.hardware import usable_cpus

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD_PER_THREAD = 2


class PackedBatches:
    """Padded batches by one copy per clip; what is copied and what is filled is written once.

    Args:
        store: the store whose packed mels are read through a mapping.
    """

    def __init__(self, store: FeatureStore) -> None:
        self.mels = store.mel_data
        self.padding = store.mel_data[-1, 0]
        self.offsets = store.mel_offsets.astype(np.int64)
        self.lengths = store.mel_lengths.astype(np.int32)

    def __call__(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """mel [B, F, n_mels] in the stored type, and lengths int32 [B]."""
        lengths = self.lengths[rows]
        mel = np.empty((len(rows), lengths.max(), self.mels.shape[1]), self.mels.dtype)
        for place, (start, frames) in enumerate(zip(self.offsets[rows].tolist(), lengths.tolist(), strict=True)):
            mel[place, :frames] = self.mels[start : start + frames]
            mel[place, frames:] = self.padding
        return mel, lengths


def blocking_loop(data: BenchData, dtype: str) -> Source:
    """Builds each batch when it is asked for, in the thread that asks."""
    build = PackedBatches(data.store(dtype))
    batches = map(build, itertools.cycle(data.clip_batches))
    return data.peer_source(batches)


def limit(data: BenchData, dtype: str, threads: str, memory: str) -> Source:
    """Allocates each padded batch of ours and copies as many bytes of the packed file into it, in one piece.

    Args:
        threads: `one`, in the thread that asks; or `all`, as many as there are CPUs, ahead of it.
        memory: `fresh`, as the C library gives it; or `kept`, as `keep_freed_memory` lets it be reused.
    """
    if memory == "kept":
        keep_freed_memory()
    store, plan = data.store(dtype), data.plan()
    mels = store.mel_data
    frames = np.array([plan.buckets[bucket].frames for bucket in plan.epoch(0, 0).bucket_of_batch])
    first = np.random.default_rng(0).integers(0, max(1, len(mels) - data.batch_size * frames.max()), len(frames))

    def copy(place: tuple[int, int]) -> np.ndarray:
        start, count = place
        batch = np.empty((data.batch_size, count, mels.shape[1]), mels.dtype)
        source = mels[start : start + data.batch_size * count]
        np.copyto(batch.reshape(-1, mels.shape[1])[: len(source)], source)
        return batch

    places = itertools.cycle(zip(first.tolist(), frames.tolist(), strict=True))
    batches = map(copy, places) if threads == "one" else ahead(copy, places, usable_cpus())
    return Source(batches, plan.clips / len(plan), plan.padding_share)


def ahead(work: Callable[[Item], Result], items: Iterator[Item], threads: int) -> Iterator[Result]:
    """`map` in a pool of threads, in order, a few items ahead."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(work, next(items)) for _ in range(AHEAD_PER_THREAD * threads)]
        while True:
            yield waiting.pop(0).result()
            waiting.append(pool.submit(work, next(items)))
