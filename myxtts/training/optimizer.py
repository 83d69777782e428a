"""AdamW as the configuration describes it: warm-up, cosine, clipping, accumulation, averaging, loss scaling.

All of it is Keras's own. With gradient accumulation Keras counts every batch, so its schedule and its average move
once per batch and not once per optimizer step. Both are set up here so that the configuration's numbers mean
optimizer steps.

The optimizer works on the model's weights as two long vectors (`FlatWeights`). A model has hundreds of weights, and
an optimizer takes some twenty operations for each: more than half of the step's graph, to trace and to launch, all
for the same arithmetic. On vectors it is twenty operations. There are two vectors because some weights decay and
others do not. They take as much memory as the weights.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from myxtts.config.config import TrainingConfig

logger = logging.getLogger(__name__)

# The averaged weights are an average over at most this share of a run's steps, the last ones.
AVERAGED_SHARE = 0.05

# Only weights that multiply activations decay; for gains, offsets and tables a small size is no goal.
_DECAYED = ("kernel",)
NOT_DECAYED = "not_decayed"


class FlatWeights:
    """The vectors of a list of weights.

    Args:
        weights: of the model; every list here is in their order.

    Attributes:
        vectors: build an optimizer for these; after `gather` they have the weights' values.
    """

    def __init__(self, weights: Sequence[keras.Variable]) -> None:
        self._weights = list(weights)
        groups: dict[str, list[int]] = {}
        for number, weight in enumerate(self._weights):
            groups.setdefault("decayed" if weight.name in _DECAYED else NOT_DECAYED, []).append(number)
        self._groups = list(groups.values())
        flat = self.flatten(self._weights)
        self.vectors = [keras.Variable(vector, name=name) for name, vector in zip(groups, flat, strict=True)]

    def flatten(self, values: Sequence[tf.Tensor | keras.Variable | None]) -> list[tf.Tensor]:
        """Values of the weights' shapes, such as gradients, as vectors; None stands for zeros."""
        flat = [
            tf.zeros([int(np.prod(weight.shape))]) if value is None else tf.reshape(value, [-1])
            for weight, value in zip(self._weights, values, strict=True)
        ]
        return [tf.concat([flat[number] for number in group], axis=0) for group in self._groups]

    def gather(self) -> None:
        """Puts the weights' values into the vectors."""
        for vector, values in zip(self.vectors, self.flatten(self._weights), strict=True):
            vector.assign(values)

    def scatter(self, weights: Sequence[keras.Variable] | None = None) -> None:
        """Puts the vectors' values into the weights, or into those of another model of the same architecture."""
        targets = self._weights if weights is None else weights
        for vector, group in zip(self.vectors, self._groups, strict=True):
            sizes = [int(np.prod(targets[number].shape)) for number in group]
            for number, values in zip(group, tf.split(vector, sizes), strict=True):
                targets[number].assign(tf.reshape(values, targets[number].shape))


def create_optimizer(config: TrainingConfig, total_steps: int, policy: str = "float32") -> keras.optimizers.Optimizer:
    """The optimizer of a run, to be built for the vectors of `FlatWeights`, whose names say what decays.

    Args:
        config: the training section.
        total_steps: optimizer steps of the whole run; the cosine ends with the last.
        policy: the model's Keras dtype policy; `mixed_float16` scales the loss.
    """
    batches = config.gradient_accumulation_steps
    adam = keras.optimizers.AdamW(
        learning_rate_schedule(config, total_steps),
        beta_1=config.adam_beta1,
        beta_2=config.adam_beta2,
        weight_decay=config.weight_decay,
        global_clipnorm=config.gradient_clip_norm,
        use_ema=config.ema_decay is not None,
        ema_momentum=_decay(config, total_steps) ** (1 / batches),
        gradient_accumulation_steps=batches if batches > 1 else None,
    )
    adam.exclude_from_weight_decay(var_names=[NOT_DECAYED])
    return keras.optimizers.LossScaleOptimizer(adam) if policy == "mixed_float16" else adam


def _decay(config: TrainingConfig, total_steps: int) -> float:
    """Decay of the averaged weights: lower in a short run, so that its first, untrained weights do not count."""
    if config.ema_decay is None:
        return 0.0
    return min(config.ema_decay, max(0.0, 1 - 1 / (AVERAGED_SHARE * total_steps)))


def learning_rate_schedule(
    config: TrainingConfig, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """The learning rate by batch, since Keras counts batches."""
    batches = config.gradient_accumulation_steps
    warmup = config.warmup_steps
    if warmup > total_steps // 2:
        warmup = total_steps // 2
        logger.warning(
            "warmup_steps is %s, more than half of this run of %s steps; it warms up for %s",
            f"{config.warmup_steps:,}",
            f"{total_steps:,}",
            f"{warmup:,}",
        )
    peak = config.learning_rate
    # A cosine that ends where it began is a constant.
    last = config.final_learning_rate if config.schedule == "cosine" else peak
    return keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=peak / (warmup * batches) if warmup else peak,
        decay_steps=max(1, total_steps - warmup) * batches,
        alpha=last / peak,
        warmup_target=peak if warmup else None,
        warmup_steps=warmup * batches,
    )


def put_average(optimizer: keras.optimizers.Optimizer, weights: FlatWeights, averaged: keras.Model) -> None:
    """Puts the weights to speak with into `averaged`: the average, or the trained weights if there is no average yet.

    The optimizer was built for `weights`, those in training; `averaged` is a model of the same architecture.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner.use_ema and int(optimizer.iterations) > 0:
        optimizer.finalize_variable_values(weights.vectors)  # the next step gathers them again
    else:
        weights.gather()
    weights.scatter(averaged.trainable_variables)
