"""Trains a voice."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch_service import ServedSource
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.progressive import batches_of_run
from myxtts.models.checkpoint import SPEECH, Checkpoint
from myxtts.models.create import create_model
from myxtts.models.xtts import XTTS
from myxtts.training.base_trainer import Trainer
from myxtts.training.cluster import Rank
from myxtts.training.objective import SpeechObjective
from myxtts.training.progress import Observer
from myxtts.training.run_log import MelToAudio
from myxtts.training.training_data import TrainingData

if TYPE_CHECKING:
    from myxtts.data.precompute import WorkProgress


class XTTSTrainer(Trainer):
    """Trains a model on a data set, once.

    ```python
    config = XTTSConfig(data_path="./data/ljspeech", checkpoint_dir="./runs/voice", max_steps=10_000)
    trainer = XTTSTrainer(config)
    train_dataset, val_dataset = trainer.prepare_datasets()
    result = trainer.train(train_dataset, val_dataset)
    ```

    Args:
        config: everything about the run.
        model: what to train; none: a new model as the configuration describes it.
        resume: continue the run in `checkpoint_dir` from its newest undamaged checkpoint; if there is none, begin.
        init_from: a checkpoint whose weights a new run starts with, such as another voice's: its folder, or what
            `read_checkpoint` returned.
        observer: is told how the run goes; None logs it.
        vocoder: makes audio of mels, float32 [F, n_mels] → [n], for TensorBoard; None writes no audio there.
        rank: which of the processes that train together this is (docs/scaling.md); None: it trains alone.

    Raises:
        UsageError: the folder holds another run, or the device cannot be used.
        CheckpointError: a checkpoint cannot be used with this configuration.
    """

    def __init__(
        self,
        config: XTTSConfig,
        model: XTTS | None = None,
        *,
        resume: bool = False,
        init_from: str | os.PathLike[str] | Checkpoint | None = None,
        observer: Observer | None = None,
        vocoder: MelToAudio | None = None,
        rank: Rank | None = None,
    ) -> None:
        super().__init__(
            config,
            SPEECH,
            lambda policy: model or create_model(config, policy),
            resume=resume,
            init_from=init_from,
            observer=observer,
            vocoder=vocoder,
            rank=rank,
        )

    def prepare_datasets(
        self, progress: WorkProgress | None = None, dataset: LJSpeechDataset | None = None
    ) -> tuple[tf.data.Dataset, tf.data.Dataset]:
        """Prepares the data set as `preprocessing_mode` says.

        Args:
            progress: is told how the making of the store goes.
            dataset: the configuration's, if it was read already.

        Returns:
            The training batches, epoch after epoch without end, beginning where a resumed run continues; and one pass
            over the validation batches.

        Raises:
            DataError: the data set cannot be used, or a resumed run would see other batches than before.
        """
        with self._closed_on_error():
            dataset = dataset or LJSpeechDataset(None, self.config)
            prepared = dataset.prepare(progress, self.config, beside=self._collective is None)
            if prepared.precomputed is not None:
                mels = prepared.precomputed.columns["mel"]
                self.monitor.log_cache_use(mels.reused, mels.computed)
            self._origin = prepared.metadata.origin()
            self._building = prepared.building
            position = None if self._restored is None else self._restored.run.position
            train, validation = batches_of_run(dataset, prepared, self.config.data, position, self.observer.message)
            if self.config.data.data_service:
                train = ServedSource.of(train, self.config.data.data_service)
            return self._begin(train), validation.dataset(shuffle=False, epochs=1)

    def _objective(self, data: TrainingData) -> SpeechObjective:
        return SpeechObjective(self.model, self.config, data.total_steps(self.config.training))
