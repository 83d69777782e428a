"""What a run reports: to an observer while it trains, and as its result. The trainer itself prints nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from myxtts.performance.gpu_metrics import GpuReading
from myxtts.performance.monitor import MonitorSummary
from myxtts.performance.sampling import GIB
from myxtts.training.losses import TOTAL
from myxtts.training.step_times import Rates

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingProgress:
    """How far a run has come.

    Attributes:
        step, steps: optimizer steps done, and in all.
        epoch: the current one, from 1.
        loss: mean total loss when it was last read; None before the first reading.
        learning_rate: at that reading.
        rates: of the last few steps.
        seconds_left: until the end at this rate; None before the rate is known.
        gpu: the last reading of the GPU it runs on, if there is one.
    """

    step: int
    steps: int
    epoch: int
    loss: float | None = None
    learning_rate: float | None = None
    rates: Rates = field(default_factory=Rates)
    seconds_left: float | None = None
    gpu: GpuReading | None = None

    def __str__(self) -> str:
        parts = [f"step {self.step:,}/{self.steps:,}", f"epoch {self.epoch:,}"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if self.learning_rate is not None:
            parts.append(f"lr {self.learning_rate:.2e}")
        if self.rates.steps:
            parts += [
                f"{self.rates.clips_per_second:,.1f} clips/s",
                f"data {self.rates.data_ms:.1f} ms",
                f"stall {100 * self.rates.stall_share:.1f} %",
            ]
        if self.gpu is not None:
            parts += _gpu_parts(self.gpu)
        if self.seconds_left is not None:
            parts.append(f"{time_text(self.seconds_left)} left")
        return "  ".join(parts)


@dataclass(frozen=True)
class TrainingResult:
    """What a run achieved, if it ended without an error.

    Attributes:
        reason: `finished`, `interrupted` or `early stopping`.
        signal: number of the signal that interrupted it, or None.
        step: optimizer steps done, those before a resume included.
        epoch: passes over the clips completed.
        loss: mean training loss when it was last read, or None.
        best_loss, best_step: of the best validation, or None.
        checkpoint: the last one written, or None.
        best_checkpoint: the best one, or None.
        skipped: steps skipped because loss or gradient was not finite.
        compilations: shapes that the step was compiled for, since the start or the last resume.
        overhead_ms: milliseconds per batch that the loop itself took, besides waiting and the compiled step.
        performance: times since the start or the last resume.
    """

    reason: str
    signal: int | None
    step: int
    epoch: int
    loss: float | None
    best_loss: float | None
    best_step: int | None
    checkpoint: Path | None
    best_checkpoint: Path | None
    skipped: int
    compilations: int
    overhead_ms: float
    performance: MonitorSummary

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values = dict(vars(self))
        values["performance"] = self.performance.to_dict()
        for key in ("checkpoint", "best_checkpoint"):
            values[key] = None if values[key] is None else str(values[key])
        return values

    def __str__(self) -> str:
        """The report at the end of a run, for people."""
        lines = [f"{self.reason} at step {self.step:,}, epoch {self.epoch:,}"]
        if self.best_loss is not None and self.best_step is not None:
            lines[0] += f"; best validation loss {self.best_loss:.4f} at step {self.best_step:,}"
        if self.checkpoint is not None:
            lines.append(f"saved in {self.checkpoint}")
        lines.append(str(self.performance))
        lines.append(
            f"compiled shapes: {self.compilations}, skipped steps: {self.skipped:,}, "
            f"loop overhead: {self.overhead_ms:.2f} ms per batch"
        )
        return "\n".join(lines)


class Observer(Protocol):
    """Is told how a run goes. Called from several threads, but each method only from one at a time."""

    def compiling(self, shape: Sequence[int], number: int, expected: int | None, beside: bool) -> None:
        """The step is about to be compiled for a shape: clips, frames, and for speech tokens.

        `number` counts the shapes so far, this one included; `expected` is how many there are in all, if known.
        `beside`: in a thread, while steps go on.
        """

    def progress(self, progress: TrainingProgress) -> None:
        """About once a second."""

    def logged(self, progress: TrainingProgress) -> None:
        """New losses were read."""

    def validated(self, step: int, losses: Mapping[str, float], best: bool) -> None:
        """The run was validated: the losses by name, and whether the total is the best so far."""

    def message(self, text: str) -> None:
        """Anything else, such as where the run begins, why it ends, the performance report."""


class LoggingObserver:
    """Reports through `logging`, for programs that use the trainer as a library."""

    def compiling(self, shape: Sequence[int], number: int, expected: int | None, beside: bool) -> None:
        logger.info("%s", compiling_text(shape, number, expected, beside))

    def progress(self, progress: TrainingProgress) -> None:
        logger.debug("%s", progress)

    def logged(self, progress: TrainingProgress) -> None:
        logger.info("%s", progress)

    def validated(self, step: int, losses: Mapping[str, float], best: bool) -> None:
        logger.info("%s", validation_text(step, losses, best))

    def message(self, text: str) -> None:
        logger.info("%s", text)


def compiling_text(shape: Sequence[int], number: int, expected: int | None, beside: bool) -> str:
    """One line about a compilation."""
    of = "" if expected is None else f" of {expected}"
    goes_on = "; training goes on meanwhile" if beside else ""
    return f"compiling the step for {shape_text(shape)} (shape {number}{of}){goes_on}"


def shape_text(shape: Sequence[int]) -> str:
    """The sizes of a batch, for people."""
    return " × ".join(f"{size:,} {name}" for size, name in zip(shape, ("clips", "frames", "tokens"), strict=False))


def validation_text(step: int, losses: Mapping[str, float], best: bool) -> str:
    """One line about a validation."""
    parts = ", ".join(f"{name} {value:.4f}" for name, value in losses.items() if name != TOTAL)
    return f"step {step:,}  validation loss {losses[TOTAL]:.4f} ({parts}){', the best so far' * best}"


def time_text(seconds: float) -> str:
    """A length of time for people: `2:05`, `3:20:00`, `4 d 02:10:00`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02d}:{minute:02d}:{second:02d}"
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def _gpu_parts(gpu: GpuReading) -> list[str]:
    parts = []
    if gpu.utilization is not None:
        parts.append(f"GPU {100 * gpu.utilization:.0f} %")
    if gpu.memory_used is not None and gpu.memory_total is not None:
        parts.append(f"{gpu.memory_used / GIB:.1f} of {gpu.memory_total / GIB:.1f} GiB")
    return parts
