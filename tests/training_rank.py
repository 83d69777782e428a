"""One of the processes of `training_program.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_program import train

from myxtts.cli import output
from myxtts.training.cluster import Rank
from myxtts.training.rank_process import run_rank


def main() -> None:
    output.start_logging()
    run_rank(work)


def work(task: dict[str, Any], rank: Rank, joined: Callable[[], None]) -> tuple[dict[str, Any], int | None]:
    return {}, train(Path(task["data"]), Path(task["run"]), task["changes"], rank, joined)
