"""What a vocoder is trained for: sound like the recording of a mel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import PCM16_SCALE
from myxtts.config.config import VocoderConfig, XTTSConfig
from myxtts.models.checkpoint import VOCODER, WEIGHTS, read_weights, write_model, write_weights
from myxtts.models.harmonic_definition import NOISE_FRAMES
from myxtts.models.harmonic_source import noise_of_frames, source_of_audio
from myxtts.models.harmonic_vocoder import VOCODER_SIZES, HarmonicVocoder, filtered_noise
from myxtts.models.masking import dims
from myxtts.models.period_discriminator import PeriodDiscriminator
from myxtts.models.pitch import pitch_targets
from myxtts.models.spectrogram_discriminator import SpectrogramDiscriminator
from myxtts.training.adversarial_losses import AdversarialLosses, adversarial_losses
from myxtts.training.losses import TOTAL
from myxtts.training.objective import SENTENCES, Batch, BatchLosses, Sample, Shape
from myxtts.training.vocoder_losses import pulse_loss, spectral_loss

# Frames at either end of a segment that are not judged: there, neighbours are missing.
EDGE_FRAMES = 4
SPECTROGRAMS = ((2048, 512), (1024, 256), (512, 128))
PERIODS = (2, 3, 5, 7, 11)
# A segment is made quieter by chance, so that the vocoder knows voices at any level.
_QUIETEST, _LOUDEST = -15.0, 0.0  # dB
_PULSE_WEIGHT, _PITCH_WEIGHT, _VOICING_WEIGHT = 0.5, 0.2, 0.5
_FEATURE_WEIGHT = 2.0  # beside the adversarial loss
SPECTRAL, ADVERSARIAL = 0, 1  # phases


class Jury(keras.layers.Layer):
    """Discriminators of one kind.

    Args:
        file: where a checkpoint keeps their weights. Speaking does not need them.
        members: the discriminators.
    """

    def __init__(self, file: str, members: list[keras.layers.Layer]) -> None:
        super().__init__()
        self.file, self.members = file, members
        self.built = True


class VocoderInTraining(keras.Model):
    """A vocoder, and the discriminators that train it.

    Args:
        config: sizes and discriminators.
        settings: of the mels.
        dtype: Keras dtype policy.
    """

    def __init__(self, config: VocoderConfig, settings: MelSettings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocoder = HarmonicVocoder(VOCODER_SIZES[config.vocoder_size], settings, dtype=self.dtype_policy)
        self.juries: list[Jury] = []
        if config.adversarial_share > 0:
            self.juries.append(
                Jury("spectrogram-discriminators.npz", [SpectrogramDiscriminator(*one) for one in SPECTROGRAMS])
            )
            if config.period_discriminators:
                self.juries.append(Jury("period-discriminators.npz", [PeriodDiscriminator(one) for one in PERIODS]))
        self.built = True

    @property
    def discriminators(self) -> list[keras.layers.Layer]:
        return [one for jury in self.juries for one in jury.members]

    def write_discriminators(self, folder: Path) -> None:
        for jury in self.juries:
            write_weights(folder / jury.file, jury)

    def read(self, folder: Path) -> None:
        """Takes the weights of a vocoder's checkpoint, and of the discriminators that trained it where they are kept:
        new ones would first have to learn what they judge."""
        read_weights(folder / WEIGHTS, self.vocoder)
        for jury in self.juries:
            if (folder / jury.file).is_file():
                read_weights(folder / jury.file, jury)


class VocoderObjective:
    """Mel to sound: first by spectrograms alone, then against discriminators as well.

    Args:
        model: what is trained.
        config: `vocoder` sets the losses, `data` defines a mel.
        total_steps: of the whole run.
    """

    names = (TOTAL, "spectral", "pulses", "pitch", "voicing", "adversarial", "features", "discriminator")

    def __init__(self, model: VocoderInTraining, config: XTTSConfig, total_steps: int) -> None:
        self.model = model
        self._config = config
        self._settings = MelSettings.from_config(config.data)
        self._total_steps = total_steps
        self._phase = SPECTRAL

    def __call__(self, batch: Batch, seed: tf.Tensor, training: bool) -> BatchLosses:
        """
        Args:
            batch: `mel` [B, S, n_mels], `audio` int16 [B, S · hop_length] and `mel_lengths` int32 [B], as
                `LJSpeechDataset.segments` has them.
            seed: int32 [2].
            training: whether to change levels by chance.
        """
        settings, vocoder = self._settings, self.model.vocoder
        mel, audio = tf.cast(batch["mel"], tf.float32), tf.cast(batch["audio"], tf.float32) / PCM16_SCALE
        clips, frames, _ = dims(mel)
        if training:
            gain = tf.random.stateless_uniform([clips, 1], seed, _QUIETEST, _LOUDEST) * (math.log(10) / 20)
            audio *= tf.exp(gain)
            mel = tf.maximum(mel + gain[:, :, None], settings.padding_value)
        first = tf.random.stateless_uniform([clips], seed + 1, 0, NOISE_FRAMES, tf.int32)

        source = source_of_audio(audio, settings)
        filters = vocoder.filters(mel, source)
        pulses = vocoder.filtered_pulses(source, filters)
        noise = filtered_noise(noise_of_frames(first, frames, settings), filters)
        edge = EDGE_FRAMES * settings.hop_length
        recorded = audio[:, edge:-edge]
        only_pulses, made = (vocoder.transform.synthesise(one)[:, edge:-edge] for one in (pulses, pulses + noise))

        scores, voicing = vocoder.pitch_scores(mel)
        wrong = tf.nn.softmax_cross_entropy_with_logits(pitch_targets(source.pitch), scores)
        pitch = tf.reduce_sum(wrong * source.voiced) / (tf.reduce_sum(source.voiced) + 1)
        voiced = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(source.voiced, voicing))
        judged = self._judge(recorded, made)
        weight = self._config.vocoder.adversarial_weight
        parts = [
            spectral_loss(recorded, made, settings.sample_rate),
            _PULSE_WEIGHT * pulse_loss(recorded, only_pulses),
            _PITCH_WEIGHT * pitch,
            _VOICING_WEIGHT * voiced,
            weight * judged.adversarial,
            weight * _FEATURE_WEIGHT * judged.features,
        ]
        total = tf.add_n(parts)
        minimised: list[tuple[tf.Tensor, Sequence[keras.Variable]]] = [(total, vocoder.trainable_variables)]
        if self._phase == ADVERSARIAL:
            weights = [weight for one in self.model.discriminators for weight in one.trainable_variables]
            minimised.append((judged.discriminator, weights))
        return BatchLosses(
            dict(zip(self.names, [total, *parts, judged.discriminator], strict=True)),
            minimised,
            tf.cast(clips, tf.float32),
            tf.reduce_sum(tf.cast(batch["mel_lengths"], tf.float32)),
            tf.zeros([0, 0]),
        )

    def shape(self, batch: Batch) -> Shape:
        clips, frames, _ = batch["mel"].shape
        return clips, frames

    def phase(self, step: int) -> int:
        begins = self._total_steps * (1 - self._config.vocoder.adversarial_share)
        return ADVERSARIAL if self.model.discriminators and step >= begins else SPECTRAL

    def enter(self, phase: int) -> None:
        self._phase = phase

    def copy(self) -> VocoderObjective:
        """For validation: it stays in the first phase, so that losses can be compared throughout a run."""
        model = VocoderInTraining(self._config.vocoder, self._settings, dtype=self.model.dtype_policy)
        return VocoderObjective(model, self._config, self._total_steps)

    def write(self, folder: Path, config: XTTSConfig, details: Mapping[str, Any]) -> None:
        write_model(folder, self.model.vocoder, config, details, kind=VOCODER)
        self.model.write_discriminators(folder)

    def samples(self, config: XTTSConfig, batch: Batch) -> Callable[[], list[Sample]]:
        mels = tf.cast(batch["mel"][:SENTENCES], tf.float32)
        recorded = batch["audio"][:SENTENCES].numpy().astype("float32") / PCM16_SCALE
        run = tf.function(self.model.vocoder, autograph=False)

        def speak() -> list[Sample]:
            made = run(mels).numpy()
            no_tokens = mels.numpy().astype("int32")[0, :0, 0]
            return [
                Sample(log_mel(sound, self._settings), mel, no_tokens, 0, sound, true)
                for sound, mel, true in zip(made, mels.numpy(), recorded, strict=True)
            ]

        return speak

    def warning(self, config: XTTSConfig, validation: tf.data.Dataset, step: int) -> str | None:
        return None

    def _judge(self, recorded: tf.Tensor, made: tf.Tensor) -> AdversarialLosses:
        if self._phase != ADVERSARIAL:
            return AdversarialLosses(*[tf.constant(0.0)] * 3)
        judges = self.model.discriminators
        return adversarial_losses([judge(recorded) for judge in judges], [judge(made) for judge in judges])
