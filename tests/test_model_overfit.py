"""Learning, in small: eight clips of speech are learned by heart, with either decoder and in mixed precision."""

from __future__ import annotations

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from model_samples import FLOOR

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.models.sizes import SIZES
from myxtts.models.xtts import XTTS
from myxtts.text import TextSettings, Tokenizer
from myxtts.text.espeak import Espeak, available
from myxtts.training.losses import compute_losses
from myxtts.training.optimizer import FlatWeights

SENTENCES = (
    "Good morning.",
    "Where is it?",
    "Come back soon.",
    "Seven green birds.",
    "Thank you all.",
    "A quiet river.",
    "He said no.",
    "Open the door!",
)


@pytest.fixture(scope="module")
def clips():
    if not available():
        pytest.skip("espeak-ng, which speaks the clips, is not installed (the speech extra)")
    espeak, settings = Espeak(), MelSettings()
    audio = [espeak.speak(sentence, "en-us", rate_wpm=220).astype(np.float32) / 32768 for sentence in SENTENCES]
    mels = [log_mel(np.trim_zeros(one), settings) for one in audio]
    tokens = Tokenizer(TextSettings(add_blank=True)).encode_batch(SENTENCES, ["en"] * len(SENTENCES))
    frames, width = max(map(len, mels)), max(map(len, tokens))
    return {
        "tokens": np.stack([np.pad(one, (0, width - len(one))) for one in tokens]),
        "token_lengths": np.array([len(one) for one in tokens], np.int32),
        "mel": np.stack([np.pad(one, ((0, frames - len(one)), (0, 0)), constant_values=FLOOR) for one in mels]),
        "mel_lengths": np.array([len(one) for one in mels], np.int32),
        "language": np.zeros(len(mels), np.int32),
    }


def learn(model, batch, steps, learning_rate=2e-3):
    """Losses of each step, float32 [steps, 4], in the order of `Losses`."""
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=learning_rate, warmup_steps=steps // 10, alpha=0.05
    )
    optimizer = keras.optimizers.AdamW(schedule, beta_2=0.98, global_clipnorm=1.0)
    if model.compute_dtype == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    weights = FlatWeights(model.trainable_variables)
    optimizer.build(weights.vectors)

    @tf.function(autograph=False)
    def step(batch, number):
        with tf.GradientTape() as tape:
            losses = compute_losses(
                model(batch, training=True, seed=tf.stack([0, number])), batch, model.decoder_kind
            )
            scaled = optimizer.scale_loss(losses["total"])
        weights.gather()
        optimizer.apply(weights.flatten(tape.gradient(scaled, model.trainable_variables)), weights.vectors)
        weights.scatter()
        return tf.stack(list(losses.values()))

    batch = {key: tf.constant(value) for key, value in batch.items()}
    return np.array([step(batch, tf.constant(number)) for number in range(steps)])


@pytest.mark.parametrize(("decoder", "total", "error"), [("regression", 0.35, 0.22), ("flow", 0.5, 0.35)])
def test_tiny_learns_eight_clips_by_heart_in_100_steps(clips, decoder, total, error):
    keras.utils.set_random_seed(0)
    model = XTTS(SIZES["tiny"], 1000, 17, decoder=decoder)
    losses = learn(model, clips, 100)
    assert np.isfinite(losses).all()
    last = losses[-10:].mean(axis=0)
    assert last[0] < total
    assert last[2] < error


@pytest.mark.parametrize(("decoder", "policy"), [("regression", "mixed_float16"), ("flow", "mixed_bfloat16")])
def test_mixed_precision_learns_as_float32_does(clips, decoder, policy):
    sizes = dataclasses.replace(
        SIZES["tiny"], encoder_width=32, encoder_blocks=2, duration_width=32, duration_blocks=1,
        decoder_width=48, decoder_blocks=2, reference_width=16, reference_blocks=1, voice=16,
    )  # fmt: skip
    last = {}
    for name in ("float32", policy):
        keras.utils.set_random_seed(0)
        losses = learn(XTTS(sizes, 1000, 17, decoder=decoder, dtype=name), clips, 30)
        assert np.isfinite(losses).all()
        last[name] = losses[-10:].mean(axis=0)
    np.testing.assert_allclose(last[policy], last["float32"], rtol=0.1)
    assert last[policy][0] < 0.6 * losses[0][0]
