"""One of the processes that `myxtts train --devices` starts; not a command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli import output
from myxtts.cli.machine_config import start_tensorflow
from myxtts.cli.train import TrainingDisplay
from myxtts.config.config import XTTSConfig
from myxtts.training.rank_process import run_rank

if TYPE_CHECKING:
    from myxtts.training.cluster import Rank


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    output.start_logging()
    run_rank(_train)


def _train(task: dict[str, Any], rank: Rank, joined: Callable[[], None]) -> tuple[dict[str, Any], int | None]:
    output.set_format(as_json=False, quiet=task["quiet"])
    config = XTTSConfig(**task["config"])
    start_tensorflow(config.training)
    from myxtts.audio.mel import MelSettings
    from myxtts.data.ljspeech import LJSpeechDataset
    from myxtts.inference.vocoder import vocoder_when_needed
    from myxtts.training.trainer import XTTSTrainer

    with TrainingDisplay() as display:
        trainer = XTTSTrainer(config, resume=task["resume"], init_from=task["init_from"], observer=display, rank=rank)
        joined()
        if rank.number == 0:
            run = Path(config.training.checkpoint_dir)
            trainer.vocoder = vocoder_when_needed(task["vocoder"], MelSettings.from_config(config.data), run)
        dataset = None
        if task["trust_store"]:
            dataset = LJSpeechDataset(None, config.data.model_copy(update={"trust_store": True}))
        result = trainer.train(*trainer.prepare_datasets(None, dataset))
    return json.loads(json.dumps(result.to_dict(), default=str)), result.signal
