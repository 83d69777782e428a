"""The fastest accelerator that a source of batches can keep busy.

Busy share grows with the step time, so the shortest step time that still reaches the target is found by
bracketing and bisection. Each probe first drains the source: a full prefetch buffer would otherwise look like a
rate that the source cannot sustain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from myxtts.performance.batches import leading_dimension
from myxtts.performance.simulated_accelerator import Clock, SimulatedAccelerator, SimulatedRun, SystemClock
from myxtts.performance.step_run import drain

SHORTEST_STEP_SECONDS = 1e-6

_MIN_STEPS = 30
_MAX_STEPS = 5_000
_DRAIN = 64
_BRACKET_FACTOR = 1.15
_LARGEST_SHRINK = 4.0
_MAX_PROBES = 40


@dataclass(frozen=True, eq=False)
class HighestRate:
    """The result of the search.

    Attributes:
        run: the fastest accelerator that was busy enough, as measured.
        target: the busy share asked for.
        tried: (step seconds, busy share) of every probe, in the order tried.
        simulated: always true.
    """

    run: SimulatedRun
    target: float
    tried: tuple[tuple[float, float], ...]
    simulated: bool = field(default=True, init=False)

    @property
    def step_seconds(self) -> float:
        return self.run.step_seconds

    @property
    def clips_per_second(self) -> float:
        return self.run.clips_per_second

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "simulated": self.simulated,
            "target": self.target,
            "step_seconds": self.step_seconds,
            "clips_per_second": self.clips_per_second,
            "run": self.run.to_dict(),
            "tried": [{"step_seconds": step, "busy_share": share} for step, share in self.tried],
        }


def highest_rate(
    make_source: Callable[[], Iterable[Any]],
    *,
    target: float = 0.95,
    tolerance: float = 0.03,
    probe_seconds: float = 1.0,
    count_clips: Callable[[Any], int] = leading_dimension,
    clock: Clock | None = None,
) -> HighestRate:
    """Finds the shortest step time, from 1 µs on, at which a simulated accelerator is still `target` busy.

    Args:
        make_source: gives a fresh, endless source of batches; called once per probe.
        target: busy share to reach, between 0 and 1.
        tolerance: how close to the limit the answer is, as a share of the step time.
        probe_seconds: how long one probe measures, within 30 to 5,000 steps; about ten are needed.
        count_clips: clips in a batch; by default the first dimension of its first array.
        clock: real time unless a test brings its own.

    Raises:
        ValueError: the source ends, or its speed changes too much from probe to probe to find a rate.
    """
    if not 0 < target < 1:
        raise ValueError(f"target is {target}; it must be between 0 and 1")

    clock = clock if clock is not None else SystemClock()
    tried: list[tuple[float, float]] = []

    def probe(step_seconds: float) -> SimulatedRun:
        batches = _endless(make_source())
        _drain(batches, probe_seconds, clock)
        steps = max(_MIN_STEPS, min(_MAX_STEPS, round(probe_seconds / step_seconds)))
        run = SimulatedAccelerator(step_seconds, clock=clock).run(batches, steps, warmup=2, count_clips=count_clips)
        tried.append((step_seconds, run.busy_share))
        return run

    batches = _endless(make_source())
    _drain(batches, probe_seconds, clock)
    step_seconds = max(target * _drain(batches, probe_seconds, clock), SHORTEST_STEP_SECONDS)
    enough: SimulatedRun | None = None
    too_short = 0.0
    shrink = _BRACKET_FACTOR
    while enough is None or enough.step_seconds > max(too_short * (1 + tolerance), SHORTEST_STEP_SECONDS):
        if len(tried) == _MAX_PROBES:
            raise ValueError(f"no rate found in {_MAX_PROBES} probes: the source's speed changes too much")
        run = probe(step_seconds)
        if run.busy_share >= target:
            enough = run
        else:
            too_short = step_seconds
        if enough is None:
            # A device that waits runs at the source's own pace, which says where to look next.
            step_seconds = max(step_seconds * _BRACKET_FACTOR, target * float(run.step_times.mean()))
        elif too_short == 0.0:
            step_seconds = max(step_seconds / shrink, SHORTEST_STEP_SECONDS)
            shrink = min(shrink**2, _LARGEST_SHRINK)
        else:
            step_seconds = math.sqrt(too_short * enough.step_seconds)
    return HighestRate(enough, target, tuple(tried))


def _drain(batches: Iterator[Any], seconds: float, clock: Clock) -> float:
    """Takes what a prefetch buffer can hold, for so many seconds at most; returns the seconds per batch."""
    taken, took = drain(batches, _DRAIN, seconds=seconds, clock=clock.now)
    return took / taken


def _endless(source: Iterable[Any]) -> Iterator[Any]:
    yield from source
    raise ValueError("the source ended; a search for its highest rate needs an endless one")
