"""A program that trains the small model on the small data set, for tests that stop it from outside.

python training_program.py DATA RUN '{"max_steps": 20}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from training_samples import configure, small_model

from myxtts.cli import output
from myxtts.errors import MyXTTSError
from myxtts.training.interruption import exit_code
from myxtts.training.trainer import XTTSTrainer


def main() -> int:
    output.start_logging()
    data, run, changes = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
    resume = changes.pop("resume", False)
    config = configure(data, run, **changes)
    try:
        trainer = XTTSTrainer(config, resume=resume, model=small_model(config.training.seed))
        result = trainer.train(*trainer.prepare_datasets())
    except MyXTTSError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if result.signal is None else exit_code(result.signal)


if __name__ == "__main__":
    sys.exit(main())
