"""The training loop: a batch, a step, and at set intervals losses, validation, a checkpoint, a report.

It stands in `TrainingLoop._train`, in the order in which things happen. A *batch* here is what one call of the
compiled step consumes; a *step* in settings and messages is an optimizer step, that is, `gradient_accumulation_steps`
batches.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import tensorflow as tf

from myxtts.config.config import SECTIONS, XTTSConfig
from myxtts.config.yaml_file import render_yaml
from myxtts.errors import DataError, TrainingError
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.performance.step_watcher import MAX_IN_FLIGHT
from myxtts.training import run_folder
from myxtts.training.alignment_cache import REUSE, AlignmentPhases
from myxtts.training.checkpointing import Checkpointer
from myxtts.training.collective import Collective
from myxtts.training.failures import NonFiniteWatch, batches_of, is_out_of_memory, out_of_memory
from myxtts.training.interruption import Interruption
from myxtts.training.objective import Objective, Shape
from myxtts.training.optimizer import create_optimizer
from myxtts.training.progress import Observer, TrainingProgress, TrainingResult
from myxtts.training.rank_reports import RankReports
from myxtts.training.record_file import RecordFile
from myxtts.training.run_folder import RunFolder
from myxtts.training.run_log import MelToAudio, RunLog
from myxtts.training.step import MeanLosses, TrainingStep
from myxtts.training.step_times import Rates, StepTimes
from myxtts.training.steps_in_flight import CompletedStep, DispatchedStep, watch_steps
from myxtts.training.training_data import TrainingData
from myxtts.training.training_state import RunState, TrainingState

logger = logging.getLogger(__name__)

FINISHED, INTERRUPTED, EARLY_STOPPING = "finished", "interrupted", "early stopping"


class TrainingLoop:
    """Trains from where a run stands until something ends it.

    Args:
        objective: what is trained.
        config: of the run.
        data: what it is trained on.
        folder: of the run, opened.
        observer: is told how the run goes.
        monitor: records times.
        synchronous: whether a call of the step returns only when the step is done, as on a CPU.
        gpu_name: name of the GPU it runs on; None on a CPU.
        vocoder: for TensorBoard's audio.
        restored: the state to resume from; None begins a new run.
        collective: the processes that train together; None: this one alone.
    """

    def __init__(
        self,
        objective: Objective,
        config: XTTSConfig,
        data: TrainingData,
        folder: RunFolder,
        observer: Observer,
        monitor: PerformanceMonitor,
        *,
        synchronous: bool,
        gpu_name: str | None = None,
        vocoder: MelToAudio | None = None,
        restored: TrainingState | None = None,
        collective: Collective | None = None,
    ) -> None:
        self._collective = collective
        self._is_chief = collective is None or collective.is_chief
        self._reports = None if collective is None else RankReports(collective.rank, collective.ranks)
        self._config = config
        self._data = data
        self._folder = folder
        self._observer = observer
        self._monitor = monitor
        self._synchronous = synchronous
        self._gpu_name = gpu_name
        self._vocoder = vocoder
        self._accumulate = config.training.gradient_accumulation_steps
        self._total_steps = data.total_steps(config.training)
        self._run = RunState() if restored is None else RunState(**vars(restored.run))
        self._began_at = self._run.batch
        self._alignments = AlignmentPhases(config.training, data, self._run, collective)
        self._objective = objective
        optimizer = create_optimizer(config.training, self._total_steps, objective.model.dtype_policy.name)
        training = config.training
        in_background = training.background_compilation and not training.deterministic
        self._step = TrainingStep(
            objective, optimizer, config, data.train.element_spec, collective, in_background=in_background
        )
        self._phase = 0
        if restored is not None:
            restored.restore(self._step, self._alignments.cache)
            self._alignments.enter(self._run.alignments, self._step)
        self._nonfinite = NonFiniteWatch(config.training.max_nonfinite_steps)
        self._losses: MeanLosses | None = None
        self._rates = Rates()
        self._compilations = 0
        self._logged_batch = self._run.batch
        self._shape: Shape = ()
        self._overhead = 0.0  # seconds that the loop itself took, besides waiting and the compiled step
        self._paused = 0.0  # seconds in which no step ran: validating, copying for a checkpoint

    def run(self) -> TrainingResult:
        """Trains. A run that is complete already stays as it is.

        Raises:
            TrainingError: it cannot go on.
            DataError: the data can no longer be read.
        """
        ended = self._ended()
        if ended is not None and (self._data.validation is None or self._run.validated_batch == self._run.batch):
            return self._nothing_left(ended)
        with ExitStack() as stack:
            if self._collective is not None:
                stack.enter_context(self._collective.lost_ranks())
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
        timing = log = tensorboard = None
        if self._is_chief:
            keep_until = self._began_at or None
            config.to_yaml(folder / run_folder.CONFIG)
            timing = RecordFile(folder / run_folder.TIMING, keep_until)
            stack.callback(timing.close)
            log = RecordFile(folder / run_folder.LOG, keep_until)
            tensorboard = folder / run_folder.TENSORBOARD if config.training.enable_tensorboard else None
        self._times = StepTimes(self._monitor, timing, config.data.hop_length / config.data.sample_rate)
        self._log = RunLog(log, tensorboard, self._monitor, config.data.sample_rate, self._vocoder)
        stack.callback(self._log.close)
        self._log.configuration(render_yaml(config, SECTIONS))
        self._checkpointer = Checkpointer(
            self._step,
            self._run,
            self._data,
            config,
            self._folder,
            self._alignments,
            self._log,
            self._observer,
            self._monitor,
            self._collective,
        )
        stack.callback(self._checkpointer.writer.wait)
        self._watcher = watch_steps(self._completed, synchronous=self._synchronous)
        stack.callback(self._watcher.close)
        stack.callback(self._step.close)

    def _train(self) -> str:
        """Trains batch after batch; returns the reason to stop."""
        training, run, clock = self._config.training, self._run, time.perf_counter
        batches = batches_of(self._data.train)
        self._times.begin()
        while True:
            self._start_phase()

            # The batch.
            asked = clock()
            batch = next(batches, None)
            if batch is None:
                raise DataError("the training batches ended; they should repeat without end (`.repeat()`)")
            ready = clock()

            # The step, as soon as fewer than two are in flight.
            self._watcher.wait_for_slot()
            free = clock()
            compiled = self._note_shape(batch)
            called = clock()
            result = self._step(batch, self._report())
            returned = clock()
            run.batch += 1
            self._watcher.dispatched(
                DispatchedStep(
                    run.batch,
                    result.completion,
                    asked=asked,
                    ready=ready,
                    returned=returned,
                    shape=self._shape,
                    compiled=compiled,
                    payload=(batch.get("index"), batch.get("all_index"), result.durations),
                )
            )

            # What is due after an optimizer step: losses, validation, checkpoint.
            paused = self._paused
            step = self._step_number
            if run.batch % self._accumulate == 0:
                if step % training.log_every == 0:
                    self._log_losses()
                validate = self._checkpointer.can_validate and step % training.validate_every == 0
                save = step % training.save_every == 0
                if validate or save:
                    with self._pause():
                        best = validate and self._checkpointer.validate(step, self._stopping)
                        if best or save:
                            self._checkpointer.save(step, best)

            # What is due after an epoch: the performance report.
            epoch = self._data.batches_per_epoch
            if epoch and run.batch % (epoch * training.report_every_epochs) == 0:
                self._times.flush()
                self._observer.message(f"after epoch {run.batch // epoch:,}\n{self._monitor.get_summary_report()}")

            reason = self._reason_to_stop()
            self._overhead += clock() - free - (returned - called) - (self._paused - paused)
            if reason is not None:
                return reason

    def _end(self, reason: str) -> TrainingResult:
        """Validates and saves the final weights, and reports."""
        self._times.flush()
        checkpointer, run, step = self._checkpointer, self._run, self._step_number
        best = False
        if reason != INTERRUPTED:
            if run.batch != self._logged_batch:
                self._log_losses()
            if checkpointer.can_validate and run.validated_batch != run.batch:
                best = checkpointer.validate(step, self._stopping)
                if run.validated_batch != run.batch:
                    reason = INTERRUPTED
            if reason != INTERRUPTED and (warning := checkpointer.warning(step)) is not None:
                self._observer.message(warning)
        if best or checkpointer.saved_batch != run.batch:
            checkpointer.save(step, best)
        checkpointer.writer.wait()
        self._log.wait()
        signal_number = self._interruption.signal
        if self._collective is not None:
            # None ends before the chief has saved: to the others, a process that ends is a process that is gone.
            signal_number = int(self._collective.gather(np.array([signal_number or 0.0])).max()) or None
        if checkpointer.writer.error is not None:
            raise TrainingError(
                f"the checkpoint of step {step:,}, the last, cannot be saved ({checkpointer.writer.error})"
            )
        result = self._result(reason, signal_number if reason == INTERRUPTED else None)
        self._observer.message(str(result))
        return result

    def _nothing_left(self, reason: str) -> TrainingResult:
        """Says why there is nothing to do, and what would let the run go on."""
        step = self._step_number
        why = f"the run has done {step:,} of {self._total_steps:,} steps; raise --epochs or --max-steps to go on"
        if reason == EARLY_STOPPING:
            why = (
                f"no better validation loss in {self._run.validations_without_gain:,} validations up to step "
                f"{step:,}; raise early_stopping_patience to go on"
            )
        self._observer.message(f"nothing left to do: {why}")
        return self._result(reason)

    def _result(self, reason: str, number: int | None = None) -> TrainingResult:
        run = self._run
        batches = max(1, run.batch - self._began_at)
        return TrainingResult(
            reason=reason,
            signal=number,
            step=self._step_number,
            epoch=self._data.epoch_of(run.batch),
            loss=None if self._losses is None else self._losses.total,
            best_loss=run.best_loss,
            best_step=run.best_step,
            checkpoint=self._folder.checkpoint(self._step_number),
            best_checkpoint=self._folder.best,
            skipped=self._step.skipped,
            compilations=self._compilations,
            overhead_ms=1e3 * self._overhead / batches,
            performance=self._monitor.get_summary(),
        )

    # When to stop

    def _reason_to_stop(self) -> str | None:
        # Of several processes, each knows at this batch what step `batch - MAX_IN_FLIGHT` told, and perhaps more.
        known = self._run.batch if self._reports is None else self._run.batch - MAX_IN_FLIGHT
        if self._nonfinite.stop and self._nonfinite.stopped_batch <= known:
            raise self._nonfinite.error(self._folder.path / run_folder.NONFINITE, self._data, self._is_chief)
        return self._ended() or (INTERRUPTED if self._interrupted() else None)

    def _ended(self) -> str | None:
        """Why the run is complete; None if it is not."""
        if self._run.batch >= self._total_steps * self._accumulate:
            return FINISHED
        patience = self._config.training.early_stopping_patience
        if patience is not None and self._run.validations_without_gain >= patience:
            return EARLY_STOPPING
        return None

    def _interrupted(self) -> bool:
        """Whether a signal stops the run now. Of several processes, all stop after the same batch."""
        return self._stopping() if self._reports is None else self._reports.signalled(self._run.batch)

    def _stopping(self) -> bool:
        """Whether this process got a signal, so that a validation may be left unfinished."""
        return self._interruption.signal is not None

    def _report(self) -> np.ndarray | None:
        """What this process tells the others with the next step; None if there are none."""
        if self._reports is None:
            return None
        times = replace(self._times.latest, compilations=self._compilations)
        return self._reports.own(self._interruption.signal, times)

    # What the loop does

    @property
    def _step_number(self) -> int:
        """Optimizer steps done."""
        return self._run.batch // self._accumulate

    def _start_phase(self) -> None:
        """Changes what a step computes, where the objective or the alignments say so."""
        wanted = self._objective.phase(self._step_number)
        if wanted != self._phase:
            with self._pause():
                self._step.enter(wanted)
            self._phase = wanted
        phase = self._alignments.due()
        if phase is None:
            return
        with self._pause():
            self._alignments.enter(phase, self._step)
        if phase == REUSE:
            self._observer.message(f"step {self._step_number:,}  alignments are reused from here on")

    def _note_shape(self, batch: Mapping[str, tf.Tensor]) -> bool:
        """Whether the step is about to be compiled, or is being compiled, or traced as in the first call."""
        training, expected = self._config.training, self._data.expected_shapes
        self._shape, new = self._step.note_shape(batch)
        if new and training.enable_xla_compilation and training.enable_graph_mode and not training.enable_eager_debug:
            shapes = self._step.shapes
            self._compilations += 1
            self._observer.compiling(self._shape, len(shapes), expected, self._step.in_background)
            if expected is not None and len(shapes) == expected + 1:
                seen = ", ".join("×".join(map(str, shape)) for shape in shapes)
                logger.warning(
                    "the step is compiled for more shapes than the %s that were planned: %s", expected, seen
                )
            return True
        return self._run.batch == self._began_at or not self._step.is_ready(self._shape)

    def _log_losses(self) -> None:
        self._logged_batch = self._run.batch
        self._rates = self._times.take_rates()

        def show(losses: MeanLosses) -> None:
            self._losses = losses
            self._observer.logged(self._progress(self._run.batch))

        self._log.losses(
            self._step_number, self._run.batch, self._step.read(), self._objective.names, self._rates, show
        )

    @contextmanager
    def _pause(self) -> Iterator[None]:
        """No step is in flight meanwhile, and the time belongs to no step."""
        began = time.perf_counter()
        self._watcher.drain()
        yield
        self._times.begin()
        self._paused += time.perf_counter() - began

    def _completed(self, done: CompletedStep) -> None:
        """Called for each completed step, by the thread that waits for the device."""
        index, all_index, durations = done.step.payload
        if self._reports is not None and done.reports is not None:
            self._reports.completed(done.step.batch, done.reports)
        self._nonfinite.completed(done, index if all_index is None else all_index)
        self._alignments.completed(done, index, durations)
        if self._times.completed(done):
            self._observer.progress(self._progress(done.step.batch))

    # What is reported

    def _progress(self, batch: int) -> TrainingProgress:
        recent = self._times.rates()
        rates = recent if recent.steps else self._rates
        left = self._total_steps * self._accumulate - batch
        machine = self._monitor.latest_reading
        gpus = () if machine is None else machine.gpus
        return TrainingProgress(
            step=batch // self._accumulate,
            steps=self._total_steps,
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
            *([] if self._collective is None else [f"{self._collective.ranks} processes"]),
            f"{self._objective.model.count_params():,} parameters",
            *([f"{epoch:,} batches an epoch"] if epoch else []),
            *([f"{shapes} shapes"] if shapes else []),
            f"{self._total_steps:,} steps",
        ]
        begins = f"continuing after step {self._step_number:,}" if self._began_at else "training"
        self._observer.message(f"{begins} in {self._folder.path}: {', '.join(parts)}")

    def _announce_stop(self, number: int) -> None:
        again = "; again to stop at once" if number == signal.SIGINT else ""
        self._observer.message(f"{signal.Signals(number).name}: finishing the step and saving{again}")
