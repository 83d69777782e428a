"""A simulated accelerator of a given speed: would this source of batches feed it?

The device holds each batch for a set time without using the CPU. Steps are dispatched to it asynchronously,
as to a GPU: dispatch returns at once while fewer than two steps are in flight, and otherwise blocks until the
oldest one completes. The device works through them in order, so

    dispatched = when the batch was ready and a place in the queue was free
    completed  = max(dispatched, completed of the previous step) + step time

Completions come from this schedule, not from when a sleeping thread happened to wake up: the host sleeping a
little too long delays nothing as long as another step is in flight, exactly as with a real device.

`SimulatedStep` is this schedule, as a step for any loop. `SimulatedAccelerator` runs a loop of its own on it and
reports what the device saw. Results are simulated, and always say so.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from myxtts.performance.batches import leading_dimension
from myxtts.performance.stall import StepTimeline, input_verdict
from myxtts.performance.step_run import fetch


class Clock(Protocol):
    """Time as the accelerator sees it; tests bring their own."""

    def now(self) -> float:
        """Seconds that never go back."""

    def sleep_until(self, deadline: float) -> None:
        """Return when `now()` has reached `deadline`, at once if it has already."""


class SystemClock:
    """Real time, waited for without using the CPU."""

    def now(self) -> float:
        return time.perf_counter()

    def sleep_until(self, deadline: float) -> None:
        while (remaining := deadline - time.perf_counter()) > 0:
            time.sleep(remaining)


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """What a simulated accelerator saw of a source of batches. N is the number of measured steps.

    Attributes:
        step_seconds: how long the device held each batch.
        max_in_flight: steps that could be in flight at once.
        timeline: when each batch was ready and each step completed.
        fetch_seconds: float [N], how long the host waited in `next()`. Not the stall: the device may be full.
        dispatch_seconds: float [N], how long the host waited for a place in the device's queue.
        first_batch_seconds: from asking for the first batch of all to having it.
        clips: clips in the measured steps.
        simulated: always true.
    """

    step_seconds: float
    max_in_flight: int
    timeline: StepTimeline
    fetch_seconds: np.ndarray
    dispatch_seconds: np.ndarray
    first_batch_seconds: float
    clips: int
    simulated: bool = field(default=True, init=False)

    @property
    def steps(self) -> int:
        return len(self.timeline)

    @property
    def stalls(self) -> np.ndarray:
        """Seconds each step waited for its batch, float [N]."""
        return self.timeline.stalls

    @property
    def step_times(self) -> np.ndarray:
        """Seconds from one completion to the next, float [N]."""
        return self.timeline.step_times

    @property
    def busy_share(self) -> float:
        """Share of the time that the device worked, 0 to 1."""
        return self.steps * self.step_seconds / self.timeline.seconds if self.timeline.seconds else 0.0

    @property
    def stall_share(self) -> float:
        """Share of the time that the device waited for data, 0 to 1.

        What is missing from `busy_share` beyond it is a host too late to hand over a batch it already had.
        """
        return self.timeline.stall_share

    @property
    def variation(self) -> float:
        """Standard deviation of the step times over their mean."""
        return self.timeline.variation

    @property
    def clips_per_second(self) -> float:
        return self.clips / self.timeline.seconds if self.timeline.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; times in seconds."""
        stalls = self.stalls
        return {
            "simulated": self.simulated,
            "step_seconds": self.step_seconds,
            "max_in_flight": self.max_in_flight,
            "steps": self.steps,
            "clips": self.clips,
            "clips_per_second": self.clips_per_second,
            "busy_share": self.busy_share,
            "stall_share": self.stall_share,
            "verdict": input_verdict(self.stall_share),
            "stall_mean": float(stalls.mean()),
            "stall_p95": float(np.quantile(stalls, 0.95)),
            "stall_max": float(stalls.max()),
            "step_time_mean": float(self.step_times.mean()),
            "variation": self.variation,
            "fetch_mean": float(self.fetch_seconds.mean()),
            "dispatch_mean": float(self.dispatch_seconds.mean()),
            "first_batch_seconds": self.first_batch_seconds,
        }

    def __str__(self) -> str:
        return (
            f"simulated accelerator, {1e3 * self.step_seconds:.3g} ms per step, {self.steps:,} steps: "
            f"{100 * self.busy_share:.1f} % busy, {100 * self.stall_share:.1f} % waiting for data, "
            f"step time std/mean {100 * self.variation:.1f} %"
        )


@dataclass(frozen=True)
class SimulatedResult:
    """What a simulated step returns. It holds on to its batch, as a device does.

    Attributes:
        dispatched_at: when the device accepted the step.
        completes_at: when the device will have completed it.
    """

    dispatched_at: float
    completes_at: float
    batch: Any = field(repr=False)
    clock: Clock = field(repr=False)

    def block_until_ready(self) -> SimulatedResult:
        """Sleeps until the step is complete."""
        self.clock.sleep_until(self.completes_at)
        return self


class SimulatedStep:
    """A step on a device that takes a fixed time per batch, dispatched asynchronously, and uses no CPU.

    Args:
        step_seconds: how long the device holds each batch. 0 takes batches as fast as they come.
        max_in_flight: steps that the device accepts before a call blocks; None: the caller limits them.
        clock: real time unless a test brings its own.
    """

    simulated = True

    def __init__(self, step_seconds: float, max_in_flight: int | None = None, clock: Clock | None = None) -> None:
        if step_seconds < 0:
            raise ValueError(f"step_seconds is {step_seconds}; it cannot be negative")
        if max_in_flight is not None and max_in_flight < 1:
            raise ValueError(f"max_in_flight is {max_in_flight}; it must be at least 1")
        self.step_seconds = step_seconds
        self._clock = clock if clock is not None else SystemClock()
        self._max_in_flight = max_in_flight
        self._in_flight: deque[SimulatedResult] = deque()
        self._completed = -math.inf

    def __call__(self, batch: Any) -> SimulatedResult:
        """Dispatches a step; returns at once unless the device's queue is full."""
        self._wait_for_place()
        dispatched_at = self._clock.now()
        self._completed = max(dispatched_at, self._completed) + self.step_seconds
        result = SimulatedResult(dispatched_at, self._completed, batch, self._clock)
        if self._max_in_flight is not None:
            self._in_flight.append(result)
        return result

    def _wait_for_place(self) -> None:
        now = self._clock.now()
        while self._in_flight and self._in_flight[0].completes_at <= now:
            self._in_flight.popleft()
        if len(self._in_flight) == self._max_in_flight:
            self._in_flight.popleft().block_until_ready()


class SimulatedAccelerator:
    """A device that takes a fixed time per batch.

    Example:
        >>> batches = [np.zeros([16, 80])] * 30
        >>> run = SimulatedAccelerator(step_seconds=0.001).run(batches, steps=20, warmup=10)
        >>> run.simulated, run.clips
        (True, 320)

    Its arguments are those of `SimulatedStep`.
    """

    def __init__(self, step_seconds: float, max_in_flight: int = 2, clock: Clock | None = None) -> None:
        self.step_seconds = step_seconds
        self.max_in_flight = max_in_flight
        self._clock = clock if clock is not None else SystemClock()
        SimulatedStep(step_seconds, max_in_flight)  # refuses what makes no sense

    def run(
        self,
        source: Iterable[Any],
        steps: int,
        *,
        warmup: int = 10,
        count_clips: Callable[[Any], int] = leading_dimension,
    ) -> SimulatedRun:
        """Feeds the device from `source`, in this thread, as a training loop does.

        Args:
            source: batches of any kind; an iterator is continued where it stands.
            steps: steps to measure; fewer are measured if the source ends before.
            warmup: steps before the first measured one, at least 1.
            count_clips: clips in a batch; by default the first dimension of its first array.

        Raises:
            ValueError: the source ended before the first measured step.
        """
        if steps < 1 or warmup < 1:
            raise ValueError("steps and warmup must be at least 1")
        clock = self._clock
        device = SimulatedStep(self.step_seconds, self.max_in_flight, clock)
        times: list[tuple[float, float, float, float]] = []
        clips: list[int] = []
        for fetched in fetch(iter(source), warmup + steps, clock=clock.now):
            result = device(fetched.batch)
            times.append((fetched.waited, fetched.ready, result.dispatched_at, result.completes_at))
            clips.append(count_clips(fetched.batch))
            del result
        if len(times) <= warmup:
            raise ValueError(f"the source ended after {len(times)} batches; the warm-up alone takes {warmup}")
        clock.sleep_until(times[-1][-1])
        waited, ready, dispatched, completed = np.array(times).T
        return SimulatedRun(
            step_seconds=self.step_seconds,
            max_in_flight=self.max_in_flight,
            timeline=StepTimeline(ready[warmup - 1 :], completed[warmup - 1 :]),
            fetch_seconds=waited[warmup:],
            dispatch_seconds=(dispatched - ready)[warmup:],
            first_batch_seconds=float(waited[0]),
            clips=sum(clips[warmup:]),
        )
