"""Measures one setting of a run: real steps on its own input, or a simulated accelerator that it feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batch_source import BatchSource, clips_in
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.modes import PreparedData
from myxtts.data.precompute import WorkProgress
from myxtts.data.store.folder import StoreFolder
from myxtts.data.store.target import store_folders
from myxtts.errors import DataError
from myxtts.hardware import usable_cpus
from myxtts.performance.simulated_accelerator import SimulatedAccelerator
from myxtts.performance.step_run import drain
from myxtts.performance.tuning import Axis, TrialError
from myxtts.training.device import Device
from myxtts.training.failures import is_out_of_memory
from myxtts.training.measured_steps import StepRunner, buffered, warm_batches
from myxtts.training.objective import Shape

PREFETCHES = (2, 4, 8, 16, 32)
FRAME_BUDGET = "max_frames_per_batch"

# Steps that are run and not timed after the buffers were emptied, so that the first timed one is like the others.
_STEADY_AFTER = 2


class TuningTrial:
    """The rate of a configuration under changes of its data section.

    Another precision takes a store of its own. When the block ends, stores that were made for trials are removed
    again, except those that `keep` named. The start's own store stays, and so does every store that was there before.

    Args:
        config: where the search starts.
        device: where steps run.
        steps: to time, after those that empty the buffers.
        simulated_step: seconds of a simulated accelerator's step instead of real ones; None: real steps.
        progress: watches stores being made.
        on_compile: called with each shape before the step is compiled for it.
        dataset: the configuration's, if it was read already.

    Attributes:
        unit: of the rates.
    """

    def __init__(
        self,
        config: XTTSConfig,
        device: Device,
        steps: int,
        simulated_step: float | None = None,
        progress: WorkProgress | None = None,
        on_compile: Callable[[Shape], None] | None = None,
        dataset: LJSpeechDataset | None = None,
    ) -> None:
        self._config = config
        self._steps = steps
        self._simulated_step = simulated_step
        self._progress = progress
        self._runner = StepRunner(config, device, on_compile) if simulated_step is None else None
        self._sources: dict[str, BatchSource] = {}
        self._dataset = dataset or LJSpeechDataset(None, config)
        self._prepared: dict[str, DataConfig] = {}  # by precision
        self._made: dict[str, list[StoreFolder]] = {}
        self._kept = {config.data.mel_dtype}
        self.unit = "s of audio/s" if simulated_step is None else "clips/s (simulated)"

    def __enter__(self) -> TuningTrial:
        return self

    def __exit__(self, *error: object) -> None:
        for precision, folders in self._made.items():
            if precision not in self._kept:
                self._sources = {key: one for key, one in self._sources.items() if one.config.mel_dtype != precision}
                if precision in self._prepared:
                    self._dataset.release(self._prepared.pop(precision))
                for folder in folders:
                    folder.remove()

    def keep(self, changes: Mapping[str, Any]) -> None:
        """Keeps the store that these changes need."""
        self._kept.add(self._data(changes).mel_dtype)

    def __call__(self, changes: Mapping[str, Any]) -> float:
        """The rate.

        Raises:
            TrialError: the setting cannot be used.
        """
        source = self.source(changes)
        untimed = buffered(source.config)
        try:
            batches = warm_batches(source, self._config.training.seed, self._runner)
            if self._runner is None:
                accelerator = SimulatedAccelerator(self._simulated_step or 0.0)
                run = accelerator.run(batches, self._steps, warmup=untimed, count_clips=clips_in)
                return run.clips_per_second
            drain(batches, untimed)
            self._runner.run(batches, _STEADY_AFTER)
            return self._runner.run(batches, self._steps).audio_seconds_per_second
        except Exception as error:
            if is_out_of_memory(error):
                raise TrialError("does not fit into memory") from None
            raise

    def source(self, changes: Mapping[str, Any]) -> BatchSource:
        """The batches under these changes.

        Raises:
            TrialError: there are none.
        """
        key = repr(sorted(changes.items()))
        if key not in self._sources:
            try:
                data = self._data(changes)
                self._prepare(data)
                self._sources[key] = self._dataset.batches("train", data)
            except (DataError, ValidationError) as error:
                raise TrialError(str(error).splitlines()[0]) from None
        return self._sources[key]

    def _data(self, changes: Mapping[str, Any]) -> DataConfig:
        return DataConfig.model_validate(self._config.data.model_dump() | dict(changes))

    def _prepare(self, data: DataConfig) -> PreparedData:
        """The data set in its precision, the only setting here that changes what is stored.

        Raises:
            TrialError: it is loaded in another mode than the start, so their rates say nothing about the precision.
        """
        precision, own = data.mel_dtype, self._config.data.mel_dtype
        if precision not in self._prepared:
            new = [folder for folder in store_folders(data) if not folder.path.exists()]
            try:
                self._dataset.prepare(self._progress, data)
            finally:
                self._made[precision] = [folder for folder in new if folder.path.exists()]
            self._prepared[precision] = data
        prepared = self._dataset.prepare(self._progress, data)
        if precision != own and prepared.mode != self._prepare(self._prepared.get(own, self._config.data)).mode:
            raise TrialError(f"would be loaded in mode {prepared.mode}: {prepared.reason}")
        return prepared


def axes(config: XTTSConfig, source: BatchSource, frame_budget: bool) -> list[Axis]:
    """What is worth trying, the most important first: values other than the configuration's own.

    The batches, those of `source` at the start, may change size only with `frame_budget`.
    """
    data, cpus = config.data, usable_cpus()
    tried = []
    if data.optimize_cpu_gpu_overlap:
        workers = sorted({1, max(1, cpus // 2), cpus, 2 * cpus} - {data.workers})
        tried += [Axis("num_workers", tuple(workers))]
        tried += [Axis("prefetch_buffer_size", tuple(size for size in PREFETCHES if size != data.prefetch))]
    if data.preprocessing_mode != "runtime":
        tried.append(Axis("mel_dtype", ("float32" if data.mel_dtype == "float16" else "float16",)))
    if frame_budget:
        tried.append(Axis(FRAME_BUDGET, _frame_budgets(config, source)))
    return [axis for axis in tried if axis.values]


def _frame_budgets(config: XTTSConfig, source: BatchSource) -> tuple[int, ...]:
    """Half of what batches hold now, as much, and twice as much, in round numbers."""
    clips, frames, _ = source.plan.batch_shapes().T
    mean, longest = float((clips * frames).mean()), int(frames.max())
    budgets = {max(longest, round(factor * mean / 100) * 100) for factor in (0.5, 1.0, 2.0)}
    return tuple(sorted(budgets - {config.data.max_frames_per_batch or 0}))
