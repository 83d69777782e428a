"""A few fixed sentences, spoken again at every validation, to see and hear a voice being learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.xtts import XTTS

SENTENCES = 3


@dataclass(frozen=True)
class Sample:
    """One sentence.

    Attributes:
        mel: float32 [F, n_mels], as the model says it.
        true_mel: float32 [F', n_mels], as it was recorded.
        alignment: int32 [F], the token of each frame of `mel`.
        tokens: number of tokens.
    """

    mel: np.ndarray
    true_mel: np.ndarray
    alignment: np.ndarray
    tokens: int


class Sampler:
    """Speaks the first sentences of a data set in their own voices.

    Args:
        model: with the weights to speak with.
        config: what a mel is, and the steps of the flow decoder.
        batch: a batch, the first clips of which are spoken.
    """

    def __init__(self, model: XTTS, config: XTTSConfig, batch: Mapping[str, tf.Tensor]) -> None:
        settings = MelSettings.from_config(config.data)
        features = add_device_features(batch, LogMel(settings), settings)
        clips = np.flatnonzero(features["mel_lengths"].numpy() > 0)[:SENTENCES]
        self._batch = {name: tf.gather(value, clips) for name, value in features.items()}
        self._model = model
        self._steps = config.model.flow_steps
        self._speak = tf.function(self._say, autograph=False)

    def __call__(self) -> list[Sample]:
        """The sentences as the model says them now."""
        mels, lengths, alignments = (value.numpy() for value in self._speak(self._batch))
        samples = []
        for place, length in enumerate(lengths):
            true = self._batch["mel"][place, : self._batch["mel_lengths"][place]]
            tokens = int(self._batch["token_lengths"][place])
            alignment = alignments[place, :length]
            samples.append(Sample(mels[place, :length], tf.cast(true, tf.float32).numpy(), alignment, tokens))
        return samples

    def _say(self, batch: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        if "reference_mel" in batch:
            voice = self._model.voice(batch["reference_mel"])
        else:
            voice = self._model.default_voice(tf.shape(batch["tokens"])[0])
        speech = self._model.speak(
            batch["tokens"], batch["token_lengths"], batch["language"], voice, steps=self._steps
        )
        return speech.mel, speech.mel_lengths, speech.alignment


def mel_picture(sample: Sample) -> np.ndarray:
    """The recorded mel above the spoken one: float32 [rows, frames, 1], 0 to 1, low bands at the bottom."""
    width = max(len(sample.mel), len(sample.true_mel))
    low = min(float(sample.true_mel.min()), float(sample.mel.min())) if width else 0.0
    high = max(float(sample.true_mel.max()), float(sample.mel.max()), low + 1e-6) if width else 1.0
    pictures = []
    for mel in (sample.true_mel, sample.mel):
        padded = np.full((width, mel.shape[1]), low, np.float32)
        padded[: len(mel)] = mel
        pictures.append((padded.T[::-1] - low) / (high - low))
    gap = np.ones((2, width), np.float32)
    return np.concatenate([pictures[0], gap, pictures[1]])[:, :, None]


def alignment_picture(sample: Sample) -> np.ndarray:
    """Which token each frame has: float32 [tokens, frames, 1], the first token at the bottom."""
    picture = np.zeros((sample.tokens, len(sample.alignment)), np.float32)
    inside = sample.alignment >= 0
    picture[sample.alignment[inside], np.flatnonzero(inside)] = 1.0
    return picture[::-1, :, None]
