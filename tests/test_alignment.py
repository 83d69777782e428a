"""Monotonic alignment search against a plain dynamic programme, and the forms an alignment takes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from myxtts.models.alignment import (
    alignment_to_path,
    durations_to_alignment,
    monotonic_alignment,
    path_to_durations,
)

RUNS = {
    "eager": monotonic_alignment,
    "graph": tf.function(monotonic_alignment, reduce_retracing=True),
    "xla": tf.function(monotonic_alignment, jit_compile=True),
}


def reference(scores: np.ndarray, tokens: int, frames: int) -> np.ndarray:
    """The textbook programme for one clip, cell by cell; equal totals: stay on the token as seen from the end."""
    result = np.full(scores.shape[1], -1, np.int32)
    if tokens == 0 or frames == 0:
        return result
    if frames < tokens:
        result[:frames] = [frame * (tokens - 1) // max(frames - 1, 1) for frame in range(frames)]
        return result
    best = np.full((tokens, frames), -np.inf, np.float32)
    best[0, 0] = scores[0, 0]
    for frame in range(1, frames):
        for token in range(min(tokens, frame + 1)):
            before = best[token - 1, frame - 1] if token else np.float32(-np.inf)
            best[token, frame] = max(best[token, frame - 1], before) + scores[token, frame]
    token = tokens - 1
    for frame in range(frames - 1, -1, -1):
        result[frame] = token
        if frame and token and best[token - 1, frame - 1] > best[token, frame - 1]:
            token -= 1
    return result


def reference_batch(scores: np.ndarray, tokens: np.ndarray, frames: np.ndarray) -> np.ndarray:
    return np.stack([reference(*clip) for clip in zip(scores, tokens, frames, strict=True)])


def best_total(scores: np.ndarray, tokens: int, frames: int) -> float:
    """The highest total over all monotonic paths, by trying every one."""
    if frames == 1:
        return float(scores[0, 0])
    import itertools

    totals = []
    for steps in itertools.combinations(range(1, frames), tokens - 1):
        path = np.searchsorted(steps, np.arange(frames), side="right")
        totals.append(scores[path, np.arange(frames)].sum())
    return float(max(totals))


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    # A few shapes, many contents: every shape is compiled once.
    tokens, frames = draw(st.sampled_from([(1, 1), (1, 9), (7, 7), (7, 30), (12, 5)]))
    lengths = draw(st.lists(st.tuples(st.integers(0, tokens), st.integers(0, frames)), min_size=5, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Whole numbers make many paths equal, which is where an order of preference shows.
    scores = rng.integers(-3, 3, (5, tokens, frames)) if draw(st.booleans()) else rng.normal(size=(5, tokens, frames))
    token_lengths, mel_lengths = np.array(lengths, np.int32).T
    return scores.astype(np.float32), token_lengths, mel_lengths


@pytest.mark.parametrize("run", RUNS)
@settings(max_examples=40, deadline=None)
@given(batch=batches())
def test_equals_a_plain_dynamic_programme(run, batch):
    np.testing.assert_array_equal(RUNS[run](*batch), reference_batch(*batch))


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), tokens=st.integers(1, 5), more=st.integers(0, 5))
def test_no_other_path_has_a_higher_total(seed, tokens, more):
    frames = tokens + more
    scores = np.random.default_rng(seed).normal(size=(tokens, frames)).astype(np.float32)
    padded = np.zeros((1, 5, 10), np.float32)
    padded[0, :tokens, :frames] = scores
    path = RUNS["graph"](padded, np.array([tokens], np.int32), np.array([frames], np.int32)).numpy()[0, :frames]
    assert scores[path, np.arange(frames)].sum() == pytest.approx(best_total(scores, tokens, frames), abs=1e-4)


@pytest.mark.parametrize("run", RUNS)
def test_visits_every_token_in_order(run):
    scores = np.random.default_rng(0).normal(size=(3, 20, 60)).astype(np.float32)
    path = RUNS[run](scores, np.array([20, 13, 1], np.int32), np.array([60, 13, 60], np.int32)).numpy()
    for clip, tokens, frames in zip(path, (20, 13, 1), (60, 13, 60), strict=True):
        assert list(dict.fromkeys(clip[:frames])) == list(range(tokens))
        assert set(np.diff(clip[:frames])) <= {0, 1}
        assert (clip[frames:] == -1).all()


def test_as_many_frames_as_tokens_is_the_diagonal():
    scores = np.random.default_rng(0).normal(size=(1, 9, 9)).astype(np.float32)
    path = RUNS["graph"](scores, np.array([9], np.int32), np.array([9], np.int32))
    np.testing.assert_array_equal(path, [np.arange(9)])


def test_fewer_frames_than_tokens_are_spread_over_them_ends_included():
    scores = np.random.default_rng(0).normal(size=(1, 9, 12)).astype(np.float32)
    path = RUNS["graph"](scores, np.array([9], np.int32), np.array([5], np.int32)).numpy()[0]
    np.testing.assert_array_equal(path, [0, 2, 4, 6, 8, -1, -1, -1, -1, -1, -1, -1])


@pytest.mark.parametrize(("tokens", "frames"), [(0, 0), (0, 7), (4, 0)])
def test_a_clip_without_tokens_or_frames_is_minus_one(tokens, frames):
    scores = np.zeros((1, 4, 7), np.float32)
    path = RUNS["graph"](scores, np.array([tokens], np.int32), np.array([frames], np.int32))
    np.testing.assert_array_equal(path, np.full((1, 7), -1))


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e30])
def test_what_lies_in_the_padding_does_not_matter(garbage):
    rng = np.random.default_rng(1)
    scores = np.full((2, 11, 40), garbage, np.float32)
    clean = np.zeros_like(scores)
    for clip, (tokens, frames) in enumerate([(5, 17), (11, 29)]):
        values = rng.normal(size=(tokens, frames))
        scores[clip, :tokens, :frames] = values
        clean[clip, :tokens, :frames] = values
    lengths = np.array([5, 11], np.int32), np.array([17, 29], np.int32)
    np.testing.assert_array_equal(RUNS["graph"](scores, *lengths), RUNS["graph"](clean, *lengths))


def test_scores_that_are_not_numbers_still_give_tokens_of_the_clip():
    scores = np.full((1, 6, 20), np.nan, np.float32)
    path = RUNS["xla"](scores, np.array([6], np.int32), np.array([20], np.int32)).numpy()
    assert path.min() >= 0
    assert path.max() <= 5


def test_half_precision_scores_are_summed_in_float32():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(1, 30, 600)).astype(np.float16)
    lengths = np.array([30], np.int32), np.array([600], np.int32)
    np.testing.assert_array_equal(RUNS["graph"](scores, *lengths), RUNS["graph"](scores.astype(np.float32), *lengths))


def test_gives_no_gradient():
    scores = tf.Variable(tf.random.stateless_normal([1, 4, 9], [0, 0]))
    with tf.GradientTape() as tape:
        path = monotonic_alignment(scores, tf.constant([4]), tf.constant([9]))
        total = tf.reduce_sum(tf.cast(path, tf.float32))
    assert tape.gradient(total, scores) is None


@settings(max_examples=30, deadline=None)
@given(
    durations=st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4),
    extra=st.integers(0, 5),
)
def test_durations_survive_the_way_to_an_alignment_and_back(durations, extra):
    durations = np.array(durations, np.int32)
    frames = max(1, int(durations.sum(axis=1).max()) + extra)
    alignment = durations_to_alignment(tf.constant(durations), frames)
    expected = [np.concatenate([np.repeat(np.arange(6), row), np.full(frames - row.sum(), -1)]) for row in durations]
    np.testing.assert_array_equal(alignment, expected)
    np.testing.assert_array_equal(path_to_durations(alignment_to_path(alignment, 6)), durations)
