"""The block of networks that work at frame rate."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable("myxtts")
class ConvNeXtBlock(keras.layers.Layer):
    """Residual block (Liu et al. 2022): mix each channel over time, normalise, mix the channels.

    Args:
        width: channels of input and output.
        expansion: channels between the two products that mix channels.
        kernel_size: frames that the mixing over time sees; odd.
        activation: between the two products.
    """

    def __init__(
        self, width: int, expansion: int, kernel_size: int = 7, activation: str = "silu", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.kernel_size = kernel_size
        initial = keras.initializers.RandomNormal(stddev=kernel_size**-0.5, seed=0)
        self.taps = self.add_weight(shape=(kernel_size, width), initializer=initial, name="taps")
        self.offset = self.add_weight(shape=(width,), initializer="zeros", name="offset")
        self.norm = keras.layers.LayerNormalization(epsilon=1e-6, dtype=policy)
        self.norm.build((None, None, width))
        self.expand = keras.layers.Dense(expansion, activation=activation, dtype=policy)
        self.expand.build((None, None, width))
        self.reduce = keras.layers.Dense(width, kernel_initializer="zeros", dtype=policy)
        self.reduce.build((None, None, expansion))
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """[B, F, width] → the same."""
        return x + self.reduce(self.expand(self.norm(self._mix_time(x))))

    def _mix_time(self, x: tf.Tensor) -> tf.Tensor:
        """A depthwise convolution, written as shifted sums: XLA makes one pass of them, where its convolution takes
        several times as long on a CPU."""
        taps = tf.cast(self.taps, x.dtype)
        padded = tf.pad(x, [[0, 0], [self.kernel_size // 2] * 2, [0, 0]])
        mixed = tf.cast(self.offset, x.dtype)
        for place in range(self.kernel_size):
            # Counted from the end: converted to ONNX, ends that depend on the length take most of the nodes.
            mixed += padded[:, place : place + 1 - self.kernel_size or None] * taps[place]
        return mixed
