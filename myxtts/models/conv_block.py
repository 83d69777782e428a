"""The block that every stack of the model consists of."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.randomness import Seed, dropout


@keras.saving.register_keras_serializable("myxtts")
class ConvBlock(keras.layers.Layer):
    """Residual block: normalise, scale and shift by a condition, mix over time, mix over channels.

    The convolution is not depthwise: it is a single large matrix product, which XLA runs at full speed on every
    device. A depthwise convolution has less arithmetic, but takes several times as long on a CPU.

    The normalisation is over channels only, so that a position sees padding through the convolution alone, whose
    input is masked.

    Args:
        width: channels of input and output.
        kernel_size: positions the convolution sees.
        condition: size of the condition that sets scale and shift; 0: they are plain weights.
        dropout: share of the block's output that is dropped in training.
    """

    def __init__(self, width: int, kernel_size: int, condition: int = 0, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.conditioned = condition > 0
        self.dropout = dropout
        self.norm = keras.layers.LayerNormalization(
            epsilon=1e-5, center=not condition, scale=not condition, dtype=policy
        )
        self.norm.build((None, None, width))
        if condition:
            self.modulate = keras.layers.Dense(2 * width, kernel_initializer="zeros", dtype=policy)
            self.modulate.build((None, condition))
        self.mix_time = keras.layers.Conv1D(width, kernel_size, padding="same", dtype=policy)
        self.mix_time.build((None, None, width))
        self.mix_channels = keras.layers.Dense(width, kernel_initializer="zeros", dtype=policy)
        self.mix_channels.build((None, None, width))
        self.built = True

    def call(
        self,
        x: tf.Tensor,
        mask: tf.Tensor,
        condition: tf.Tensor | None = None,
        training: bool = False,
        seed: Seed | None = None,
    ) -> tf.Tensor:
        """
        Args:
            x: [B, T, width].
            mask: [B, T, 1].
            condition: [B, D].
            training: whether to apply dropout.
            seed: needed for dropout.
        """
        h = self.norm(x)  # [B, T, C]
        if self.conditioned:
            scale, shift = tf.split(self.modulate(condition)[:, None], 2, axis=-1)  # [B, 1, C] each
            h = h * (1 + scale) + shift
        h = tf.nn.silu(self.mix_time(h * mask))
        h = self.mix_channels(h)
        if training and self.dropout:
            h = dropout(h, self.dropout, seed)
        return x + h  # [B, T, C]
