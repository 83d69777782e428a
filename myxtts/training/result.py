"""What a run came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.performance.monitor import MonitorSummary


@dataclass(frozen=True)
class TrainingResult:
    """A run that ended in order.

    Attributes:
        reason: `finished`, `interrupted` or `early stopping`.
        signal: number of the signal that interrupted it, or None.
        step: optimizer steps done, in earlier parts of the run too.
        epoch: passes over the clips completed.
        loss: mean training loss when it was last read, or None.
        best_loss, best_step: of the best validation, or None.
        checkpoint: the last one written, or None.
        best_checkpoint: the best one, or None.
        skipped: steps skipped because loss or gradient was not finite.
        compilations: shapes that the step was compiled for, in this part of the run.
        overhead_ms: milliseconds per batch that the loop itself took, beside waiting and the compiled step.
        performance: times of this part of the run.
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
