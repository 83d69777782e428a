"""A model's weights as two long vectors, and back: what the optimizer works on.

A model has hundreds of weights, and an optimizer takes some twenty operations for each: more than half of the step's
graph, to trace and to launch, for what is the same arithmetic on all of them. On vectors it is twenty operations.
There are two, because some weights decay and others do not. The vectors take as much memory as the weights.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

# Weight decay is for what multiplies activations; gains, offsets and tables have no size to hold down.
_DECAYED = ("kernel",)
NOT_DECAYED = "not_decayed"


class FlatWeights:
    """The vectors of a list of weights.

    Args:
        weights: of the model, in the order of everything that is given and taken here.

    Attributes:
        vectors: what to build an optimizer for; their values are the weights' after `gather`.
    """

    def __init__(self, weights: Sequence[keras.Variable]) -> None:
        self._weights = list(weights)
        groups: dict[str, list[int]] = {}
        for number, weight in enumerate(self._weights):
            groups.setdefault("decayed" if weight.name in _DECAYED else NOT_DECAYED, []).append(number)
        self._groups = list(groups.values())
        flat = self.flatten(self._weights)
        self.vectors = [keras.Variable(vector, name=name) for name, vector in zip(groups, flat, strict=True)]

    def flatten(self, values: Sequence[tf.Tensor | keras.Variable]) -> list[tf.Tensor]:
        """Values of the weights' shapes, such as gradients, as vectors."""
        flat = [tf.reshape(value, [-1]) for value in values]
        return [tf.concat([flat[number] for number in group], axis=0) for group in self._groups]

    def gather(self) -> None:
        """Puts the weights' values into the vectors."""
        for vector, values in zip(self.vectors, self.flatten(self._weights), strict=True):
            vector.assign(values)

    def scatter(self, weights: Sequence[keras.Variable] | None = None) -> None:
        """Puts the vectors' values into the weights, or into those of another model of the same kind."""
        targets = self._weights if weights is None else weights
        for vector, group in zip(self.vectors, self._groups, strict=True):
            sizes = [int(np.prod(targets[number].shape)) for number in group]
            for number, values in zip(group, tf.split(vector, sizes), strict=True):
                targets[number].assign(tf.reshape(values, targets[number].shape))
