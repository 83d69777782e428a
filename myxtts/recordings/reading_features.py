"""What a long reading and its spoken reference are compared by: cepstra of 20 ms, and levels of 10 ms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct

RATE = 16000
FRAME_SECONDS = 0.02
LEVEL_SECONDS = 0.01

_HOP = int(FRAME_SECONDS * RATE)
_LEVEL = int(LEVEL_SECONDS * RATE)
_WINDOW = 512
_BANDS = 26
_LOWEST_HZ, _HIGHEST_HZ = 60.0, 7600.0
_CEPSTRA = 13
_EMPHASIS = 0.97
_FLOOR = 1e-8
_SILENT = 1e-10
_QUIETEST_PERCENT = 30  # frames that are left out of mean and deviation: silence differs from room to room


@dataclass(frozen=True)
class Sounds:
    """What is computed of a stretch of audio at 16 kHz.

    Attributes:
        bands: float32 [frames of 20 ms, 26], log power.
        levels: float32 [frames of 10 ms], dB of full scale.
    """

    bands: np.ndarray
    levels: np.ndarray


def listen(audio: np.ndarray) -> Sounds:
    """The features of float32 audio [n] at 16 kHz: n // 320 frames of 20 ms, n // 160 of 10 ms."""
    frames = len(audio) // _HOP
    sharpened = np.append(audio[:1], audio[1:] - _EMPHASIS * audio[:-1])
    padded = np.pad(sharpened, (_WINDOW // 2, _WINDOW))
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP][:frames]
    power = np.abs(np.fft.rfft(windows * np.hamming(_WINDOW), axis=1)) ** 2
    bands = np.log(power @ _filters() + _FLOOR).astype(np.float32)
    whole = audio[: len(audio) // _LEVEL * _LEVEL].reshape(-1, _LEVEL).astype(np.float64)
    levels = 10 * np.log10(np.mean(whole**2, axis=1) + _SILENT)
    return Sounds(bands, levels.astype(np.float32))


def cepstra(bands: np.ndarray) -> np.ndarray:
    """float32 [frames, 26] of log bands: 13 cepstra and their slopes, each with mean 0 and deviation 1 where it is
    not quiet."""
    still = dct(bands, norm="ortho", axis=1)[:, :_CEPSTRA]
    moving = 2 * np.gradient(still, axis=0)
    both = np.concatenate([still, moving], axis=1)
    loud = both[:, 0] >= np.percentile(both[:, 0], _QUIETEST_PERCENT)
    return ((both - both[loud].mean(axis=0)) / (both[loud].std(axis=0) + _FLOOR)).astype(np.float32)


def stretched(frames: np.ndarray, ratio: float) -> np.ndarray:
    """Frames [n, …] as round(n · ratio), at least one, by linear interpolation."""
    count = max(1, round(len(frames) * ratio))
    place = np.linspace(0, len(frames) - 1, count)
    before = place.astype(np.int64)
    after = np.minimum(before + 1, len(frames) - 1)
    share = (place - before)[:, None].astype(np.float32)
    return frames[before] * (1 - share) + frames[after] * share


def _filters() -> np.ndarray:
    """float64 [frequencies, bands]: triangles that are equally wide in mel."""

    def mel(hertz: float) -> float:
        return float(2595 * np.log10(1 + hertz / 700))

    edges = 700 * (10 ** (np.linspace(mel(_LOWEST_HZ), mel(_HIGHEST_HZ), _BANDS + 2) / 2595) - 1)
    frequency = np.arange(_WINDOW // 2 + 1)[:, None] * RATE / _WINDOW
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    return np.clip(np.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle)), 0, None)
