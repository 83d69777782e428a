"""How long every step took and how long it waited for data.

A step's stall is defined in `myxtts.performance.stall`. After `begin` the steps follow one another without a gap;
what the loop does before the next `begin` (validating, saving) belongs to no step.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from myxtts.performance.monitor import PerformanceMonitor
from myxtts.performance.rank_times import RankTimes
from myxtts.performance.stall import StepTimeline
from myxtts.training.rank_reports import times_of
from myxtts.training.record_file import RecordFile
from myxtts.training.steps_in_flight import CompletedStep

# Times are processed in groups: often enough to be watched, rarely enough to cost nothing.
_MOST_PENDING = 64
_LONGEST_PENDING = 1.0

COMPILING = "compile the step"


@dataclass(frozen=True)
class Rates:
    """Means over a number of steps, without those that were compiled first.

    Attributes:
        steps: how many.
        seconds: from the first to the last of them, stalls included.
        clips_per_second: clips, without empty places.
        audio_seconds_per_second: seconds of their audio.
        data_ms: milliseconds per step that the loop waited in `next()`.
        stall_ms: milliseconds per step that the device waited for its batch.
        step_ms: milliseconds per step, stalls included.
    """

    steps: int = 0
    seconds: float = 0.0
    clips_per_second: float = 0.0
    audio_seconds_per_second: float = 0.0
    data_ms: float = 0.0
    stall_ms: float = 0.0
    step_ms: float = 0.0

    @property
    def stall_share(self) -> float:
        """Share of step time that the device waited for data, 0 to 1."""
        return self.stall_ms / self.step_ms if self.step_ms else 0.0


class StepTimes:
    """Computes the times of completed steps: for the monitor, the timing file and the progress line.

    Args:
        monitor: gets every step, and the time of each compilation as an operation.
        file: gets a line per step; None writes none.
        frame_seconds: seconds from one mel frame to the next.
    """

    def __init__(self, monitor: PerformanceMonitor, file: RecordFile | None, frame_seconds: float) -> None:
        self._monitor = monitor
        self._file = file
        self._frame_seconds = frame_seconds
        self._lock = threading.Lock()
        self._origin = time.perf_counter()
        self._to_unix = time.time() - time.perf_counter()
        self._pending: list[CompletedStep] = []
        self._flushed = self._origin
        self._latest = RankTimes()
        self._sums = np.zeros(6)  # steps, clips, frames; seconds that steps waited, stalled and lasted

    def begin(self) -> None:
        """Starts the clock of the next steps. None may be in flight."""
        with self._lock:
            self._flush()
            self._origin = time.perf_counter()

    def completed(self, done: CompletedStep) -> bool:
        """Adds a completed step; returns whether `rates` has changed."""
        with self._lock:
            self._pending.append(done)
            if len(self._pending) < _MOST_PENDING and done.at - self._flushed < _LONGEST_PENDING:
                return False
            self._flush()
            return True

    def flush(self) -> None:
        """Processes all steps so far."""
        with self._lock:
            self._flush()

    def take_rates(self) -> Rates:
        """Means since the last call of this method."""
        with self._lock:
            self._flush()
            rates = self._rates()
            self._sums[:] = 0
            return rates

    @property
    def latest(self) -> RankTimes:
        """Means of this process over the steps that were processed last."""
        return self._latest

    def rates(self) -> Rates:
        """Means since the last `take_rates`."""
        with self._lock:
            return self._rates()

    def _rates(self) -> Rates:
        steps, clips, frames, data, stall, seconds = self._sums.tolist()
        if not steps or not seconds:
            return Rates()
        return Rates(
            steps=int(steps),
            seconds=seconds,
            clips_per_second=clips / seconds,
            audio_seconds_per_second=frames * self._frame_seconds / seconds,
            data_ms=1e3 * data / steps,
            stall_ms=1e3 * stall / steps,
            step_ms=1e3 * seconds / steps,
        )

    def _flush(self) -> None:
        if not self._pending:
            return
        timeline = StepTimeline(
            [self._origin, *(done.step.ready for done in self._pending)],
            [self._origin, *(done.at for done in self._pending)],
        )
        stalls, seconds = timeline.stalls.tolist(), timeline.step_times.tolist()
        for done, stall, lasted in zip(self._pending, stalls, seconds, strict=True):
            self._add(done, min(stall, lasted), lasted, last=done is self._pending[-1])
        self._note_latest(stalls, seconds)
        if self._file is not None:
            self._file.flush()
        self._origin = self._flushed = self._pending[-1].at
        self._pending.clear()

    def _note_latest(self, stalls: list[float], seconds: list[float]) -> None:
        times = [
            (lasted, min(stall, lasted), done.all_reduce, done.own_clips)
            for done, stall, lasted in zip(self._pending, stalls, seconds, strict=True)
            if not done.step.compiled
        ]
        if not times:
            return
        lasted, stall, all_reduce, clips = np.mean(times, axis=0).tolist()
        self._latest = RankTimes(1e3 * lasted, 1e3 * stall, 1e3 * all_reduce, clips / lasted if lasted else 0.0)

    def _add(self, done: CompletedStep, stall: float, seconds: float, last: bool) -> None:
        waited = done.step.ready - done.step.asked
        if done.step.compiled:
            self._monitor.log_operation(COMPILING, seconds)
        else:
            self._monitor.log_step_timing(stall, seconds - stall, done.clips)
            self._sums += (1, done.clips, done.frames, waited, stall, seconds)
        if self._file is not None:
            self._file.write(
                {
                    "batch": done.step.batch,
                    "time": round(done.at + self._to_unix, 4),
                    "data_ms": round(1e3 * waited, 3),
                    "stall_ms": round(1e3 * stall, 3),
                    "step_ms": round(1e3 * seconds, 3),
                    "clips": done.clips,
                    "audio_seconds": round(done.frames * self._frame_seconds, 3),
                    "shape": done.step.shape,
                    "compiled": done.step.compiled,
                    **_of_ranks(done, last),
                }
            )


def _of_ranks(done: CompletedStep, last: bool) -> dict[str, Any]:
    """What the timing file has of a step of several processes: the time of the all-reduce, and with the last step of
    a group the latest times of every rank."""
    if done.reports is None:
        return {}
    record: dict[str, Any] = {"all_reduce_ms": round(1e3 * done.all_reduce, 3)}
    if last:
        record["ranks"] = [
            {name: round(value, 3) for name, value in asdict(times).items()} for times in times_of(done.reports)
        ]
    return record
