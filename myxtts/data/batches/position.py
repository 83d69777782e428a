"""Where a run stands in its data: three integers and the plan they count in.

The order of batches is a pure function of (seed, epoch), so (seed, epoch, step) is enough to continue with
the very batch that would have come next, in another process too, provided the plan is the same. The position
therefore carries the plan's description, and a plan that would give other batches is refused with what
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from myxtts.data.batches.buckets import Bucket
from myxtts.data.batches.plan import BatchPlan, PlanDescription
from myxtts.data.batches.segment_plan import SegmentDescription, SegmentPlan
from myxtts.data.batches.window_plan import WindowedPlan
from myxtts.errors import DataError

# How the error names an item, where the field's own name would not tell a user much.
_NAMES = {
    "order_version": "version of the order",
    "segment_version": "version of the draw",
    "source": "store",
    "clips_hash": "hash of the clips",
    "batches": "batches per epoch",
    "buckets": "buckets (clips×frames×tokens)",
}


@dataclass(frozen=True)
class Position:
    """The next batch to be used is number `step` of `epoch` in the order of `seed`.

    Attributes:
        seed: seed of the order.
        epoch: epochs completed.
        step: batches of this epoch already used, always less than the plan's batches per epoch.
        plan: what the plan looked like.
    """

    seed: int
    epoch: int
    step: int
    plan: PlanDescription | SegmentDescription

    def __post_init__(self) -> None:
        if self.plan.batches < 1:
            raise DataError("there is no clip to train on, so there is no position in the data either")
        if self.seed < 0 or self.epoch < 0 or not 0 <= self.step < self.plan.batches:
            raise DataError(
                f"there is no batch {self.step} in epoch {self.epoch} of seed {self.seed}: "
                f"an epoch has {self.plan.batches} batches"
            )

    @classmethod
    def start(cls, plan: BatchPlan | WindowedPlan | SegmentPlan, seed: int) -> Position:
        """The first batch of the first epoch."""
        return cls(seed, 0, 0, plan.description)

    def advance(self, batches: int = 1) -> Position:
        """The position after that many more batches, in a later epoch if this one ends before."""
        epochs, step = divmod(self.step + batches, self.plan.batches)
        return replace(self, epoch=self.epoch + epochs, step=step)

    def require(self, plan: BatchPlan | WindowedPlan | SegmentPlan) -> None:
        """Raise unless `plan` continues with the batches this position was saved in.

        Raises:
            DataError: the plan gives other batches; the message names each item that changed, old → new.
        """
        if plan.hash == self.plan.hash:
            return
        if type(plan.description) is not type(self.plan):
            counted = "segments" if isinstance(self.plan, SegmentDescription) else "whole clips"
            raise DataError(
                f"cannot continue at epoch {self.epoch}, step {self.step}: "
                f"this was saved by a run on batches of {counted}, and the batches here are others"
            )
        changes = [
            f"{_NAMES.get(field.name, field.name)} {_text(old)} → {_text(new)}"
            for field in fields(self.plan)
            if field.name != "hash"
            and (old := getattr(self.plan, field.name)) != (new := getattr(plan.description, field.name))
        ]
        raise DataError(
            f"cannot continue at epoch {self.epoch}, step {self.step}: the batches are no longer the same\n"
            f"changed: {'; '.join(changes)}\n"
            "restore what changed, or begin a new run with the weights of this one (--init-from)"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `from_dict` restores it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Position:
        """Restore what `to_dict` gave, through JSON or not.

        Raises:
            DataError: it is not a saved position.
        """
        try:
            numbers = int(saved["seed"]), int(saved["epoch"]), int(saved["step"])
            plan = dict(saved["plan"])
            if "segment_version" in plan:
                return cls(*numbers, SegmentDescription(**plan))
            plan["buckets"] = tuple(Bucket(**bucket) for bucket in plan["buckets"])
            return cls(*numbers, PlanDescription(**plan))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"not a saved position in the data ({type(error).__name__}: {error})") from error


def _text(value: object) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"{bucket.batch_size}×{bucket.frames}×{bucket.tokens}" for bucket in value)
    return str(value)
