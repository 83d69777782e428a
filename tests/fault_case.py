"""A faulty input beside the same input without its fault."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from myxtts.performance.simulated_accelerator import SimulatedStep

STEP = 0.03  # long beside what a wake-up may take on a busy host, so that no fixed pipeline is late


@dataclass(frozen=True)
class Case:
    """A fault and its twin.

    Attributes:
        culprit: what `diagnose` should name for `faulty`.
        faulty, fixed: make the pipeline.
        faulty_step, fixed_step: make the step.
        around: holds while the faulty one is measured.
        num_batches: to measure.
    """

    culprit: str
    faulty: Callable[[], Any]
    fixed: Callable[[], Any]
    faulty_step: Callable[[], Callable[[Any], Any]] = lambda: SimulatedStep(STEP)
    fixed_step: Callable[[], Callable[[Any], Any]] | None = None
    around: Callable[[], Any] = contextlib.nullcontext
    num_batches: int = 30


def simulated(seconds: float) -> Callable[[], SimulatedStep]:
    return lambda: SimulatedStep(seconds)


def blocking_step() -> Callable[[Any], None]:
    """A step that reads its loss back, as many loops do: it returns when the device is done."""
    return lambda batch: time.sleep(STEP)


def compute(seconds: float) -> int:
    """Work in Python itself, for so many seconds on a CPU, without any waiting."""
    total, ends = 0, time.thread_time() + seconds
    while time.thread_time() < ends:
        total += sum(range(50))
    return total
