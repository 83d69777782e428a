"""Steps that do not wait to be compiled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from training_samples import batch, configure, small_model, spec_of, weights_of

from myxtts.training.background_compilation import BackgroundCompilation
from myxtts.training.objective import SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import TrainingStep


class Compiler:
    """In place of XLA: compiles when it is let, and fails where told to."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.error: Exception | None = None

    def __call__(self, _: Any) -> None:
        self.may_go_on.wait()
        if self.error is not None:
            raise self.error


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    made = Compiler()
    yield made
    made.may_go_on.set()


BATCH = {"tokens": [1, 2]}


def shape_of(one: Any) -> tuple[int, ...]:
    return (len(one["tokens"]),)


def test_steps_are_plain_until_their_shape_is_compiled(compiler: Compiler) -> None:
    step = BackgroundCompilation(lambda _: "plain", lambda _: "compiled", compiler, shape_of)
    assert not step.is_ready((2,))
    assert [step(BATCH), step(BATCH)] == ["plain", "plain"]
    assert not step.is_ready((2,))
    compiler.may_go_on.set()
    step.close()
    assert step.is_ready((2,))
    assert step(BATCH) == "compiled"


def test_a_step_that_does_not_fit_waits_for_the_compiled_one(compiler: Compiler) -> None:
    def plain(_: Any) -> str:
        compiler.may_go_on.set()
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    assert BackgroundCompilation(plain, lambda _: "compiled", compiler, shape_of)(BATCH) == "compiled"


def test_any_other_error_is_raised(compiler: Compiler) -> None:
    def plain(_: Any) -> str:
        raise tf.errors.InvalidArgumentError(None, None, "wrong")

    with pytest.raises(tf.errors.InvalidArgumentError):
        BackgroundCompilation(plain, lambda _: "compiled", compiler, shape_of)(BATCH)


def test_what_could_not_be_compiled_beside_a_step_is_compiled_without_one(compiler: Compiler) -> None:
    compiler.error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
    step = BackgroundCompilation(lambda _: "plain", lambda _: "compiled", compiler, shape_of)
    assert step(BATCH) == "plain"
    compiler.may_go_on.set()
    step.close()
    assert step(BATCH) == "compiled"


@pytest.mark.soak
def test_both_forms_of_the_step_move_the_weights_alike(tmp_path: Any) -> None:
    one = batch()
    weights = []
    for compiled_at_once in (True, False):
        config = configure(tmp_path, tmp_path, enable_xla_compilation=True)
        optimizer = create_optimizer(config.training, 10, "float32")
        objective = SpeechObjective(small_model(), config)
        step = TrainingStep(objective, optimizer, config, spec_of(one), in_background=not compiled_at_once)
        shape, new = step.note_shape(one)
        assert new
        for number in range(4):
            step(one)
            if number == 1:
                step.close()  # which waits until it is compiled
                assert step.is_ready(shape)
        weights.append(weights_of(objective.model))
    for one_weight, other_weight in zip(*weights, strict=True):
        np.testing.assert_allclose(one_weight, other_weight, atol=1e-5)
