"""A data set, a model and a configuration small enough that a run takes seconds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from speech_like import make_data_set

from myxtts.config.config import XTTSConfig
from myxtts.models.sizes import ModelSizes
from myxtts.models.xtts import XTTS
from myxtts.text.languages import LANGUAGES
from myxtts.text.symbols import SYMBOLS

SMALLEST = ModelSizes(
    encoder_width=8,
    encoder_blocks=1,
    duration_width=8,
    duration_blocks=1,
    decoder_width=8,
    decoder_blocks=1,
    reference_width=8,
    reference_blocks=1,
    voice=4,
    kernel_size=3,
)
BANDS = 16
LENGTHS = [0.3 + 0.05 * (k * 7 % 11) for k in range(28)]
BATCHES = 6  # of an epoch, in this configuration
# Options of a command: a few short clips, and steps that are neither traced nor compiled, so that it takes seconds.
QUICK = (
    "--set=optimization_level=basic --set=enable_graph_mode=false --batch-size=4 --set=num_workers=1 "
    f"--set=text_symbols=graphemes --set=n_mels={BANDS} --set=num_buckets=1 --set=reference_seconds=0.2"
).split()


def data_folder(folder: Path) -> Path:
    return make_data_set(folder / "data", LENGTHS, speakers=2)


def configure(data: Path, run: Path, **changes: Any) -> XTTSConfig:
    """Graph mode without XLA and TensorBoard, so that a run begins soon."""
    values: dict[str, Any] = {
        "data_path": str(data),
        "checkpoint_dir": str(run),
        "text_symbols": "graphemes",
        "n_mels": BANDS,
        "batch_size": 4,
        "num_buckets": 2,
        "num_workers": 1,
        "reference_seconds": 0.2,
        "train_split": 0.8,
        "val_split": 0.2,
        "max_steps": 12,
        "warmup_steps": 2,
        "log_every": 1,
        "save_every": 4,
        "validate_every": 6,
        "optimization_level": "basic",
        "enable_tensorboard": False,
    }
    return XTTSConfig(**(values | changes))


def small_model(seed: int = 0, decoder: str = "regression", **options: Any) -> XTTS:
    random.seed(seed)  # all that Keras seeds initial values with; its own function also empties TensorFlow's caches
    return XTTS(SMALLEST, len(SYMBOLS), len(LANGUAGES), BANDS, decoder=decoder, **options)


def batch(clips: int = 3, frames: int = 24, tokens: int = 7, seed: int = 0) -> dict[str, tf.Tensor]:
    """A batch as the pipeline gives it, the last clip half as long as the others."""
    generator = np.random.default_rng(seed)
    mel_lengths = np.full(clips, frames, np.int32)
    token_lengths = np.full(clips, tokens, np.int32)
    mel_lengths[-1], token_lengths[-1] = frames // 2, tokens // 2
    ids = generator.integers(1, len(SYMBOLS), (clips, tokens)) * (np.arange(tokens) < token_lengths[:, None])
    mel = generator.normal(-5, 2, (clips, frames, BANDS))
    mel[np.arange(frames) >= mel_lengths[:, None]] = np.log(1e-5)
    return {
        "tokens": tf.constant(ids, tf.int32),
        "token_lengths": tf.constant(token_lengths),
        "mel": tf.constant(mel, tf.float32),
        "mel_lengths": tf.constant(mel_lengths),
        "speaker": tf.zeros([clips], tf.int32),
        "language": tf.zeros([clips], tf.int32),
        "index": tf.range(clips, dtype=tf.int64),
        "reference_mel": tf.constant(generator.normal(-5, 2, (clips, 12, BANDS)), tf.float32),
    }


def spec_of(one: dict[str, tf.Tensor]) -> dict[str, tf.TensorSpec]:
    return {name: tf.TensorSpec(value.shape, value.dtype) for name, value in one.items()}


def weights_of(model: Any) -> list[np.ndarray]:
    return [np.array(weight) for weight in model.get_weights()]


def assert_equal_batches(one: dict[str, tf.Tensor], other: dict[str, tf.Tensor]) -> None:
    """Every field of two batches, bit for bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value.numpy(), other[name].numpy(), err_msg=name)
