"""TensorFlow's own format, for TF Serving: a folder `1/` with signatures for speaking, cloning and vocoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.errors import ExportError
from myxtts.export.agreement import EXACT, Agreement
from myxtts.inference import trained_vocoder
from myxtts.models.vocoder_folder import is_imported
from myxtts.models.xtts import XTTS
from myxtts.runtime.bundle import GRIFFIN_LIM, HARMONIC
from myxtts.text.symbols import SYMBOLS

# TF Serving wants a number for a version.
VERSION = "1"


def write(
    folder: Path, model: XTTS, config: XTTSConfig, vocoder: Path | None, settings: MelSettings
) -> dict[str, Any]:
    """Writes the SavedModel; returns what the manifest says about its vocoder. It has one if that is of our own."""
    module = tf.Module()
    module.model = model
    signatures = _speech_signatures(model, config)
    description = {"kind": GRIFFIN_LIM}
    if vocoder is not None and vocoder.is_dir() and not is_imported(vocoder):
        module.vocoder = trained_vocoder.load_trained(vocoder, settings)
        signatures["vocode"] = _vocode(module.vocoder, settings)
        description = {"kind": HARMONIC}
    tf.saved_model.save(module, str(folder / VERSION), signatures=signatures)
    return description


def check(folder: Path, model: XTTS, config: XTTSConfig, languages: Sequence[int]) -> Agreement:
    """Lets what was written speak beside the model.

    Raises:
        ExportError: they differ.
    """
    speak = tf.saved_model.load(str(folder / VERSION)).signatures["speak"]
    generator = np.random.default_rng(0)
    voice = model.default_voice(1)[0]
    largest, count = 0.0, 0
    for language in languages:
        for length in (8, 17):
            tokens = tf.constant(generator.integers(1, len(SYMBOLS), length).astype(np.int32))
            given = {"tokens": tokens, "language": tf.constant(language), "voice": voice, "speed": tf.constant(1.0)}
            found = speak(**given, seed=tf.constant([0, 0]))
            wanted = _speak(model, config.model.flow_steps, **given, seed=tf.constant([0, 0]))
            same = found["mel"].shape == wanted["mel"].shape
            difference = float(tf.reduce_max(tf.abs(found["mel"] - wanted["mel"]))) if same else float("inf")
            if not difference <= EXACT or not np.array_equal(found["alignment"], wanted["alignment"]):
                raise ExportError(
                    f"the SavedModel says {length} symbols in language {language} differently from the model"
                )
            largest, count = max(largest, difference), count + 1
    return Agreement(count, largest)


def _speech_signatures(model: XTTS, config: XTTSConfig) -> dict[str, Any]:
    steps = config.model.flow_steps

    def speak(
        tokens: tf.Tensor, language: tf.Tensor, voice: tf.Tensor, speed: tf.Tensor, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return _speak(model, steps, tokens, language, voice, speed, seed)

    def voices(crops: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"voices": model.voice(crops)}

    signature = [
        tf.TensorSpec([None], tf.int32, "tokens"),
        tf.TensorSpec([], tf.int32, "language"),
        tf.TensorSpec([model.sizes.voice], tf.float32, "voice"),
        tf.TensorSpec([], tf.float32, "speed"),
        tf.TensorSpec([2], tf.int32, "seed"),
    ]
    crops = tf.TensorSpec([None, None, model.n_mels], tf.float32, "crops")
    return {
        "speak": tf.function(speak, input_signature=signature, autograph=False),
        "voice": tf.function(voices, input_signature=[crops], autograph=False),
    }


def _speak(
    model: XTTS,
    steps: int,
    tokens: tf.Tensor,
    language: tf.Tensor,
    voice: tf.Tensor,
    speed: tf.Tensor,
    seed: tf.Tensor,
) -> dict[str, tf.Tensor]:
    lengths = tf.shape(tokens)[:1]
    speech = model.speak(tokens[None], lengths, language[None], voice[None], speed, steps=steps, seed=seed)
    return {"mel": speech.mel[0], "alignment": speech.alignment[0]}


def _vocode(vocoder: Any, settings: MelSettings) -> Any:
    mel = tf.TensorSpec([None, settings.n_mels], tf.float32, "mel")
    return tf.function(lambda mel: {"audio": vocoder(mel[None])[0]}, input_signature=[mel], autograph=False)
