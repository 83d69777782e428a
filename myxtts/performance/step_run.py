"""Batches fetched and steps run, with the time of every wait.

`fetch` is the one place where a batch is asked for and timed; everything that measures takes its batches from it.
`run_steps` runs any step on them: one that returns when its work is done, and one that only dispatches it (to a GPU,
or to a simulated accelerator).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.performance.batches import Shapes, batch_shapes, leaves, wait_until_ready
from myxtts.performance.cpu_use import CpuMeter, CpuUse
from myxtts.performance.stall import StepTimeline
from myxtts.performance.step_watcher import StepWatcher


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """A batch, when it was asked for and when it was ready, in seconds on the clock in use."""

    batch: Any
    asked: float
    ready: float

    @property
    def waited(self) -> float:
        return self.ready - self.asked


def fetch(
    batches: Iterator[Any],
    most: float = math.inf,
    *,
    least: int = 0,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[FetchedBatch]:
    """Takes batches one after another and times the wait for each.

    Args:
        batches: continued where it stands; fetching ends where it ends.
        most: batches to take.
        least: batches to take even if the time is over.
        seconds: after which no further batch is asked for.
        clock: seconds that never go back.
    """
    taken, ends = 0, clock() + seconds
    while taken < most and (taken < least or clock() < ends):
        asked = clock()
        try:
            batch = next(batches)
        except StopIteration:
            return
        wait_until_ready(batch)
        yield FetchedBatch(batch, asked, clock())
        taken += 1


def drain(
    batches: Iterator[Any],
    most: int,
    *,
    least: int = 1,
    seconds: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[int, float]:
    """Takes batches as fast as they come, such as those that a pipeline had ready: how many, in how many seconds."""
    began = clock()
    count = sum(1 for _ in fetch(batches, most, least=least, seconds=seconds, clock=clock))
    return count, clock() - began


@dataclass(frozen=True, eq=False)
class StepRun:
    """N steps; times in seconds.

    Attributes:
        timeline: when each batch was ready and each step completed.
        waits: float [N], in `next()`.
        called: float [N], when each step was called.
        calls: float [N], in the call of the step.
        shapes: [N], of the arrays of each batch.
        epoch_starts: the steps that began a new pass over the data.
        cpu: what the process and the machine did during the steps.
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

        That is the stall of `myxtts.performance.stall`, and any delay after it before the loop called the step: a
        pipeline in Python keeps the interpreter from the loop as well.
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
    seconds: float = math.inf,
) -> StepRun:
    """Runs one step to begin with, then `steps` measured ones; fewer if the batches or the time run out.

    Args:
        batches: continued where it stands.
        step: called with a batch.
        steps: to measure.
        epoch_of: the number of the present pass over the data.
        keep: gets every batch, after its step was dispatched.
        seconds: after which no further step begins.

    Raises:
        ValueError: there were fewer than two batches.
    """
    clock = time.perf_counter
    times: list[tuple[float, float, float, float]] = []
    completed: list[float] = []
    shapes: list[Shapes] = []
    epochs: list[int] = []

    def wait(dispatched: tuple[Any, float]) -> None:
        result, returned = dispatched
        at = wait_for(result)
        completed.append(returned if at is None else at)

    meter = CpuMeter()
    with closing(StepWatcher(wait)) as watcher:
        for fetched in fetch(batches, steps + 1, least=2, seconds=seconds):
            watcher.wait_for_slot()
            called_at = clock()
            result = step(fetched.batch)
            returned = clock()
            watcher.dispatched((result, returned))
            times.append((fetched.waited, fetched.ready, called_at, returned - called_at))
            shapes.append(batch_shapes(fetched.batch))
            epochs.append(epoch_of())
            keep(fetched.batch)
            if len(times) == 1:
                meter.start()
        cpu = meter.read()
        watcher.drain()
    if len(times) < 2:
        raise ValueError("the data ended before two steps were done")
    starts = tuple(number - 1 for number in range(1, len(epochs)) if epochs[number] != epochs[number - 1])
    waits, ready, called, calls = np.array(times).T
    timeline = StepTimeline(ready, np.maximum.accumulate(completed))
    return StepRun(timeline, waits[1:], called[1:], calls[1:], tuple(shapes[1:]), starts, cpu)


def wait_for(result: Any) -> float | None:
    """Waits for a step that was only dispatched; returns when it was complete, None: when its call returned."""
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
