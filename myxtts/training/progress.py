"""What a run tells whoever watches it. The trainer prints nothing itself."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Protocol

from myxtts.performance.gpu_metrics import GpuReading
from myxtts.performance.sampling import GIB
from myxtts.training.step_times import Rates
from myxtts.training.validation import Validation

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """A run under way.

    Attributes:
        step: optimizer steps done, and of how many.
        epoch: passes over the clips begun, from 1.
        loss: mean since the last reading of the losses; none before the first.
        learning_rate: of the last step that was read.
        rates: of the steps of late.
        seconds_left: at this rate; none before there is one.
        gpu: the one it runs on, if there is any, as last sampled.
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


class Observer(Protocol):
    """Who watches a run. Called from several threads, never two at a time for the same method."""

    def compiling(self, shape: tuple[int, int, int], number: int, expected: int | None) -> None:
        """The step is about to be compiled for a shape (clips, frames, tokens): the how-manieth of how many."""

    def progress(self, progress: Progress) -> None:
        """About once a second."""

    def logged(self, progress: Progress) -> None:
        """New losses were read."""

    def validated(self, step: int, validation: Validation, best: bool) -> None:
        """The validation clips were gone through."""

    def message(self, text: str) -> None:
        """Something that happens once: where the run begins, what ends it, the performance report."""


class LoggingObserver:
    """Tells a run through `logging`, for programs that use the trainer as a library."""

    def compiling(self, shape: tuple[int, int, int], number: int, expected: int | None) -> None:
        logger.info("%s", compiling_text(shape, number, expected))

    def progress(self, progress: Progress) -> None:
        logger.debug("%s", progress)

    def logged(self, progress: Progress) -> None:
        logger.info("%s", progress)

    def validated(self, step: int, validation: Validation, best: bool) -> None:
        logger.info("%s", validation_text(step, validation, best))

    def message(self, text: str) -> None:
        logger.info("%s", text)


def compiling_text(shape: tuple[int, int, int], number: int, expected: int | None) -> str:
    """One line about a compilation."""
    clips, frames, tokens = shape
    of = "" if expected is None else f" of {expected}"
    return f"compiling the step for {clips} clips × {frames:,} frames × {tokens} tokens (shape {number}{of})"


def validation_text(step: int, validation: Validation, best: bool) -> str:
    """One line about a validation."""
    return (
        f"step {step:,}  validation loss {validation.total:.4f} (prior {validation.prior:.4f}, "
        f"decoder {validation.decoder:.4f}, duration {validation.duration:.4f}){', the best so far' * best}"
    )


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
