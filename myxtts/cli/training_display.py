"""How a run looks in a terminal: one line that moves, and lines above it for what happens once."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn

from myxtts.cli.output import console, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from myxtts.training.progress import TrainingProgress


class TrainingDisplay:
    """Shows a run on standard error; where that is not a terminal, a line for each reading of the losses."""

    def __init__(self) -> None:
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_interactive,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", visible=False)

    def __enter__(self) -> TrainingDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def compiling(self, shape: tuple[int, int, int], number: int, expected: int | None) -> None:
        from myxtts.training.progress import compiling_text

        say(compiling_text(shape, number, expected))

    def progress(self, progress: TrainingProgress) -> None:
        self._bar.start()
        self._bar.update(
            self._task, description=str(progress), completed=progress.step, total=progress.steps, visible=True
        )

    def logged(self, progress: TrainingProgress) -> None:
        if console.is_interactive:
            self.progress(progress)
        else:
            say(str(progress))

    def validated(self, step: int, losses: Mapping[str, float], best: bool) -> None:
        from myxtts.training.progress import validation_text

        say(validation_text(step, losses, best))

    def message(self, text: str) -> None:
        say(text)
