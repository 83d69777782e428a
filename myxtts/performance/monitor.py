"""How long steps and named operations take, and what the machine does meanwhile, at a negligible cost.

The monitor only adds up what it is told and, while it samples, what the machine reports. A program runs the same
without it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from typing import Any

from myxtts.performance.bottleneck import BottleneckAnalysis, CacheUse, analyse
from myxtts.performance.sampling import DEFAULT_INTERVAL, MachineReading, MachineSampler
from myxtts.performance.stall import input_verdict
from myxtts.performance.statistics import DEFAULT_WINDOW, RunningStatistics, Summary

MAX_OPERATIONS = 256
OTHER = "other"


@dataclass(frozen=True)
class MonitorSummary:
    """What a monitor has measured. Times are in seconds.

    Attributes:
        clips: clips in all steps.
        data_loading: the steps' waits for data.
        compute: the rest of the steps' times.
        step: both together.
        operations: named operations, in the order they were first seen.
        machine: load of the machine, as `sampling.MachineReading.values` names it; empty if it was not sampled.
        cache: how much of the store existed already; None if unknown.
    """

    clips: int
    data_loading: Summary
    compute: Summary
    step: Summary
    operations: Mapping[str, Summary]
    machine: Mapping[str, Summary] = field(default_factory=dict)
    cache: CacheUse | None = None

    @property
    def clips_per_second(self) -> float:
        return self.clips / self.step.total if self.step.total else 0.0

    @property
    def stall_share(self) -> float:
        """Share of the time of all steps that went into waiting for data, 0 to 1."""
        return self.data_loading.total / self.step.total if self.step.total else 0.0

    def analysis(self) -> BottleneckAnalysis:
        """Where the time of the steps went, the evidence for it, and what to do."""
        return analyse(self.stall_share, self.step, self.machine, self.cache)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "steps": self.step.count,
            "clips": self.clips,
            "clips_per_second": self.clips_per_second,
            "stall_share": self.stall_share,
            "verdict": input_verdict(self.stall_share),
            "data_loading": self.data_loading.to_dict(),
            "compute": self.compute.to_dict(),
            "step": self.step.to_dict(),
            "operations": {name: times.to_dict() for name, times in self.operations.items()},
            "machine": {name: load.to_dict() for name, load in self.machine.items()},
            "cache": None if self.cache is None else self.cache.to_dict(),
        }

    def __str__(self) -> str:
        rows = dict(self.operations)
        if self.step.count:
            rows = {"data loading": self.data_loading, "compute": self.compute, "step": self.step} | rows
            lines = [
                f"steps: {self.step.count:,}, clips: {self.clips:,} ({self.clips_per_second:,.1f} clips/s)",
                f"input: {100 * self.stall_share:.1f} % of step time ({input_verdict(self.stall_share)})",
            ]
        else:
            lines = ["no steps yet"]
        if self.cache is not None:
            lines.append(f"store: {self.cache}")
        table: dict[str, list[str]] = {"times in ms": ["count", "mean", "std", "p50", "p95", "p99", "max"]}
        for name, one in rows.items():
            seconds = (one.mean, one.std, one.p50, one.p95, one.p99, one.maximum)
            table[name] = [f"{one.count:,}", *(f"{1e3 * value:,.3f}" for value in seconds)]
        lines += _table_lines(table)
        table = {"the machine": ["mean", "p95", "max"]}
        for name, one in self.machine.items():
            table[name] = [f"{value:,.1f}" for value in (one.mean, one.p95, one.maximum)]
        return "\n".join(lines + _table_lines(table))


def _table_lines(table: Mapping[str, Sequence[str]]) -> list[str]:
    """A table below an empty line, the header first; nothing if there is only a header."""
    width = max(map(len, table))
    lines = [f"{name:{width}}" + "".join(f"{cell:>11}" for cell in cells) for name, cells in table.items()]
    return ["", *lines] if len(table) > 1 else []


class PerformanceMonitor:
    """Collects the times of steps and operations. Safe to use from several threads.

    Memory is bounded: statistics are kept, not every value (see `RunningStatistics`), and after 256 different
    names of operations further names are counted together as `other`.

    Example:
        >>> monitor = PerformanceMonitor()
        >>> with monitor.time_operation("save"):
        ...     pass
        >>> monitor.log_step_timing(data_loading_time=0.001, compute_time=0.049, batch_size=32)
        >>> monitor.get_summary().stall_share
        0.02

    Args:
        window: how many recent values quantiles are taken over.
        clock: seconds that never go back.
    """

    def __init__(self, window: int = DEFAULT_WINDOW, clock: Callable[[], float] = time.perf_counter) -> None:
        self._window = window
        self._clock = clock
        self._lock = threading.Lock()
        self._sampler: MachineSampler | None = None
        self.reset()

    def reset(self) -> None:
        """Forget everything measured so far. Sampling goes on, if it is under way."""
        with self._lock:
            if self._sampler is not None:
                self._sampler.reset()
            self._cache: CacheUse | None = None
            self._data_loading = RunningStatistics(self._window)
            self._compute = RunningStatistics(self._window)
            self._step = RunningStatistics(self._window)
            self._clips = 0
            self._operations: dict[str, RunningStatistics] = {}

    def time_operation(self, name: str) -> TimedOperation:
        """Time a block (`with monitor.time_operation("save"):`) or every call of a function (as a decorator).

        The time counts when the block or the call raises, too.
        """
        return TimedOperation(self, name, self._clock)

    def log_operation(self, name: str, seconds: float) -> None:
        """Count an operation that was timed elsewhere."""
        _require_duration(name, seconds)
        with self._lock:
            times = self._operations.get(name)
            if times is None:
                if len(self._operations) >= MAX_OPERATIONS:
                    name = OTHER
                times = self._operations.setdefault(name, RunningStatistics(self._window))
            times.add(seconds)

    def log_step_timing(self, data_loading_time: float, compute_time: float, batch_size: int) -> None:
        """Count one step.

        Args:
            data_loading_time: seconds the device waited for the batch, that is, the step's stall (see
                `myxtts.performance.stall`). Where steps run synchronously, it is the time spent in `next()`.
            compute_time: the rest of the step, in seconds.
            batch_size: clips in the batch, empty places not counted.
        """
        _require_duration("data_loading_time", data_loading_time)
        _require_duration("compute_time", compute_time)
        with self._lock:
            self._data_loading.add(data_loading_time)
            self._compute.add(compute_time)
            self._step.add(data_loading_time + compute_time)
            self._clips += batch_size

    def log_cache_use(self, reused: int, computed: int) -> None:
        """Note how many clips' features the store held already, and how many had to be computed."""
        with self._lock:
            self._cache = CacheUse(reused, computed)

    def start_sampling(self, interval: float = DEFAULT_INTERVAL) -> None:
        """Begin to read the load of the machine in a thread, every `interval` seconds."""
        self.stop_sampling()
        sampler = MachineSampler(interval)
        with self._lock:
            self._sampler = sampler

    def stop_sampling(self) -> None:
        """End the thread, if there is one. Its readings stay until `reset`."""
        with self._lock:
            sampler = self._sampler
        if sampler is not None:
            sampler.stop()

    @property
    def latest_reading(self) -> MachineReading | None:
        """The machine as last sampled, or None."""
        with self._lock:
            return None if self._sampler is None else self._sampler.latest

    def get_summary(self) -> MonitorSummary:
        """Everything measured since the start or the last `reset`."""
        with self._lock:
            return MonitorSummary(
                clips=self._clips,
                data_loading=self._data_loading.summary(),
                compute=self._compute.summary(),
                step=self._step.summary(),
                operations={name: times.summary() for name, times in self._operations.items()},
                machine={} if self._sampler is None else self._sampler.summary(),
                cache=self._cache,
            )

    def get_bottleneck_analysis(self) -> BottleneckAnalysis:
        """Where the time of the steps went, the evidence for it, and what to do."""
        return self.get_summary().analysis()

    def get_summary_report(self) -> str:
        """For people: throughput, how input-bound the steps are, times, the machine's load, and what to do."""
        summary = self.get_summary()
        return f"{summary}\n\n{summary.analysis()}" if summary.step.count else str(summary)


class TimedOperation(ContextDecorator):
    """What `PerformanceMonitor.time_operation` gives: a context manager and a decorator.

    As a context manager it can be used again, but not inside itself.
    """

    __slots__ = ("_clock", "_monitor", "_name", "_started")

    def __init__(self, monitor: PerformanceMonitor, name: str, clock: Callable[[], float]) -> None:
        self._monitor = monitor
        self._name = name
        self._clock = clock

    def __enter__(self) -> None:
        self._started = self._clock()

    def __exit__(self, *error: object) -> None:
        self._monitor.log_operation(self._name, self._clock() - self._started)

    def _recreate_cm(self) -> TimedOperation:
        # A timer of its own for each call: the function may call itself, or run in several threads.
        return TimedOperation(self._monitor, self._name, self._clock)


_shared = PerformanceMonitor()


def get_performance_monitor() -> PerformanceMonitor:
    """The monitor that the whole process shares."""
    return _shared


def start_performance_monitoring(interval: float = DEFAULT_INTERVAL) -> PerformanceMonitor:
    """Reset the monitor that the whole process shares, start sampling, and return it.

    The machine is sampled every `interval` seconds from now on, until `stop_sampling`.
    """
    _shared.stop_sampling()
    _shared.reset()
    _shared.start_sampling(interval)
    return _shared


def print_performance_report(write: Callable[[str], object] = print) -> None:
    """Hand the shared monitor's report to `write`, such as a console's `print`; by default to standard output."""
    write(_shared.get_summary_report())


def _require_duration(name: str, seconds: float) -> None:
    if not 0.0 <= seconds < math.inf:
        raise ValueError(f"{name} took {seconds} seconds; a duration is finite and not negative")
