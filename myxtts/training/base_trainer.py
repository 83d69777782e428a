"""What every trainer does: opens the run's folder and its device, restores weights, and runs the training loop."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
import xxhash

from myxtts.config.config import XTTSConfig
from myxtts.data.background_build import BackgroundBuild
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.position import Position
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.batches.share import Share
from myxtts.data.segment_source import SegmentSource
from myxtts.errors import CheckpointError, ConfigError, UsageError
from myxtts.models.checkpoint import WEIGHTS, Checkpoint, as_checkpoint, differences, read_weights
from myxtts.performance.monitor import PerformanceMonitor, start_performance_monitoring
from myxtts.training.cluster import Rank
from myxtts.training.collective import Collective
from myxtts.training.device import precision_policy, prepare_device
from myxtts.training.loop import TrainingLoop
from myxtts.training.objective import Objective
from myxtts.training.progress import LoggingObserver, Observer, TrainingResult
from myxtts.training.run_folder import RunFolder
from myxtts.training.run_log import MelToAudio
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import TrainingState

logger = logging.getLogger(__name__)

# Measured by benchmarks/bench_step.py.
EAGER_WARNING = (
    "the step runs eagerly, for debugging only: with the tiny model on two cores that takes about 7 times as long as "
    "a compiled step"
)

# Keys of the training section that may differ between processes that train together.
_OF_THE_MACHINE = {"checkpoint_dir", "device", "gpu_memory_limit_mb"}


class Trainer:
    """Trains a model on a data set, once. Subclasses create the model and prepare the data.

    Args:
        config: everything about the run.
        kind: of model, as checkpoints name it.
        create: makes the model, given a Keras dtype policy.
        resume: continue the run in `checkpoint_dir` from its newest undamaged checkpoint; if there is none, begin.
        init_from: a checkpoint whose weights a new run starts with.
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
        kind: str,
        create: Callable[[str], keras.Model],
        *,
        resume: bool = False,
        init_from: str | os.PathLike[str] | Checkpoint | None = None,
        observer: Observer | None = None,
        vocoder: MelToAudio | None = None,
        rank: Rank | None = None,
    ) -> None:
        self.config = config
        self.observer: Observer = observer or LoggingObserver()
        self.monitor: PerformanceMonitor = start_performance_monitoring()
        self.folder = RunFolder(config.training.checkpoint_dir)
        self.vocoder = vocoder
        self._closed = False
        self._restored: TrainingState | None = None
        self._train: tf.data.Dataset | None = None
        self._source: BatchSource | SegmentSource | None = None
        self._origin: dict[str, Any] = {}
        self._building: BackgroundBuild | None = None
        with self._closed_on_error():
            self.device = prepare_device(config.training, rank)
            self._collective = None if rank is None else Collective(rank, timed=not config.training.deterministic)
            if self._collective is None or self._collective.is_chief:
                self.folder.open(resume)
            keras.utils.set_random_seed(config.training.seed % 2**32)
            with tf.device(self.device.name):
                self.model = create(precision_policy(config.training, self.device))
            found = self.folder.newest_whole(kind) if resume else None
            if found is not None:
                checkpoint, self._restored = found
                _require_same(checkpoint, config)
                self.config, later = config.as_begun(checkpoint.config)
                if later:
                    values = ", ".join(f"{key} is {value:g}" for key, value in later.items())
                    self.observer.message(f"a run that was begun by an earlier version: {values}, as it was then")
            elif init_from is not None:
                checkpoint = as_checkpoint(init_from, kind)
                _require_same(checkpoint, config)
                self._initialise(checkpoint)
                self.observer.message(f"starting with the weights of {checkpoint.path}")

    def _initialise(self, checkpoint: Checkpoint) -> None:
        """Gives the model the weights that a new run starts with."""
        read_weights(checkpoint.path / WEIGHTS, self.model)

    def _objective(self, data: TrainingData) -> Objective:
        """What the model is trained for."""
        raise NotImplementedError

    def _begin(self, source: BatchSource | SegmentSource) -> tf.data.Dataset:
        """The training batches of a source, from where a resumed run continues."""
        if self._collective is not None:
            source = self._share_of(source, self._collective)
        self._source = source
        if self._restored is not None and self._restored.run.position is not None:
            self._train = source.resume(self._restored.run.position)
        else:
            self._train = source.dataset(seed=self.config.training.seed)
        return self._train

    def train(self, train_dataset: tf.data.Dataset, val_dataset: tf.data.Dataset | None = None) -> TrainingResult:
        """Trains until the configuration's epochs or steps are done, a signal arrives, or the loss stops falling.

        A resumed run that is complete already stays as it is.

        Args:
            train_dataset: from `prepare_datasets`, or any other dataset of such batches (docs/training.md). Another
                dataset is repeated, and a resumed run starts with its first batch again.
            val_dataset: one pass over the validation batches; without it there is no validation and no best
                checkpoint.

        Raises:
            TrainingError: it cannot go on: loss not finite, no memory, or the last checkpoint cannot be written.
            DataError: a batch cannot be loaded.
            UsageError: the length of the run is not known, or this trainer has trained already.
        """
        if self._closed:
            raise UsageError("this trainer has trained, or failed; create another one, with resume=True to go on")
        try:
            if self.config.training.enable_eager_debug or not self.config.training.enable_graph_mode:
                logger.warning("%s", EAGER_WARNING)
            if val_dataset is not None and val_dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
                raise UsageError("the validation data has no end; give one pass over it")
            tf.config.run_functions_eagerly(self.config.training.enable_eager_debug)
            with tf.device(self.device.name):
                data = self._data(train_dataset, val_dataset)
                loop = TrainingLoop(
                    self._objective(data),
                    self.config,
                    data,
                    self.folder,
                    self.observer,
                    self.monitor,
                    synchronous=not self.device.is_gpu,
                    gpu_name=self.device.gpu_name,
                    vocoder=self.vocoder,
                    restored=self._restored,
                    collective=self._collective,
                )
                # The restored arrays are in variables now; free the copy.
                self._restored = None
                return loop.run()
        finally:
            tf.config.run_functions_eagerly(False)
            self.close()

    def _share_of(self, source: BatchSource | SegmentSource, collective: Collective) -> BatchSource:
        """This process's share of the batches, once it is sure that all processes share the same."""
        if isinstance(source, SegmentSource):
            raise UsageError("a vocoder is trained by one process; leave --devices and --cluster out")
        config = source.config
        if config.trim_silence and isinstance(source.clips, RuntimeClips):
            raise ConfigError(
                "in mode 'runtime' with trim_silence, the lengths of a batch are known only once it is read, and "
                "several processes must know them before; use preprocessing_mode 'precompute'"
            )
        restored, model, training = self._restored, self.config.model, self.config.training
        collective.require_same(
            {
                "configuration": _number_of(
                    model.model_dump_json() + training.model_dump_json(exclude=_OF_THE_MACHINE)
                ),
                "plan of batches": _number_of(source.plan.hash),
                "checkpoint": 0 if restored is None else 1 + restored.run.batch,
            }
        )
        workers = max(1, config.workers // collective.place.of_machine)
        return replace(
            source,
            share=Share(collective.rank, collective.ranks),
            config=config.model_copy(update={"num_workers": workers}),
        )

    def close(self) -> None:
        """Releases the run's folder. `train` does this at its end; call it only if you do not train."""
        self._closed = True
        self.monitor.stop_sampling()
        if self._building is not None:
            self._building.close()
        self.folder.close()

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _data(self, train: tf.data.Dataset, validation: tf.data.Dataset | None) -> TrainingData:
        if self._source is not None and train is self._train:
            plan = self._source.plan
            position = self._restored.run.position if self._restored is not None else None
            return TrainingData(
                train,
                validation,
                batches_per_epoch=len(plan),
                expected_shapes=1 if isinstance(plan, SegmentPlan) else len(plan.buckets),
                position=position or Position.start(plan, self.config.training.seed),
                ids=self._source.clips.ids,
                token_lengths=self._source.clips.token_lengths,
                origin=self._origin,
            )
        cardinality = int(train.cardinality())
        if cardinality == 0:
            raise UsageError("the training data is empty")
        known = cardinality > 0
        if not known and self.config.training.max_steps is None:
            raise UsageError("set max_steps: the length of an epoch of this data is not known")
        repeated = train if cardinality == tf.data.INFINITE_CARDINALITY else train.repeat()
        return TrainingData(repeated, validation, batches_per_epoch=cardinality if known else None)


def _number_of(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode()) % 2**53


def _require_same(checkpoint: Checkpoint, config: XTTSConfig) -> None:
    if found := differences(checkpoint, config):
        raise CheckpointError(f"{checkpoint.path}: trained with another configuration: {'; '.join(found)}")
