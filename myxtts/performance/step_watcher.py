"""Steps in flight: a loop may have two of them, and a thread waits for each one to complete.

A loop hands over a step as soon as it is dispatched and goes on to the next batch. It blocks only while two steps are
in flight. Nothing but the watcher's thread waits for the device.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_IN_FLIGHT = 2

Step = TypeVar("Step")


class StepWatcher(Generic[Step]):
    """Holds a loop to two steps in flight, and waits for each of them in order in a thread of its own.

    An error in that thread is raised again in the loop, by its next call here.

    Args:
        wait: called with each step in the watcher's thread; returns when the step is complete.

    Attributes:
        failed: the step that raised, or None.
    """

    def __init__(self, wait: Callable[[Step], None]) -> None:
        self._wait = wait
        self._slots = threading.Semaphore(MAX_IN_FLIGHT)
        self._steps: queue.SimpleQueue[tuple[Step] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self.failed: Step | None = None
        self._thread = threading.Thread(target=self._watch, name="step-watcher", daemon=True)
        self._thread.start()

    def wait_for_slot(self) -> None:
        """Blocks while two steps are in flight."""
        self._slots.acquire()
        if self._error is not None:
            self._slots.release()
            raise self._error

    def dispatched(self, step: Step) -> None:
        """Takes over a step, which occupies the slot that was waited for."""
        self._steps.put((step,))

    def drain(self) -> None:
        """Blocks until no step is in flight."""
        for _ in range(MAX_IN_FLIGHT):
            self._slots.acquire()
        for _ in range(MAX_IN_FLIGHT):
            self._slots.release()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread after the steps in flight."""
        self._steps.put(None)
        self._thread.join()

    def _watch(self) -> None:
        while (item := self._steps.get()) is not None:
            (step,) = item
            try:
                if self._error is None:
                    self._wait(step)
            except BaseException as error:
                self._error, self.failed = error, step
            finally:
                # The slot is free only after `wait` is done with the step, so that `drain` waits for all of it.
                self._slots.release()
