"""How far apart two mels are, whatever the tempo: dynamic time warping, mel-cepstral distortion, mel distance.

Mel-cepstral distortion in dB, over the K pairs of frames (i, j) on the warping path:

    MCD = 10 √2 / ln 10 · 1/K · Σ √( Σ_{d=1..13} (c_d(i) − c'_d(j))² )

where c is the cepstrum of a frame's natural-log mel m of B bands,

    c_d = 2/B · Σ_{k=0..B−1} m_k cos(π d (k + ½) / B)

on the scale of a vocoder's mel-cepstra, in which a frame is c_0 / 2 + Σ c_d cos(π d (k + ½) / B). Coefficient 0, the
loudness, is left out. The cepstra come from mels and not from a vocoder's spectral envelope, so compare these figures
with each other, not with those of papers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.fft import dct

COEFFICIENTS = 13
DECIBELS = 10 * math.sqrt(2) / math.log(10)

# Most cells of distance matrices in memory at a time: 64 MB.
_CELLS = 16 << 20


def cepstra(mel: np.ndarray) -> np.ndarray:
    """Coefficients 1 to 13 of each frame of a natural-log mel [F, n_mels]: float32 [F, 13]."""
    # SciPy's sum includes the factor 2.
    return dct(mel.astype(np.float32), type=2, axis=1)[:, 1 : 1 + COEFFICIENTS] / mel.shape[1]


def mel_cepstral_distortion(mel: np.ndarray, other: np.ndarray) -> float:
    """MCD in dB of two natural-log mels [F, n_mels], as stated above."""
    return DECIBELS * float(warped_distances(cepstra(mel), [cepstra(other)])[0])


def mel_distances(mel: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Root mean square difference per band of a natural-log mel to each of many, averaged along the warping path:
    float64 [len(others)].

    Unlike the cepstra, it depends on pitch, which distinguishes voices.
    """
    return warped_distances(mel, others) / math.sqrt(mel.shape[1])


def halved(mel: np.ndarray) -> np.ndarray:
    """A mel [F, n_mels] at half its frame rate, every two frames averaged: [⌈F / 2⌉, n_mels]."""
    pairs = len(mel) // 2
    averaged = mel[: 2 * pairs].reshape(pairs, 2, mel.shape[1]).mean(axis=1)
    return np.concatenate([averaged, mel[2 * pairs :]])


def warped_distances(frames: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Mean Euclidean distance of the frames that dynamic time warping pairs, of one sequence to each of many:
    float64 [len(others)], much faster than one by one.

    The path goes from the first pair to the last in steps of (1, 1), (1, 0) and (0, 1) and has the least sum.

    Args:
        frames: [N, D], N at least 1.
        others: each [M, D]; M may differ, and is at least 1.
    """
    if not len(frames) or not all(len(other) for other in others):
        raise ValueError("there is no frame to compare")
    longest = max((len(other) for other in others), default=1)
    together = max(1, _CELLS // (len(frames) * (len(frames) + longest)))
    groups = [others[first : first + together] for first in range(0, len(others), together)]
    return np.concatenate([np.zeros(0), *(_least_means(frames, group) for group in groups)])


def _least_means(frames: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over the pairs on the path with the least sum, computed one diagonal of all matrices at a time."""
    rows, places = len(frames), len(others)
    columns = np.array([len(other) for other in others])
    # skewed[d, b, i] is the distance of frame i to frame d − i of sequence b: a diagonal becomes a row. Outside of
    # the matrices it is infinite.
    skewed = np.full((rows + columns.max() - 1, places, rows), np.inf, np.float32)
    row = np.arange(rows)[:, None]
    distances = np.split(_distances(frames, np.concatenate(others)), np.cumsum(columns)[:-1], axis=1)
    for place, distance in enumerate(distances):
        skewed[row + np.arange(distance.shape[1])[None], place, row] = distance

    # For the last two diagonals, with an infinite entry before the first row.
    sums = np.full((2, places, rows + 1), np.inf, np.float32)
    steps = np.zeros((2, places, rows + 1), np.float32)
    sums[1, :, 1:], steps[1, :, 1] = skewed[0], 1
    ends = rows + columns - 2
    means = np.empty(places)
    for number, diagonal in enumerate(skewed):
        if number:
            # Into (i, j): from (i − 1, j − 1) two diagonals back, from (i − 1, j) and (i, j − 1) one diagonal back.
            straight, down, across = sums[0, :, :-1], sums[1, :, :-1], sums[1, :, 1:]
            is_down = down <= across
            turn = np.where(is_down, down, across)
            is_straight = straight <= turn
            turned = np.where(is_down, steps[1, :, :-1], steps[1, :, 1:])
            count = np.where(is_straight, steps[0, :, :-1], turned) + 1
            total = np.where(is_straight, straight, turn) + diagonal
            sums, steps = sums[::-1], steps[::-1]
            sums[1, :, 1:], steps[1, :, 1:] = total, count
        ended = ends == number
        if ended.any():
            means[ended] = sums[1, ended, rows] / steps[1, ended, rows]
    return means


def _distances(frames: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Euclidean distances of all pairs, float64 [N, M]: near 0 the difference of squares needs the precision."""
    a, b = frames.astype(np.float64), others.astype(np.float64)
    squared = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0))
