"""The folder of a run: its lock, its checkpoints, which of them is the newest undamaged one and which the best.

| in it | is |
|---|---|
| `config.yaml` | the configuration in effect |
| `step-00001000` | a checkpoint (`models.checkpoint` and `training_state`); the newest few are kept |
| `best` | a link to the one with the lowest validation loss, or a file with its name where there are no links |
| `log.jsonl`, `timing.jsonl` | losses, and the times of every step |
| `rank-1.log`, … | messages of the other processes, where several train together |
| `tensorboard` | TensorBoard's files |
| `nonfinite.json` | the clips of the steps that ended the run, if a loss was not finite |
| `lock` | locked while a run is active; the text in it is the process id |
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.errors import CheckpointError, TrainingError, UsageError
from myxtts.models.checkpoint import BEST, SPEECH, Checkpoint, best_of_run, read_checkpoint

if TYPE_CHECKING:
    from myxtts.training.training_state import TrainingState

logger = logging.getLogger(__name__)

CONFIG = "config.yaml"
LOCK = "lock"
LOG = "log.jsonl"
NONFINITE = "nonfinite.json"
TENSORBOARD = "tensorboard"
TIMING = "timing.jsonl"

_CHECKPOINT = re.compile(r"step-(\d{8,})")
_LEFTOVER = re.compile(r"\.step-\d{8,}\.\d+\.(new|old)")


class RunFolder:
    """A run's folder, which need not exist yet."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def checkpoint(self, step: int) -> Path:
        """The path of the checkpoint of a step."""
        return self.path / f"step-{step:08d}"

    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first.

        Raises:
            TrainingError: the folder cannot be read.
        """
        if not self.path.is_dir():
            return []
        try:
            found = [entry for entry in self.path.iterdir() if _CHECKPOINT.fullmatch(entry.name) and entry.is_dir()]
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be used for a run ({error.strerror})") from None
        return sorted(found, key=step_of)

    @property
    def best(self) -> Path | None:
        """The best checkpoint, if there is one."""
        return best_of_run(self.path)

    def require_free(self, resume: bool) -> None:
        """Checks that the folder holds no run, unless that run is to be resumed.

        Raises:
            UsageError: it holds a run, and `resume` is false.
            TrainingError: it cannot be read.
        """
        if not resume and self.checkpoints():
            raise UsageError(
                f"{self.path} holds a run already: --resume continues it, another --checkpoint-dir begins a new one"
            )

    def open(self, resume: bool) -> None:
        """Locks the folder for this run, until `close` or the end of the process.

        Raises:
            UsageError: another run is active in it, or it holds one and `resume` is false.
            TrainingError: it cannot be read or written to.
        """
        self.require_free(resume)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be used for a run ({error.strerror})") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 100).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise UsageError(f"{self.path}: a run is active here (process {holder})") from None
        except OSError as error:
            logger.warning(
                "%s: this file system has no locks (%s); start only one run here", self.path, error.strerror
            )
        self._descriptor = descriptor
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        for entry in self.path.iterdir():
            if _LEFTOVER.fullmatch(entry.name):
                shutil.rmtree(entry, ignore_errors=True)

    def close(self) -> None:
        """Releases the folder, so that another run can use it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def newest_whole(self, kind: str = SPEECH) -> tuple[Checkpoint, TrainingState] | None:
        """The newest checkpoint of a kind of model that can be resumed; damaged ones are skipped with a warning.

        Raises:
            CheckpointError: there are checkpoints, and all of them are damaged.
        """
        # Imports TensorFlow, which is not needed to look at the folder.
        from myxtts.training.training_state import TrainingState

        found = self.checkpoints()
        for path in reversed(found):
            try:
                return read_checkpoint(path, kind), TrainingState.read(path)
            except CheckpointError as error:
                logger.warning("%s; going back to the checkpoint before it", error)
        if found:
            raise CheckpointError(f"{self.path}: none of the {len(found)} checkpoints can be resumed")
        return None

    def mark_best(self, step: int) -> None:
        """Makes `best` point to the checkpoint of a step."""
        link = self.path / f".{BEST}.{os.getpid()}"
        link.unlink(missing_ok=True)
        name = self.checkpoint(step).name
        try:
            link.symlink_to(name, target_is_directory=True)
        except OSError:
            link.write_text(f"{name}\n", encoding="utf-8")
        os.replace(link, self.path / BEST)

    def prune(self, keep: int) -> None:
        """Removes all but the newest `keep` checkpoints and the best."""
        best = self.best.resolve() if self.best is not None else None
        for path in self.checkpoints()[:-keep]:
            if path.resolve() != best:
                shutil.rmtree(path, ignore_errors=True)


def step_of(checkpoint: Path) -> int:
    """The step in the name of a checkpoint's folder."""
    return int(checkpoint.name.removeprefix("step-"))
