"""Small models and batches for the tests of the model, its losses and its use."""

from __future__ import annotations

from typing import Any

import numpy as np

from myxtts.models.sizes import ModelSizes
from myxtts.models.xtts import XTTS

SMALL = ModelSizes(
    encoder_width=16,
    encoder_blocks=2,
    duration_width=16,
    duration_blocks=1,
    decoder_width=24,
    decoder_blocks=2,
    reference_width=16,
    reference_blocks=1,
    voice=8,
    kernel_size=3,
)
VOCABULARY, LANGUAGES, BANDS = 30, 3, 20
FLOOR = float(np.log(1e-5))


def small_model(decoder: str = "regression", **options: Any) -> XTTS:
    """A model of a few thousand weights, none of them at the zero that some start with."""
    model = XTTS(SMALL, VOCABULARY, LANGUAGES, BANDS, decoder=decoder, **options)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.3, weight.shape) for weight in model.get_weights()])
    return model


def random_batch(
    token_lengths: tuple[int, ...] = (9, 5, 1),
    mel_lengths: tuple[int, ...] = (31, 17, 4),
    reference_frames: int = 12,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Clips of these lengths, padded to the longest; without `reference_mel` for 0 reference frames."""
    rng = np.random.default_rng(seed)
    clips, tokens, frames = len(token_lengths), max(token_lengths), max(mel_lengths)
    batch: dict[str, np.ndarray] = {
        "tokens": np.zeros((clips, tokens), np.int32),
        "token_lengths": np.array(token_lengths, np.int32),
        "mel": np.full((clips, frames, BANDS), FLOOR, np.float32),
        "mel_lengths": np.array(mel_lengths, np.int32),
        "language": rng.integers(0, LANGUAGES, clips).astype(np.int32),
        "speaker": np.zeros(clips, np.int32),
        "index": np.arange(clips, dtype=np.int64),
    }
    for clip, (length, mel_length) in enumerate(zip(token_lengths, mel_lengths, strict=True)):
        batch["tokens"][clip, :length] = rng.integers(1, VOCABULARY, length)
        batch["mel"][clip, :mel_length] = rng.normal(-5, 2, (mel_length, BANDS))
    if reference_frames:
        shape = (clips, reference_frames, BANDS)
        batch["reference_mel"] = rng.normal(-5, 2, shape).astype(np.float32)
    return batch


def padded(batch: dict[str, np.ndarray], clips: int = 0, tokens: int = 0, frames: int = 0) -> dict[str, np.ndarray]:
    """The same batch with so many empty places, tokens and frames added."""
    wider = {
        "tokens": np.pad(batch["tokens"], ((0, clips), (0, tokens))),
        "mel": np.pad(batch["mel"], ((0, clips), (0, frames), (0, 0)), constant_values=FLOOR),
        "index": np.pad(batch["index"], (0, clips), constant_values=-1),
    }
    if "reference_mel" in batch:
        wider["reference_mel"] = np.pad(
            batch["reference_mel"], ((0, clips), (0, frames), (0, 0)), constant_values=FLOOR
        )
    for key in ("token_lengths", "mel_lengths", "language", "speaker"):
        wider[key] = np.pad(batch[key], (0, clips))
    return wider
