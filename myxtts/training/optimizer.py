"""AdamW as the configuration describes it: warm-up, cosine, clipping, accumulation, averaging, loss scaling.

All of it is Keras's own. What to know about it: with gradient accumulation Keras counts every batch, so its schedule
and its average move once per batch and not once per optimizer step. Both are set up here so that the configuration's
numbers mean optimizer steps.
"""

from __future__ import annotations

import logging

import keras

from myxtts.config.config import TrainingConfig
from myxtts.training.flat_weights import NOT_DECAYED, FlatWeights

logger = logging.getLogger(__name__)

# Of a run's steps, the last that the averaged weights may reach back over.
AVERAGED_SHARE = 0.05


def create_optimizer(config: TrainingConfig, total_steps: int, policy: str = "float32") -> keras.optimizers.Optimizer:
    """The optimizer of a run, to be built for the vectors of `FlatWeights`: by their names it knows what decays.

    Args:
        config: the training section.
        total_steps: optimizer steps of the whole run, at the end of which the cosine arrives.
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
    """Of the averaged weights, so that a short run's average is not of its first, untrained weights."""
    if config.ema_decay is None:
        return 0.0
    return min(config.ema_decay, max(0.0, 1 - 1 / (AVERAGED_SHARE * total_steps)))


def learning_rate_schedule(
    config: TrainingConfig, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Learning rate by batch, since that is what Keras counts."""
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
    """Puts the weights to speak with into `averaged`: the average, or those as trained where none is kept or begun.

    Args:
        optimizer: of the run.
        weights: of the model as it is trained, that the optimizer was built for.
        averaged: a model of the same kind.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if inner.use_ema and int(optimizer.iterations) > 0:
        optimizer.finalize_variable_values(weights.vectors)  # which the next step gathers again
    else:
        weights.gather()
    weights.scatter(averaged.trainable_variables)
