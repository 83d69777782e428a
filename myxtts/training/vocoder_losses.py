"""What a vocoder is trained on: how near its sound is to a recording.

Pulses lie where the recording has them (`source_of_audio`), so they can be compared with it sample by sample; noise
cannot, and is compared by its spectrograms.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, mel_filterbank

# Frame sizes of the spectrograms that are compared, and into how many bands each is summed up: long frames see
# harmonics, short ones see when things happen. Bands, because noise cannot have the same magnitude in every bin as in
# the recording: bin by bin, the loss would be lowest without any.
RESOLUTIONS = ((2048, 160), (1024, 80), (512, 40), (256, 20))
_ENERGY_WEIGHT = 0.5
_PULSE_RESOLUTION = (512, 128)
_COMPRESSION = 0.3  # power of the magnitudes of pulses, which brings quiet harmonics near to loud ones
_QUIET = 1e-3  # added to magnitudes before the logarithm: what is quieter hardly counts
_SMALL = 1e-6


def spectral_loss(recorded: tf.Tensor, made: tf.Tensor, sample_rate: int) -> tf.Tensor:
    """Distance of two sounds [B, n] by their spectrograms (Yamamoto et al. 2020): the loudness of bands, and the
    error's share of the energy."""
    total = tf.constant(0.0)
    for size, bands in RESOLUTIONS:
        scale = math.sqrt(size / 1024)  # a longer frame of the same noise has larger magnitudes
        there, here = (_magnitude(_spectrum(sound, size, size // 4), scale) for sound in (recorded, made))
        share = tf.norm(there - here, axis=[1, 2]) / (tf.norm(there, axis=[1, 2]) + 1e-2)
        mean = _band_means(size, bands, sample_rate)
        there, here = (tf.math.log(magnitude @ mean + _QUIET * scale) for magnitude in (there, here))
        total += tf.reduce_mean(tf.abs(there - here)) + _ENERGY_WEIGHT * tf.reduce_mean(share)
    return total / len(RESOLUTIONS)


def pulse_loss(recorded: tf.Tensor, pulses: tf.Tensor) -> tf.Tensor:
    """Distance of the filtered pulses [B, n] from the recording by their complex spectra: phases count."""
    there, here = (_compressed(_spectrum(sound, *_PULSE_RESOLUTION)) for sound in (recorded, pulses))
    return tf.reduce_mean(sum(tf.abs(one - other) for one, other in zip(there, here, strict=True)))


@lru_cache(maxsize=16)
def _band_means(size: int, bands: int, sample_rate: int) -> np.ndarray:
    """Weights [bins, bands] that give the mean magnitude of each band of the mel scale."""
    settings = MelSettings(
        sample_rate=sample_rate, n_fft=size, win_length=size, hop_length=size // 4, n_mels=bands, fmax=sample_rate / 2
    )
    weights = mel_filterbank(settings)
    return (weights / weights.sum(axis=1, keepdims=True)).T


def _spectrum(sound: tf.Tensor, size: int, hop: int) -> tf.Tensor:
    window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
    return tf.signal.rfft(tf.signal.frame(sound, size, hop) * window)


def _power(spectrum: tf.Tensor) -> tf.Tensor:
    return tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))


def _magnitude(spectrum: tf.Tensor, scale: float) -> tf.Tensor:
    return tf.sqrt(_power(spectrum) + _SMALL * scale**2)


def _compressed(spectrum: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Real and imaginary parts whose magnitude is compressed."""
    scale = tf.pow(_power(spectrum) + _SMALL, (_COMPRESSION - 1) / 2)
    return tf.math.real(spectrum) * scale, tf.math.imag(spectrum) * scale
