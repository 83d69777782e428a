"""Training steps run only to measure them, as the trainer's loop runs them, and the warm input that they need."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import tensorflow as tf

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batch_source import AllShapesSeen, BatchSource
from myxtts.models.create import create_model
from myxtts.models.xtts import XTTS
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.performance.step_run import fetch
from myxtts.training.device import Device, precision_policy
from myxtts.training.objective import Shape, SpeechObjective
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import TrainingStep
from myxtts.training.step_times import Rates, StepTimes
from myxtts.training.steps_in_flight import DispatchedStep, watch_steps

_TOTAL_STEPS = 100_000  # of a learning-rate schedule whose end is never reached

Batch = Mapping[str, tf.Tensor]
Batches = Iterator[dict[str, tf.Tensor]]


class StepRunner:
    """Runs steps of a new model. Batches of other types than before get a step of their own.

    Args:
        config: of the model and of how the step is run.
        device: where to run them.
        on_compile: called with each shape before a step is compiled for it.
    """

    def __init__(self, config: XTTSConfig, device: Device, on_compile: Callable[[Shape], None] | None = None) -> None:
        self._config = config
        self._device = device
        self._on_compile = on_compile
        self._steps: dict[Any, TrainingStep] = {}
        self._frame_seconds = config.data.hop_length / config.data.sample_rate
        with tf.device(device.name):
            self._model = create_model(config, precision_policy(config.training, device))

    def dispatch(self, batch: Batch) -> tf.Tensor:
        """Dispatches a step; what it returns can be read once the step is done."""
        with tf.device(self._device.name):
            return self._step_for(batch)(batch).completion

    def prepare(self, batch: Batch) -> None:
        """Compiles the step for a batch's shape, if that has not been done."""
        shape, new = self._step_for(batch).note_shape(batch)
        if new:
            if self._on_compile is not None:
                self._on_compile(shape)
            self.dispatch(batch).numpy()

    def run(self, batches: Iterator[Batch], steps: int) -> Rates:
        """Runs steps, at most two in flight; returns their rates, without those that had to be compiled."""
        times = StepTimes(PerformanceMonitor(), None, self._frame_seconds)
        with closing(watch_steps(times.completed, synchronous=not self._device.is_gpu)) as watcher:
            times.begin()
            for number, fetched in enumerate(fetch(batches, steps), 1):
                watcher.wait_for_slot()
                shape, new = self._step_for(fetched.batch).note_shape(fetched.batch)
                completion = self.dispatch(fetched.batch)
                returned = time.perf_counter()
                watcher.dispatched(
                    DispatchedStep(number, completion, fetched.asked, fetched.ready, returned, shape, new)
                )
            watcher.drain()
        return times.take_rates()

    def _step_for(self, batch: Batch) -> TrainingStep:
        kind = tuple(sorted((name, value.dtype.name, value.shape.rank) for name, value in batch.items()))
        if kind not in self._steps:
            self._steps[kind] = measured_step(self._model, self._config, batch)
        return self._steps[kind]


def measured_step(model: XTTS, config: XTTSConfig, batch: Batch) -> TrainingStep:
    """A step that is run only to measure it, for batches of the types of this one."""
    spec = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
    optimizer = create_optimizer(config.training, _TOTAL_STEPS, model.dtype_policy.name)
    return TrainingStep(SpeechObjective(model, config), optimizer, config, spec)


def buffered(config: DataConfig) -> int:
    """Batches that a pipeline may have ready in advance: how long they took to load cannot be seen."""
    return config.prefetch + config.workers if config.optimize_cpu_gpu_overlap else 1


def warm_batches(source: BatchSource, seed: int = 0, runner: StepRunner | None = None) -> Batches:
    """The endless batches of a source, once everything is compiled.

    Loading compiles for a shape when it first comes, and so does the step; an epoch has all shapes.
    """
    batches = iter(source.dataset(seed=seed))
    all_seen = AllShapesSeen(source.plan)
    while True:
        batch = next(batches)
        if runner is not None:
            runner.prepare(batch)
        if all_seen(batch):
            return batches
