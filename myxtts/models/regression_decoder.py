"""From states to a mel, in one pass."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import ConvStack, unfold
from myxtts.models.masking import dims


@keras.saving.register_keras_serializable("myxtts")
class RegressionDecoder(keras.layers.Layer):
    """Predicts the difference between the mel and the encoder's mean mel. Quick to train and to run; smooths fine
    detail.

    Args:
        features: channels of a frame's features.
        n_mels: mel bands.
        voice: size of a voice.
        width, blocks, kernel_size, patch: of the `ConvStack`.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)  # mels stay float32
        self.patch = patch
        self.stack = ConvStack(
            features + n_mels, width, blocks, kernel_size, patch, condition=voice, dtype=self.dtype_policy
        )
        self.head = keras.layers.Dense(patch * n_mels, kernel_initializer="zeros", dtype="float32")
        self.head.build((None, None, width))
        self.built = True

    def call(self, features: tf.Tensor, mean: tf.Tensor, mask: tf.Tensor, voice: tf.Tensor) -> tf.Tensor:
        """
        Args:
            features: [B, F, C], the encoder's, of each frame.
            mean: [B, F, n_mels], the encoder's mean mel.
            mask: [B, F, 1].
            voice: [B, D].

        Returns:
            float32 [B, F, n_mels].
        """
        x = tf.concat([features, tf.cast(mean, features.dtype)], axis=-1)
        detail = self.head(self.stack(x, mask, voice))  # [B, P, patch * n_mels]
        return mean + unfold(detail, self.patch, dims(mean)[1])
