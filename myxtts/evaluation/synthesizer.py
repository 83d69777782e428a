"""Speaks many sentences with a model, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.inference.reference import reference_crops
from myxtts.models.xtts import XTTS

BATCH = 8


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence to speak.

    Attributes:
        row: its clip in the data set, or the clip whose voice speaks a text that is not in it.
        tokens: int32 [T].
        language: its id.
        reference: float32 [F, n_mels], a mel of the voice to speak with; None: the default voice.
    """

    row: int
    tokens: np.ndarray
    language: int
    reference: np.ndarray | None = None


# From sentences to natural-log mels float32 [F, n_mels], one for each. The second argument is called with the number
# of sentences that were just done.
Synthesizer = Callable[[Sequence[Sentence], Callable[[int], None]], list[np.ndarray]]


class ModelSynthesizer:
    """Speaks with a model.

    Args:
        model: with the weights to speak with.
        config: defines a mel, the length of references, and the steps of the flow decoder.
        seed: of the flow decoder's noise.
    """

    def __init__(self, model: XTTS, config: XTTSConfig, seed: int = 0) -> None:
        self._model = model
        self._settings = MelSettings.from_config(config.data)
        self._reference_seconds = config.data.reference_seconds
        self._steps = config.model.flow_steps
        self._seed = seed % 2**31
        bands = self._settings.n_mels
        self._voices = tf.function(
            model.voice, input_signature=[tf.TensorSpec([None, None, bands], tf.float32)], autograph=False
        )
        self._speak = tf.function(
            self._say,
            input_signature=[
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None, model.sizes.voice], tf.float32),
            ],
            autograph=False,
        )

    def __call__(
        self, sentences: Sequence[Sentence], advance: Callable[[int], None] | None = None
    ) -> list[np.ndarray]:
        mels: dict[int, np.ndarray] = {}
        # Sentences of similar length together, so that batches have little padding.
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place].tokens))
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            mels |= zip(places, self._batch([sentences[place] for place in places]), strict=True)
            if advance is not None:
                advance(len(places))
        return [mels[place] for place in range(len(sentences))]

    def _batch(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        lengths = np.array([len(sentence.tokens) for sentence in sentences], np.int32)
        tokens = np.zeros((len(sentences), lengths.max()), np.int32)
        for place, sentence in enumerate(sentences):
            tokens[place, : lengths[place]] = sentence.tokens
        languages = np.array([sentence.language for sentence in sentences], np.int32)
        voices = np.stack([self._voice(sentence) for sentence in sentences])
        mel, mel_lengths = (value.numpy() for value in self._speak(tokens, lengths, languages, voices))
        return [one[:length].copy() for one, length in zip(mel, mel_lengths, strict=True)]

    def _voice(self, sentence: Sentence) -> np.ndarray:
        if sentence.reference is None or not self._reference_seconds:
            return self._model.default_voice(1).numpy()[0]
        crops = reference_crops(sentence.reference, self._settings, self._reference_seconds)
        return self._voices(crops).numpy().mean(axis=0)

    def _say(
        self, tokens: tf.Tensor, lengths: tf.Tensor, languages: tf.Tensor, voices: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        speech = self._model.speak(tokens, lengths, languages, voices, steps=self._steps, seed=[0, self._seed])
        return speech.mel, speech.mel_lengths
