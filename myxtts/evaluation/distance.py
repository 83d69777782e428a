"""How far apart two mels are, whatever the tempo: dynamic time warping, mel-cepstral distortion, mel distance.

Mel-cepstral distortion in dB, over the K pairs of frames (i, j) on the warping path:

    MCD = 10 √2 / ln 10 · 1/K · Σ √( Σ_{d=1..13} (c_d(i) − c'_d(j))² )

where c is the orthonormal DCT-II of a frame's natural-log mel; the coefficient 0, its loudness, is left out. It is
made from mels and not from a vocoder's spectral envelope, so it compares with itself, not with other papers' figures.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import dct

COEFFICIENTS = 13
DECIBELS = 10 * math.sqrt(2) / math.log(10)


def cepstra(mel: np.ndarray) -> np.ndarray:
    """Coefficients 1 to 13 of each frame of a natural-log mel [F, n_mels]: float32 [F, 13]."""
    return dct(mel.astype(np.float32), type=2, norm="ortho", axis=1)[:, 1 : 1 + COEFFICIENTS]


def mel_cepstral_distortion(mel: np.ndarray, other: np.ndarray) -> float:
    """MCD in dB of two natural-log mels [F, n_mels], as stated above."""
    return DECIBELS * warped_distance(cepstra(mel), cepstra(other))


def mel_distance(mel: np.ndarray, other: np.ndarray) -> float:
    """Root mean square difference per band of two natural-log mels, averaged along the warping path.

    Unlike the cepstra's, it sees the pitch, by which voices are told apart.
    """
    return warped_distance(mel, other) / math.sqrt(mel.shape[1])


def warped_distance(frames: np.ndarray, others: np.ndarray) -> float:
    """Mean Euclidean distance of the frames that dynamic time warping pairs.

    The path goes from the first pair to the last in steps of (1, 1), (1, 0) and (0, 1) and has the least sum.

    Args:
        frames: [N, D], N at least 1.
        others: [M, D], M at least 1.
    """
    if not len(frames) or not len(others):
        raise ValueError("there is no frame to compare")
    distance = _distances(frames, others)
    total, steps = _least_path(distance)
    return total / steps


def _distances(frames: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Euclidean distances of all pairs, float64 [N, M]."""
    a, b = frames.astype(np.float64), others.astype(np.float64)
    squared = np.sum(a * a, axis=1)[:, None] + np.sum(b * b, axis=1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0))


def _least_path(distance: np.ndarray) -> tuple[float, int]:
    """Sum and number of the pairs on the path with the least sum, one diagonal of the matrix at a time."""
    rows, columns = distance.shape
    # skewed[d, i] is distance[i, d − i]: a diagonal is a row. Outside of the matrix nothing is reachable.
    skewed = np.full((rows + columns - 1, rows), np.inf)
    row = np.arange(rows)[:, None]
    skewed[row + np.arange(columns)[None], row] = distance

    sums = np.full((2, rows + 1), np.inf)  # of the last two diagonals, with a column of nothing before the first row
    steps = np.zeros((2, rows + 1), np.int64)
    sums[1, 1:], steps[1, 1] = skewed[0], 1
    for diagonal in skewed[1:]:
        # Into (i, j): from (i − 1, j − 1) two diagonals back, from (i − 1, j) and (i, j − 1) one diagonal back.
        straight, down, across = sums[0, :-1], sums[1, :-1], sums[1, 1:]
        is_down = down <= across
        turn = np.where(is_down, down, across)
        is_straight = straight <= turn
        count = np.where(is_straight, steps[0, :-1], np.where(is_down, steps[1, :-1], steps[1, 1:]))
        total = np.where(is_straight, straight, turn) + diagonal
        sums[0], steps[0] = sums[1], steps[1]
        sums[1, 1:], steps[1, 1:] = total, count + 1
    return float(sums[1, rows]), int(steps[1, rows])
