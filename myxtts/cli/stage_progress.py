"""One progress bar for work in stages over the clips of a data set: clips/s, times real time, time left."""

from __future__ import annotations

from types import TracebackType

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from myxtts.cli.output import console


class StageProgress:
    """A bar that starts again with every stage and appears with the first; for `data.precompute.WorkProgress`."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(self),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_interactive,
        )
        self._clips = self._bar.add_task("", visible=False)
        self.audio = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def stage(self, name: str, clips: int) -> None:
        """Begins a stage over so many clips."""
        self._bar.start()
        for task in (self._clips, self.audio):
            self._bar.reset(task, total=clips if task == self._clips else None, description=name)
        self._bar.update(self._clips, visible=True)

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        """Moves it on."""
        self._bar.advance(self._clips, clips)
        self._bar.advance(self.audio, audio_seconds)

    def audio_speed(self) -> float | None:
        """Seconds of audio per second."""
        return next(task.speed for task in self._bar.tasks if task.id == self.audio)


class _Speed(ProgressColumn):
    def __init__(self, progress: StageProgress) -> None:
        super().__init__()
        self._progress = progress

    def render(self, task: Task) -> Text:
        if task.speed is None:
            return Text("")
        audio = self._progress.audio_speed()
        return Text(f"{task.speed:,.0f} clips/s" + (f", {audio:,.0f} × real time" if audio else ""))
