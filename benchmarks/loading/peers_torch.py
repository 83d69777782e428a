"""Peers on PyTorch's DataLoader: a `.npy` file per clip, and whole batches from the packed file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from loading.data import BenchData
from loading.packed import PackedBatches
from loading.source import Source

PER_CLIP_WORKERS = 4
PACKED_WORKERS = 2
PREFETCH = 4


class EndlessBatches(Sampler):
    """The rows of batch after batch, without end, so that no epoch restarts the workers."""

    def __init__(self, batches: np.ndarray) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return itertools.cycle(self.batches.tolist())


class NpyClips(Dataset):
    """A file per clip."""

    def __init__(self, data: BenchData) -> None:
        self.paths = [data.npy_path(row) for row in range(data.clips)]

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.paths[row]))


class PackedClips(Dataset):
    """The packed file; an item is a whole batch, built in NumPy."""

    def __init__(self, data: BenchData, dtype: str) -> None:
        self.build = PackedBatches(data.store(dtype))

    def __getitem__(self, rows: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        mel, lengths = self.build(np.asarray(rows))
        return torch.from_numpy(mel), torch.from_numpy(lengths)


def pad(clips: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Clips [F, n_mels] as one batch and their lengths."""
    lengths = torch.tensor([len(clip) for clip in clips], dtype=torch.int32)
    return torch.nn.utils.rnn.pad_sequence(clips, batch_first=True), lengths


def npy(data: BenchData) -> Source:
    """A file per clip, padded by `pad_sequence` in four workers."""
    loader = DataLoader(
        NpyClips(data),
        batch_sampler=EndlessBatches(data.clip_batches),
        collate_fn=pad,
        num_workers=PER_CLIP_WORKERS,
        prefetch_factor=PREFETCH,
    )
    return data.peer_source(iter(loader))


def packed(data: BenchData, dtype: str) -> Source:
    """Its strongest form: the sampler hands out batches, a worker builds each in one piece, nothing is collated."""
    loader = DataLoader(
        PackedClips(data, dtype),
        sampler=EndlessBatches(data.clip_batches),
        batch_size=None,
        num_workers=PACKED_WORKERS,
        prefetch_factor=PREFETCH,
    )
    return data.peer_source(iter(loader))
