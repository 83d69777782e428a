"""How well the averaged weights do on clips they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.xtts import XTTS
from myxtts.training.going_wrong import loaded
from myxtts.training.losses import compute_losses
from myxtts.training.step import any_length, fold_seed


@dataclass(frozen=True)
class Validation:
    """Losses over all clips of the validation split, each frame counting the same."""

    total: float
    prior: float
    decoder: float
    duration: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


class Validator:
    """Computes losses without training. Whatever is drawn at random is the same in every validation.

    It runs as a graph and not under XLA: it is a small share of the work, and compiling would cost more than it
    saves.

    Args:
        model: with the weights to judge.
        config: of `training` the seed and whether to run eagerly; of `data` what a mel is.
        spec: the `element_spec` of the batches.
    """

    def __init__(self, model: XTTS, config: XTTSConfig, spec: Mapping[str, tf.TensorSpec]) -> None:
        self._model = model
        self._settings = MelSettings.from_config(config.data)
        self._log_mel = LogMel(self._settings)
        self._seed = fold_seed(config.training.seed)
        training = config.training
        if training.enable_eager_debug or not training.enable_graph_mode:
            self._losses = self._compute
        else:
            signature = [{name: any_length(one) for name, one in spec.items()}, tf.TensorSpec([], tf.int32)]
            self._losses = tf.function(self._compute, input_signature=signature, autograph=False)

    def __call__(self, dataset: tf.data.Dataset, stop: Callable[[], bool] = lambda: False) -> Validation | None:
        """The losses over one pass of `dataset`; None if `stop` said so before its end.

        Raises:
            DataError: a batch cannot be loaded.
        """
        sums = np.zeros(4)
        frames = 0.0
        for number, batch in enumerate(loaded(dataset)):
            if stop():
                return None
            *losses, weight = self._losses(batch, tf.constant(number)).numpy().tolist()
            sums += np.multiply(losses, weight)
            frames += weight
        return Validation(*(sums / max(frames, 1.0)).tolist())

    def _compute(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        """Losses and frames of a batch: float32 [5]."""
        features = add_device_features(batch, self._log_mel, self._settings)
        outputs = self._model(features, training=False, seed=tf.stack([self._seed, number]))
        losses = compute_losses(outputs, self._model.decoder_kind)
        frames = tf.reduce_sum(tf.cast(features["mel_lengths"], tf.float32))
        return tf.stack([*losses, frames])
