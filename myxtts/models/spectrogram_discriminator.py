"""Tells recorded sound from a vocoder's by its spectrogram; the vocoder is trained to be taken for a recording."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from myxtts.models.masking import dims

_BAND = 16  # bins from one patch to the next; a patch has twice as many
_FRAMES = 3  # of a patch
_VIEWS = 3  # of a bin: how loud it is, and its compressed real and imaginary parts
_COMPRESSION = 0.3  # power of the magnitudes, which brings quiet parts near to loud ones
_MEAN, _DEVIATION = -3.0, 3.0  # of the logarithm of a usual magnitude
_SLOPE = 0.1  # of the activation below zero
_SMALL = 1e-6


@keras.saving.register_keras_serializable("myxtts")
class SpectrogramDiscriminator(keras.layers.Layer):
    """Judges patches of a spectrum of one resolution, magnitudes and phases (after UnivNet, Jang et al. 2021).

    Args:
        size: samples of a frame.
        hop: samples from one frame to the next.
        channels: of its convolutions.
    """

    def __init__(self, size: int, hop: int, channels: int = 32, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size, self.hop = size, hop
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32)
        self.enter = keras.layers.Dense(channels)
        self.enter.build((None, None, None, _VIEWS * _FRAMES * 2 * _BAND))
        self.convolutions = [keras.layers.Conv2D(channels, 3, strides=stride, padding="same") for stride in (1, 2)]
        self.score = keras.layers.Conv2D(1, 3, padding="same")
        for layer in (*self.convolutions, self.score):
            layer.build((None, None, None, channels))
        self.built = True

    def call(self, audio: tf.Tensor) -> list[tf.Tensor]:
        """Sound [B, n] → what each layer sees, [B, T, bands, C]; the last, of one channel, are the scores."""
        x = tf.nn.leaky_relu(self.enter(self._patches(audio)), _SLOPE)
        seen = [x]
        for layer in self.convolutions:
            x = tf.nn.leaky_relu(layer(x), _SLOPE)
            seen.append(x)
        return [*seen, self.score(x)]

    def _patches(self, audio: tf.Tensor) -> tf.Tensor:
        """Patches of three frames and two bands that overlap by half, in all views: [B, T, size / 2 / band, n]."""
        spectrum = tf.signal.rfft(tf.signal.frame(audio, self.size, self.hop) * self._window)[:, :, : self.size // 2]
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
        power = tf.square(real) + tf.square(imaginary) + _SMALL
        scale = tf.pow(power, (_COMPRESSION - 1) / 2)
        loudness = (0.5 * tf.math.log(power) - _MEAN) / _DEVIATION
        batch, frames, bins = dims(power)
        parts = []
        for view in (loudness, real * scale, imaginary * scale):
            padded = tf.pad(view, [[0, 0], [1, 1], [0, _BAND]])
            for frame in range(_FRAMES):
                for first in (0, _BAND):
                    patch = padded[:, frame : frame + frames, first : first + bins]
                    parts.append(tf.reshape(patch, [batch, frames, bins // _BAND, _BAND]))
        return tf.concat(parts, axis=3)
