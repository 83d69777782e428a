"""Where commands write: results to standard output, everything else to standard error.

With `--json` standard output holds one JSON value and nothing more, so that a program can read it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
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

console = Console(stderr=True, highlight=False, soft_wrap=True)


class Advance(Protocol):
    """What a command moves forward as its work gets done."""

    def advance(self, n: float = 1) -> None: ...


def emit(result: Mapping[str, Any], as_json: bool, render: Callable[[Console], None]) -> None:
    """Prints a result: as JSON, or for people through `render`, which gets a console on standard output."""
    if as_json:
        print(json.dumps(result, ensure_ascii=False, indent=2, default=str))
    else:
        render(Console(highlight=False, soft_wrap=True))


def say(message: str) -> None:
    """A line to the person at the terminal, on standard error; silent with `--quiet`."""
    if not console.quiet:
        console.print(message, markup=False)


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns of text, the first to the left and the others to the right; lines are never broken to fit a window."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *others in cells:
        right = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join([f"{first:<{widths[0]}}", *right]).rstrip())
    return "\n".join(lines)


def duration_text(seconds: float) -> str:
    """An amount of audio: seconds below an hour, hours as well above."""
    return f"{seconds / 3600:.2f} h ({seconds:,.0f} s)" if seconds >= 3600 else f"{seconds:.1f} s"


def set_quiet(quiet: bool) -> None:
    """Leaves only errors on standard error."""
    console.quiet = quiet
    logging.getLogger("myxtts").setLevel(logging.ERROR if quiet else logging.INFO)


@contextmanager
def progress(description: str, total: float | None, unit: str = "clips") -> Iterator[Advance]:
    """One progress bar with rate and time left, gone when it is done; nothing with `--quiet`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_interactive) as bar:
        yield _Bar(bar, bar.add_task(description, total=total))


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


class _Bar:
    def __init__(self, bar: Progress, task: Any) -> None:
        self._bar = bar
        self._task = task

    def advance(self, n: float = 1) -> None:
        self._bar.advance(self._task, n)


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self._unit}/s")
