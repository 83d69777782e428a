"""A third column, as somebody who adds one would write it: the energy of each frame. Workers import this module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from myxtts.data.store.columns import AUDIO, ClipRows, ColumnEntry, read_stamped, rows_or_reason
from myxtts.data.store.format import optional_column
from myxtts.errors import AudioError

SILENCE = -1.0


class EnergyComputer:
    def __init__(self, sample_rate: int, hop_length: int, longest: int) -> None:
        self._sample_rate = sample_rate
        self._hop_length = hop_length
        self._longest = longest

    def compute(self, items: Sequence[str]) -> Iterator[ClipRows | str]:
        for path in items:
            yield rows_or_reason(self._compute, path)

    def _compute(self, path: str) -> ClipRows:
        audio, source = read_stamped(path, self._sample_rate)
        if len(audio) > self._longest:
            raise AudioError(f"{path}: too long to have its energy computed")
        return ClipRows(energy(audio, self._hop_length), source)


def energy(audio: np.ndarray, hop_length: int) -> np.ndarray:
    """Sum and maximum of each hop's squares, float32 [F, 2]."""
    hops = audio[: len(audio) // hop_length * hop_length].reshape(-1, hop_length) ** 2
    return np.stack([hops.sum(axis=1), hops.max(axis=1)], axis=1).astype("<f4")


def energy_column(longest: int = 10**9) -> ColumnEntry:
    return ColumnEntry(
        name="energy",
        plural="energies",
        stage="energies",
        source=AUDIO,
        section="energy",
        layout=lambda config: optional_column("energy", "float32", (2,), SILENCE),
        fingerprint=lambda config: {"sample_rate": config.sample_rate, "hop_length": config.hop_length},
        computer=EnergyComputer,
        settings=lambda config: {
            "sample_rate": config.sample_rate,
            "hop_length": config.hop_length,
            "longest": longest,
        },
        expected_bytes=lambda config, clip, samples: samples // config.hop_length * 8,
        seconds_per_row=lambda config: config.hop_length / config.sample_rate,
    )
