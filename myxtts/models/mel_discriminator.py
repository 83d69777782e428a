"""Tells recorded mels from a model's; the model is trained to be taken for a recording."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from myxtts.models.conv_stack import fold_mask
from myxtts.models.masking import dims

_BAND = 8  # mel bands from one patch to the next; a patch has twice as many
_FRAMES = 3  # of a patch
_VIEWS = 2  # the mel, and the mean mel of what is being said
_STRIDE = 2  # of the last convolution, in frames
_SLOPE = 0.1  # of the activation below zero


@keras.saving.register_keras_serializable("myxtts")
class MelDiscriminator(keras.layers.Layer):
    """Judges patches of a mel, given what is being said there.

    An average of several recordings is near to each of them, so a distance alone makes a model speak averages, which
    sound dull. No recording looks like an average; so the discriminator tells it.

    Args:
        channels: of its convolutions.
    """

    def __init__(self, channels: int = 32, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enter = keras.layers.Dense(channels)
        self.enter.build((None, None, None, _VIEWS * _FRAMES * 2 * _BAND))
        self.convolutions = [
            keras.layers.Conv2D(channels, 3, strides=stride, padding="same") for stride in (1, _STRIDE)
        ]
        self.score = keras.layers.Conv2D(1, 3, padding="same")
        for layer in (*self.convolutions, self.score):
            layer.build((None, None, None, channels))
        self.built = True

    def call(self, mel: tf.Tensor, mean: tf.Tensor, mask: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """
        Args:
            mel: [B, F, n_mels], normalised.
            mean: [B, F, n_mels], the encoder's mean mel.
            mask: [B, F, 1].

        Returns:
            What each layer sees, [B, F', bands, C]; the last, of one channel, are the scores. And the mask of each,
            [B, F', 1, 1].
        """
        x = tf.nn.leaky_relu(self.enter(_patches(mel * mask, mean * mask)), _SLOPE)
        seen, masks = [x], [mask[:, :, None]]
        for layer in self.convolutions:
            x = tf.nn.leaky_relu(layer(x * masks[-1]), _SLOPE)
            seen.append(x)
            masks.append(fold_mask(masks[-1][:, :, 0], layer.strides[0])[:, :, None])
        return [*seen, self.score(x * masks[-1])], [*masks, masks[-1]]


def _patches(*views: tf.Tensor) -> tf.Tensor:
    """Patches of three frames and two groups of bands, which overlap by half: [B, F, n_mels / band, n]."""
    batch, frames, bands = dims(views[0])
    groups = -(-bands // _BAND)
    parts = []
    for view in views:
        padded = tf.pad(view, [[0, 0], [1, 1], [0, (groups + 1) * _BAND - bands]])
        for frame in range(_FRAMES):
            for first in (0, _BAND):
                patch = padded[:, frame : frame + frames, first : first + groups * _BAND]
                parts.append(tf.reshape(patch, [batch, frames, groups, _BAND]))
    return tf.concat(parts, axis=3)
