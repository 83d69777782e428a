"""Where commands write: results to standard output, everything else to standard error.

With `--json` standard output holds one JSON value and nothing more, so that a program can read it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

# Said by whatever opens a port of another engine's.
PRIVATE_NETWORK = "private network only, its ports listen on all interfaces and know no passwords"

console = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass
class OutputFormat:
    """How the running command prints: `--json` and `--quiet`."""

    as_json: bool = False
    quiet: bool = False


chosen = OutputFormat()


def set_format(as_json: bool, quiet: bool) -> None:
    """Sets how the command prints. `quiet` leaves only errors on standard error."""
    chosen.as_json, chosen.quiet = as_json, quiet
    console.quiet = quiet
    logging.getLogger("myxtts").setLevel(logging.ERROR if quiet else logging.INFO)


def emit(result: Mapping[str, Any], render: Callable[[Console], None]) -> None:
    """Prints a result: as JSON with `--json`, otherwise through `render`, which gets a console on standard output."""
    if chosen.as_json:
        print(json.dumps(result, ensure_ascii=False, indent=2, default=str))
    else:
        render(Console(highlight=False, soft_wrap=True, markup=False))


def say(message: str) -> None:
    """Prints a line on standard error; nothing with `--quiet`."""
    if not console.quiet:
        console.print(message, markup=False)


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as text: the first column aligned left, the others right. Long lines are not wrapped."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        right = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())
    return "\n".join(lines)


def duration_text(seconds: float) -> str:
    """A length of audio: in seconds, from one hour on in hours as well."""
    return f"{seconds / 3600:.2f} h ({seconds:,.0f} s)" if seconds >= 3600 else f"{seconds:.1f} s"


class ProgressBar:
    """A bar that the work moves forward."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task

    def advance(self, n: float = 1) -> None:
        self._bar.advance(self._task, n)


@contextmanager
def progress(description: str, total: float | None, unit: str = "clips") -> Iterator[ProgressBar]:
    """A progress bar with rate and time left, removed when it is done; nothing with `--quiet`."""

    def rate(task: Task) -> str:
        speed = task.finished_speed or task.speed
        return "" if speed is None else f"{speed:,.0f} {unit}/s"

    with _progress_bar(rate) as bar:
        yield ProgressBar(bar, bar.add_task(description, total=total))


class StageProgress:
    """A progress bar for work in stages over the clips of a data set: clips/s, times real time, time left.

    It appears with the first stage, and starts again with every other. `myxtts.data` reports to it.
    """

    def __init__(self) -> None:
        self._bar = _progress_bar(self._speed)
        self._clips = self._bar.add_task("", visible=False)
        self._audio = self._bar.add_task("", total=None, visible=False)

    def __enter__(self) -> StageProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def stage(self, name: str, clips: int) -> None:
        """Begins a stage over so many clips."""
        self._bar.start()
        self._bar.reset(self._clips, total=clips, description=name)
        self._bar.reset(self._audio, total=None, description=name)
        self._bar.update(self._clips, visible=True)

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        """Moves the bar forward."""
        self._bar.advance(self._clips, clips)
        self._bar.advance(self._audio, audio_seconds)

    def _speed(self, task: Task) -> str:
        if task.speed is None:
            return ""
        audio = next(one.speed for one in self._bar.tasks if one.id == self._audio)
        return f"{task.speed:,.0f} clips/s" + (f", {audio:,.0f} × real time" if audio else "")


def start_logging() -> None:
    """Shows the library's messages as single lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LineFormatter())
    library = logging.getLogger("myxtts")
    library.handlers = [handler]
    library.propagate = False
    library.setLevel(logging.INFO)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        return prefix + record.getMessage()


class _Rate(ProgressColumn):
    def __init__(self, text: Callable[[Task], str]) -> None:
        super().__init__()
        self._text = text

    def render(self, task: Task) -> Text:
        return Text(self._text(task))


def _progress_bar(rate: Callable[[Task], str]) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(rate),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_interactive)
