"""The losses that a model is trained on: a mapping, which is summed.

To add a loss, write a function and give it a line in `LOSSES`. It is then trained on, and shown wherever losses are:
in the log file, in TensorBoard, at validations.

Each loss is a mean over the positions that exist in the batch, in float32. Padding a batch further, or adding empty
places to it, changes none of them. Where several processes train together, each computes its clips' part of the mean
over the whole batch: the sum over the processes is the loss.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from myxtts.models.masking import masked_mean
from myxtts.models.xtts import Outputs

TOTAL = "total"


@dataclass(frozen=True)
class Loss:
    """One loss.

    Attributes:
        compute: from the model's outputs, the batch with its mels, and the kind of decoder (`regression` or `flow`)
            to a float32 scalar.
        weight: it is multiplied by this, in the total and wherever it is shown.
    """

    compute: Callable[[Outputs, Mapping[str, tf.Tensor], str], tf.Tensor]
    weight: float = 1.0


def prior_loss(outputs: Outputs, batch: Mapping[str, tf.Tensor], decoder: str) -> tf.Tensor:
    """How far frames are from their token's mean mel. The alignment is learned by this loss."""
    return masked_mean(0.5 * tf.square(outputs.mel - outputs.mean), outputs.frame_mask, outputs.frames)


def decoder_loss(outputs: Outputs, batch: Mapping[str, tf.Tensor], decoder: str) -> tf.Tensor:
    """How far the decoder's output is from its target: the absolute error, which keeps edges, for `regression`; the
    squared error, which the theory of flow matching asks for, for `flow`."""
    error = outputs.prediction - outputs.target
    error = tf.square(error) if decoder == "flow" else tf.abs(error)
    return masked_mean(error, outputs.frame_mask, outputs.frames)


def duration_loss(outputs: Outputs, batch: Mapping[str, tf.Tensor], decoder: str) -> tf.Tensor:
    """How far predicted log-durations are from those of the alignment."""
    durations = tf.math.log(tf.maximum(tf.cast(outputs.durations, tf.float32), 1.0))
    error = tf.square(outputs.log_durations - durations)[:, :, None]
    return masked_mean(error, outputs.token_mask, outputs.tokens)


LOSSES: dict[str, Loss] = {
    "prior": Loss(prior_loss),
    "decoder": Loss(decoder_loss),
    "duration": Loss(duration_loss),
}


def loss_names() -> tuple[str, ...]:
    """The names of all losses, the total first: the order in which they are computed, summed and shown."""
    return (TOTAL, *LOSSES)


def compute_losses(outputs: Outputs, batch: Mapping[str, tf.Tensor], decoder: str) -> dict[str, tf.Tensor]:
    """All losses by name, float32 scalars; `total`, the sum of the others, comes first.

    `decoder` is the model's, `regression` or `flow`.
    """
    losses = {}
    for name, loss in LOSSES.items():
        value = loss.compute(outputs, batch, decoder)
        losses[name] = value if loss.weight == 1.0 else loss.weight * value
    return {TOTAL: functools.reduce(operator.add, losses.values()), **losses}
