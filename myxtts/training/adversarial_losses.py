"""The losses of discriminators and of what they judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from myxtts.models.masking import dims


class AdversarialLosses(NamedTuple):
    """Scalars."""

    adversarial: tf.Tensor  # of the model: by how much its output is told from recordings
    features: tf.Tensor  # of the model: how far what the discriminators see is from what they see of recordings
    discriminator: tf.Tensor  # of the discriminators: by how much they are wrong


def adversarial_losses(
    recorded: Sequence[Sequence[tf.Tensor]],
    made: Sequence[Sequence[tf.Tensor]],
    masks: Sequence[Sequence[tf.Tensor]] | None = None,
) -> AdversarialLosses:
    """Least squares (Mao et al. 2017) and feature matching.

    Args:
        recorded, made: for each discriminator, what it sees of either, layer by layer, the scores last.
        masks: for each of these, 1 where there is something to see, of a shape that can be multiplied; None: all is.
    """
    adversarial, features, discriminator = [], [], []
    for number, (true, false) in enumerate(zip(recorded, made, strict=True)):
        of_layers = [None] * len(true) if masks is None else masks[number]
        adversarial.append(_mean(tf.square(1 - false[-1]), of_layers[-1]))
        discriminator.append(_mean(tf.square(1 - true[-1]) + tf.square(false[-1]), of_layers[-1]))
        for there, here, mask in zip(true[:-1], false[:-1], of_layers[:-1], strict=True):
            there = tf.stop_gradient(there)
            features.append(_mean(tf.abs(there - here), mask) / (_mean(tf.abs(there), mask) + 1e-3))
    return AdversarialLosses(*(tf.reduce_mean(tf.stack(one)) for one in (adversarial, features, discriminator)))


def _mean(values: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    if mask is None:
        return tf.reduce_mean(values)
    everywhere = tf.broadcast_to(mask, dims(values))
    return tf.reduce_sum(values * everywhere) / tf.maximum(tf.reduce_sum(everywhere), 1.0)
