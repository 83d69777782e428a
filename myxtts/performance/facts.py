"""What was measured of an input that makes a step wait, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.performance.cpu_use import CpuUse
from myxtts.performance.experiments import Refill, SlowElements
from myxtts.performance.graph_nodes import Node


@dataclass(frozen=True)
class InputAlone:
    """The input measured without a step.

    Attributes:
        seconds: per batch.
        cpu: what the process did meanwhile.
        lock_held: share of the time that the interpreter's lock could not be had.
        nodes: of a `tf.data` pipeline with their times; empty for other sources.
        batches: how many were taken.
    """

    seconds: float
    cpu: CpuUse
    lock_held: float
    batches: int
    nodes: Sequence[Node] = ()

    @property
    def waiting(self) -> float:
        """Of the pipeline's own time, the share in which it neither worked nor was kept from working, 0 to 1."""
        worked = (self.cpu.own + self.cpu.queued) / self.batches
        busy = max(sum(node.seconds for node in self.nodes), self.seconds)
        return max(0.0, 1 - worked / busy) if busy else 0.0


@dataclass(frozen=True, eq=False)
class Facts:
    """What was measured of the input. Times are seconds per step.

    Attributes:
        stall: waiting for data.
        ceiling: a step with perfect input.
        stalls: float [N], of each step.
        waits_for_all: whether a step waits for all of the making of its batch, nothing being made ahead.
        alone: the input without a step.
        epoch_starts: steps that began an epoch.
        padding: share of the batches' bytes.
        prefetched_stall: waiting, measured with batches made ahead; None if that was not tried.
        speed_up: of the slowest node with more calls at once; None if that was not tried.
        refill: of a shuffle buffer.
        slow: clips that stand out.
    """

    stall: float
    ceiling: float
    stalls: np.ndarray
    waits_for_all: bool
    alone: InputAlone
    epoch_starts: Sequence[int] = ()
    padding: float = 0.0
    prefetched_stall: float | None = None
    speed_up: float | None = None
    refill: Refill | None = None
    slow: SlowElements | None = None

    def removed(self, ratio: float) -> float:
        """The share of the stall that goes if the input takes `ratio` of its present time."""
        if self.stall <= 0:
            return 0.0
        present = self.stall if self.waits_for_all else self.ceiling + self.stall
        left = present * ratio - (0.0 if self.waits_for_all else self.ceiling)
        gone = float(np.clip(1 - max(0.0, left) / self.stall, 0.0, 1.0))
        return gone * (1 - self.stall_of_epochs)

    @property
    def explained(self) -> float:
        """The input's time without a step, over the time that a step waits for it; well below 1 if its being slow is
        not what a step waits for."""
        present = self.stall if self.waits_for_all else self.ceiling + self.stall
        return self.alone.seconds / present if present else 0.0

    def share_left(self, ratio: float) -> float:
        """The share of step time that still waits for data if the input takes `ratio` of its present time."""
        left = self.stall * (1 - self.removed(ratio))
        return left / (self.ceiling + left) if left else 0.0

    @property
    def spiky_steps(self) -> np.ndarray:
        """Few steps that hold most of the stall; empty if it is spread over all of them."""
        order = np.argsort(-self.stalls)
        most = max(1, len(order) // 5)
        total = float(self.stalls.sum())
        if not total or float(self.stalls[order[:most]].sum()) < 0.6 * total:
            return np.array([], int)
        summed = np.cumsum(self.stalls[order])
        return np.sort(order[: int(np.searchsorted(summed, 0.8 * total)) + 1])

    @property
    def stall_at_epochs(self) -> float:
        """The share of the stall in the steps that begin an epoch and right after, 0 to 1."""
        near = sorted(
            {step + late for step in self.epoch_starts for late in (0, 1) if step + late < len(self.stalls)}
        )
        total = float(self.stalls.sum())
        return float(self.stalls[near].sum()) / total if near and total else 0.0

    @property
    def stall_of_epochs(self) -> float:
        """The share of the stall that comes from epochs beginning, beyond what those steps would have of it anyway.

        A pipeline starts anew then, which has nothing to do with the pace that it keeps once it runs.
        """
        usual = min(1.0, len(near(self.epoch_starts)) / len(self.stalls))
        return max(0.0, (self.stall_at_epochs - usual) / (1 - usual)) if usual < 1 else 0.0


def near(starts: Sequence[int]) -> set[int]:
    """Steps at which something begins, and those right after: a batch is made while the step before it runs."""
    return {start + late for start in starts for late in (0, 1)}
