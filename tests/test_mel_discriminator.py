"""The discriminator of mels: when it judges, what it moves, and what its losses must not depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from training_samples import BANDS, batch, small_model, spec_of, weights_of

from myxtts.config.config import XTTSConfig
from myxtts.training.alignment_cache import AlignmentCache
from myxtts.training.objective import ADVERSARIAL_LOSSES, SpeechInTraining, SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import MeanLosses, TrainingStep
from myxtts.training.training_state import RunState, TrainingState

STEPS = 4000
SEED = tf.constant([1, 2])


def objective(total_steps: int | None = STEPS, decoder: str = "regression", **changes: Any) -> SpeechObjective:
    config = XTTSConfig(**({"optimization_level": "basic", "n_mels": BANDS, "warmup_steps": 0} | changes))
    return SpeechObjective(small_model(decoder=decoder), config, total_steps)


def judged_step(**changes: Any) -> TrainingStep:
    values: dict[str, Any] = {"optimization_level": "basic", "n_mels": BANDS, "enable_graph_mode": False, **changes}
    config = XTTSConfig(**values)
    optimizer = create_optimizer(config.training, STEPS)
    step = TrainingStep(objective(**values), optimizer, config, spec_of(batch()))
    step.enter(1)
    return step


def adversarial(one: SpeechObjective, given: dict[str, tf.Tensor]) -> list[float]:
    losses = one(given, SEED, training=False).losses
    return [float(losses[name]) for name in ADVERSARIAL_LOSSES]


def test_the_last_share_of_a_long_run_is_judged() -> None:
    one = objective(mel_adversarial_share=0.25)
    assert [one.phase(step) for step in (0, 2999, 3000, 3999)] == [0, 0, 1, 1]
    assert one.names[-3:] == ADVERSARIAL_LOSSES


@pytest.mark.parametrize(
    "changes",
    [{"total_steps": None}, {"total_steps": 1999}, {"mel_adversarial_share": 0}, {"decoder": "flow"}],
    ids=["no run", "short run", "no share", "flow"],
)
def test_other_runs_have_no_discriminator(changes: dict[str, Any]) -> None:
    one = objective(**changes)
    assert one.phase(3999) == 0
    assert not set(ADVERSARIAL_LOSSES) & set(one.names)
    assert not isinstance(one.model, SpeechInTraining)


def test_before_its_share_a_discriminator_neither_judges_nor_learns() -> None:
    one = objective()
    found = one(batch(), SEED, training=True)
    assert [float(found.losses[name]) for name in ADVERSARIAL_LOSSES] == [0, 0, 0]
    assert len(found.minimised) == 1


def test_both_learn_from_a_judged_step() -> None:
    step = judged_step()
    model = step.objective.model
    before = weights_of(model)
    step(batch())
    moved = [(old != new).any() for old, new in zip(before, weights_of(model), strict=True)]
    assert any(moved[: len(model.speech.weights)])
    assert any(moved[len(model.speech.weights) :])
    losses = MeanLosses.of(step.read(), step.objective.names).losses
    counted = [value for name, value in losses.items() if name not in ("total", "discriminator")]
    assert losses["total"] == pytest.approx(sum(counted), rel=1e-5)


def test_padding_and_empty_places_change_no_judgement() -> None:
    one = objective()
    one.enter(1)
    given = batch(clips=3, frames=90)
    expected = adversarial(one, given)
    padded = {name: tf.pad(value, [[0, 2]] + [[0, 0]] * (len(value.shape) - 1)) for name, value in given.items()}
    padded["mel"] = tf.pad(padded["mel"], [[0, 0], [0, 7], [0, 0]], constant_values=3.0)
    np.testing.assert_allclose(adversarial(one, padded), expected, rtol=1e-5)


def test_a_clip_shorter_than_the_part_is_judged_whole() -> None:
    one = objective()
    one.enter(1)
    short = batch(clips=1, frames=20)
    longer = {**short, "mel": tf.pad(short["mel"], [[0, 0], [0, 33], [0, 0]], constant_values=9.0)}
    np.testing.assert_allclose(adversarial(one, longer), adversarial(one, short), rtol=1e-5)


def test_reused_alignments_stay_in_use_when_the_judging_begins() -> None:
    """A step is compiled anew for either; neither may forget the other."""
    step = judged_step()
    cache = AlignmentCache(np.array([7, 7, 3]))
    cache.durations[:] = 1
    step.objective.enter(0)
    step.use_alignments(cache)
    step.enter(1)
    given = batch()
    durations = step({**given, "index": tf.constant([0, 1, 2], tf.int64)}).durations.numpy()
    assert durations.max() <= 1


def test_a_resumed_judged_run_takes_the_same_steps() -> None:
    step = judged_step(seed=5)
    step(batch())
    state = TrainingState.capture(RunState(batch=1), step, None)
    step(batch(seed=1))
    again = judged_step(seed=5)
    state.restore(again, None)
    again(batch(seed=1))
    for one, two in zip(weights_of(step.objective.model), weights_of(again.objective.model), strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_judgements_of_shares_add_up_to_that_of_the_batch() -> None:
    one = objective()
    one.enter(1)
    given = batch(clips=5, frames=90)
    known = {"all_index": tf.range(5), "all_mel_lengths": given["mel_lengths"]}
    known["all_token_lengths"] = given["token_lengths"]
    shares = []
    for places in ([0, 2, 4], [1, 3]):
        part = {name: tf.gather(value, places) for name, value in given.items()}
        shares.append(adversarial(one, {**part, **known, "place": tf.constant(places)}))
    np.testing.assert_allclose(np.sum(shares, axis=0), adversarial(one, given), rtol=1e-5)
