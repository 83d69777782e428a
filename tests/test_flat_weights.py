"""The optimizer on two vectors does what Keras's does weight by weight."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from training_samples import small_model, weights_of

from myxtts.config.config import TrainingConfig
from myxtts.models.xtts import XTTS
from myxtts.training.optimizer import FlatWeights, create_optimizer, put_average

CONFIG = TrainingConfig(learning_rate=1e-2, warmup_steps=0, schedule="constant", weight_decay=0.5, ema_decay=0.5)


def gradients(model: XTTS, seed: int) -> list[tf.Tensor]:
    random = np.random.default_rng(seed)
    return [tf.constant(random.normal(size=weight.shape), tf.float32) for weight in model.trainable_variables]


def learn_flat(model: XTTS, steps: int, config: TrainingConfig = CONFIG) -> tuple[FlatWeights, keras.Optimizer]:
    weights = FlatWeights(model.trainable_variables)
    optimizer = create_optimizer(config, 100)
    optimizer.build(weights.vectors)
    for seed in range(steps):
        weights.gather()
        optimizer.apply(weights.flatten(gradients(model, seed)), weights.vectors)
        weights.scatter()
    return weights, optimizer


def test_the_weights_and_their_average_are_those_of_an_optimizer_for_each_of_them() -> None:
    one_by_one, flat, averaged = small_model(), small_model(), small_model(seed=9)
    reference = create_optimizer(CONFIG, 100)
    reference.exclude_from_weight_decay(
        var_list=[weight for weight in one_by_one.trainable_variables if weight.name != "kernel"]
    )
    for seed in range(3):
        reference.apply(gradients(one_by_one, seed), one_by_one.trainable_variables)
    weights, optimizer = learn_flat(flat, 3)
    for expected, found in zip(weights_of(one_by_one), weights_of(flat), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    reference.finalize_variable_values(one_by_one.trainable_variables)
    put_average(optimizer, weights, averaged)
    for expected, found in zip(weights_of(one_by_one), weights_of(averaged), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_only_kernels_decay() -> None:
    held, free = small_model(), small_model()
    learn_flat(held, 1)
    learn_flat(free, 1, TrainingConfig(**{**CONFIG.model_dump(), "weight_decay": 0.0}))
    decayed = {
        one.name
        for one, other in zip(held.trainable_variables, free.trainable_variables, strict=True)
        if (one.numpy() != other.numpy()).any()
    }
    assert decayed == {"kernel"}


def test_what_was_put_into_the_weights_from_outside_is_what_is_trained_on() -> None:
    model = small_model()
    weights = FlatWeights(model.trainable_variables)
    other = weights_of(small_model(seed=5))
    for weight, value in zip(model.weights, other, strict=True):
        weight.assign(value)
    weights.gather()
    weights.scatter()
    for expected, found in zip(other, weights_of(model), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_the_vectors_hold_every_weight_in_full_precision() -> None:
    model = small_model(dtype="mixed_float16")
    weights = FlatWeights(model.trainable_variables)
    assert {vector.dtype for vector in weights.vectors} == {"float32"}
    assert sum(int(vector.shape[0]) for vector in weights.vectors) == model.count_params()
