"""Small voices of both decoders, never trained, and what they are exported to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
from training_samples import SMALLEST as SMALLEST_TRAINED

from myxtts.config.config import XTTSConfig
from myxtts.models.checkpoint import save_checkpoint
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGES
from myxtts.text.symbols import SYMBOLS

# Patches of 2 and 4 frames, as the sizes that are trained have.
SMALLEST = dataclasses.replace(SMALLEST_TRAINED, voice=8)


class Silence:
    """A vocoder that takes no time."""

    name = "silence"
    sample_rate = 22050

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        return np.zeros(256 * len(mel), np.float32)

    def stream(self, mel: np.ndarray, chunk_frames: int = 48) -> Iterator[np.ndarray]:
        yield self(mel)


def small_voice(path: Path, decoder: str, mean: float = 0.0, **settings: object) -> Path:
    """A checkpoint that says noise, in English and Persian; `mean` is added to its mean mels. Those of both decoders
    differ in their decoders only."""
    values = {"size": "tiny", "decoder": decoder, "text_symbols": "graphemes", "flow_steps": 3}
    config = XTTSConfig(**(values | settings))
    model = XTTS(SMALLEST, len(SYMBOLS), len(LANGUAGES), decoder=decoder)
    generator = np.random.default_rng(0)
    model.set_weights([generator.normal(0, 0.2, weight.shape) for weight in model.get_weights()])
    languages = np.zeros((len(LANGUAGES), SMALLEST.encoder_width), np.float32)
    for language in ("en", "fa"):
        languages[LANGUAGES.index(language)] = LANGUAGES.index(language) / 40 + 0.1
    model.encoder.language.embeddings.assign(languages)
    model.mean_head.bias.assign_add(tf.fill([80], mean))
    # About four frames a symbol.
    model.duration_predictor.head.bias.assign([1.4])
    save_checkpoint(path, model, config, {"step": 7})
    return path
