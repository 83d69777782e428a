"""Training steps that the device has been given, and those it is done with.

The loop hands every dispatched step to a `StepWatcher`, whose thread waits on a small output of it. On a GPU a call
of the step returns once its kernels are queued, and the step is complete when that output can be read. On a CPU the
call returns when the step is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from myxtts.performance.step_watcher import StepWatcher
from myxtts.training.rank_reports import REPORTED


@dataclass(frozen=True, slots=True)
class DispatchedStep:
    """A step that the device has been given.

    Attributes:
        batch: its number, from 1.
        completion: what can be read (`.numpy()`) once the step is done: three numbers, and where several processes
            train together, five and a table of reports.
        asked: when the loop asked for the batch, in seconds on `time.perf_counter`.
        ready: when the batch was there.
        returned: when the call of the step returned.
        shape: clips, frames and tokens of the batch.
        compiled: whether the step was compiled for this shape first.
        payload: whatever else is needed once it is complete.
    """

    batch: int
    completion: Any
    asked: float
    ready: float
    returned: float
    shape: tuple[int, ...]
    compiled: bool
    payload: Any = None


@dataclass(frozen=True, slots=True)
class CompletedStep:
    """A step that the device is done with.

    Attributes:
        step: as it was dispatched.
        at: when it completed.
        skipped_in_a_row: steps up to and with this one whose loss or gradient was not finite.
        clips: clips in the batch, without empty places.
        frames: their mel frames.
        all_reduce: seconds that the sum over all processes took; 0 in a single process.
        own_clips: clips of this process.
        reports: float32 [ranks, REPORTED], what the processes told each other; None in a single process.
    """

    step: DispatchedStep
    at: float
    skipped_in_a_row: int
    clips: int
    frames: int
    all_reduce: float = 0.0
    own_clips: int = 0
    reports: np.ndarray | None = None


def watch_steps(on_completed: Callable[[CompletedStep], object], *, synchronous: bool) -> StepWatcher[DispatchedStep]:
    """A watcher of training steps.

    Args:
        on_completed: called in order for each completed step, in the watcher's thread.
        synchronous: whether a call of the step returns only when the step is done, as on a CPU.
    """

    def wait(step: DispatchedStep) -> None:
        values = step.completion.numpy()
        at = step.returned if synchronous else time.perf_counter()
        skipped, clips, frames = (int(value) for value in values[:3].tolist())
        if len(values) == 3:
            on_completed(CompletedStep(step, at, skipped, clips, frames, own_clips=clips))
            return
        reports = values[5:].reshape(-1, REPORTED)
        on_completed(CompletedStep(step, at, skipped, clips, frames, float(values[3]), int(values[4]), reports))

    return StepWatcher(wait)
