"""A program that trains the small model on the small data set, for tests that stop it.

python training_program.py DATA RUN '{"max_steps": 20, "resume": true, "killed_at": 7}'

With `"devices": 2` two processes train together, each as `training_rank.py` says.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from training_samples import SMALLEST, configure

from myxtts.cli import output
from myxtts.errors import MyXTTSError
from myxtts.models.sizes import SIZES
from myxtts.training.cluster import Rank, on_this_machine
from myxtts.training.interruption import exit_code
from myxtts.training.launcher import run_ranks
from myxtts.training.progress import LoggingObserver, TrainingProgress
from myxtts.training.trainer import XTTSTrainer

# A busy host keeps processes silent for longer than the 10 s that users have by default.
NEVER_LOST = 600.0


class KilledAt(LoggingObserver):
    """Kills this process when the losses of a step are known, whatever else is under way."""

    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, progress: TrainingProgress) -> None:
        if progress.step >= self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train(
    data: Path,
    run: Path,
    changes: dict[str, Any],
    rank: Rank | None = None,
    joined: Callable[[], None] = lambda: None,
) -> int | None:
    """Trains; returns the signal that interrupted it."""
    resume = changes.pop("resume", False)
    killed_at = changes.pop("killed_at", None)
    observer = LoggingObserver() if killed_at is None else KilledAt(killed_at)
    config = configure(data, run, **({"size": "tiny", "decoder": "regression"} | changes))
    # By the trainer and not here: processes that train together must have found each other before there is a model.
    SIZES["tiny"] = replace(SMALLEST, dropout=0.1)
    trainer = XTTSTrainer(config, resume=resume, observer=observer, rank=rank)
    joined()
    return trainer.train(*trainer.prepare_datasets()).signal


def main() -> int:
    output.start_logging()
    data, run, changes = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    devices = changes.pop("devices", 1)
    lost_timeout = changes.pop("lost_timeout", NEVER_LOST)
    try:
        if devices == 1:
            number = train(data, run, changes)
        else:
            run.mkdir(exist_ok=True)
            task = {"data": str(data), "run": str(run), "changes": changes}
            cluster = replace(on_this_machine(devices), lost_timeout=lost_timeout)
            number = run_ranks("training_rank", cluster, task, run)["signal"]
    except MyXTTSError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if number is None else exit_code(number)


if __name__ == "__main__":
    sys.exit(main())
