"""Steps under way: at most two of them, and a thread that sees each one complete.

The training loop hands over a step as soon as it is dispatched and goes on to the next batch. It blocks only while
two steps are in flight. A thread waits on a small output of each step, in order; when it can be read, the device has
completed the step. Nothing else waits for the device.

On a GPU a call of the step returns once its kernels are queued. On a CPU it returns when the step is done, which is
then known without asking.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

DEPTH = 2


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A step that the device has been given.

    Attributes:
        batch: its number, from 1.
        completion: what can be read (`.numpy()`, three numbers) once the step is done.
        asked: when the loop asked for the batch, in seconds on `time.perf_counter`.
        ready: when the batch was there.
        returned: when the call of the step returned.
        shape: clips, frames and tokens of the batch.
        compiled: whether the step was compiled for this shape first.
        payload: whatever else whoever looks at completed steps needs.
    """

    batch: int
    completion: Any
    asked: float
    ready: float
    returned: float
    shape: tuple[int, int, int]
    compiled: bool
    payload: Any = None


@dataclass(frozen=True, slots=True)
class Completed:
    """A step that the device is done with.

    Attributes:
        step: as it was dispatched.
        at: when it completed.
        skipped_in_a_row: steps up to and with this one whose loss or gradient was not finite.
        clips: clips in the batch, without empty places.
        frames: their mel frames.
    """

    step: Dispatched
    at: float
    skipped_in_a_row: int
    clips: int
    frames: int


class Flight:
    """Holds the loop to two steps in flight and reports completions from a thread of its own.

    What the device or `on_completed` raises is raised again in the loop, by the next call here.

    Args:
        on_completed: called in order for each completed step, not in the loop's thread.
        synchronous: whether a call of the step returns only when the step is done, as on a CPU.

    Attributes:
        failed_shape: shape of the step that raised, or None.
    """

    def __init__(self, on_completed: Callable[[Completed], None], synchronous: bool) -> None:
        self._on_completed = on_completed
        self._synchronous = synchronous
        self._slots = threading.Semaphore(DEPTH)
        self._steps: queue.SimpleQueue[Dispatched | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.failed_shape: tuple[int, int, int] | None = None
        self._thread = threading.Thread(target=self._watch, name="step-watcher", daemon=True)
        self._thread.start()

    def wait_for_slot(self) -> None:
        """Blocks while two steps are in flight."""
        self._slots.acquire()
        if self._error is not None:
            self._slots.release()
            raise self._error

    def dispatched(self, step: Dispatched) -> None:
        """Takes over a step, dispatched in the slot that was waited for."""
        self._steps.put(step)

    def drain(self) -> None:
        """Blocks until no step is in flight."""
        for _ in range(DEPTH):
            self._slots.acquire()
        for _ in range(DEPTH):
            self._slots.release()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread after the steps in flight."""
        self._steps.put(None)
        self._thread.join()

    def _watch(self) -> None:
        while (step := self._steps.get()) is not None:
            try:
                if self._error is None:
                    self._see(step)
            except BaseException as error:
                self._error, self.failed_shape = error, step.shape
            finally:
                # A slot is free only after the completion has been looked at, so that `drain` means all of it.
                self._slots.release()

    def _see(self, step: Dispatched) -> None:
        values: np.ndarray = step.completion.numpy()
        at = step.returned if self._synchronous else time.perf_counter()
        skipped, clips, frames = (int(value) for value in values.tolist())
        self._on_completed(Completed(step, at, skipped, clips, frames))
