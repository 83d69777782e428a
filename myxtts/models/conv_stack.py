"""A stack of blocks, from one sequence to another."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_block import ConvBlock
from myxtts.models.masking import dims
from myxtts.models.randomness import Seed, fold_in


@keras.saving.register_keras_serializable("myxtts")
class ConvStack(keras.layers.Layer):
    """Projection in, `ConvBlock`s, normalisation; `patch` neighbouring positions are handled as one.

    Args:
        inputs: channels of the input.
        width: channels of the blocks and of the result.
        blocks: number of blocks.
        kernel_size: of each block.
        patch: positions folded into one before the blocks.
        condition: size of the condition that the blocks take; 0: none.
        dropout: of each block.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        blocks: int,
        kernel_size: int,
        patch: int = 1,
        condition: int = 0,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.patch = patch
        self.enter = keras.layers.Dense(width, dtype=policy)
        self.enter.build((None, None, patch * inputs))
        self.blocks = [ConvBlock(width, kernel_size, condition, dropout, dtype=policy) for _ in range(blocks)]
        self.norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy)
        self.norm.build((None, None, width))
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
            x: [B, T, C].
            mask: [B, T, 1].
            condition: [B, D], for the blocks.
            training: whether to apply dropout.
            seed: needed for dropout.

        Returns:
            [B, ceil(T / patch), width].
        """
        x = self.enter(fold(x * mask, self.patch))  # [B, P, width]
        mask = fold_mask(mask, self.patch)  # [B, P, 1]
        for number, block in enumerate(self.blocks):
            x = block(x, mask, condition, training=training, seed=fold_in(seed, number))
        return self.norm(x)


def fold(x: tf.Tensor, patch: int) -> tf.Tensor:
    """[B, T, C] → [B, ceil(T / patch), patch * C]; the last patch is padded with zeros."""
    batch, length, channels = dims(x)
    # Without negative numbers: what `-length % patch` and `-(-length // patch)` become in ONNX is wrong.
    patches = (length + patch - 1) // patch
    x = tf.pad(x, [[0, 0], [0, patches * patch - length], [0, 0]])
    return tf.reshape(x, [batch, patches, patch * channels])


def fold_mask(mask: tf.Tensor, patch: int) -> tf.Tensor:
    """[B, T, 1] → [B, ceil(T / patch), 1]: 1 for a patch with at least one position inside the clip."""
    return tf.reduce_max(fold(mask, patch), axis=2, keepdims=True)


def unfold(x: tf.Tensor, patch: int, length: int | tf.Tensor) -> tf.Tensor:
    """[B, ceil(length / patch), patch * C] → [B, length, C], the inverse of `fold`."""
    batch, patches, channels = dims(x)
    return tf.reshape(x, [batch, patches * patch, channels // patch])[:, :length]
