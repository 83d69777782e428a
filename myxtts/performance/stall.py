"""How long the device waits for data, from two times per step.

A step's stall is max(0, its batch ready − the previous step's completion on the device). The time that the host
blocks in `next()` is something else: dispatch is asynchronous, so with a fast input and a slow step the host waits
while the device is full. The utilization that NVML reports is something else too: it says that some kernel ran
recently.

All times are seconds on one clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# TensorFlow Profiler's thresholds for the share of step time that waits for input.
MODERATELY_INPUT_BOUND = 0.05
HIGHLY_INPUT_BOUND = 0.20


def input_verdict(stall_share: float) -> str:
    """`not input-bound`, `moderately input-bound` (from 5 %) or `highly input-bound` (from 20 %)."""
    if stall_share >= HIGHLY_INPUT_BOUND:
        return "highly input-bound"
    if stall_share >= MODERATELY_INPUT_BOUND:
        return "moderately input-bound"
    return "not input-bound"


@dataclass(frozen=True, eq=False)
class StepTimeline:
    """The times of a run of steps. The first step only marks where the measured ones begin.

    Example:
        >>> timeline = StepTimeline(batch_ready=[0.0, 0.1, 1.5], completed=[1.0, 2.0, 3.0])
        >>> timeline.stalls.tolist(), timeline.stall_share
        ([0.0, 0.0], 0.0)

    Attributes:
        batch_ready: float [N + 1], when the batch of each step was ready on the host.
        completed: float [N + 1], when the device completed each step, ascending.
    """

    batch_ready: np.ndarray
    completed: np.ndarray

    def __init__(self, batch_ready: npt.ArrayLike, completed: npt.ArrayLike) -> None:
        ready, done = np.asarray(batch_ready, np.float64), np.asarray(completed, np.float64)
        if ready.ndim != 1 or ready.shape != done.shape or len(done) < 2:
            raise ValueError("batch_ready and completed need one time each for at least two steps")
        if (np.diff(done) < 0).any():
            raise ValueError("a device completes its steps in order")
        object.__setattr__(self, "batch_ready", ready)
        object.__setattr__(self, "completed", done)

    def __len__(self) -> int:
        return len(self.completed) - 1

    @property
    def stalls(self) -> np.ndarray:
        """Seconds each measured step waited for its batch, float [N]."""
        return np.maximum(0.0, self.batch_ready[1:] - self.completed[:-1])

    @property
    def step_times(self) -> np.ndarray:
        """Seconds from one completion to the next, stalls included, float [N]."""
        return np.diff(self.completed)

    @property
    def seconds(self) -> float:
        """From the first completion to the last."""
        return float(self.completed[-1] - self.completed[0])

    @property
    def stall_share(self) -> float:
        """Share of the time that the device waited for data, 0 to 1."""
        return float(self.stalls.sum()) / self.seconds if self.seconds else 0.0

    @property
    def variation(self) -> float:
        """Standard deviation of the step times over their mean."""
        return float(self.step_times.std()) / (self.seconds / len(self)) if self.seconds else 0.0
