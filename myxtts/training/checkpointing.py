"""Validates and saves a run with its averaged weights, and writes checkpoints while training goes on.

The training loop waits only until everything has been copied from the device; a thread then writes the files. A save
waits until the one before it is written. If a checkpoint cannot be written, a warning says so, the run goes on, and
the checkpoint before stays.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.errors import MyXTTSError
from myxtts.models.checkpoint import new_checkpoint
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.alignment_cache import AlignmentPhases
from myxtts.training.collective import Collective
from myxtts.training.failures import loading_errors
from myxtts.training.losses import TOTAL
from myxtts.training.objective import Objective, Sample
from myxtts.training.optimizer import put_average
from myxtts.training.progress import Observer
from myxtts.training.run_folder import RunFolder
from myxtts.training.run_log import RunLog
from myxtts.training.step import TrainingStep
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import RunState, TrainingState
from myxtts.training.validation import Validator

logger = logging.getLogger(__name__)

VALIDATING = "validate"
COPYING = "copy for a checkpoint"
WRITING = "write a checkpoint (beside training)"


class Checkpointer:
    """Validates and saves a run. No step may be in flight meanwhile.

    Args:
        step: the run's.
        run: how far it has come.
        data: with the validation batches.
        config: of the run.
        folder: of the run.
        alignments: to save with the run.
        log, observer: are told about each validation.
        monitor: records the time that validating and saving take.
        collective: the processes that train together, of which one validates and saves, and the others wait for it;
            None: this one alone.

    Attributes:
        writer: writes the files.
        saved_batch: batches done at the last save; -1 before the first.
    """

    def __init__(
        self,
        step: TrainingStep,
        run: RunState,
        data: TrainingData,
        config: XTTSConfig,
        folder: RunFolder,
        alignments: AlignmentPhases,
        log: RunLog,
        observer: Observer,
        monitor: PerformanceMonitor,
        collective: Collective | None = None,
    ) -> None:
        self._collective = collective
        self._is_chief = collective is None or collective.is_chief
        self._step = step
        self._run = run
        self._data = data
        self._config = config
        self._alignments = alignments
        self._log = log
        self._observer = observer
        self._monitor = monitor
        self._speaker: Callable[[], list[Sample]] | None = None
        self.writer = CheckpointWriter(folder, config, monitor)
        self._began_at = run.batch
        # Loss and step of the best before the newest best, and the same while that one is being saved.
        self._best_before: tuple[float | None, int | None] = (None, None)
        self._if_unsaved: tuple[float | None, int | None] | None = None
        self.saved_batch = -1

    @property
    def can_validate(self) -> bool:
        return self._data.validation is not None

    # Made when they are needed first, and not before the first step.

    @cached_property
    def _averaged(self) -> Objective:
        return self._step.objective.copy()

    @cached_property
    def _validator(self) -> Validator:
        assert self._data.validation is not None
        return Validator(self._averaged, self._config, self._data.validation.element_spec)

    def validate(self, step: int, stop: Callable[[], bool]) -> bool:
        """Validates; returns whether the loss is the best so far. If `stop` says so before the end, nothing changes.

        Raises:
            DataError: a validation batch cannot be loaded.
        """
        run = self._run
        losses, best = self._validated(step, stop)
        if losses is None:
            return False
        run.validated_batch = run.batch
        if best:
            self._best_before = run.best_loss, run.best_step
            run.best_loss, run.best_step, run.validations_without_gain = losses[TOTAL], step, 0
        else:
            run.validations_without_gain += 1
        if not self._is_chief:
            return best
        self._observer.validated(step, losses, best)
        self._log.validation(step, run.batch, losses, best)
        if self._config.training.enable_tensorboard:
            self._log.samples(step, self._sample_speaker())
        return best

    def warning(self, step: int) -> str | None:
        """What to tell the user about the validation clips, by the weights that were validated last."""
        if self._data.validation is None or not self._is_chief:
            return None
        return self._averaged.warning(self._config, self._data.validation, step)

    def save(self, step: int, best: bool = False) -> None:
        """Saves a checkpoint; its files are still being written when this returns."""
        run = self._run
        self._alignments.collect()
        self.saved_batch = run.batch
        if not self._is_chief:
            return
        self._put_average()
        if self._data.position is not None:
            run.position = self._data.position.advance(run.batch - self._began_at)
        with self._monitor.time_operation(COPYING):
            state = TrainingState.capture(run, self._step, self._alignments.cache)
        details = {
            "step": step,
            "epoch": self._data.epoch_of(run.batch),
            "best_validation_loss": run.best_loss,
            **self._data.origin,
        }
        self.writer.save(step, self._averaged, state, details, best)
        self._if_unsaved = self._best_before if best else None

    def _validated(self, step: int, stop: Callable[[], bool]) -> tuple[dict[str, float] | None, bool]:
        """The validation losses, None if `stop` said so, and whether they are the best so far.

        Of several processes one validates, and the others wait here for the total.
        """
        losses: dict[str, float] | None = None
        best = False
        if self._is_chief:
            self._put_average()
            with self._monitor.time_operation(VALIDATING):
                losses = self._validator(self._data.validation, stop)
            if losses is not None:
                least = self._run.best_loss
                # Discriminators make speech better without bringing it nearer to the recording: then the newest is
                # the best.
                judged = self._step.objective.phase(step) > 0
                best = math.isfinite(losses[TOTAL]) and (judged or least is None or losses[TOTAL] < least)
        if self._collective is None:
            return losses, best
        total = 0.0 if losses is None else losses[TOTAL]
        complete, is_best, total = self._collective.from_chief(np.array([losses is not None, best, total])).tolist()
        return ({**(losses or {}), TOTAL: total} if complete else None), bool(is_best)

    def _put_average(self) -> None:
        # Wait for the threads that write these weights or speak with them before they change.
        self.writer.wait()
        if self._if_unsaved is not None and self.writer.error is not None:
            # A best that could not be written must not keep a later one from being saved.
            self._run.best_loss, self._run.best_step = self._if_unsaved
        self._if_unsaved = None
        self._log.wait()
        put_average(self._step.optimizer, self._step.weights, self._averaged.model)

    def _sample_speaker(self) -> Callable[[], list[Sample]]:
        if self._speaker is None:
            assert self._data.validation is not None
            with loading_errors():
                first = next(iter(self._data.validation))
            self._speaker = self._averaged.samples(self._config, first)
        return self._speaker


class CheckpointWriter:
    """Writes checkpoints in a thread, one at a time; the monitor records the time that each takes beside training.

    Attributes:
        saved_step: step of the newest checkpoint that was written, or None.
        error: why the last save failed, or None.
    """

    def __init__(self, folder: RunFolder, config: XTTSConfig, monitor: PerformanceMonitor) -> None:
        self._folder = folder
        self._config = config
        self._monitor = monitor
        self._thread: threading.Thread | None = None
        self.saved_step: int | None = None
        self.error: str | None = None

    def save(
        self, step: int, averaged: Objective, state: TrainingState, details: Mapping[str, Any], best: bool = False
    ) -> None:
        """Starts to write a checkpoint, once the one before is written.

        The weights of `averaged`, to speak with, must not change until the save is done.
        """
        self.wait()
        self._thread = threading.Thread(
            target=self._write, args=(step, averaged, state, details, best), name="checkpoint-writer"
        )
        self._thread.start()

    def wait(self) -> None:
        """Waits until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(
        self, step: int, averaged: Objective, state: TrainingState, details: Mapping[str, Any], best: bool
    ) -> None:
        began = time.perf_counter()
        try:
            with new_checkpoint(self._folder.checkpoint(step)) as path:
                averaged.write(path, self._config, details)
                state.write(path)
            if best:
                self._folder.mark_best(step)
            self._folder.prune(self._config.training.keep_checkpoints)
        except (OSError, MyXTTSError) as error:
            self.error = reason = getattr(error, "strerror", None) or str(error)
            kept = "there is none yet" if self.saved_step is None else f"the last one is of step {self.saved_step:,}"
            logger.warning(
                "the checkpoint of step %s cannot be saved (%s); training goes on, %s", f"{step:,}", reason, kept
            )
        else:
            self.saved_step, self.error = step, None
        self._monitor.log_operation(WRITING, time.perf_counter() - began)
