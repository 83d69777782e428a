"""Shapes, masks over time, and the mean under a mask."""

from __future__ import annotations

import tensorflow as tf


def dims(x: tf.Tensor) -> list[int | tf.Tensor]:
    """The shape of `x`, static where it is known: under XLA all of it."""
    dynamic = tf.shape(x)
    return [dynamic[axis] if size is None else size for axis, size in enumerate(x.shape)]


def length_mask(lengths: tf.Tensor, size: int | tf.Tensor, dtype: str = "float32") -> tf.Tensor:
    """1 inside each clip and 0 beyond it: [B, size, 1], ready to multiply [B, size, C]."""
    return tf.sequence_mask(lengths, size, dtype)[:, :, None]


def masked_mean(values: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Mean over all positions where `mask` is 1, as a float32 scalar; 0 if there is none.

    Args:
        values: [B, T, C].
        mask: [B, T, 1].
        positions: how many there are, float32: in `mask`, or where these clips are one process's share of a batch, in
            the whole batch. Then this is the share's part of the mean, and the sum over all processes is the mean.
    """
    values, mask = tf.cast(values, tf.float32), tf.cast(mask, tf.float32)
    count = positions * tf.cast(dims(values)[-1], tf.float32)
    # Selected and not multiplied: an infinity in the padding times 0 would be NaN.
    return tf.reduce_sum(tf.where(mask > 0, values, 0.0)) / tf.maximum(count, 1.0)
