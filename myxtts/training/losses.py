"""What the model is trained on, each part by itself.

Every part is a mean over the places that exist in the batch, in float32: padding a batch further, or adding empty
places to it, changes none of them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from myxtts.models.masking import masked_mean
from myxtts.models.xtts import Outputs


class Losses(NamedTuple):
    """float32 scalars."""

    total: tf.Tensor  # the sum of the others
    prior: tf.Tensor  # how far frames are from their token's mean mel; what the alignment is learned by
    decoder: tf.Tensor  # how far the decoder's output is from its target
    duration: tf.Tensor  # how far predicted log-durations are from the alignment's


def compute_losses(outputs: Outputs, decoder: str) -> Losses:
    """
    Args:
        outputs: of `XTTS`.
        decoder: the model's: `regression` has absolute error, which keeps edges, `flow` squared, which its theory
            asks for.
    """
    prior = masked_mean(0.5 * tf.square(outputs.mel - outputs.mean), outputs.frame_mask)
    error = outputs.prediction - outputs.target
    error = tf.square(error) if decoder == "flow" else tf.abs(error)
    error = masked_mean(error, outputs.frame_mask)
    durations = tf.math.log(tf.maximum(tf.cast(outputs.durations, tf.float32), 1.0))
    duration = masked_mean(tf.square(outputs.log_durations - durations)[:, :, None], outputs.token_mask)
    return Losses(prior + error + duration, prior, error, duration)
