"""The graphs of `runtime.graphs` as TensorFlow functions, one for all lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.models.harmonic_source import Source
from myxtts.models.harmonic_vocoder import HarmonicVocoder
from myxtts.models.xtts import XTTS

# Of each function, its outputs by name.
Functions = dict[str, Any]


def speech_functions(model: XTTS) -> Functions:
    """The graphs of a voice, by name."""
    bands, size = model.n_mels, model.sizes.voice
    frames = tf.TensorSpec([None, bands], tf.float32)
    features = tf.TensorSpec([None, model.sizes.encoder_width + 2], tf.float32)
    voice, number = tf.TensorSpec([size], tf.float32), tf.TensorSpec([], tf.float32)

    def plan(tokens: tf.Tensor, language: tf.Tensor, voice: tf.Tensor, speed: tf.Tensor) -> dict[str, tf.Tensor]:
        found = model.plan(tokens[None], tf.shape(tokens)[:1], language[None], voice[None], speed)
        return {"mean": found.mean[0], "features": found.features[0], "alignment": found.alignment[0]}

    def decoder(features: tf.Tensor, mean: tf.Tensor, voice: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"point": model.decoder(features[None], mean[None], _ones(mean), voice[None])[0]}

    def velocity(
        point: tf.Tensor, time: tf.Tensor, features: tf.Tensor, mean: tf.Tensor, voice: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        found = model.decoder(point[None], time[None], features[None], mean[None], _ones(mean), voice[None])
        return {"velocity": found[0]}

    def voices(crops: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"voices": model.voice(crops)}

    functions = {
        "plan": _traced(plan, tf.TensorSpec([None], tf.int32), tf.TensorSpec([], tf.int32), voice, number),
        "voice": _traced(voices, tf.TensorSpec([None, None, bands], tf.float32)),
    }
    if model.decoder_kind == "flow":
        return functions | {"velocity": _traced(velocity, frames, number, features, frames, voice)}
    return functions | {"decoder": _traced(decoder, features, frames, voice)}


def vocoder_functions(model: HarmonicVocoder) -> Functions:
    """The graphs of a vocoder of our own, by name."""
    mels, row = tf.TensorSpec([None, model.settings.n_mels], tf.float32), tf.TensorSpec([None], tf.float32)

    def pitch(mel: tf.Tensor) -> dict[str, tf.Tensor]:
        scores, voicing = model.pitch_scores(mel[None])
        return {"scores": scores[0], "voicing": voicing[0]}

    def filters(mel: tf.Tensor, pitch: tf.Tensor, voiced: tf.Tensor) -> dict[str, tf.Tensor]:
        found = model.filters(mel[None], Source(pitch[None], voiced[None], tf.zeros_like(pitch)[None]))
        return {"pulses": found.pulses[0], "noise": found.noise[0], "phase": found.phase[0]}

    return {"pitch": _traced(pitch, mels), "filters": _traced(filters, mels, row, row)}


def as_graph(function: Any, outputs: tuple[str, ...]) -> Callable[..., tuple[np.ndarray, ...]]:
    """A function of `speech_functions` or `vocoder_functions` that gives NumPy arrays, in the order of `outputs`."""

    def run(*values: np.ndarray) -> tuple[np.ndarray, ...]:
        found = function(*values)
        return tuple(found[name].numpy() for name in outputs)

    return run


def _ones(mean: tf.Tensor) -> tf.Tensor:
    """The mask of a clip alone, which has no frames beyond it."""
    return tf.ones_like(mean[None, :, :1])


def _traced(function: Callable[..., dict[str, tf.Tensor]], *signature: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=signature, autograph=False)
