"""From tokens to states."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import ConvStack
from myxtts.models.randomness import Seed


@keras.saving.register_keras_serializable("myxtts")
class TextEncoder(keras.layers.Layer):
    """Encodes text, language and voice as one state per token.

    Args:
        vocab_size: number of token ids; 0 is padding.
        languages: number of language ids.
        voice: size of a voice.
        width, blocks, kernel_size, dropout: of the `ConvStack`.
    """

    def __init__(
        self,
        vocab_size: int,
        languages: int,
        voice: int,
        width: int,
        blocks: int,
        kernel_size: int,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.token = keras.layers.Embedding(vocab_size, width, embeddings_initializer=_unit(), dtype=policy)
        self.token.build()
        self.language = keras.layers.Embedding(languages, width, embeddings_initializer="zeros", dtype=policy)
        self.language.build()
        self.stack = ConvStack(width, width, blocks, kernel_size, condition=voice, dropout=dropout, dtype=policy)
        self.built = True

    def call(
        self,
        tokens: tf.Tensor,
        mask: tf.Tensor,
        language: tf.Tensor,
        voice: tf.Tensor,
        training: bool = False,
        seed: Seed | None = None,
    ) -> tf.Tensor:
        """
        Args:
            tokens: int32 [B, T].
            mask: [B, T, 1].
            language: int32 [B].
            voice: [B, D].
            training: whether to apply dropout.
            seed: needed for dropout.

        Returns:
            [B, T, width].
        """
        x = self.token(tokens) + self.language(language)[:, None]  # [B, T, width]
        return self.stack(x, mask, voice, training=training, seed=seed)


def _unit() -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=1.0)
