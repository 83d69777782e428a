"""Trains a voice."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.batch_service import ServedSource
from myxtts.data.batch_source import BatchSource
from myxtts.data.clips.metadata import Split
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.modes import PreparedData
from myxtts.data.progressive import ProgressiveSource, StoreToCome
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


_SPLITS: tuple[Split, ...] = ("train", "val")


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
            batches = self._batches(dataset, prepared)
            if prepared.building is not None:
                self._building = prepared.building
                self.observer.message(f"features are computed while training: {prepared.reason}")
                store = StoreToCome(prepared, prepared.building, self.observer.message)
                batches = {split: ProgressiveSource.of(source, split, store) for split, source in batches.items()}
            if self.config.data.data_service:
                batches["train"] = ServedSource.of(batches["train"], self.config.data.data_service)
            train = self._begin(batches["train"])
            return train, batches["val"].dataset(shuffle=False, epochs=1)

    def _batches(self, dataset: LJSpeechDataset, prepared: PreparedData) -> dict[Split, BatchSource]:
        """The batches of both splits; of the store, unless the run was begun without it and only goes on without."""
        config, position = self.config.data, None if self._restored is None else self._restored.run.position
        batches = {split: BatchSource.build(prepared, config, split) for split in _SPLITS}
        if position is None or prepared.store is None or batches["train"].plan.hash == position.plan.hash:
            return batches
        settings = prepared.store.manifest.settings
        before = PreparedData("runtime", "the store has other clips", dataset.metadata, config, stands_for=settings)
        computed = BatchSource.build(before, config, "train")
        if computed.plan.hash != position.plan.hash:
            return batches  # and the caller says what has changed
        self.observer.message("the store gives other batches than this run was begun with: features are computed")
        return {"train": computed, "val": BatchSource.build(before, config, "val")}

    def _objective(self, data: TrainingData) -> SpeechObjective:
        return SpeechObjective(self.model, self.config, data.total_steps(self.config.training))
