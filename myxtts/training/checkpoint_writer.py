"""Saves checkpoints while training goes on.

The loop waits only until everything has been copied from the device; a thread then writes the files. One save at a
time: the next one waits for it. What cannot be written is said, the run goes on, and the checkpoint before stays.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.errors import MyXTTSError
from myxtts.models.checkpoint import new_checkpoint, write_model
from myxtts.models.xtts import XTTS
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.run_folder import RunFolder
from myxtts.training.training_state import TrainingState

logger = logging.getLogger(__name__)

WRITING = "write a checkpoint (beside training)"


@dataclass(frozen=True)
class Save:
    """What to save.

    Attributes:
        step: optimizer steps done.
        averaged: the model to speak with; must stay as it is until the save is done.
        state: the run.
        details: for `Checkpoint.details`.
        best: whether it is the best so far.
    """

    step: int
    averaged: XTTS
    state: TrainingState
    details: dict[str, Any]
    best: bool = False


class CheckpointWriter:
    """Writes the checkpoints of a run.

    Args:
        folder: of the run.
        config: of the run.
        monitor: gets the time each save takes beside training.

    Attributes:
        saved_step: step of the newest checkpoint that was written, or None.
        error: why the last save failed, or None.
    """

    def __init__(self, folder: RunFolder, config: XTTSConfig, monitor: PerformanceMonitor) -> None:
        self._folder = folder
        self._config = config
        self._monitor = monitor
        self._thread: threading.Thread | None = None
        self.saved_step: int | None = None
        self.error: str | None = None

    def save(self, save: Save) -> None:
        """Begins to write a checkpoint, after the one before is done."""
        self.wait()
        self._thread = threading.Thread(target=self._write, args=(save,), name="checkpoint-writer")
        self._thread.start()

    def wait(self) -> None:
        """Blocks until nothing is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _write(self, save: Save) -> None:
        began = time.perf_counter()
        try:
            with new_checkpoint(self._folder.checkpoint(save.step)) as path:
                write_model(path, save.averaged, self._config, save.details)
                save.state.write(path)
            if save.best:
                self._folder.mark_best(save.step)
            self._folder.prune(self._config.training.keep_checkpoints)
        except (OSError, MyXTTSError) as error:
            self.error = reason = getattr(error, "strerror", None) or str(error)
            kept = "there is none yet" if self.saved_step is None else f"the last one is of step {self.saved_step:,}"
            logger.warning(
                "the checkpoint of step %s cannot be saved (%s); training goes on, %s",
                f"{save.step:,}",
                reason,
                kept,
            )
        else:
            self.saved_step, self.error = save.step, None
        self._monitor.log_operation(WRITING, time.perf_counter() - began)
