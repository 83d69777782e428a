"""What a run trains and by which losses: the part of a run that depends on the kind of model.

The loop, the step, validation and checkpoints are the same for every kind; they ask the objective.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.checkpoint import write_model
from myxtts.models.xtts import XTTS
from myxtts.training.losses import TOTAL, compute_losses, loss_names

Batch = Mapping[str, tf.Tensor]
Shape = tuple[int, ...]  # clips, frames, and for speech tokens

# Spoken at every validation.
SENTENCES = 3


class BatchLosses(NamedTuple):
    """What an objective computes from a batch."""

    losses: Mapping[str, tf.Tensor]  # float32 scalars by name, the total first
    minimised: Sequence[tuple[tf.Tensor, Sequence[keras.Variable]]]  # a loss, and the weights that it moves
    clips: tf.Tensor  # float32 scalar, without empty places
    frames: tf.Tensor  # float32 scalar, without padding
    durations: tf.Tensor  # float32 [B, T], by the alignment; [0, 0] if there is none


@dataclass(frozen=True)
class Sample:
    """One sentence.

    Attributes:
        mel: float32 [F, n_mels], generated.
        true_mel: float32 [F', n_mels], recorded.
        alignment: int32 [F], the token of each frame of `mel`; empty if there is none.
        tokens: number of tokens.
        audio, true_audio: float32 [n], generated and recorded; None: to be made from the mels.
    """

    mel: np.ndarray
    true_mel: np.ndarray
    alignment: np.ndarray
    tokens: int
    audio: np.ndarray | None = None
    true_audio: np.ndarray | None = None


class Objective(Protocol):
    """A model, and what it is trained for."""

    @property
    def model(self) -> keras.Model:
        """With all weights that are trained."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the losses, the total first."""

    def __call__(self, batch: Batch, seed: tf.Tensor, training: bool) -> BatchLosses:
        """The losses of a batch. Everything random follows from `seed`, int32 [2]."""

    def shape(self, batch: Batch) -> Shape:
        """The sizes of a batch that the step is compiled for."""

    def phase(self, step: int) -> int:
        """A number that changes where other losses are computed from a step on, so that the step is compiled
        again."""

    def enter(self, phase: int) -> None:
        """Computes the losses of a phase from now on; a new objective is in phase 0."""

    def copy(self) -> Objective:
        """The same objective for a model of the same architecture, whose weights differ."""

    def write(self, folder: Path, config: XTTSConfig, details: Mapping[str, Any]) -> None:
        """Writes what a checkpoint has of the model into `folder`."""

    def samples(self, config: XTTSConfig, batch: Batch) -> Callable[[], list[Sample]]:
        """Speaks the first clips of a batch, with the weights of the moment, whenever it is called."""

    def warning(self, config: XTTSConfig, validation: tf.data.Dataset, step: int) -> str | None:
        """What to tell the user about the validation clips at the end of a run, or None."""


class SpeechObjective:
    """Text to mel: the losses of `losses`.

    Args:
        model: what is trained.
        config: `data` defines a mel.
    """

    def __init__(self, model: XTTS, config: XTTSConfig) -> None:
        self.model = model
        self.names = loss_names()
        self._config = config
        self._settings = MelSettings.from_config(config.data)
        self._log_mel = LogMel(self._settings)

    def __call__(self, batch: Batch, seed: tf.Tensor, training: bool) -> BatchLosses:
        features = add_device_features(batch, self._log_mel, self._settings)
        outputs = self.model(features, training=training, seed=seed)
        losses = compute_losses(outputs, features, self.model.decoder_kind)
        return BatchLosses(
            losses,
            [(losses[TOTAL], self.model.trainable_variables)],
            tf.math.count_nonzero(features["mel_lengths"], dtype=tf.float32),
            tf.reduce_sum(tf.cast(features["mel_lengths"], tf.float32)),
            tf.cast(outputs.durations, tf.float32),
        )

    def shape(self, batch: Batch) -> Shape:
        clips, tokens = batch["tokens"].shape
        if "mel" in batch:
            frames = batch["mel"].shape[1]
        else:
            frames = (batch["audio"].shape[1] - self._settings.n_fft) // self._settings.hop_length
        return clips, frames, tokens

    def phase(self, step: int) -> int:
        return 0

    def enter(self, phase: int) -> None:
        pass

    def copy(self) -> SpeechObjective:
        return SpeechObjective(XTTS.from_config(self.model.get_config()), self._config)

    def write(self, folder: Path, config: XTTSConfig, details: Mapping[str, Any]) -> None:
        write_model(folder, self.model, config, details)

    def samples(self, config: XTTSConfig, batch: Batch) -> SampleSpeaker:
        return SampleSpeaker(self.model, config, batch)

    def warning(self, config: XTTSConfig, validation: tf.data.Dataset, step: int) -> str | None:
        from myxtts.training.text_check import STEPS_TO_TELL, warning_of_wrong_texts  # which needs the step

        return warning_of_wrong_texts(self.model, config, validation) if step >= STEPS_TO_TELL else None


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
