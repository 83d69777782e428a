"""Tells recorded sound from a vocoder's by its samples, a period apart; slow on a CPU."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.masking import dims

_SLOPE = 0.1  # of the activation below zero


@keras.saving.register_keras_serializable("myxtts")
class PeriodDiscriminator(keras.layers.Layer):
    """Judges every `period`-th sample together (HiFi-GAN, Kong et al. 2020).

    Args:
        period: in samples.
        channels: of its first convolution; each of the following ones has twice as many.
    """

    def __init__(self, period: int, channels: int = 32, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.period = period
        self.convolutions = []
        inputs = 1
        for number in range(4):
            layer = keras.layers.Conv2D(channels * 2**number, (5, 1), strides=(3, 1), padding="same")
            layer.build((None, None, None, inputs))
            self.convolutions.append(layer)
            inputs = channels * 2**number
        self.score = keras.layers.Conv2D(1, (3, 1), padding="same")
        self.score.build((None, None, None, inputs))
        self.built = True

    def call(self, audio: tf.Tensor) -> list[tf.Tensor]:
        """Sound [B, n] → what each layer sees, [B, rows, period, C]; the last, of one channel, are the scores."""
        batch, samples = dims(audio)
        rows = samples // self.period
        x = tf.reshape(audio[:, : rows * self.period], [batch, rows, self.period, 1])
        seen = []
        for layer in self.convolutions:
            x = tf.nn.leaky_relu(layer(x), _SLOPE)
            seen.append(x)
        return [*seen, self.score(x)]
