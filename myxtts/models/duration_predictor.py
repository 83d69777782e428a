"""From states to durations."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import ConvStack
from myxtts.models.randomness import Seed


@keras.saving.register_keras_serializable("myxtts")
class DurationPredictor(keras.layers.Layer):
    """How many frames each token lasts, as a logarithm.

    Gradients stop at its inputs: alignments are wrong in the beginning, and their durations would pull the encoder's
    states away from the mel.

    Args:
        inputs: channels of a state.
        voice: size of a voice.
        width, blocks, kernel_size, dropout: of the `ConvStack`.
    """

    def __init__(
        self,
        inputs: int,
        voice: int,
        width: int,
        blocks: int,
        kernel_size: int,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stack = ConvStack(
            inputs, width, blocks, kernel_size, condition=voice, dropout=dropout, dtype=self.dtype_policy
        )
        # Starts at a typical duration, so that training need not find it first.
        self.head = keras.layers.Dense(
            1, kernel_initializer="zeros", bias_initializer=keras.initializers.Constant(1.5), dtype="float32"
        )
        self.head.build((None, None, width))
        self.built = True

    def call(
        self,
        states: tf.Tensor,
        mask: tf.Tensor,
        voice: tf.Tensor,
        training: bool = False,
        seed: Seed | None = None,
    ) -> tf.Tensor:
        """
        Args:
            states: [B, T, C].
            mask: [B, T, 1].
            voice: [B, D].
            training: whether to apply dropout.
            seed: needed for dropout.

        Returns:
            float32 [B, T], log of frames.
        """
        states, voice = tf.stop_gradient(states), tf.stop_gradient(voice)
        return self.head(self.stack(states, mask, voice, training=training, seed=seed))[:, :, 0]
