"""Measures one setting of a run: real steps on its own input, or a simulated accelerator that it feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batch_source import BatchSource, clips_in
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.precompute import Progress
from myxtts.errors import DataError
from myxtts.hardware import usable_cpus
from myxtts.performance.simulated_accelerator import SimulatedAccelerator
from myxtts.performance.tuning import Axis, TrialFailed
from myxtts.training.device import Device
from myxtts.training.feeding import buffered, drain, warm_batches
from myxtts.training.going_wrong import is_out_of_memory
from myxtts.training.measured_steps import StepRunner
from myxtts.training.step import Shape

PREFETCHES = (2, 4, 8, 16, 32)
FRAME_BUDGET = "max_frames_per_batch"

# Steps that are run and not timed after the buffers were emptied, so that the first timed one is like the others.
_STEADY_AFTER = 2


class TuningTrial:
    """The rate of a configuration under changes of its data section.

    Args:
        config: where the search starts.
        device: where steps run.
        steps: to time, after those that empty the buffers.
        simulated_step: seconds of a simulated accelerator's step in place of real ones; None: real steps.
        progress: watches stores being made.
        on_compile: is told of each shape that the step is compiled for.

    Attributes:
        unit: of the rates.
    """

    def __init__(
        self,
        config: XTTSConfig,
        device: Device,
        steps: int,
        simulated_step: float | None = None,
        progress: Progress | None = None,
        on_compile: Callable[[Shape], None] | None = None,
    ) -> None:
        self._config = config
        self._steps = steps
        self._simulated_step = simulated_step
        self._progress = progress
        self._runner = StepRunner(config, device, on_compile) if simulated_step is None else None
        self._sources: dict[str, BatchSource] = {}
        self.unit = "s of audio/s" if simulated_step is None else "clips/s (simulated)"

    def __call__(self, changes: Mapping[str, Any]) -> float:
        """The rate.

        Raises:
            TrialFailed: the setting cannot be used.
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
                raise TrialFailed("does not fit into memory") from None
            raise

    def source(self, changes: Mapping[str, Any]) -> BatchSource:
        """The batches under these changes.

        Raises:
            TrialFailed: they cannot be had.
        """
        key = repr(sorted(changes.items()))
        if key not in self._sources:
            try:
                data = DataConfig.model_validate(self._config.data.model_dump() | dict(changes))
                prepared = LJSpeechDataset(None, data).prepare(self._progress)
                self._sources[key] = BatchSource.build(prepared, data, "train")
            except (DataError, ValidationError) as error:
                raise TrialFailed(str(error).splitlines()[0]) from None
        return self._sources[key]


def axes(config: XTTSConfig, source: BatchSource, frame_budget: bool) -> list[Axis]:
    """What is worth trying, from what matters most: values other than the configuration's own.

    Args:
        config: where the search starts.
        source: its batches.
        frame_budget: whether what a batch is may change, too.
    """
    data, cpus = config.data, usable_cpus()
    found = []
    if data.optimize_cpu_gpu_overlap:
        workers = sorted({1, max(1, cpus // 2), cpus, 2 * cpus} - {data.workers})
        found += [Axis("num_workers", tuple(workers))]
        found += [Axis("prefetch_buffer_size", tuple(size for size in PREFETCHES if size != data.prefetch))]
    if data.preprocessing_mode != "runtime":
        found.append(Axis("mel_dtype", ("float32" if data.mel_dtype == "float16" else "float16",)))
    if frame_budget:
        found.append(Axis(FRAME_BUDGET, _frame_budgets(config, source)))
    return [axis for axis in found if axis.values]


def _frame_budgets(config: XTTSConfig, source: BatchSource) -> tuple[int, ...]:
    """Half of what batches hold now, as much, and twice as much, in round numbers."""
    plan = source.plan
    batches = np.bincount(plan.epoch(0, 0).bucket_of_batch, minlength=len(plan.buckets))
    frames = np.array([bucket.batch_size * bucket.frames for bucket in plan.buckets])
    mean = float(np.average(frames, weights=batches))
    longest = max(bucket.frames for bucket in plan.buckets)
    budgets = {max(longest, round(factor * mean / 100) * 100) for factor in (0.5, 1.0, 2.0)}
    return tuple(sorted(budgets - {config.data.max_frames_per_batch or 0}))
