"""Measures an input by itself, and what a change of it is worth: steps run on the changed input."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.performance.batches import BatchStream, ReplayBuffer
from myxtts.performance.cpu_use import CpuMeter, LockProbe, held_share
from myxtts.performance.facts import InputAlone
from myxtts.performance.replay_comparison import ReplayComparison
from myxtts.performance.step_run import drain, run_steps

FEWEST_BATCHES = 4
_ALONE_BATCHES = 60
_ALONE_SECONDS = 1.5
_TRIAL_STEPS = 40
_WARM_UP = 4
_TRIAL_SECONDS = 4.0
_IDLE_SECONDS = 0.2


@dataclass(frozen=True, eq=False)
class MeasuredLoop:
    """A training loop that was seen to wait for its input, whose input is to be investigated.

    Attributes:
        stream: the input.
        step: called with a batch.
        comparison: of the input with replayed batches.
        buffer: batches of the input, kept in memory.
        report: called with what is being measured.
    """

    stream: BatchStream
    step: Callable[[Any], Any]
    comparison: ReplayComparison
    buffer: ReplayBuffer
    report: Callable[[str], None]

    @property
    def is_synchronous(self) -> bool:
        """Whether a call of the step takes as long as the step."""
        run = self.comparison.run
        return float(run.calls.mean()) > 0.5 * float((run.step_times - run.stalls).mean())

    def stall_with(self, changed: Iterable[Any], *, ready: int, steps: int = _TRIAL_STEPS) -> float | None:
        """Seconds that a step waits for data with a changed input, beyond a replay; None if no batches are left.

        Args:
            changed: the input to try.
            ready: batches that may be made before the first is asked for: what a full buffer hides at first.
            steps: to measure.
        """
        batches = self.stream.batches(changed)
        try:
            drain(batches, ready + 1)
            run_steps(batches, self.step, _WARM_UP)  # until the input's workers are in step with it
            run = run_steps(batches, self.step, steps, seconds=_TRIAL_SECONDS)
        except ValueError:  # the data ended
            return None
        finally:
            batches.close()
        return max(0.0, float(np.mean(run.stalls)) - self.comparison.replay_stall)


def take_alone(
    batches: Iterator[Any],
    ready: int,
    *,
    started: Callable[[], None] = lambda: None,
    processes: Callable[[], Iterable[int]] = lambda: (),
) -> InputAlone | None:
    """Takes batches as fast as they come, without a step; None if there are none left.

    Args:
        batches: continued where it stands.
        ready: batches that may have been made before the first is asked for; they do not count.
        started: called when counting begins.
        processes: that make the batches, by their ids, once the first batches are there.
    """
    with LockProbe() as idle:
        time.sleep(_IDLE_SECONDS)
    if drain(batches, ready + 1)[0] < ready + 1:
        return None
    started()
    with LockProbe() as probe:
        meter = CpuMeter(without=probe.thread, processes=tuple(processes()))
        count, seconds = drain(batches, _ALONE_BATCHES, least=FEWEST_BATCHES, seconds=_ALONE_SECONDS)
        cpu = meter.read()
    return InputAlone(seconds / count, cpu, held_share(probe.late, idle.late), count) if count else None
