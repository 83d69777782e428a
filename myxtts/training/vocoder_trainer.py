"""Trains a vocoder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import ConfigError
from myxtts.models.checkpoint import VOCODER, Checkpoint
from myxtts.training.base_trainer import Trainer
from myxtts.training.progress import Observer
from myxtts.training.training_data import TrainingData
from myxtts.training.vocoder_objective import VocoderInTraining, VocoderObjective

if TYPE_CHECKING:
    from collections.abc import Callable

    from myxtts.data.precompute import WorkProgress
    from myxtts.data.store import FeatureStore

# Segments that are validated and heard in TensorBoard are longer than those of training: 3 s by default.
VALIDATION_FRAMES = 256
VALIDATION_SEGMENTS = 8


class VocoderTrainer(Trainer):
    """Trains a vocoder on a data set, once.

    ```python
    config = XTTSConfig(data_path="./my-voice", checkpoint_dir="./runs/vocoder", max_steps=5_000, store_audio=True)
    trainer = VocoderTrainer(config)
    result = trainer.train(*trainer.prepare_datasets())
    ```

    Args:
        config: everything about the run.
        resume: continue the run in `checkpoint_dir` from its newest undamaged checkpoint; if there is none, begin.
        init_from: a vocoder's checkpoint whose weights a new run starts with, such as the shipped one.
        observer: is told how the run goes; None logs it.

    Raises:
        UsageError: the folder holds another run, or the device cannot be used.
        CheckpointError: a checkpoint cannot be used with this configuration.
    """

    def __init__(
        self,
        config: XTTSConfig,
        *,
        resume: bool = False,
        init_from: str | os.PathLike[str] | Checkpoint | None = None,
        observer: Observer | None = None,
    ) -> None:
        def create(policy: str) -> keras.Model:
            return VocoderInTraining(config.vocoder, MelSettings.from_config(config.data), dtype=policy)

        super().__init__(
            config,
            VOCODER,
            create,
            resume=resume,
            init_from=init_from,
            observer=observer,
        )

    def prepare_datasets(
        self,
        progress: WorkProgress | None = None,
        dataset: LJSpeechDataset | None = None,
        mels: Callable[[FeatureStore], np.ndarray] | None = None,
    ) -> tuple[tf.data.Dataset, tf.data.Dataset | None]:
        """Prepares the data set as `preprocessing_mode` says.

        Args:
            progress: is told how the making of the store goes.
            dataset: the configuration's, if it was read already.
            mels: gives the mels to train on in place of the recordings' own, such as an acoustic model's for the
                same frames.

        Returns:
            Training segments without end, beginning where a resumed run continues; and one pass over validation
            segments, or None if no clip is left for them.

        Raises:
            DataError: the data set cannot be used, or a resumed run would see other segments than before.
            ConfigError: `mels` are given and there is no store.
        """
        config = self.config
        with self._closed_on_error():
            dataset = dataset or LJSpeechDataset(None, config)
            prepared = dataset.prepare(progress, config)
            self._origin = prepared.metadata.origin()
            if mels is not None and prepared.store is None:
                raise ConfigError(
                    "a voice's mels are computed from a store, and mode 'runtime' has none; "
                    "use preprocessing_mode 'precompute'"
                )
            other = None if mels is None or prepared.store is None else mels(prepared.store)
            train = self._begin(dataset.segments("train", config, frames=config.vocoder.segment_frames, mels=other))
            if not len(prepared.metadata.rows("val")):
                return train, None
            validation = dataset.segments(
                "val", config, frames=VALIDATION_FRAMES, batch_size=VALIDATION_SEGMENTS, mels=other
            )
            return train, validation.dataset()

    def _initialise(self, checkpoint: Checkpoint) -> None:
        self.model.read(checkpoint.path)

    def _objective(self, data: TrainingData) -> VocoderObjective:
        return VocoderObjective(self.model, self.config, data.total_steps(self.config.training))
