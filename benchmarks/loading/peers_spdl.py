"""Peers on SPDL's threads: a `.npy` file per clip, and whole batches from the packed file."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from spdl.pipeline import PipelineBuilder

from loading.data import BenchData
from loading.packed import PackedBatches
from loading.source import Source
from myxtts.hardware import usable_cpus

READERS = 4
BUFFERED = 8


def npy(data: BenchData) -> Source:
    """A thread reads the files of a batch and pads them; whole batches per task, for tasks per clip are slower."""

    def load(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        clips = [np.load(data.npy_path(row)) for row in rows]
        lengths = np.array([len(clip) for clip in clips], np.int32)
        mel = np.zeros((len(clips), lengths.max(), clips[0].shape[1]), np.float32)
        for place, clip in enumerate(clips):
            mel[place, : len(clip)] = clip
        return mel, lengths

    return _source(data, load, READERS)


def packed(data: BenchData, dtype: str) -> Source:
    """A thread builds a whole batch in NumPy."""
    return _source(data, PackedBatches(data.store(dtype)), usable_cpus())


def _source(data: BenchData, load: Callable[[np.ndarray], Any], threads: int) -> Source:
    pipeline = (
        PipelineBuilder[np.ndarray, Any]()
        .add_source(itertools.cycle(data.clip_batches))
        .pipe(load, concurrency=threads, output_order="input")
        .add_sink(BUFFERED)
        .build(num_threads=threads)
    )
    pipeline.start()
    return data.peer_source(iter(pipeline))
