"""Alignments that are found once and used again, by clip.

On a GPU the search is a loop of hundreds of small kernels. Once the model has learned which frame belongs to which
token, searching again in every epoch finds the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf


class KeptAlignments:
    """Durations of the clips' tokens, packed one clip after another.

    Args:
        token_lengths: int [N], tokens of each clip; a batch's `index` are positions here.

    Attributes:
        durations: uint16, of all tokens of all clips.
        known: bool [N], the clips whose durations were kept.
    """

    def __init__(self, token_lengths: np.ndarray) -> None:
        self._lengths = token_lengths.astype(np.int64)
        self._offsets = np.cumsum(self._lengths) - self._lengths
        self.durations = np.zeros(int(self._lengths.sum()), np.uint16)
        self.known = np.zeros(len(token_lengths), bool)

    def keep(self, index: np.ndarray, durations: np.ndarray) -> None:
        """Keeps what a step found.

        Args:
            index: int64 [B], the clips; −1 is an empty place.
            durations: [B, T], whole numbers of any type.
        """
        for place in np.flatnonzero(index >= 0):
            clip = index[place]
            found = durations[place, : self._lengths[clip]]
            self.durations[self._offsets[clip] : self._offsets[clip] + len(found)] = found
            self.known[clip] = True

    def on_device(self) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
        """A function in graph from `index` int64 [B] and `tokens` int32 [B, T] to durations int32 [B, T]."""
        # The entry after the last stands for padding, the clip after the last for an empty place.
        # Numbers up to 65,535 as float32: int32 variables stay on the host, where XLA on a GPU cannot read them.
        durations = tf.Variable(np.append(self.durations, 0).astype(np.float32), trainable=False)
        offsets = tf.constant(np.append(self._offsets, 0))
        lengths = tf.constant(np.append(self._lengths, 0))
        padding = len(self.durations)
        empty = len(self.known)

        def look_up(index: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
            clip = tf.where(index < 0, tf.constant(empty, tf.int64), index)
            token = tf.range(tf.shape(tokens, tf.int64)[1])[None]  # [1, T]
            inside = token < tf.gather(lengths, clip)[:, None]  # [B, T]
            place = tf.where(inside, tf.gather(offsets, clip)[:, None] + token, padding)
            return tf.cast(tf.gather(durations, place), tf.int32)

        return look_up
