"""A vocoder: from mels to sound, by pulses and noise that a network filters at frame rate."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, mel_filterbank
from myxtts.models.conv_next import ConvNeXtBlock
from myxtts.models.harmonic_definition import CLASSES, LOUDEST
from myxtts.models.harmonic_source import Source, noise_of_frames, pulses
from myxtts.models.masking import dims
from myxtts.models.pitch import predicted_pitch
from myxtts.models.spectrum import FrameTransform

# A usual mel's mean and deviation.
_MEAN, _DEVIATION = -5.0, 2.5
# Where the filters start: pulses and noise about as loud as the mel says.
_PULSE_GAIN, _NOISE_GAIN = math.log(1 / 1280), math.log(1 / 3)
_INPUT_FRAMES = 3  # read together: a frame and one on each side


@dataclass(frozen=True)
class VocoderSizes:
    """Channels (`width`) and numbers of blocks of the two networks; `expansion` is by how much a block widens."""

    width: int
    blocks: int
    pitch_width: int
    pitch_blocks: int
    expansion: int = 3
    kernel_size: int = 7


VOCODER_SIZES = {
    "tiny": VocoderSizes(width=192, blocks=6, pitch_width=128, pitch_blocks=4),
    "base": VocoderSizes(width=512, blocks=8, pitch_width=192, pitch_blocks=4),
}


class Filters(NamedTuple):
    """How pulses and noise are shaped, float32 [B, F, bins] each."""

    pulses: tf.Tensor  # natural logarithm of the gain
    noise: tf.Tensor  # natural logarithm of the gain
    phase: tf.Tensor  # radians that the pulses are turned by


@keras.saving.register_keras_serializable("myxtts")
class HarmonicVocoder(keras.Model):
    """Sound of mels, as a source and a filter.

    One network reads the pitch from the mel, another one how pulses at that pitch and noise have to be filtered, bin
    by bin and frame by frame; inverse Fourier transforms make the sound. The phases of the harmonics, which
    vocoders without a source have to learn, come from the pulses. Both networks work at frame rate and are matrix
    products throughout; nothing is upsampled.

    ```python
    vocoder = HarmonicVocoder(VOCODER_SIZES["tiny"], MelSettings())
    pitch, voiced = vocoder.track(mel)                              # [B, F, n_mels] → [B, F] each
    audio = vocoder.sound(mel, Source(pitch, voiced, phase), first)  # → [B, F · hop_length]
    ```

    All weights exist once the model is created. It has no random state.

    Args:
        sizes: widths and depths.
        settings: of the mels.
        dtype: Keras dtype policy, such as `mixed_bfloat16`. Pitch, filters and sound are float32 under any.
    """

    def __init__(self, sizes: VocoderSizes, settings: MelSettings, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.sizes = sizes
        self.settings = settings
        self.transform = FrameTransform(settings)
        self._mel_to_bins = _band_interpolation(settings)
        inputs = _INPUT_FRAMES * settings.n_mels
        bins = settings.n_fft // 2 + 1
        self.pitch_network = FrameNetwork(inputs, sizes.pitch_width, sizes.pitch_blocks, sizes, CLASSES + 1, self)
        self.filter_network = FrameNetwork(inputs + 2, sizes.width, sizes.blocks, sizes, 3 * bins, self)
        self.built = True

    @property
    def context_frames(self) -> int:
        """Frames at either side that a frame's sound depends on, the pitch being given."""
        sizes, settings = self.sizes, self.settings
        network = _INPUT_FRAMES // 2 + sizes.blocks * (sizes.kernel_size // 2)
        return network + math.ceil(settings.n_fft / settings.hop_length) // 2 + 1

    @property
    def pitch_context_frames(self) -> int:
        """Frames at either side that a frame's pitch depends on."""
        return _INPUT_FRAMES // 2 + self.sizes.pitch_blocks * (self.sizes.kernel_size // 2)

    def call(self, mel: tf.Tensor) -> tf.Tensor:
        """Mels [B, F, n_mels] → sound [B, F · hop_length]; of long mels use `track`, `phase_of_pitch` and `sound`."""
        pitch, voiced = self.track(mel)
        advance = math.pi * self.settings.hop_length / self.settings.sample_rate * (pitch[:, 1:] + pitch[:, :-1])
        phase = tf.pad(tf.cumsum(advance, axis=1), [[0, 0], [1, 0]])
        return self.sound(mel, Source(pitch, voiced, phase), tf.zeros(dims(mel)[:1], tf.int32))

    def track(self, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The pitch in Hz and whether a frame is voiced, 0 or 1: float32 [B, F] each."""
        scores, voicing = self.pitch_scores(mel)
        return predicted_pitch(scores), tf.cast(voicing > 0, tf.float32)

    def pitch_scores(self, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores of the pitch's classes, [B, F, CLASSES], and of being voiced, [B, F]."""
        scores = self.pitch_network(_neighbours(_normalise(mel)))
        return scores[:, :, :CLASSES], scores[:, :, CLASSES]

    def sound(self, mel: tf.Tensor, source: Source, first: tf.Tensor) -> tf.Tensor:
        """
        Args:
            mel: [B, F, n_mels], natural log.
            source: of the frames.
            first: int32 [B], number of the first frame, which decides the noise.

        Returns:
            float32 [B, F · hop_length], full scale ±1.
        """
        filters = self.filters(mel, source)
        noise = noise_of_frames(first, dims(mel)[1], self.settings)
        return self.transform.synthesise(self.filtered_pulses(source, filters) + filtered_noise(noise, filters))

    def filters(self, mel: tf.Tensor, source: Source) -> Filters:
        """How the source of frames is filtered to sound like their mel."""
        tone = source.voiced * tf.math.log(source.pitch / 150.0)
        known = tf.stack([source.voiced, tone], axis=2)  # [B, F, 2]
        inputs = tf.concat([_neighbours(_normalise(mel)), known], axis=2)
        pulse, noise, phase = tf.split(self.filter_network(inputs), 3, axis=2)
        magnitude = tf.cast(mel, tf.float32) @ self._mel_to_bins[0] + self._mel_to_bins[1]
        return Filters(magnitude + pulse + _PULSE_GAIN, magnitude + noise + _NOISE_GAIN, phase)

    def filtered_pulses(self, source: Source, filters: Filters) -> tf.Tensor:
        """The spectra of the pulses in the sound: complex64 [B, F, bins]."""
        gain = tf.exp(tf.minimum(filters.pulses, LOUDEST))
        turn = tf.complex(gain * tf.cos(filters.phase), gain * tf.sin(filters.phase))
        return self.transform.analyse(pulses(source, self.settings)) * turn

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "sizes": dataclasses.asdict(self.sizes),
            "settings": dataclasses.asdict(self.settings),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> HarmonicVocoder:
        sizes, settings = VocoderSizes(**config["sizes"]), MelSettings(**config["settings"])
        return cls(**{**config, "sizes": sizes, "settings": settings})


def filtered_noise(noise: tf.Tensor, filters: Filters) -> tf.Tensor:
    """The spectra of the noise in the sound: complex64 [B, F, bins]."""
    gain = tf.exp(tf.minimum(filters.noise, LOUDEST))
    return noise * tf.complex(gain, tf.zeros_like(gain))


class FrameNetwork(keras.layers.Layer):
    """`ConvNeXtBlock`s at frame rate, and what they say of each frame, in float32."""

    def __init__(
        self, inputs: int, width: int, blocks: int, sizes: VocoderSizes, outputs: int, owner: HarmonicVocoder
    ) -> None:
        super().__init__(dtype=owner.dtype_policy)
        policy = self.dtype_policy
        self.enter = keras.layers.Dense(width, dtype=policy)
        self.enter.build((None, None, inputs))
        self.norm_in = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
        self.norm_in.build((None, None, width))
        self.blocks = [
            ConvNeXtBlock(width, sizes.expansion * width, sizes.kernel_size, dtype=policy) for _ in range(blocks)
        ]
        self.norm_out = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
        self.norm_out.build((None, None, width))
        small = keras.initializers.RandomNormal(stddev=0.01, seed=0)
        self.head = keras.layers.Dense(outputs, kernel_initializer=small, dtype="float32")
        self.head.build((None, None, width))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, F, inputs] → float32 [B, F, outputs]."""
        x = self.norm_in(self.enter(x))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm_out(x))


def _normalise(mel: tf.Tensor) -> tf.Tensor:
    return (tf.cast(mel, tf.float32) - _MEAN) / _DEVIATION


def _neighbours(mel: tf.Tensor) -> tf.Tensor:
    """Each frame with those before and after it: [B, F, n_mels] → [B, F, 3 · n_mels]."""
    around = _INPUT_FRAMES // 2
    padded = tf.pad(mel, [[0, 0], [around, around], [0, 0]], mode="SYMMETRIC")
    shifted = [padded[:, place : place + 1 - _INPUT_FRAMES or None] for place in range(_INPUT_FRAMES)]
    return tf.concat(shifted, axis=2)


def _band_interpolation(settings: MelSettings) -> tuple[np.ndarray, np.ndarray]:
    """From a log-mel to the log-magnitude of every bin, a smooth guess: weights [n_mels, bins] and offsets [bins].

    Above the highest band and below the lowest, the magnitude is that of the band.
    """
    bands = mel_filterbank(settings).astype(np.float64)  # [n_mels, bins]
    covered = np.flatnonzero(bands.any(axis=0))
    nearest = np.clip(np.arange(bands.shape[1]), covered[0], covered[-1])
    weights = (bands / np.maximum(bands.sum(axis=0), 1e-12))[:, nearest]
    return weights.astype(np.float32), -(np.log(bands.sum(axis=1)) @ weights).astype(np.float32)
