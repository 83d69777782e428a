"""What a resumed run needs besides the averaged model: trained weights, optimizer, counters, position in the data.

Two files in the checkpoint's folder: `training.npz`, arrays without pickle, and `training.json`, everything else.
No random state is saved, because there is none: what a step draws follows from the seed and the step's number.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from myxtts.data.batches.position import Position
from myxtts.errors import CheckpointError
from myxtts.training.alignment_cache import SEARCH, AlignmentCache
from myxtts.training.step import TrainingStep

ARRAYS = "training.npz"
VALUES = "training.json"


@dataclass
class RunState:
    """How far a run has come, in numbers on the host.

    Attributes:
        batch: batches done.
        position: the next batch of the data; None for data that cannot be resumed.
        validated_batch: batches done at the last validation; None before the first.
        best_loss, best_step: the lowest validation loss so far, and its step.
        validations_without_gain: validations since then.
        alignments: the phase of `AlignmentPhases`: `search`, `keep` or `reuse`.
    """

    batch: int = 0
    position: Position | None = None
    validated_batch: int | None = None
    best_loss: float | None = None
    best_step: int | None = None
    validations_without_gain: int = 0
    alignments: str = SEARCH

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["position"] = None if self.position is None else self.position.to_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunState:
        position = values.get("position")
        return cls(**{**values, "position": None if position is None else Position.from_dict(position)})


@dataclass(frozen=True)
class TrainingState:
    """A snapshot of a run.

    Attributes:
        run: how far it has come.
        optimizer: the settings that decide which variables the optimizer has.
        arrays: the values of all variables, by name.
    """

    run: RunState
    optimizer: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def capture(cls, run: RunState, step: TrainingStep, cache: AlignmentCache | None) -> TrainingState:
        """Copies everything from the device, and waits for it."""
        arrays = {name: np.array(variable.numpy()) for name, variable in _variables(step).items()}
        if cache is not None and run.alignments != SEARCH:
            arrays |= {"alignments/durations": cache.durations.copy(), "alignments/known": cache.known.copy()}
        return cls(RunState(**vars(run)), _optimizer_settings(step.optimizer), arrays)

    def restore(self, step: TrainingStep, cache: AlignmentCache | None) -> None:
        """Puts everything back.

        Raises:
            CheckpointError: the model, the optimizer or the losses have other variables now.
        """
        now = _optimizer_settings(step.optimizer)
        changed = [f"{key} {old} → {now.get(key)}" for key, old in self.optimizer.items() if old != now.get(key)]
        if changed:
            raise CheckpointError(f"cannot resume with another optimizer: {'; '.join(changed)}")
        for name, variable in _variables(step).items():
            saved = self.arrays.get(name)
            if saved is None or saved.shape != tuple(variable.shape):
                shape = "not there" if saved is None else f"of shape {saved.shape}"
                raise CheckpointError(
                    f"cannot resume: {name} is {shape} in the checkpoint, {variable.shape} here; "
                    "--init-from begins a new run with its weights"
                )
            variable.assign(saved)
        if cache is not None and "alignments/known" in self.arrays:
            cache.durations[:] = self.arrays["alignments/durations"]
            cache.known[:] = self.arrays["alignments/known"]

    def write(self, folder: Path) -> None:
        """Writes both files into `folder`."""
        with open(folder / ARRAYS, "wb") as file:
            np.savez(file, **dict[str, Any](self.arrays))
        values = {"run": self.run.to_dict(), "optimizer": dict(self.optimizer)}
        (folder / VALUES).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> TrainingState:
        """Reads what `write` wrote.

        Raises:
            CheckpointError: the folder holds a model to speak with and no training to resume, or is damaged.
        """
        if not (folder / VALUES).is_file():
            raise CheckpointError(f"{folder}: holds a model and no training to resume; use it with --init-from")
        try:
            values = json.loads((folder / VALUES).read_text(encoding="utf-8"))
            with np.load(folder / ARRAYS, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            return cls(RunState.from_dict(values["run"]), values["optimizer"], arrays)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{folder}: the training in it cannot be read ({error})") from error


def _variables(step: TrainingStep) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, variables in (("weights", step.objective.model.weights), ("optimizer", step.optimizer.variables)):
        found |= {f"{kind}/{number:04d}": variable for number, variable in enumerate(variables)}
    return found | {f"step/{name}": variable for name, variable in step.state.items()}


def _optimizer_settings(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return {
        "averages weights (ema_decay)": bool(inner.use_ema),
        "gradient_accumulation_steps": inner.gradient_accumulation_steps or 1,
        "scales the loss (mixed_precision)": inner is not optimizer,
    }
