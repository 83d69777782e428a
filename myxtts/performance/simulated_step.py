"""A simulated accelerator as a training step: hand it a batch, and it is busy for a set time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SimulatedResult:
    """What a simulated step returns: when the device will have completed it, in seconds on `time.perf_counter`.

    It holds on to its batch as a device does.
    """

    completes_at: float
    batch: Any = field(repr=False)

    def block_until_ready(self) -> SimulatedResult:
        """Sleeps until the step is completed."""
        while (remaining := self.completes_at - time.perf_counter()) > 0:
            time.sleep(remaining)
        return self


class SimulatedStep:
    """A step on a device that takes a fixed time per batch, dispatched asynchronously, and uses no CPU.

    Steps follow one another on the device: one begins when it is dispatched or when the one before is completed,
    whichever is later (see `simulated_accelerator`). Whoever calls it bounds the steps in flight.

    Args:
        step_seconds: how long the device holds each batch.
    """

    simulated = True

    def __init__(self, step_seconds: float) -> None:
        if step_seconds < 0:
            raise ValueError(f"step_seconds is {step_seconds}; it cannot be negative")
        self.step_seconds = step_seconds
        self._completed = 0.0

    def __call__(self, batch: Any) -> SimulatedResult:
        """Dispatches a step; returns at once."""
        self._completed = max(time.perf_counter(), self._completed) + self.step_seconds
        return SimulatedResult(self._completed, batch)
