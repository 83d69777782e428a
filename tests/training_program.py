"""A program that trains the small model on the small data set, for tests that stop it.

python training_program.py DATA RUN '{"max_steps": 20, "resume": true, "killed_at": 7}'

With `"rank": [0, "127.0.0.1:4000", "127.0.0.1:4001"]` it is one of the processes that train together.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from training_samples import SMALLEST, configure

from myxtts.cli import output
from myxtts.errors import MyXTTSError
from myxtts.models.sizes import SIZES
from myxtts.training.cluster import Rank
from myxtts.training.interruption import exit_code
from myxtts.training.progress import LoggingObserver, TrainingProgress
from myxtts.training.trainer import XTTSTrainer


class KilledAt(LoggingObserver):
    """Kills this process when the losses of a step are known, whatever else is under way."""

    def __init__(self, step: int) -> None:
        self.step = step

    def logged(self, progress: TrainingProgress) -> None:
        if progress.step >= self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    output.start_logging()
    data, run, changes = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    resume = changes.pop("resume", False)
    killed_at = changes.pop("killed_at", None)
    rank = changes.pop("rank", None)
    observer = LoggingObserver() if killed_at is None else KilledAt(killed_at)
    config = configure(data, run, **({"size": "tiny", "decoder": "regression"} | changes))
    # Created by the trainer: processes that train together must have found each other before there is a model.
    SIZES["tiny"] = replace(SMALLEST, dropout=0.1)
    try:
        trainer = XTTSTrainer(
            config,
            resume=resume,
            observer=observer,
            rank=None if rank is None else Rank(rank[0], tuple(rank[1:])),
        )
        result = trainer.train(*trainer.prepare_datasets())
    except MyXTTSError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if result.signal is None else exit_code(result.signal)


if __name__ == "__main__":
    sys.exit(main())
