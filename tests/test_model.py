"""The model: its sizes, what it gives, what it must not depend on, saving and loading."""

from __future__ import annotations

import dataclasses
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from model_samples import BANDS, FLOOR, LANGUAGES, SMALL, VOCABULARY, padded, random_batch, small_model

from myxtts.config.config import XTTSConfig
from myxtts.models.create import create_model
from myxtts.models.xtts import XTTS, whole_durations
from myxtts.training.losses import compute_losses

DECODERS = ("regression", "flow")
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")


def noise_for(batch, frames=0, clips=0):
    """The same noise whatever the padding: drawn numbers depend on the batch's shape."""
    rng = np.random.default_rng(3)
    shape = batch["mel"].shape
    noise = np.pad(rng.normal(size=shape).astype(np.float32), ((0, clips), (0, frames), (0, 0)))
    return tf.constant(noise), tf.constant(np.pad(np.linspace(0.1, 0.9, shape[0], dtype=np.float32), (0, clips)))


def losses_and_gradients(model, batch, noise=None, training=False):
    with tf.GradientTape() as tape:
        losses = compute_losses(model(batch, training=training, noise=noise), batch, model.decoder_kind)
    gradients = tape.gradient(losses["total"], model.trainable_variables)
    dense = [tf.convert_to_tensor(gradient) for gradient in gradients]  # an embedding's is sparse
    return list(losses.values()), dense


@pytest.mark.parametrize(("size", "low", "high"), [("tiny", 1e6, 2e6), ("base", 20e6, 30e6)])
def test_a_size_has_as_many_parameters_as_documented(size, low, high):
    for decoder in DECODERS:
        assert low <= create_model(XTTSConfig(size=size, decoder=decoder)).count_params() <= high


def test_auto_decodes_tiny_by_regression_and_base_by_flow():
    assert create_model(XTTSConfig(size="tiny")).decoder_kind == "regression"
    assert create_model(XTTSConfig(size="base")).decoder_kind == "flow"


def test_extra_languages_have_an_embedding_each():
    plain, more = (create_model(XTTSConfig(extra_languages=extra)) for extra in ([], ["sv", "da"]))
    assert more.languages == plain.languages + 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_outputs_have_the_documented_shapes_and_types(decoder):
    batch = random_batch()
    outputs = small_model(decoder)(batch)
    clips, frames, bands = batch["mel"].shape
    tokens = batch["tokens"].shape[1]
    shapes = {name: tuple(value.shape) for name, value in outputs._asdict().items()}
    assert shapes == {
        **dict.fromkeys(("mel", "mean", "prediction", "target"), (clips, frames, bands)),
        **dict.fromkeys(("log_durations", "durations"), (clips, tokens)),
        "alignment": (clips, frames),
        "token_mask": (clips, tokens, 1),
        "frame_mask": (clips, frames, 1),
        "tokens": (),
        "frames": (),
    }
    assert outputs.alignment.dtype == outputs.durations.dtype == tf.int32


def test_durations_add_up_to_the_length_of_each_clip():
    batch = random_batch()
    np.testing.assert_array_equal(small_model()(batch).durations.numpy().sum(axis=1), batch["mel_lengths"])


@pytest.mark.parametrize(
    ("decoder", "clips", "tokens", "frames"),
    [(decoder, *padding) for decoder, padding in itertools.product(DECODERS, [(0, 7, 13), (2, 0, 0), (3, 4, 6)])],
)
def test_padding_and_empty_places_change_no_loss_and_no_gradient(decoder, clips, tokens, frames):
    model = small_model(decoder)
    batch = random_batch()
    wider = padded(batch, clips, tokens, frames)
    losses, gradients = losses_and_gradients(model, batch, noise_for(batch))
    wider_losses, wider_gradients = losses_and_gradients(model, wider, noise_for(batch, frames, clips))
    np.testing.assert_allclose(wider_losses, losses, rtol=1e-5)
    for gradient, wider_gradient in zip(gradients, wider_gradients, strict=True):
        np.testing.assert_allclose(wider_gradient, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("decoder", DECODERS)
def test_whatever_lies_in_the_padding_changes_nothing(decoder):
    model = small_model(decoder)
    batch = padded(random_batch(), clips=1, tokens=3, frames=5)
    dirty = {key: value.copy() for key, value in batch.items()}
    for clip in range(len(batch["tokens"])):
        dirty["tokens"][clip, batch["token_lengths"][clip] :] = 7
        dirty["mel"][clip, batch["mel_lengths"][clip] :] = 3.0
    losses, gradients = losses_and_gradients(model, batch, noise_for(batch))
    dirty_losses, dirty_gradients = losses_and_gradients(model, dirty, noise_for(batch))
    np.testing.assert_allclose(dirty_losses, losses, rtol=1e-5)
    for gradient, dirty_gradient in zip(gradients, dirty_gradients, strict=True):
        np.testing.assert_allclose(dirty_gradient, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("decoder", "policy", "compiled"),
    [
        *((decoder, policy, False) for decoder in DECODERS for policy in POLICIES),
        ("regression", "mixed_float16", True),
        ("flow", "mixed_bfloat16", True),
    ],
)
def test_empty_places_and_short_clips_leave_everything_finite(decoder, policy, compiled):
    model = small_model(decoder, dtype=policy)
    batch = random_batch((9, 5, 0, 8, 0), (31, 17, 0, 3, 6))
    batch["mel"] = batch["mel"].astype(np.float16)

    def step(batch):
        losses, gradients = losses_and_gradients(model, batch, training=True)
        return losses, [tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients]

    losses, finite = tf.function(step, jit_compile=True, autograph=False)(batch) if compiled else step(batch)
    assert np.isfinite(losses).all()
    assert all(finite)
    assert all(loss.dtype == tf.float32 for loss in losses)


def test_a_batch_of_nothing_but_empty_places_has_no_loss_and_no_gradient():
    model = small_model()
    batch = random_batch((0, 0), (0, 0), reference_frames=0)
    batch = padded(batch, tokens=4, frames=6)
    losses, gradients = losses_and_gradients(model, batch)
    np.testing.assert_array_equal(losses, 0)
    assert all((gradient.numpy() == 0).all() for gradient in gradients)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_is_near_float32(policy):
    batch = random_batch()
    exact = small_model()(batch)
    mixed = small_model(dtype=policy)(batch)
    half, full = (list(compute_losses(one, batch, "regression").values()) for one in (mixed, exact))
    np.testing.assert_allclose(half, full, rtol=0.05)
    assert {weight.dtype for weight in small_model(dtype=policy).weights} == {"float32"}


def test_compiled_and_eager_agree():
    model, batch = small_model(), random_batch()
    eager = model(batch)
    compiled = tf.function(lambda batch: model(batch), jit_compile=True, autograph=False)(batch)
    np.testing.assert_array_equal(compiled.alignment, eager.alignment)
    np.testing.assert_allclose(compiled.prediction, eager.prediction, atol=1e-4)


@pytest.mark.parametrize("decoder", DECODERS)
def test_durations_of_an_earlier_search_take_its_place(decoder):
    model, batch = small_model(decoder), random_batch()
    searched = model(batch)
    durations = model.align(batch)
    np.testing.assert_array_equal(durations, searched.durations)
    given = model({**batch, "durations": durations})
    np.testing.assert_array_equal(given.alignment, searched.alignment)
    np.testing.assert_allclose(given.prediction, searched.prediction, atol=1e-6)


def test_given_durations_are_used_even_if_a_search_would_find_others():
    model = small_model()
    batch = random_batch((3,), (9,))
    batch["durations"] = np.array([[7, 1, 1]], np.int32)
    np.testing.assert_array_equal(model(batch).alignment, [[0, 0, 0, 0, 0, 0, 0, 1, 2]])


def test_with_given_durations_the_graph_has_no_loop():
    model, batch = small_model(), random_batch()
    batch["durations"] = model.align(batch).numpy()
    graph = tf.function(lambda batch: model(batch), autograph=False).get_concrete_function(batch).graph
    assert not [op.name for op in graph.get_operations() if "While" in op.type]


def test_before_training_the_alignment_is_near_the_diagonal():
    model = XTTS(SMALL, VOCABULARY, LANGUAGES, BANDS)
    alignment = model(random_batch((10,), (40,))).alignment.numpy()[0]
    assert np.abs(alignment - np.linspace(0, 9, 40)).max() < 1


@pytest.mark.parametrize("decoder", DECODERS)
def test_durations_do_not_teach_the_encoder(decoder):
    model, batch = small_model(decoder), random_batch()
    with tf.GradientTape() as tape:
        duration = compute_losses(model(batch), batch, decoder)["duration"]
    others = [
        variable
        for layer in (model.encoder, model.mean_head, model.reference_encoder, model.decoder)
        for variable in layer.trainable_variables
    ]
    assert tape.gradient(duration, others) == [None] * len(others)


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_same_seed_gives_the_same_losses_and_another_one_others(decoder):
    sizes = dataclasses.replace(SMALL, dropout=0.2)
    model = XTTS(sizes, VOCABULARY, LANGUAGES, BANDS, decoder=decoder)
    model.set_weights(small_model(decoder).get_weights())
    batch = random_batch()
    first, again, other = (
        compute_losses(model(batch, training=True, seed=seed), batch, decoder)["total"]
        for seed in ([1, 2], [1, 2], [1, 3])
    )
    assert first == again
    assert first != other


def test_without_training_nothing_is_dropped():
    sizes = dataclasses.replace(SMALL, dropout=0.9)
    model = XTTS(sizes, VOCABULARY, LANGUAGES, BANDS)
    model.set_weights(small_model().get_weights())
    batch = random_batch()
    np.testing.assert_array_equal(model(batch).prediction, small_model()(batch).prediction)


def test_the_configuration_makes_the_same_model_again(tmp_path):
    model = small_model("flow")
    model.save_weights(tmp_path / "small.weights.h5")
    again = XTTS.from_config(model.get_config())
    again.load_weights(tmp_path / "small.weights.h5")
    batch = random_batch()
    np.testing.assert_array_equal(again(batch).prediction, model(batch).prediction)


def test_keras_saves_and_loads_the_whole_model(tmp_path):
    model = small_model()
    model.save(tmp_path / "small.keras")
    again = keras.saving.load_model(tmp_path / "small.keras")
    batch = random_batch()
    np.testing.assert_array_equal(again(batch).prediction, model(batch).prediction)


def test_a_voice_does_not_depend_on_the_padding_of_its_reference():
    model = small_model()
    reference = random_batch(reference_frames=13)["reference_mel"]
    wider = np.pad(reference, ((0, 0), (0, 9), (0, 0)), constant_values=FLOOR)
    np.testing.assert_allclose(model.voice(wider), model.voice(reference), atol=1e-5)
    # float16 keeps the floor a little off.
    np.testing.assert_allclose(model.voice(wider.astype(np.float16)), model.voice(reference), atol=0.05)


def test_a_silent_reference_has_the_default_voice():
    model = small_model()
    silent = np.full((2, 10, BANDS), FLOOR, np.float32)
    np.testing.assert_array_equal(model.voice(silent), model.default_voice(2))


def test_one_audible_frame_is_heard_wherever_it_lies():
    model = small_model()
    for frame in range(4):
        reference = np.full((1, 8, BANDS), FLOOR, np.float32)
        reference[:, frame] = -3.0
        assert not np.array_equal(model.voice(reference), model.default_voice(1))


def test_without_references_every_clip_has_the_default_voice():
    model, batch = small_model(), random_batch()
    without = model({key: value for key, value in batch.items() if key != "reference_mel"})
    silent = model({**batch, "reference_mel": np.full_like(batch["reference_mel"], FLOOR)})
    np.testing.assert_array_equal(without.prediction, silent.prediction)


def test_a_constant_reference_has_a_finite_gradient():
    model = small_model()
    batch = random_batch()
    batch["reference_mel"] = np.full_like(batch["reference_mel"], -3.0)
    _, gradients = losses_and_gradients(model, batch)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def speak(model, tokens=(9, 4), **options):
    batch = random_batch(tokens, tokens)
    voice = model.voice(batch["reference_mel"])
    return model.speak(batch["tokens"], batch["token_lengths"], batch["language"], voice, **options)


@pytest.mark.parametrize("decoder", DECODERS)
def test_speech_is_as_long_as_its_durations_and_silent_beyond(decoder):
    speech = speak(small_model(decoder))
    lengths = speech.mel_lengths.numpy()
    assert speech.mel.shape[1] == lengths.max()
    for mel, alignment, length in zip(speech.mel.numpy(), speech.alignment.numpy(), lengths, strict=True):
        assert (alignment[:length] >= 0).all()
        assert (np.diff(alignment[:length]) >= 0).all()
        assert (alignment[length:] == -1).all()
        np.testing.assert_allclose(mel[length:], FLOOR, rtol=1e-6)
        assert mel.min() >= FLOOR - 1e-5


@pytest.mark.parametrize("decoder", DECODERS)
def test_static_and_dynamic_lengths_speak_the_same(decoder):
    model = small_model(decoder)
    free = speak(model, temperature=0.0)
    frames = free.mel.shape[1]
    fixed = speak(model, temperature=0.0, max_frames=frames + 10)
    np.testing.assert_array_equal(fixed.mel_lengths, free.mel_lengths)
    np.testing.assert_allclose(fixed.mel[:, :frames], free.mel, atol=1e-3)


def test_speech_of_a_static_length_compiles():
    model = small_model()
    compiled = tf.function(lambda: speak(model, max_frames=50), jit_compile=True, autograph=False)()
    np.testing.assert_allclose(compiled.mel, speak(model, max_frames=50).mel, atol=1e-3)


def test_speech_beyond_max_frames_is_cut_off():
    speech = speak(small_model(), max_frames=5)
    assert speech.mel.shape[1] == 5
    assert speech.mel_lengths.numpy().max() == 5


def test_twice_the_speed_takes_half_the_time():
    model = small_model()
    model.duration_predictor.head.bias.assign([3.0])
    normal, fast = (speak(model, speed=speed).mel_lengths.numpy() for speed in (1.0, 2.0))
    np.testing.assert_allclose(fast / normal, 0.5, atol=0.1)


def test_rounding_durations_does_not_add_up():
    log_durations = np.log(np.full((1, 200), 3.4, np.float32))
    durations = whole_durations(log_durations, np.array([200], np.int32), 1.0).numpy()
    assert durations.sum() == 680
    assert set(durations[0]) == {3, 4}


def test_every_token_lasts_a_frame_and_none_lasts_minutes():
    log_durations = np.array([[-20.0, 0.0, 50.0, 1.0]], np.float32)
    durations = whole_durations(log_durations, np.array([3], np.int32), 1.0).numpy()[0]
    np.testing.assert_array_equal(durations, [1, 1, 500, 0])
