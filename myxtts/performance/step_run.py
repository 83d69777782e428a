"""A run of steps on a source of batches, every wait on the clock.

Works with any step: one that returns when its work is done, and one that only dispatches it (a GPU's, or a simulated
accelerator's). At most two steps are in flight; a thread sees each one complete.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.performance.cpu_use import CpuMeter, CpuUse
from myxtts.performance.simulated_accelerator import leaves, wait_until_ready
from myxtts.performance.stall import StepTimeline

IN_FLIGHT = 2

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class StepRun:
    """N steps; times in seconds.

    Attributes:
        timeline: when each batch was ready and each step completed.
        waits: float [N], in `next()`.
        called: float [N], when each step was called.
        calls: float [N], in the call of the step.
        shapes: [N], of the arrays of each batch.
        epoch_starts: the steps that began a new pass over the source.
        cpu: what the process and the machine did meanwhile.
    """

    timeline: StepTimeline
    waits: np.ndarray
    called: np.ndarray
    calls: np.ndarray
    shapes: tuple[Shapes, ...]
    epoch_starts: tuple[int, ...]
    cpu: CpuUse

    def __len__(self) -> int:
        return len(self.timeline)

    @property
    def stalls(self) -> np.ndarray:
        """float [N], how long the device had nothing to do before each step.

        That is the stall of `myxtts.performance.stall`, and the time after it in which the loop had the batch and
        did not come to hand it over: a pipeline in Python keeps the interpreter from the loop as well.
        """
        idle = np.maximum(self.timeline.stalls, self.called - self.timeline.completed[:-1])
        return np.clip(idle, 0.0, self.timeline.step_times)

    @property
    def step_times(self) -> np.ndarray:
        """float [N], stalls included."""
        return self.timeline.step_times


def run_steps(
    batches: Iterator[Any],
    step: Callable[[Any], Any],
    steps: int,
    *,
    epoch_of: Callable[[], int] = lambda: 0,
    keep: Callable[[Any], None] = lambda batch: None,
    seconds: float = float("inf"),
) -> StepRun:
    """Runs one step to begin with and then so many measured ones, fewer if the source or the time runs out.

    Args:
        batches: continued where it stands.
        step: called with a batch.
        steps: to measure.
        epoch_of: the number of the source's present pass.
        keep: sees every batch, after its step was dispatched.
        seconds: no further step is begun after this time.

    Raises:
        ValueError: the source had fewer than two batches left.
    """
    clock = time.perf_counter
    asked: list[float] = []
    ready: list[float] = []
    called: list[float] = []
    in_call: list[float] = []
    shapes: list[Shapes] = []
    epochs: list[int] = []
    meter = CpuMeter()
    with _Flight() as flight:
        ends = clock() + seconds
        while len(ready) < steps + 1 and (len(ready) < 2 or clock() < ends):
            asked_now = clock()
            try:
                batch = next(batches)
            except StopIteration:
                break
            wait_until_ready(batch)
            ready_now = clock()
            flight.wait_for_slot()
            called_now = clock()
            result = step(batch)
            returned_now = clock()
            flight.dispatched(result, returned_now)
            asked.append(asked_now)
            ready.append(ready_now)
            called.append(called_now)
            in_call.append(returned_now - called_now)
            shapes.append(batch_shapes(batch))
            epochs.append(epoch_of())
            keep(batch)
            if len(ready) == 1:
                meter.start()
        cpu = meter.read()
    if len(ready) < 2:
        raise ValueError("the source of batches ended before two steps were done")
    starts = tuple(position for position in range(1, len(epochs)) if epochs[position] != epochs[position - 1])
    return StepRun(
        StepTimeline(ready, np.maximum.accumulate(flight.completed)),
        np.subtract(ready, asked)[1:],
        np.array(called[1:]),
        np.array(in_call[1:]),
        tuple(shapes[1:]),
        tuple(start - 1 for start in starts),
        cpu,
    )


def batch_shapes(batch: Any) -> Shapes:
    """The shapes of a batch's arrays, in order."""
    return tuple(tuple(int(size) for size in leaf.shape) for leaf in leaves(batch) if hasattr(leaf, "shape"))


def wait_for(result: Any) -> float | None:
    """Waits for a step that was only dispatched.

    Returns:
        When it was completed, or None if it was completed when its call returned.
    """
    at = None
    for leaf in leaves(result):
        if hasattr(leaf, "block_until_ready"):  # JAX, and the simulated accelerator
            leaf.block_until_ready()
            at = getattr(leaf, "completes_at", None) or time.perf_counter()
        elif "GPU" in str(getattr(leaf, "device", "")) and hasattr(leaf, "numpy"):
            leaf.numpy()
            at = time.perf_counter()
        elif getattr(leaf, "is_cuda", False):
            leaf.detach().cpu()
            at = time.perf_counter()
    return at


class _Flight:
    """Bounds the steps in flight and notes when each was completed."""

    def __init__(self) -> None:
        self.completed: list[float] = []
        self._slots = threading.Semaphore(IN_FLIGHT)
        self._results: queue.SimpleQueue[tuple[Any, float] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._watch, name="step-watcher", daemon=True)

    def __enter__(self) -> _Flight:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._results.put(None)
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def wait_for_slot(self) -> None:
        self._slots.acquire()
        if self._error is not None:
            raise self._error

    def dispatched(self, result: Any, returned: float) -> None:
        self._results.put((result, returned))

    def _watch(self) -> None:
        while (item := self._results.get()) is not None:
            result, returned = item
            try:
                at = wait_for(result)
                self.completed.append(returned if at is None else at)
            except BaseException as error:
                self._error = error
                self.completed.append(time.perf_counter())
            finally:
                self._slots.release()
