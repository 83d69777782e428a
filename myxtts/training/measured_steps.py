"""Training steps that are run for their times alone, as the trainer's loop runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.models.create import create_model
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.device import Device, precision_policy
from myxtts.training.flight import Completed, Dispatched, Flight
from myxtts.training.optimizer import create_optimizer
from myxtts.training.step import Shape, TrainingStep
from myxtts.training.step_times import Rates, StepTimes

_TOTAL_STEPS = 100_000  # of a schedule that nobody follows

Batch = Mapping[str, tf.Tensor]


class StepRunner:
    """Runs steps of a new model. Batches of other types than before get a step of their own.

    Args:
        config: of the model and of how the step is run.
        device: where to run them.
        on_compile: is told of each shape that a step is about to be compiled for.
    """

    def __init__(self, config: XTTSConfig, device: Device, on_compile: Callable[[Shape], None] | None = None) -> None:
        self._config = config
        self._device = device
        self._on_compile = on_compile
        self._policy = precision_policy(config.training, device)
        self._steps: dict[Any, TrainingStep] = {}
        self._frame_seconds = config.data.hop_length / config.data.sample_rate
        with tf.device(device.name):
            self._model = create_model(config, self._policy)

    def prepare(self, batch: Batch) -> None:
        """Compiles the step for a batch's shape, if that has not been done."""
        step = self._step_for(batch)
        shape, new = step.note_shape(batch)
        if new:
            if self._on_compile is not None:
                self._on_compile(shape)
            with tf.device(self._device.name):
                step(batch).completion.numpy()

    def run(self, batches: Iterator[Batch], steps: int) -> Rates:
        """Runs steps, at most two in flight; their rates, without those that had to be compiled.

        Raises:
            StopIteration: there are fewer batches.
        """
        times = StepTimes(PerformanceMonitor(), None, self._frame_seconds)

        def completed(done: Completed) -> None:
            times.completed(done)

        flight = Flight(completed, synchronous=not self._device.is_gpu)
        clock = time.perf_counter
        try:
            with tf.device(self._device.name):
                times.begin()
                for number in range(steps):
                    asked = clock()
                    batch = next(batches)
                    ready = clock()
                    flight.wait_for_slot()
                    step = self._step_for(batch)
                    shape, new = step.note_shape(batch)
                    completion = step(batch).completion
                    flight.dispatched(Dispatched(number + 1, completion, asked, ready, clock(), shape, new))
                flight.drain()
        finally:
            flight.close()
        return times.take_rates()

    def _step_for(self, batch: Batch) -> TrainingStep:
        kind = tuple(sorted((name, value.dtype.name, value.shape.rank) for name, value in batch.items()))
        if kind not in self._steps:
            spec = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
            optimizer = create_optimizer(self._config.training, _TOTAL_STEPS, self._policy)
            self._steps[kind] = TrainingStep(self._model, optimizer, self._config, spec)
        return self._steps[kind]
