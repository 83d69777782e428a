"""The compiled step and its optimizer: what moves, what is counted, what is skipped."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_samples import BANDS, batch, small_model, spec_of, weights_of

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.models.xtts import XTTS
from myxtts.training.alignment_cache import AlignmentCache
from myxtts.training.objective import SpeechObjective
from myxtts.training.optimizer import create_optimizer, learning_rate_schedule, put_average
from myxtts.training.step import MeanLosses, TrainingStep, fold_seed


def make_step(model: XTTS | None = None, example: dict[str, tf.Tensor] | None = None, **changes: Any) -> TrainingStep:
    values = {"optimization_level": "basic", "n_mels": BANDS, "warmup_steps": 0, "schedule": "constant"}
    config = XTTSConfig(**(values | changes))
    model = model or small_model()
    optimizer = create_optimizer(config.training, 1000, model.dtype_policy.name)
    return TrainingStep(SpeechObjective(model, config), optimizer, config, spec_of(example or batch()))


def graph_of(step: TrainingStep) -> tf.types.experimental.PolymorphicFunction:
    """What a step that does not run eagerly calls."""
    assert isinstance(step._run, tf.types.experimental.PolymorphicFunction)
    return step._run


def with_infinity(one: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    mel = one["mel"].numpy()
    mel[0, 0, 0] = np.inf
    return {**one, "mel": tf.constant(mel)}


@pytest.fixture(scope="module")
def graph_step() -> TrainingStep:
    """Traced once for the tests that only look at what it does next."""
    return make_step()


# What a step does


def test_a_step_moves_the_weights_and_tells_clips_and_frames(graph_step: TrainingStep) -> None:
    before = weights_of(graph_step.objective.model)
    skipped, clips, frames = graph_step(batch()).completion.numpy().tolist()
    assert (skipped, clips, frames) == (0, 3, 24 + 24 + 12)
    assert any((old != new).any() for old, new in zip(before, weights_of(graph_step.objective.model), strict=True))


def test_an_empty_place_is_not_a_clip(graph_step: TrainingStep) -> None:
    one = batch()
    one["mel_lengths"], one["token_lengths"] = tf.constant([24, 0, 5]), tf.constant([7, 0, 3])
    assert graph_step(one).completion.numpy().tolist() == [0, 2, 29]


def test_losses_are_means_over_the_batches_since_the_last_reading(graph_step: TrainingStep) -> None:
    graph_step.read()
    graph_step(batch(seed=1))
    one = MeanLosses.of(graph_step.read(), graph_step.objective.names)
    graph_step(batch(seed=2))
    graph_step(batch(seed=3))
    two = MeanLosses.of(graph_step.read(), graph_step.objective.names)
    assert (one.batches, two.batches) == (1, 2)
    assert one.total == pytest.approx(sum(one.losses.values()) - one.total, rel=1e-5)
    assert MeanLosses.of(graph_step.read(), graph_step.objective.names).batches == 0


def test_one_trace_serves_every_shape(graph_step: TrainingStep) -> None:
    for clips, frames, tokens in ((2, 40, 11), (5, 16, 4), (3, 24, 7)):
        graph_step(batch(clips, frames, tokens))
    assert graph_of(graph_step).experimental_get_tracing_count() == 1


def test_a_shape_is_new_only_once(graph_step: TrainingStep) -> None:
    graph_step.shapes.clear()
    seen = [graph_step.note_shape(batch(*shape)) for shape in ((2, 40, 11), (5, 16, 4), (2, 40, 11))]
    assert seen == [((2, 40, 11), True), ((5, 16, 4), True), ((2, 40, 11), False)]


def test_the_same_seed_gives_the_same_steps_and_another_does_not() -> None:
    losses = []
    for seed in (3, 3, 4):
        step = make_step(small_model(decoder="flow"), seed=seed, enable_graph_mode=False)
        step(batch())
        losses.append(MeanLosses.of(step.read(), step.objective.names).total)
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**31, 2**62 + 12345, 2**63 - 1])
def test_any_seed_fits_into_a_graph(seed: int) -> None:
    assert 0 <= fold_seed(seed) < 2**31


def test_eagerly_as_a_graph_and_under_xla_the_same_is_learned() -> None:
    ways: dict[str, dict[str, Any]] = {
        "eager": {"enable_graph_mode": False},
        "graph": {},
        "xla": {"optimization_level": "enhanced"},
    }
    learned = {}
    for name, changes in ways.items():
        step = make_step(**changes)
        for seed in range(3):
            step(batch(seed=seed))
        learned[name] = (MeanLosses.of(step.read(), step.objective.names), weights_of(step.objective.model))
    for name in ("graph", "xla"):
        np.testing.assert_allclose(learned[name][0].total, learned["eager"][0].total, rtol=1e-4)
        for expected, found in zip(learned["eager"][1], learned[name][1], strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-3)


# Not finite


def test_a_step_that_is_not_finite_moves_nothing_and_is_counted(graph_step: TrainingStep) -> None:
    graph_step.read()
    skipped = graph_step.skipped
    before = weights_of(graph_step.objective.model) + [v.numpy() for v in graph_step.optimizer.variables]
    results = [graph_step(with_infinity(batch(seed=seed))).completion.numpy()[0] for seed in range(2)]
    after = weights_of(graph_step.objective.model) + [v.numpy() for v in graph_step.optimizer.variables]
    assert results == [1, 2]
    assert graph_step.skipped == skipped + 2
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_skipped_steps_are_in_no_mean_and_a_good_one_ends_the_row(graph_step: TrainingStep) -> None:
    graph_step.read()
    graph_step(with_infinity(batch()))
    assert graph_step(batch()).completion.numpy()[0] == 0
    losses = MeanLosses.of(graph_step.read(), graph_step.objective.names)
    assert losses.batches == 1
    assert np.isfinite(losses.total)


def test_a_gradient_that_overflows_in_half_precision_lowers_the_scale_and_is_no_fault() -> None:
    model = small_model(dtype="mixed_float16")
    # A new model's last layers are zero, and nothing before them has a gradient yet.
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    step = make_step(model, enable_graph_mode=False)
    assert isinstance(step.optimizer, keras.optimizers.LossScaleOptimizer)
    step.optimizer.dynamic_scale.assign(2.0**60)
    before = weights_of(model)
    assert step(batch()).completion.numpy()[0] == 0
    assert step.skipped == 1
    assert float(step.optimizer.dynamic_scale.numpy()) == 2.0**59
    for old, new in zip(before, weights_of(step.objective.model), strict=True):
        np.testing.assert_array_equal(old, new)


def test_in_half_precision_a_loss_that_is_not_finite_is_a_fault() -> None:
    step = make_step(small_model(dtype="mixed_float16"), enable_graph_mode=False)
    assert step(with_infinity(batch())).completion.numpy()[0] == 1


# The optimizer's numbers mean optimizer steps


def rates(config: TrainingConfig, total: int, batches: list[int]) -> list[float]:
    schedule = learning_rate_schedule(config, total)
    return [float(schedule(tf.constant(number, tf.int64))) for number in batches]


def test_the_learning_rate_rises_to_its_peak_and_falls_as_a_cosine() -> None:
    config = TrainingConfig(learning_rate=1e-2, final_learning_rate=1e-4, warmup_steps=10)
    assert rates(config, 110, [0, 10, 60, 110]) == pytest.approx([1e-3, 1e-2, 5.05e-3, 1e-4], rel=1e-3)


def test_a_constant_schedule_stays_at_its_peak() -> None:
    config = TrainingConfig(learning_rate=1e-2, warmup_steps=10, schedule="constant")
    assert rates(config, 100, [10, 50, 99]) == pytest.approx([1e-2] * 3)


def test_with_accumulation_the_schedule_counts_optimizer_steps() -> None:
    config = TrainingConfig(learning_rate=1e-2, warmup_steps=10, gradient_accumulation_steps=4)
    assert rates(config, 110, [40, 240]) == pytest.approx(
        rates(TrainingConfig(learning_rate=1e-2, warmup_steps=10), 110, [10, 60]), rel=1e-5
    )


def test_a_warm_up_longer_than_half_the_run_is_cut_and_said(caplog: pytest.LogCaptureFixture) -> None:
    config = TrainingConfig(learning_rate=1e-2, warmup_steps=500)
    assert rates(config, 20, [10])[0] == pytest.approx(1e-2)
    assert "warms up for 10" in caplog.text


def test_accumulated_batches_move_the_weights_once() -> None:
    step = make_step(enable_graph_mode=False, gradient_accumulation_steps=2)
    before = weights_of(step.objective.model)
    step(batch(seed=0))
    for old, new in zip(before, weights_of(step.objective.model), strict=True):
        np.testing.assert_array_equal(old, new)
    step(batch(seed=1))
    assert any((old != new).any() for old, new in zip(before, weights_of(step.objective.model), strict=True))
    assert int(step.optimizer.iterations) == 1


def moved(step: TrainingStep, batches: list[dict[str, tf.Tensor]]) -> list[bool]:
    """After which of the batches the weights were others than before."""
    found = []
    for one in batches:
        before = weights_of(step.objective.model)
        step(one)
        after = weights_of(step.objective.model)
        found.append(any((old != new).any() for old, new in zip(before, after, strict=True)))
    return found


@pytest.mark.parametrize(
    ("policy", "graph"), [("float32", False), ("mixed_float16", True)], ids=["float32", "float16"]
)
def test_a_skipped_batch_counts_in_its_optimizer_step_and_adds_nothing(policy: str, graph: bool) -> None:
    model = small_model(dtype=policy)
    step = make_step(model, enable_graph_mode=graph, gradient_accumulation_steps=2)
    batches = [batch(seed=0), with_infinity(batch(seed=1)), with_infinity(batch(seed=2)), batch(seed=3)]
    assert moved(step, batches) == [False, True, False, True]
    assert int(step.optimizer.iterations) == 2
    assert step.skipped == 2


def test_what_a_skipped_batch_leaves_of_its_optimizer_step_is_the_others_share() -> None:
    config: dict[str, Any] = {"enable_graph_mode": False, "gradient_clip_norm": None, "ema_decay": None}
    skipping = make_step(gradient_accumulation_steps=2, **config)
    whole = make_step(**config)
    for one in (with_infinity(batch(seed=1)), batch(seed=0)):
        skipping(one)
    whole(batch(seed=0))
    for expected, found in zip(whole.optimizer._momentums, skipping.optimizer._momentums, strict=True):
        np.testing.assert_allclose(2 * found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-7)


def test_the_average_follows_the_weights_with_the_configured_decay() -> None:
    step = make_step(enable_graph_mode=False, ema_decay=0.5, gradient_clip_norm=None)
    step(batch(seed=0))
    first = weights_of(step.objective.model)
    step(batch(seed=1))
    second = weights_of(step.objective.model)
    averaged = small_model(seed=9)
    put_average(step.optimizer, step.weights, averaged)
    for one, two, average in zip(first, second, weights_of(averaged), strict=True):
        np.testing.assert_allclose(average, 0.5 * one + 0.5 * two, atol=1e-6)


def test_taking_the_average_between_two_steps_does_not_change_what_is_trained() -> None:
    watched, left_alone = (make_step(enable_graph_mode=False, ema_decay=0.5) for _ in range(2))
    for number in range(2):
        watched(batch(seed=number))
        left_alone(batch(seed=number))
        put_average(watched.optimizer, watched.weights, small_model(seed=9))
    for expected, found in zip(
        weights_of(left_alone.objective.model), weights_of(watched.objective.model), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_short_run_averages_over_its_last_steps_only() -> None:
    config = TrainingConfig(ema_decay=0.999)
    assert create_optimizer(config, 1000).ema_momentum == pytest.approx(0.98)
    assert create_optimizer(config, 1_000_000).ema_momentum == 0.999
    assert create_optimizer(config, 1).ema_momentum == 0


def test_without_an_average_the_weights_themselves_speak() -> None:
    step = make_step(enable_graph_mode=False, ema_decay=None)
    step(batch())
    averaged = small_model(seed=9)
    put_average(step.optimizer, step.weights, averaged)
    for expected, found in zip(weights_of(step.objective.model), weights_of(averaged), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", 0.1),
        ("adam_beta1", 0.0),
        ("adam_beta2", 0.0),
        ("weight_decay", 0.9),
        ("gradient_clip_norm", 1e-3),
    ],
)
def test_each_setting_of_the_optimizer_changes_what_is_learned(key: str, value: float) -> None:
    def learned(**changes: Any) -> np.ndarray:
        keras.utils.set_random_seed(0)
        layer = keras.layers.Dense(3)
        layer.build((None, 2))
        config = TrainingConfig(warmup_steps=0, schedule="constant", **changes)
        optimizer = create_optimizer(config, 100)
        for scale in (0.01, -0.03, 0.02):
            optimizer.apply([tf.fill([2, 3], scale), tf.fill([3], scale)], layer.trainable_variables)
        return layer.kernel.numpy()

    assert np.abs(learned() - learned(**{key: value})).max() > 1e-6


# Features on the device, alignments that are kept


def test_a_batch_of_audio_is_learned_from_like_a_batch_of_its_mels() -> None:
    settings = MelSettings.from_config(XTTSConfig(n_mels=BANDS).data)
    samples = 24 * settings.hop_length + settings.n_fft
    audio = np.random.default_rng(0).integers(-9000, 9000, (3, samples)).astype(np.int16)
    lengths = tf.fill([3], 24 * settings.hop_length)
    stored = batch() | {"mel_lengths": tf.fill([3], 24)}
    stored["mel"] = LogMel(settings)(tf.constant(audio), lengths)[:, :24]
    carried = {name: value for name, value in stored.items() if name != "mel"}
    carried |= {"audio": tf.constant(audio), "audio_lengths": lengths}
    losses = []
    for example in (stored, carried):
        step = make_step(example=example, enable_graph_mode=False)
        assert step.note_shape(example)[0] == (3, 24, 7)
        step(example)
        losses.append(MeanLosses.of(step.read(), step.objective.names).total)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_kept_alignments_are_looked_up_by_clip_and_padded() -> None:
    kept = AlignmentCache(np.array([3, 2, 4], np.int32))
    kept.keep(np.array([2, -1, 0]), np.array([[1, 2, 3, 4, 0], [9, 9, 9, 9, 9], [5, 6, 7, 0, 0]]))
    assert kept.known.tolist() == [True, False, True]
    found = kept.on_device()(tf.constant([0, 2, -1], tf.int64), tf.zeros([3, 5], tf.int32))
    assert found.numpy().tolist() == [[5, 6, 7, 0, 0], [1, 2, 3, 4, 0], [0, 0, 0, 0, 0]]


def test_a_step_reads_no_int32_variable_which_tensorflow_would_keep_on_the_host() -> None:
    one = batch()
    step = make_step()
    kept = AlignmentCache(one["token_lengths"].numpy())
    step.use_alignments(kept)
    operations = graph_of(step).get_concrete_function().graph.get_operations()
    reads = [one for one in operations if one.type in ("ReadVariableOp", "ResourceGather")]
    assert "ResourceGather" in {one.type for one in reads}
    assert tf.int32 not in {one.get_attr("dtype") for one in reads}


@pytest.mark.parametrize(
    "changes",
    [
        {"enable_graph_mode": False},
        pytest.param({}, marks=pytest.mark.soak),
        pytest.param({"optimization_level": "enhanced"}, marks=pytest.mark.soak),
    ],
    ids=["eager", "graph", "xla"],
)
def test_a_step_with_kept_alignments_uses_them_and_searches_no_more(changes: dict[str, Any]) -> None:
    one = batch()
    step = make_step(learning_rate=1e-9, weight_decay=0.0, **changes)
    kept = AlignmentCache(one["token_lengths"].numpy())
    found = step(one).durations.numpy()
    kept.keep(one["index"].numpy(), found)
    searched = MeanLosses.of(step.read(), step.objective.names)
    step.use_alignments(kept)
    np.testing.assert_array_equal(step(one).durations.numpy(), found)
    assert MeanLosses.of(step.read(), step.objective.names).total == pytest.approx(searched.total, rel=1e-4)

    evenly = np.zeros_like(found)
    evenly[:, 0] = found.sum(axis=1)
    kept.keep(one["index"].numpy(), evenly)
    step.use_alignments(kept)
    np.testing.assert_array_equal(step(one).durations.numpy(), evenly)
