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
from myxtts.models.masking import dims
from myxtts.models.mel_discriminator import MelDiscriminator
from myxtts.models.randomness import fold_in, seed_of, uniform
from myxtts.models.xtts import XTTS, Outputs
from myxtts.training.adversarial_losses import AdversarialLosses, adversarial_losses_of_clips
from myxtts.training.losses import TOTAL, compute_losses, loss_names

Batch = Mapping[str, tf.Tensor]
Shape = tuple[int, ...]  # clips, frames, and for speech tokens

# Spoken at every validation.
SENTENCES = 3

# In a shorter run, alignments are hardly settled before its end; a discriminator would only cost time.
SHORTEST_JUDGED_RUN = 2000
# Frames of each clip that the discriminator of mels sees in a step: it needs fewer than the other losses.
JUDGED_FRAMES = 64
FEATURE_WEIGHT = 2.0  # beside the adversarial loss
_SEED_OF_PARTS = 100  # the model uses small numbers
ADVERSARIAL_LOSSES = ("adversarial", "features", "discriminator")


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


class SpeechInTraining(keras.Model):
    """A model, and the discriminator that trains it."""

    def __init__(self, speech: XTTS) -> None:
        super().__init__(dtype=speech.dtype_policy)
        self.speech = speech
        self.discriminator = MelDiscriminator(dtype="float32")
        self.built = True


class SpeechObjective:
    """Text to mel: the losses of `losses`; in the last share of a run a discriminator's as well.

    Args:
        model: what is trained.
        config: `data` defines a mel, `training` the discriminator's share.
        total_steps: of the whole run; None: without a discriminator.
    """

    def __init__(self, model: XTTS, config: XTTSConfig, total_steps: int | None = None) -> None:
        self._speech = model
        self._total_steps = total_steps
        share = config.training.mel_adversarial_share
        # Whoever has it judged from the first step begins with weights that speak already.
        long_enough = total_steps is not None and (total_steps >= SHORTEST_JUDGED_RUN or share == 1)
        # A velocity is no mel, and the flow decoder makes no averages.
        self._judged = long_enough and share > 0 and model.decoder_kind == "regression"
        self.model: keras.Model = SpeechInTraining(model) if self._judged else model
        self.names = (*loss_names(), *(ADVERSARIAL_LOSSES if self._judged else ()))
        self._phase = 0
        self._config = config
        self._settings = MelSettings.from_config(config.data)
        self._log_mel = LogMel(self._settings)

    def __call__(self, batch: Batch, seed: tf.Tensor, training: bool) -> BatchLosses:
        features = add_device_features(batch, self._log_mel, self._settings)
        outputs = self._speech(features, training=training, seed=seed)
        losses = compute_losses(outputs, features, self._speech.decoder_kind)
        minimised: list[tuple[tf.Tensor, Sequence[keras.Variable]]] = []
        if self._judged:
            judged = self._judge(outputs, features, seed)
            weight = self._config.training.mel_adversarial_weight
            more = (weight * judged.adversarial, weight * FEATURE_WEIGHT * judged.features)
            losses[TOTAL] += more[0] + more[1]
            losses |= dict(zip(ADVERSARIAL_LOSSES, (*more, judged.discriminator), strict=True))
            if self._phase:
                minimised.append((judged.discriminator, self.model.discriminator.trainable_variables))
        return BatchLosses(
            losses,
            [(losses[TOTAL], self._speech.trainable_variables), *minimised],
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
        if not self._judged or self._total_steps is None:
            return 0
        return int(step >= self._total_steps * (1 - self._config.training.mel_adversarial_share))

    def enter(self, phase: int) -> None:
        self._phase = phase

    def copy(self) -> SpeechObjective:
        """For validation: without the discriminator's losses, so that others can be compared throughout a run."""
        copied = SpeechObjective(XTTS.from_config(self._speech.get_config()), self._config, self._total_steps)
        copied._judged, copied.names = False, loss_names()
        return copied

    def write(self, folder: Path, config: XTTSConfig, details: Mapping[str, Any]) -> None:
        write_model(folder, self._speech, config, details)

    def samples(self, config: XTTSConfig, batch: Batch) -> SampleSpeaker:
        return SampleSpeaker(self._speech, config, batch)

    def warning(self, config: XTTSConfig, validation: tf.data.Dataset, step: int) -> str | None:
        from myxtts.training.text_check import STEPS_TO_TELL, warning_of_wrong_texts  # which needs the step

        return warning_of_wrong_texts(self._speech, config, validation) if step >= STEPS_TO_TELL else None

    def _judge(self, outputs: Outputs, batch: Batch, seed: tf.Tensor) -> AdversarialLosses:
        """What the discriminator says of a part of each clip, chosen by chance."""
        if not self._phase:
            return AdversarialLosses(*[tf.constant(0.0)] * 3)
        clips, frames, _ = dims(outputs.mel)
        lengths = batch["mel_lengths"]
        where = uniform([clips], fold_in(seed_of(batch, seed), _SEED_OF_PARTS))
        first = tf.cast(where * tf.cast(tf.maximum(lengths - JUDGED_FRAMES, 0) + 1, tf.float32), tf.int32)
        rows = first[:, None] + tf.range(JUDGED_FRAMES)[None]
        mask = tf.cast(rows < lengths[:, None], tf.float32)[:, :, None]  # a clip may be shorter than the part
        rows = tf.minimum(rows, frames - 1)
        recorded, made, mean = (
            tf.gather(whole, rows, batch_dims=1)
            for whole in (outputs.mel, outputs.prediction, tf.stop_gradient(outputs.mean))
        )
        judge = self.model.discriminator
        true, masks = judge(recorded, mean, mask)
        false, _ = judge(made, mean, mask)
        everywhere = tf.math.count_nonzero(batch.get("all_mel_lengths", lengths), dtype=tf.float32)
        return adversarial_losses_of_clips(true, false, masks, everywhere)


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
