"""The loop of a run: a batch, a step, and at set intervals losses, validation, a checkpoint, a report.

A *batch* here is what one call of the compiled step consumes; a *step* in settings and messages is an optimizer step,
that is `gradient_accumulation_steps` batches.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import tensorflow as tf

from myxtts.config.config import SECTIONS, XTTSConfig
from myxtts.config.yaml_file import render_yaml
from myxtts.errors import DataError, TrainingError
from myxtts.models.xtts import XTTS
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training import run_folder
from myxtts.training.alignment_phases import REUSE, AlignmentPhases
from myxtts.training.going_wrong import (
    NonFiniteWatch,
    is_out_of_memory,
    loading_errors,
    out_of_memory,
    shapes_text,
)
from myxtts.training.interruption import Interruption
from myxtts.training.journal import Journal, Vocoder
from myxtts.training.milestones import Milestones
from myxtts.training.optimizer import create_optimizer
from myxtts.training.progress import Observer, Progress
from myxtts.training.record_file import RecordFile
from myxtts.training.result import TrainingResult
from myxtts.training.run_folder import RunFolder
from myxtts.training.step import MeanLosses, Shape, TrainingStep
from myxtts.training.step_times import Rates, StepTimes
from myxtts.training.steps_in_flight import CompletedStep, DispatchedStep, watch_steps
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import RunState, TrainingState

logger = logging.getLogger(__name__)

FINISHED, INTERRUPTED, EARLY = "finished", "interrupted", "early stopping"


class TrainingLoop:
    """One part of a run, from where it stands until something ends it.

    Args:
        model: what is trained.
        config: of the run.
        data: what it is trained on.
        folder: of the run, opened.
        observer: is told how it goes.
        monitor: measures it.
        synchronous: whether a call of the step returns only when the step is done, as on a CPU.
        gpu_name: what the GPU that it runs on is called; none: it runs on a CPU.
        vocoder: for TensorBoard's audio.
        restored: where an earlier part ended.
    """

    def __init__(
        self,
        model: XTTS,
        config: XTTSConfig,
        data: TrainingData,
        folder: RunFolder,
        observer: Observer,
        monitor: PerformanceMonitor,
        *,
        synchronous: bool,
        gpu_name: str | None = None,
        vocoder: Vocoder | None = None,
        restored: TrainingState | None = None,
    ) -> None:
        self._config = config
        self._data = data
        self._folder = folder
        self._observer = observer
        self._monitor = monitor
        self._synchronous = synchronous
        self._gpu_name = gpu_name
        self._vocoder = vocoder
        self._accumulate = config.training.gradient_accumulation_steps
        self._steps = data.total_steps(config.training)
        self._run = RunState() if restored is None else RunState(**vars(restored.run))
        self._began_at = self._run.batch
        self._phases = AlignmentPhases(config.training, data, self._run)
        optimizer = create_optimizer(config.training, self._steps, model.dtype_policy.name)
        self._step = TrainingStep(model, optimizer, config, data.train.element_spec)
        if restored is not None:
            restored.restore(self._step, self._phases.kept)
            self._phases.enter(self._run.alignments, self._step)
        self._nonfinite = NonFiniteWatch(config.training.max_nonfinite_steps)
        self._losses: MeanLosses | None = None
        self._rates = Rates()
        self._compilations = 0
        self._logged_batch = self._run.batch
        self._shape: Shape = (0, 0, 0)
        self._busy = 0.0  # seconds that the loop itself took, beside waiting and the compiled step
        self._paused = 0.0

    def run(self) -> TrainingResult:
        """Trains; a run that has come to its end already is left as it is.

        Raises:
            TrainingError: it cannot go on.
            DataError: the data can no longer be read.
        """
        ended = self._ended()
        if ended is not None and (self._data.validation is None or self._run.validated_batch == self._run.batch):
            return self._nothing_left(ended)
        with ExitStack() as stack:
            self._interruption = stack.enter_context(Interruption(self._announce_stop))
            self._open(stack)
            self._announce_start()
            try:
                reason = ended or self._train()
                self._watcher.drain()
                return self._end(reason)
            except Exception as error:
                if is_out_of_memory(error):
                    failed = self._watcher.failed
                    raise out_of_memory(failed.shape if failed else self._shape, self._config.data) from error
                raise

    def _open(self, stack: ExitStack) -> None:
        """Opens the files and starts the threads of the run; they are closed in the opposite order."""
        config, folder = self._config, self._folder.path
        kept_until = self._began_at or None
        config.to_yaml(folder / run_folder.CONFIG)
        timing = RecordFile(folder / run_folder.TIMING, kept_until)
        stack.callback(timing.close)
        self._times = StepTimes(self._monitor, timing, config.data.hop_length / config.data.sample_rate)
        tensorboard = folder / run_folder.TENSORBOARD if config.training.enable_tensorboard else None
        log = RecordFile(folder / run_folder.LOG, kept_until)
        self._journal = Journal(log, tensorboard, self._monitor, config.data.sample_rate, self._vocoder)
        stack.callback(self._journal.close)
        self._journal.configuration(render_yaml(config, SECTIONS))
        self._milestones = Milestones(
            self._step,
            self._run,
            self._data,
            config,
            self._folder,
            self._phases.kept,
            self._journal,
            self._observer,
            self._monitor,
        )
        stack.callback(self._milestones.writer.wait)
        self._watcher = watch_steps(self._completed, synchronous=self._synchronous)
        stack.callback(self._watcher.close)

    def _train(self) -> str:
        """Steps until there is a reason to stop, which is returned."""
        self._times.begin()
        iterator = iter(self._data.train)
        clock = time.perf_counter
        while True:
            self._begin_phase()
            began = clock()
            batch = _next(iterator)
            ready = clock()
            self._watcher.wait_for_slot()
            free = clock()
            compiled = self._note_shape(batch)
            called = clock()
            result = self._step(batch)
            returned = clock()
            self._run.batch += 1
            self._watcher.dispatched(
                DispatchedStep(
                    self._run.batch,
                    result.completion,
                    asked=began,
                    ready=ready,
                    returned=returned,
                    shape=self._shape,
                    compiled=compiled,
                    payload=(batch.get("index"), result.durations),
                )
            )
            paused = self._paused
            self._after_batch()
            reason = self._reason_to_stop()
            self._busy += clock() - began - (free - began) - (returned - called) - (self._paused - paused)
            if reason is not None:
                return reason

    def _after_batch(self) -> None:
        """Whatever is due after this many batches."""
        training, batch = self._config.training, self._run.batch
        if batch % self._accumulate == 0:
            step = self._done
            if step % training.log_every == 0:
                self._log()
            validate = self._milestones.can_validate and step % training.validate_every == 0
            if validate or step % training.save_every == 0:
                with self._pause():
                    best = validate and self._milestones.validate(step, self._stopping)
                    if best or step % training.save_every == 0:
                        self._milestones.save(step, best)
        epoch = self._data.batches_per_epoch
        if epoch and batch % (epoch * training.report_every_epochs) == 0:
            self._times.flush()
            self._observer.message(f"after epoch {batch // epoch:,}\n{self._monitor.get_summary_report()}")

    def _end(self, reason: str) -> TrainingResult:
        """Validates and saves what the run came to, and reports."""
        self._times.flush()
        milestones, run = self._milestones, self._run
        best = False
        if reason != INTERRUPTED:
            if run.batch != self._logged_batch:
                self._log()
            if milestones.can_validate and run.validated_batch != run.batch:
                best = milestones.validate(self._done, self._stopping)
                if run.validated_batch != run.batch:
                    reason = INTERRUPTED
        if best or milestones.saved_batch != run.batch:
            milestones.save(self._done, best)
        milestones.writer.wait()
        self._journal.wait()
        if milestones.writer.error is not None:
            raise TrainingError(
                f"the checkpoint of step {self._done:,}, the last, cannot be saved ({milestones.writer.error})"
            )
        result = self._result(reason, self._interruption.signal if reason == INTERRUPTED else None)
        self._observer.message(str(result))
        return result

    def _nothing_left(self, reason: str) -> TrainingResult:
        """Says why, and what would let it go on."""
        why = f"the run has done {self._done:,} of {self._steps:,} steps; raise --epochs or --max-steps to go on"
        if reason == EARLY:
            why = (
                f"no better validation loss in {self._run.validations_without_gain:,} validations up to step "
                f"{self._done:,}; raise early_stopping_patience to go on"
            )
        self._observer.message(f"nothing left to do: {why}")
        return self._result(reason)

    def _result(self, reason: str, number: int | None = None) -> TrainingResult:
        run = self._run
        batches = max(1, run.batch - self._began_at)
        return TrainingResult(
            reason=reason,
            signal=number,
            step=self._done,
            epoch=self._data.epoch_of(run.batch),
            loss=None if self._losses is None else self._losses.total,
            best_loss=run.best_loss,
            best_step=run.best_step,
            checkpoint=self._folder.checkpoint(self._done),
            best_checkpoint=self._folder.best,
            skipped=self._step.skipped,
            compilations=self._compilations,
            overhead_ms=1e3 * self._busy / batches,
            performance=self._monitor.get_summary(),
        )

    # What is due, and when

    def _reason_to_stop(self) -> str | None:
        if self._nonfinite.stop:
            raise self._nonfinite.error(self._folder.path / run_folder.NONFINITE, self._data)
        return self._ended() or (INTERRUPTED if self._stopping() else None)

    def _ended(self) -> str | None:
        """Why the run has come to its end, if it has."""
        if self._run.batch >= self._steps * self._accumulate:
            return FINISHED
        patience = self._config.training.early_stopping_patience
        if patience is not None and self._run.validations_without_gain >= patience:
            return EARLY
        return None

    def _begin_phase(self) -> None:
        phase = self._phases.due()
        if phase is None:
            return
        with self._pause():
            self._phases.enter(phase, self._step)
        if phase == REUSE:
            self._observer.message(f"step {self._done:,}  alignments are reused from here on")

    def _log(self) -> None:
        self._logged_batch = self._run.batch
        self._rates = self._times.take_rates()

        def show(losses: MeanLosses) -> None:
            self._losses = losses
            self._observer.logged(self._progress(self._run.batch))

        self._journal.losses(self._done, self._run.batch, self._step.read(), self._rates, show)

    @contextmanager
    def _pause(self) -> Iterator[None]:
        """Time that belongs to no step."""
        began = time.perf_counter()
        self._watcher.drain()
        yield
        self._times.begin()
        self._paused += time.perf_counter() - began

    def _note_shape(self, batch: Mapping[str, tf.Tensor]) -> bool:
        """Whether the step is about to be compiled, or traced, which the first call always is."""
        training, expected = self._config.training, self._data.expected_shapes
        self._shape, new = self._step.note_shape(batch)
        if new and training.enable_xla_compilation and training.enable_graph_mode and not training.enable_eager_debug:
            shapes = self._step.shapes
            self._compilations += 1
            self._observer.compiling(self._shape, len(shapes), expected)
            if expected is not None and len(shapes) == expected + 1:
                logger.warning(
                    "the step is compiled for more shapes than the %s that were planned: %s",
                    expected,
                    shapes_text(list(shapes)),
                )
            return True
        return self._run.batch == self._began_at

    # What others see

    @property
    def _done(self) -> int:
        """Optimizer steps."""
        return self._run.batch // self._accumulate

    def _stopping(self) -> bool:
        return self._interruption.signal is not None

    def _completed(self, done: CompletedStep) -> None:
        """Called by the thread that watches the device."""
        index, durations = done.step.payload
        self._nonfinite.completed(done, index)
        self._phases.completed(done, index, durations)
        if self._times.completed(done):
            self._observer.progress(self._progress(done.step.batch))

    def _progress(self, batch: int) -> Progress:
        recent = self._times.rates()
        rates = recent if recent.steps else self._rates
        left = self._steps * self._accumulate - batch
        machine = self._monitor.latest_reading
        gpus = () if machine is None else machine.gpus
        return Progress(
            step=batch // self._accumulate,
            steps=self._steps,
            epoch=self._data.epoch_of(max(0, batch - 1)) + 1,
            loss=None if self._losses is None else self._losses.total,
            learning_rate=None if self._losses is None else self._losses.learning_rate,
            rates=rates,
            seconds_left=left * rates.step_ms / 1e3 if rates.steps else None,
            gpu=next((gpu for gpu in gpus if gpu.name == self._gpu_name), None),
        )

    def _announce_start(self) -> None:
        epoch, shapes = self._data.batches_per_epoch, self._data.expected_shapes
        parts = [
            f"{self._step.model.count_params():,} parameters",
            *([f"{epoch:,} batches an epoch"] if epoch else []),
            *([f"{shapes} shapes"] if shapes else []),
            f"{self._steps:,} steps",
        ]
        begins = f"continuing after step {self._done:,}" if self._began_at else "training"
        self._observer.message(f"{begins} in {self._folder.path}: {', '.join(parts)}")

    def _announce_stop(self, number: int) -> None:
        again = "; again to stop at once" if number == signal.SIGINT else ""
        self._observer.message(f"{signal.Signals(number).name}: finishing the step and saving{again}")


def _next(iterator: Iterator[Mapping[str, tf.Tensor]]) -> Mapping[str, tf.Tensor]:
    with loading_errors():
        batch = next(iterator, None)
    if batch is None:
        raise DataError("the training data ended; it should go on without end")
    return batch
