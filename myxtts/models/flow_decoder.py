"""From states to a mel, along a learned flow from noise."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import ConvStack, unfold
from myxtts.models.masking import dims


@keras.saving.register_keras_serializable("myxtts")
class FlowDecoder(keras.layers.Layer):
    """Velocity field of conditional flow matching with straight paths (Lipman et al. 2023; Matcha-TTS).

    At time 0 there is noise around the mean mel, at time 1 the mel. In between each point moves on a straight line,
    and the field is trained to predict its direction.

    Args:
        features: channels of a frame's features.
        n_mels: mel bands.
        voice: size of a voice.
        width, blocks, kernel_size, patch: of the `ConvStack`.
        time_width: size of the time's embedding.
    """

    def __init__(
        self,
        features: int,
        n_mels: int,
        voice: int,
        width: int,
        blocks: int,
        kernel_size: int,
        patch: int,
        time_width: int = 32,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # mels stay float32
        policy = self.dtype_policy
        self.patch = patch
        self.time_width = time_width
        self.time_in = keras.layers.Dense(time_width, activation="silu", dtype=policy)
        self.time_in.build((None, time_width))
        self.stack = ConvStack(
            features + 2 * n_mels, width, blocks, kernel_size, patch, condition=time_width + voice, dtype=policy
        )
        self.head = keras.layers.Dense(patch * n_mels, kernel_initializer="zeros", dtype="float32")
        self.head.build((None, None, width))
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        time: tf.Tensor,
        features: tf.Tensor,
        mean: tf.Tensor,
        mask: tf.Tensor,
        voice: tf.Tensor,
    ) -> tf.Tensor:
        """
        Args:
            x: [B, F, n_mels], a point of the flow.
            time: float32 [B], between 0 and 1.
            features: [B, F, C], the encoder's, of each frame.
            mean: [B, F, n_mels], the encoder's mean mel.
            mask: [B, F, 1].
            voice: [B, D].

        Returns:
            Velocity, float32 [B, F, n_mels].
        """
        dtype = features.dtype
        time = self.time_in(_sinusoids(time, self.time_width))  # [B, time_width]
        condition = tf.concat([tf.cast(time, dtype), tf.cast(voice, dtype)], axis=-1)
        x = tf.concat([tf.cast(x, dtype), tf.cast(mean, dtype), features], axis=-1)
        return unfold(self.head(self.stack(x, mask, condition)), self.patch, dims(mean)[1])


def _sinusoids(time: tf.Tensor, width: int) -> tf.Tensor:
    """[B] → [B, width]."""
    frequencies = tf.exp(tf.linspace(0.0, tf.math.log(1000.0), width // 2))
    angles = time[:, None] * frequencies
    return tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)
