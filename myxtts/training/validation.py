"""How well the averaged weights do on clips they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.training.failures import batches_of
from myxtts.training.objective import Objective
from myxtts.training.step import any_length, fold_seed


class Validator:
    """Computes losses without training. Its random numbers are the same in every validation.

    It runs as a graph and not under XLA: it is a small share of the work, and compiling would cost more than it
    saves.

    Args:
        objective: with the weights to validate.
        config: `training` sets the seed and whether to run eagerly.
        spec: the `element_spec` of the batches.
    """

    def __init__(self, objective: Objective, config: XTTSConfig, spec: Mapping[str, tf.TensorSpec]) -> None:
        self._objective = objective
        self._seed = fold_seed(config.training.seed)
        training = config.training
        if training.enable_eager_debug or not training.enable_graph_mode:
            self._losses = self._compute
        else:
            signature = [{name: any_length(one) for name, one in spec.items()}, tf.TensorSpec([], tf.int32)]
            self._losses = tf.function(self._compute, input_signature=signature, autograph=False)

    def __call__(self, dataset: tf.data.Dataset, stop: Callable[[], bool] = lambda: False) -> dict[str, float] | None:
        """The losses by name over one pass of `dataset`, each frame counting the same; None if `stop` said so before
        the end.

        Raises:
            DataError: a batch cannot be loaded.
        """
        names = self._objective.names
        sums = np.zeros(len(names))
        frames = 0.0
        for number, batch in enumerate(batches_of(dataset)):
            if stop():
                return None
            *losses, weight = self._losses(batch, tf.constant(number)).numpy().tolist()
            sums += np.multiply(losses, weight)
            frames += weight
        return dict(zip(names, (sums / max(frames, 1.0)).tolist(), strict=True))

    def _compute(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        """The losses of a batch, then its number of frames: float32 [L + 1]."""
        found = self._objective(batch, tf.stack([self._seed, number]), training=False)
        return tf.stack([*found.losses.values(), found.frames])
