"""Diagnoses the loader of somebody else's training loop, such as Lightning's or the Trainer's of Hugging Face.

The loop says when a batch is there and when its step is done. After a number of steps the loader is diagnosed once,
on a simulated accelerator that takes as long as the steps did: nothing is trained by it. The loop's own workers are
left alone; the diagnosis starts others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from myxtts.performance.batches import BatchStream
from myxtts.performance.diagnose_pipeline import diagnose
from myxtts.performance.diagnosis import Diagnosis
from myxtts.performance.simulated_accelerator import SimulatedStep


class LoopWatch:
    """Times the steps of a loop, and diagnoses its loader once.

    Example:
        >>> watch = LoopWatch(steps=5, num_batches=5, show=lambda found: None)
        >>> for batch in (batches := [np.zeros([2, 3])] * 6):
        ...     watch.begin()
        ...     watch.end(batches)
        >>> watch.found.verdict
        'not input-bound'

    Args:
        steps: after which the loader is diagnosed; the first fifth does not count, as it may compile.
        num_batches: to diagnose it with.
        show: called with what was found.

    Attributes:
        found: the diagnosis, None before there is one.
        waiting: share of the loop's time between a step's end and the next one's begin, 0 to 1.
    """

    def __init__(self, steps: int = 100, num_batches: int = 100, show: Callable[[Diagnosis], object] = print) -> None:
        self.found: Diagnosis | None = None
        self.waiting = 0.0
        self._steps = steps
        self._num_batches = num_batches
        self._show = show
        self._times: list[tuple[float, float]] = []
        self._began = 0.0

    def begin(self) -> None:
        """A batch is there, and its step begins."""
        self._began = time.perf_counter()

    def end(self, loader: Any) -> None:
        """The step is done; `loader` is where its batch came from."""
        if self.found is not None:
            return
        self._times.append((self._began, time.perf_counter()))
        if len(self._times) < self._steps:
            return
        began, ended = np.array(self._times[self._steps // 5 :]).T
        lasted = float(ended[-1] - began[0])
        self.waiting = float((began[1:] - ended[:-1]).sum()) / lasted if lasted else 0.0
        self.found = diagnose(_own_loader(loader), SimulatedStep(float(np.median(ended - began))), self._num_batches)
        self._show(self.found)


def _own_loader(loader: Any) -> Any:
    """A loader of the same batches that shares no workers with the loop's."""
    if not BatchStream(loader).is_torch_loader:
        return loader
    from myxtts.performance.torch_loader import rebuilt

    return rebuilt(loader)
