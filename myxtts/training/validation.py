"""How well the averaged weights do on clips they were not trained on: their losses, and a few of them spoken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.xtts import XTTS
from myxtts.training.failures import batches_of
from myxtts.training.losses import compute_losses, loss_names
from myxtts.training.step import any_length, fold_seed

# Spoken at every validation.
SENTENCES = 3


class Validator:
    """Computes losses without training. Its random numbers are the same in every validation.

    It runs as a graph and not under XLA: it is a small share of the work, and compiling would cost more than it
    saves.

    Args:
        model: with the weights to validate.
        config: `training` sets the seed and whether to run eagerly; `data` defines a mel.
        spec: the `element_spec` of the batches.
    """

    def __init__(self, model: XTTS, config: XTTSConfig, spec: Mapping[str, tf.TensorSpec]) -> None:
        self._model = model
        self._settings = MelSettings.from_config(config.data)
        self._log_mel = LogMel(self._settings)
        self._seed = fold_seed(config.training.seed)
        training = config.training
        if training.enable_eager_debug or not training.enable_graph_mode:
            self._losses = self._compute
        else:
            signature = [{name: any_length(one) for name, one in spec.items()}, tf.TensorSpec([], tf.int32)]
            self._losses = tf.function(self._compute, input_signature=signature, autograph=False)

    def __call__(self, dataset: tf.data.Dataset, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """The losses by name over one pass of `dataset`, each frame counting the same; None if `stop` said so before
        the end.

        Raises:
            DataError: a batch cannot be loaded.
        """
        names = loss_names()
        sums = np.zeros(len(names))
        frames = 0.0
        for number, batch in enumerate(batches_of(dataset)):
            if stop():
                return None
            *losses, weight = self._losses(batch, tf.constant(number)).numpy().tolist()
            sums += np.multiply(losses, weight)
            frames += weight
        return dict(zip(names, (sums / max(frames, 1.0)).tolist(), strict=True))

    def _compute(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        """The losses of a batch, then its number of frames: float32 [L + 1]."""
        features = add_device_features(batch, self._log_mel, self._settings)
        outputs = self._model(features, training=False, seed=tf.stack([self._seed, number]))
        losses = compute_losses(outputs, features, self._model.decoder_kind)
        frames = tf.reduce_sum(tf.cast(features["mel_lengths"], tf.float32))
        return tf.stack([*losses.values(), frames])


@dataclass(frozen=True)
class Sample:
    """One sentence.

    Attributes:
        mel: float32 [F, n_mels], generated.
        true_mel: float32 [F', n_mels], recorded.
        alignment: int32 [F], the token of each frame of `mel`.
        tokens: number of tokens.
    """

    mel: np.ndarray
    true_mel: np.ndarray
    alignment: np.ndarray
    tokens: int


class SampleSpeaker:
    """Speaks the same few sentences again at every validation, each in its own voice.

    Args:
        model: with the weights to speak with.
        config: defines a mel and the steps of the flow decoder.
        batch: the first clips of this batch are spoken.
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
        """The sentences as the model speaks them now."""
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
