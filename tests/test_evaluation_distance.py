"""Distances of mels: against a plain dynamic programme, and what they must see and not see."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from speech_like import sound

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.evaluation import distance
from myxtts.evaluation.distance import (
    cepstra,
    halved,
    mel_cepstral_distortion,
    mel_distances,
    warped_distances,
)


def plain(frames: np.ndarray, others: np.ndarray) -> float:
    """Dynamic time warping cell by cell."""
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for i, a in enumerate(frames):
        for j, b in enumerate(others):
            before = [best[step] for step in ((i - 1, j - 1), (i - 1, j), (i, j - 1)) if step in best]
            total, steps = min(before, key=lambda entry: entry[0]) if before else (0.0, 0)
            best[i, j] = total + float(np.linalg.norm(a - b)), steps + 1
    total, steps = best[len(frames) - 1, len(others) - 1]
    return total / steps


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 10**6))
def test_warping_equals_the_plain_programme(rows: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    frames, others = generator.standard_normal((rows, 3)), generator.standard_normal((columns, 3))
    assert warped_distances(frames, [others])[0] == pytest.approx(plain(frames, others), rel=1e-5)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.lists(st.integers(1, 12), max_size=5), st.integers(1, 400), st.integers(0, 10**6))
def test_many_at_once_equal_one_by_one(rows: int, columns: list[int], cells: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    frames = generator.standard_normal((rows, 3))
    others = [generator.standard_normal((length, 3)) for length in columns]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "_CELLS", cells)
        together = warped_distances(frames, others)
    assert together.tolist() == pytest.approx([plain(frames, other) for other in others], rel=1e-5)


def test_the_nearest_of_many_mels_is_the_clip_at_another_tempo() -> None:
    mels = [log_mel(sound(seed, 0.5), MelSettings()) for seed in range(4)]
    distances = mel_distances(np.repeat(mels[2], 2, axis=0), mels)
    assert distances.argmin() == 2
    assert distances[1] == pytest.approx(mel_distances(np.repeat(mels[2], 2, axis=0), mels[1:2])[0])


def test_a_clip_is_at_no_distance_from_itself_also_at_half_the_tempo() -> None:
    mel = log_mel(sound(1, 1.0), MelSettings())
    assert mel_distances(mel, [mel, np.repeat(mel, 2, axis=0)]) == pytest.approx([0, 0], abs=1e-4)


def test_distortion_does_not_hear_loudness_and_the_mel_distance_does() -> None:
    mel = log_mel(sound(1, 1.0), MelSettings())
    assert mel_cepstral_distortion(mel, mel + 1.0) == pytest.approx(0, abs=1e-3)
    assert mel_distances(mel, [mel + 1.0])[0] > 0.1


def test_distortion_of_one_coefficient_is_the_formula() -> None:
    mel = np.zeros((5, 80), np.float32)
    other = mel + 0.6 * np.cos(np.pi * 3 * (np.arange(80) + 0.5) / 80).astype(np.float32)
    assert cepstra(other)[0] == pytest.approx([0, 0, 0.6] + [0] * 10, abs=1e-6)
    assert mel_cepstral_distortion(mel, other) == pytest.approx(10 / np.log(10) * np.sqrt(2) * 0.6, rel=1e-5)


def test_halving_averages_pairs_of_frames_and_keeps_a_last_one() -> None:
    mel = np.arange(10, dtype=np.float32).reshape(5, 2)
    assert halved(mel).tolist() == [[1, 2], [5, 6], [8, 9]]
    assert halved(mel[:1]).tolist() == [[0, 1]]


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="no frame"):
        warped_distances(np.zeros((0, 3)), [np.zeros((2, 3))])
