"""Peers on Grain's threads: a `.npy` file per clip, and whole batches from the packed file.

Its worker processes hand batches over through shared memory, as PyTorch's do; on two cores threads are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grain
import numpy as np

from loading.data import BenchData
from loading.packed import PackedBatches
from loading.source import Source
from myxtts.hardware import usable_cpus

PREFETCH_CLIPS = 256
PREFETCH_BATCHES = 8


def npy(data: BenchData) -> Source:
    """A file per clip, read in threads and padded in the thread that asks."""
    clips = grain.MapDataset.source(data.clip_batches.ravel()).repeat()
    clips = clips.map(lambda row: np.load(data.npy_path(row)))
    read = grain.ReadOptions(num_threads=2 * usable_cpus(), prefetch_buffer_size=PREFETCH_CLIPS)
    batches = clips.to_iter_dataset(read).batch(data.batch_size, batch_fn=_pad)
    return data.peer_source(iter(batches))


def packed(data: BenchData, dtype: str) -> Source:
    """An element is a whole batch, built in NumPy in a thread of its own."""
    batches = grain.MapDataset.source(data.clip_batches).repeat().map(PackedBatches(data.store(dtype)))
    read = grain.ReadOptions(num_threads=usable_cpus(), prefetch_buffer_size=PREFETCH_BATCHES)
    return data.peer_source(iter(batches.to_iter_dataset(read)))


def _pad(clips: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(clip) for clip in clips], np.int32)
    mel = np.zeros((len(clips), lengths.max(), clips[0].shape[1]), np.float32)
    for place, clip in enumerate(clips):
        mel[place, : len(clip)] = clip
    return mel, lengths
