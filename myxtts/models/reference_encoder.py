"""From a few seconds of mel to a voice."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import ConvStack, fold_mask


@keras.saving.register_keras_serializable("myxtts")
class ReferenceEncoder(keras.layers.Layer):
    """The voice in a mel: mean and deviation over time of a `ConvStack`'s output, weighted by attention.

    A clip without an audible frame has the default voice, which is learned like any other weight.

    Args:
        n_mels: mel bands.
        voice: size of a voice.
        width, blocks, kernel_size, patch: of the `ConvStack`.
    """

    def __init__(
        self, n_mels: int, voice: int, width: int, blocks: int, kernel_size: int, patch: int, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.patch = patch
        self.stack = ConvStack(n_mels, width, blocks, kernel_size, patch, dtype=policy)
        self.attention = keras.layers.Dense(width, dtype="float32")
        self.attention.build((None, None, width))
        self.head = keras.layers.Dense(voice, dtype="float32")
        self.head.build((None, 2 * width))
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, center=False, scale=False, dtype="float32")
        self.norm.build((None, voice))
        self.default = self.add_weight(
            shape=(voice,), initializer="zeros", dtype="float32", autocast=False, name="default"
        )
        self.built = True

    def call(self, mel: tf.Tensor, audible: tf.Tensor) -> tf.Tensor:
        """
        Args:
            mel: [B, R, n_mels], normalised.
            audible: [B, R, 1], 1 for frames to use.

        Returns:
            float32 [B, voice].
        """
        x = tf.cast(self.stack(mel, audible), tf.float32)  # [B, P, C]
        mask = tf.cast(fold_mask(audible, self.patch), tf.float32)  # [B, P, 1]
        weights = tf.nn.softmax(self.attention(x) + (mask - 1) * 1e9, axis=1) * mask  # [B, P, C]
        mean = tf.reduce_sum(weights * x, axis=1)  # [B, C]
        variance = tf.reduce_sum(weights * tf.square(x - mean[:, None]), axis=1)
        # Added inside the root, so that the gradient of a constant channel is finite.
        deviation = tf.sqrt(variance + 1e-5)
        voice = self.norm(self.head(tf.concat([mean, deviation], axis=-1)))  # [B, voice]
        heard = tf.reduce_max(mask, axis=1) > 0  # [B, 1]
        return tf.where(heard, voice, self.default)
