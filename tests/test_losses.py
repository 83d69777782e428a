"""The losses by hand, and what they must not depend on. That padding changes nothing is in test_model."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.models.masking import masked_mean
from myxtts.models.xtts import Outputs
from myxtts.training.losses import LOSSES, Loss, compute_losses


def outputs(**values):
    """Two clips of 2 and 1 frames in 2 bands, of 2 and 1 tokens; the second clip's padding is full of junk."""
    junk = 1e6
    zero = np.zeros((2, 2, 2), np.float32)
    zero[1, 1] = junk
    filled = {
        **dict.fromkeys(("mel", "mean", "prediction", "target"), zero),
        "log_durations": np.array([[0.0, 0.0], [0.0, junk]], np.float32),
        "durations": np.array([[1, 1], [1, 0]], np.int32),
        "alignment": np.array([[0, 1], [0, -1]], np.int32),
        "token_mask": np.array([[[1], [1]], [[1], [0]]], np.float32),
        "frame_mask": np.array([[[1], [1]], [[1], [0]]], np.float32),
        "tokens": np.float32(3),
        "frames": np.float32(3),
        **values,
    }
    return Outputs(**{name: tf.constant(value) for name, value in filled.items()})


def losses_of(decoder="regression", **values):
    return compute_losses(outputs(**values), {}, decoder)


def test_a_perfect_prediction_has_no_loss():
    assert list(losses_of()) == ["total", "prior", "decoder", "duration"]
    np.testing.assert_array_equal(list(losses_of().values()), 0)


def test_the_total_is_the_sum_of_the_parts():
    rng = np.random.default_rng(0)
    losses = losses_of("flow", mean=rng.normal(size=(2, 2, 2)), mel=np.zeros((2, 2, 2)))
    total = losses.pop("total")
    np.testing.assert_allclose(total, sum(losses.values()), rtol=1e-6)


def test_the_prior_is_half_the_mean_squared_distance_to_the_mean_mel():
    mean = np.zeros((2, 2, 2), np.float32)
    mean[0, 0] = [2.0, 4.0]
    np.testing.assert_allclose(losses_of(mean=mean)["prior"], 0.5 * (4 + 16) / 6, rtol=1e-6)


@pytest.mark.parametrize(("decoder", "expected"), [("regression", (3 + 1) / 6), ("flow", (9 + 1) / 6)])
def test_regression_has_absolute_and_flow_squared_error(decoder, expected):
    prediction = np.zeros((2, 2, 2), np.float32)
    prediction[1, 0] = [3.0, -1.0]
    np.testing.assert_allclose(losses_of(decoder, prediction=prediction)["decoder"], expected, rtol=1e-6)


def test_the_duration_is_compared_as_a_logarithm():
    durations = np.array([[8, 1], [1, 0]], np.int32)
    expected = np.log(8) ** 2 / 3
    np.testing.assert_allclose(losses_of(durations=durations)["duration"], expected, rtol=1e-6)


def test_a_token_that_was_given_no_frame_counts_as_one():
    durations = np.array([[0, 1], [1, 0]], np.int32)
    assert losses_of(durations=durations)["duration"] == 0


def test_losses_are_float32_whatever_the_outputs_are():
    half = {name: np.zeros((2, 2, 2), np.float16) for name in ("mel", "mean", "prediction", "target")}
    assert {loss.dtype for loss in losses_of("flow", **half).values()} == {tf.float32}


@pytest.mark.parametrize("decoder", ["regression", "flow"])
def test_the_mapping_changes_no_bit_of_the_formulas(decoder):
    random = np.random.default_rng(0)
    mels = {name: random.normal(size=(2, 2, 2)) for name in ("mel", "mean", "prediction", "target")}
    one = outputs(**{name: mel.astype(np.float32) for name, mel in mels.items()})
    prior = masked_mean(0.5 * tf.square(one.mel - one.mean), one.frame_mask, one.frames)
    error = one.prediction - one.target
    error = masked_mean(tf.square(error) if decoder == "flow" else tf.abs(error), one.frame_mask, one.frames)
    log_durations = tf.math.log(tf.maximum(tf.cast(one.durations, tf.float32), 1.0))
    duration = masked_mean(tf.square(one.log_durations - log_durations)[:, :, None], one.token_mask, one.tokens)
    found = [value.numpy() for value in compute_losses(one, {}, decoder).values()]
    assert found == [value.numpy() for value in (prior + error + duration, prior, error, duration)]


def test_an_added_loss_counts_by_its_weight_and_sees_the_batch(monkeypatch):
    monkeypatch.setitem(LOSSES, "clips", Loss(lambda outputs, batch, decoder: batch["clips"], weight=0.5))
    losses = compute_losses(outputs(), {"clips": tf.constant(6.0)}, "regression")
    assert (list(losses), float(losses["clips"])) == (["total", "prior", "decoder", "duration", "clips"], 3.0)
    assert losses["total"] == 3.0


@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_a_masked_mean_does_not_see_what_is_masked(junk):
    values = np.array([[[1.0, 3.0], [junk, junk]]], np.float32)
    mask = np.array([[[1], [0]]], np.float32)
    assert masked_mean(tf.constant(values), tf.constant(mask), 1.0) == 2


def test_a_masked_mean_of_nothing_is_zero():
    assert masked_mean(tf.ones([1, 2, 2]), tf.zeros([1, 2, 1]), 0.0) == 0


def test_junk_in_the_padding_has_no_gradient():
    values = tf.Variable([[[1.0], [np.inf]]])
    with tf.GradientTape() as tape:
        mean = masked_mean(values, tf.constant([[[1.0], [0.0]]]), 1.0)
    np.testing.assert_array_equal(tape.gradient(mean, values), [[[1.0], [0.0]]])
