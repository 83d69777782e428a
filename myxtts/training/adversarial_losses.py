"""The losses of discriminators and of what they judge: least squares (Mao et al. 2017), feature matching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from myxtts.models.masking import dims

_SMALL = 1e-3


class AdversarialLosses(NamedTuple):
    """Scalars."""

    adversarial: tf.Tensor  # of the model: by how much its output is told from recordings
    features: tf.Tensor  # of the model: how far what the discriminators see is from what they see of recordings
    discriminator: tf.Tensor  # of the discriminators: by how much they are wrong


def adversarial_losses(
    recorded: Sequence[Sequence[tf.Tensor]], made: Sequence[Sequence[tf.Tensor]]
) -> AdversarialLosses:
    """Means over everything that several discriminators see.

    Args:
        recorded, made: for each discriminator, what it sees of either, layer by layer, the scores last.
    """
    adversarial, features, discriminator = [], [], []
    for true, false in zip(recorded, made, strict=True):
        adversarial.append(tf.reduce_mean(tf.square(1 - false[-1])))
        discriminator.append(tf.reduce_mean(tf.square(1 - true[-1])) + tf.reduce_mean(tf.square(false[-1])))
        for there, here in zip(true[:-1], false[:-1], strict=True):
            there = tf.stop_gradient(there)
            features.append(tf.reduce_mean(tf.abs(there - here)) / (tf.reduce_mean(tf.abs(there)) + _SMALL))
    return AdversarialLosses(*(tf.reduce_mean(tf.stack(one)) for one in (adversarial, features, discriminator)))


def adversarial_losses_of_clips(
    recorded: Sequence[tf.Tensor], made: Sequence[tf.Tensor], masks: Sequence[tf.Tensor], clips: tf.Tensor
) -> AdversarialLosses:
    """Means over clips, of means over what a discriminator sees of each.

    Args:
        recorded, made: what it sees of either, layer by layer, [B, F', bands, C], the scores last.
        masks: 1 where a clip has something to see, [B, F', 1, 1] for each layer.
        clips: how many there are, without empty places, float32: here, or where these are one process's share of a
            batch, in the whole batch.
    """

    def mean(values: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Of each clip: [B]; 0 for an empty place."""
        everywhere = tf.broadcast_to(mask, dims(values))
        inside = tf.reduce_sum(values * everywhere, axis=[1, 2, 3])
        return inside / tf.maximum(tf.reduce_sum(everywhere, axis=[1, 2, 3]), 1.0)

    features = []
    for there, here, mask in zip(recorded[:-1], made[:-1], masks[:-1], strict=True):
        there = tf.stop_gradient(there)
        features.append(mean(tf.abs(there - here), mask) / (mean(tf.abs(there), mask) + _SMALL))
    true, false, mask = recorded[-1], made[-1], masks[-1]
    of_clips = (
        mean(tf.square(1 - false), mask),
        tf.add_n(features) / len(features),
        mean(tf.square(1 - true) + tf.square(false), mask),
    )
    return AdversarialLosses(*(tf.reduce_sum(one) / tf.maximum(clips, 1.0) for one in of_clips))
