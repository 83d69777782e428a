"""What is done with the averaged weights of a run: they are judged, they speak, they are saved."""

from __future__ import annotations

import math
from collections.abc import Callable

from myxtts.config.config import XTTSConfig
from myxtts.models.xtts import XTTS
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.checkpoint_writer import CheckpointWriter, Save
from myxtts.training.going_wrong import loading_errors
from myxtts.training.journal import Journal
from myxtts.training.kept_alignments import KeptAlignments
from myxtts.training.optimizer import put_average
from myxtts.training.progress import Observer
from myxtts.training.run_folder import RunFolder
from myxtts.training.samples import Sampler
from myxtts.training.step import TrainingStep
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import RunState, TrainingState
from myxtts.training.validation import Validator

VALIDATING = "validate"
COPYING = "copy for a checkpoint"


class Milestones:
    """Validates and saves a run, while no step is in flight.

    Args:
        step: the run's.
        run: where it stands.
        data: with the validation batches.
        config: of the run.
        folder: of the run.
        kept: alignments to save, if they are kept.
        journal, observer, monitor: are told.
    """

    def __init__(
        self,
        step: TrainingStep,
        run: RunState,
        data: TrainingData,
        config: XTTSConfig,
        folder: RunFolder,
        kept: KeptAlignments | None,
        journal: Journal,
        observer: Observer,
        monitor: PerformanceMonitor,
    ) -> None:
        self._step = step
        self._run = run
        self._data = data
        self._config = config
        self._kept = kept
        self._journal = journal
        self._observer = observer
        self._monitor = monitor
        self._averaged = XTTS.from_config(step.model.get_config())
        self._validator: Validator | None = None
        self._sampler: Sampler | None = None
        if data.validation is not None:
            self._validator = Validator(self._averaged, config, data.validation.element_spec)
        self.writer = CheckpointWriter(folder, config, monitor)
        self._began_at = run.batch
        # Loss and step of the best before the newest best, and the same while that one is being saved.
        self._best_before: tuple[float | None, int | None] = (None, None)
        self._if_unsaved: tuple[float | None, int | None] | None = None
        self.saved_batch = -1

    @property
    def can_validate(self) -> bool:
        return self._validator is not None

    def validate(self, step: int, stop: Callable[[], bool]) -> bool:
        """Validates; whether the loss is the best so far. Nothing happens if `stop` says so before the end.

        Raises:
            DataError: a validation batch cannot be loaded.
        """
        assert self._validator is not None
        run = self._run
        self._put_average()
        with self._monitor.time_operation(VALIDATING):
            validation = self._validator(self._data.validation, stop)
        if validation is None:
            return False
        run.validated_batch = run.batch
        best = math.isfinite(validation.total) and (run.best_loss is None or validation.total < run.best_loss)
        if best:
            self._best_before = run.best_loss, run.best_step
            run.best_loss, run.best_step, run.validations_without_gain = validation.total, step, 0
        else:
            run.validations_without_gain += 1
        self._observer.validated(step, validation, best)
        self._journal.validation(step, run.batch, validation, best)
        if self._config.training.enable_tensorboard:
            self._journal.samples(step, self._speaker())
        return best

    def save(self, step: int, best: bool = False) -> None:
        """Saves a checkpoint; writing it goes on after the call."""
        self._put_average()
        run = self._run
        if self._data.position is not None:
            run.position = self._data.position.advance(run.batch - self._began_at)
        with self._monitor.time_operation(COPYING):
            state = TrainingState.capture(run, self._step, self._kept)
        details = {
            "step": step,
            "epoch": self._data.epoch_of(run.batch),
            "best_validation_loss": run.best_loss,
            **self._data.origin,
        }
        self.writer.save(Save(step, self._averaged, state, details, best))
        self._if_unsaved = self._best_before if best else None
        self.saved_batch = run.batch

    def _put_average(self) -> None:
        # Whoever speaks with the weights or writes them is done before they change.
        self._wait_for_writer()
        self._journal.wait()
        put_average(self._step.optimizer, self._step.weights, self._averaged)

    def _wait_for_writer(self) -> None:
        self.writer.wait()
        if self._if_unsaved is not None and self.writer.error is not None:
            # A best that is not on the disk should not keep a later one from being saved.
            self._run.best_loss, self._run.best_step = self._if_unsaved
        self._if_unsaved = None

    def _speaker(self) -> Sampler:
        if self._sampler is None:
            assert self._data.validation is not None
            with loading_errors():
                first = next(iter(self._data.validation))
            self._sampler = Sampler(self._averaged, self._config, first)
        return self._sampler
