"""What was measured of an input that makes steps wait, and of the steps themselves, and what follows from it.

The rules of `culprits` judge these facts and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.performance.cpu_use import CpuUse
from myxtts.performance.graph_nodes import Node, slowest_node, stage_seconds, stages
from myxtts.performance.replay_comparison import ReplayComparison

# From here on a share is most of something.
MOSTLY = 0.5
# Calls at once when parallelism is tried out.
MORE_PARALLEL = 16


@dataclass(frozen=True)
class ShuffleRefill:
    """A shuffle buffer that is filled again in every epoch.

    Attributes:
        node: its name.
        elements: how many it holds.
        seconds: until it gives its first element, beyond what that element itself takes.
    """

    node: str
    elements: int
    seconds: float


@dataclass(frozen=True)
class SlowElements:
    """Elements that take far longer than others.

    Attributes:
        names: of the slow ones, by what the function was given.
        count: elements that were timed.
        times_median: how many times the median they take, on average.
        excess_share: the share of all elements' time that is theirs beyond the median.
    """

    names: tuple[str, ...]
    count: int
    times_median: float
    excess_share: float


@dataclass(frozen=True)
class EagerStep:
    """A step that runs its operations one by one.

    Attributes:
        operations: in one call.
        gain: share of the step's time that a `tf.function` saves, measured; 0 if it cannot be traced.
        problem: why it cannot be traced; None if it can.
    """

    operations: int
    gain: float
    problem: str | None = None


@dataclass(frozen=True)
class InputAlone:
    """The input measured without a step.

    Attributes:
        seconds: per batch.
        cpu: what the process did meanwhile.
        lock_held: share of the time that the interpreter lock was held.
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
        """Share of the pipeline's own time in which it neither worked nor was kept from working, 0 to 1."""
        worked = (self.cpu.own + self.cpu.queued) / self.batches
        busy = max(sum(node.seconds for node in self.nodes), self.seconds)
        return max(0.0, 1 - worked / busy) if busy else 0.0


@dataclass(frozen=True, eq=False)
class InputFacts:
    """What was measured of the input. Times are seconds per step.

    Attributes:
        comparison: how long steps wait for it.
        waits_for_all: whether a step waits while its whole batch is made, because nothing is made ahead.
        alone: the input without a step.
        padding: share of the batches' bytes.
        prefetched_stall: waiting for data with batches made ahead; None if that was not tried.
        speed_up: of the slowest node with more calls at once; None if that was not tried.
        refill: of a shuffle buffer; None if there is none.
        slow: clips that are far slower than others; None if there are none.
    """

    comparison: ReplayComparison
    waits_for_all: bool
    alone: InputAlone
    padding: float = 0.0
    prefetched_stall: float | None = None
    speed_up: float | None = None
    refill: ShuffleRefill | None = None
    slow: SlowElements | None = None

    @property
    def stalls(self) -> np.ndarray:
        """float [N], of each step."""
        return self.comparison.run.stalls

    def removed(self, ratio: float) -> float:
        """The share of the stall that goes if the input takes `ratio` of its present time."""
        stall = self.comparison.stall
        if stall <= 0:
            return 0.0
        left = self._present * ratio - (0.0 if self.waits_for_all else self.comparison.ceiling)
        gone = float(np.clip(1 - max(0.0, left) / stall, 0.0, 1.0))
        return gone * (1 - self.stall_of_epochs)

    @property
    def explained(self) -> float:
        """The input's time without a step, over the time that a step waits for it.

        Well below 1 if steps wait for something else than a slow input.
        """
        return self.alone.seconds / self._present if self._present else 0.0

    @property
    def _present(self) -> float:
        """The time in which the input makes a batch, as the steps show it."""
        return self.comparison.stall + (0.0 if self.waits_for_all else self.comparison.ceiling)

    @property
    def slow_node(self) -> Node | None:
        """The node that holds the pipeline up, if the pipeline's own speed is what steps wait for."""
        return slowest_node(self.alone.nodes) if self.explained >= MOSTLY else None

    def removed_without(self, node: Node, saved: float) -> float:
        """The share of the stall that goes if this node blocks `saved` seconds less per batch."""
        times = [(stage_seconds(stage), node in stage) for stage in stages(self.alone.nodes)]
        before = max(seconds for seconds, _ in times)
        after = max(max(0.0, seconds - saved) if hit else seconds for seconds, hit in times)
        return self.removed(after / before if before else 1.0)

    def is_python(self, node: Node) -> bool:
        """Whether a node's time goes into Python functions; a thread that waits for the lock is not in one yet."""
        return node.python_seconds >= MOSTLY * min(node.seconds, self.alone.seconds)

    def blocking_text(self, node: Node) -> str:
        total = sum(one.blocking for one in self.alone.nodes)
        share = node.blocking / total if total else 0.0
        return f"{node.name}: {100 * share:.0f} % of the pipeline's blocking time"

    def share_left(self, ratio: float) -> float:
        """The share of step time that still waits for data if the input takes `ratio` of its present time."""
        left = self.comparison.stall * (1 - self.removed(ratio))
        return left / (self.comparison.ceiling + left) if left else 0.0

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
    def near_epochs(self) -> set[int]:
        """Steps that begin an epoch, and those right after: a batch is made while the step before it runs."""
        return {start + late for start in self.comparison.run.epoch_starts for late in (0, 1)}

    @property
    def stall_at_epochs(self) -> float:
        """The share of the stall in the steps that begin an epoch and right after, 0 to 1."""
        steps = sorted(step for step in self.near_epochs if step < len(self.stalls))
        total = float(self.stalls.sum())
        return float(self.stalls[steps].sum()) / total if steps and total else 0.0

    @property
    def stall_of_epochs(self) -> float:
        """The share of the stall that comes from epochs beginning, beyond what those steps would have of it anyway.

        A pipeline starts again then, which says nothing about its speed once it runs.
        """
        usual = min(1.0, len(self.near_epochs) / len(self.stalls))
        return max(0.0, (self.stall_at_epochs - usual) / (1 - usual)) if usual < 1 else 0.0


@dataclass(frozen=True, eq=False)
class Measurements:
    """Everything that a diagnosis rests on.

    Attributes:
        comparison: the steps with real and with replayed input.
        input: why they wait; None: they hardly wait, so it was not investigated.
        eager: a step that runs its operations one by one; None: it does not.
        copy_seconds: to copy a batch to the device.
        cold_share: share of step time that waits for data with a cold page cache; None: not measured.
        is_tf_data: whether the input is a `tf.data` pipeline.
        simulated: whether the step is a simulated accelerator's.
    """

    comparison: ReplayComparison
    input: InputFacts | None = None
    eager: EagerStep | None = None
    copy_seconds: float = 0.0
    cold_share: float | None = None
    is_tf_data: bool = True
    simulated: bool = False

    @property
    def computing(self) -> float:
        """Share of step time that is the step's own, 0 to 1."""
        step_seconds = self.comparison.step_seconds
        return min(1.0, self.comparison.ceiling / step_seconds) if step_seconds else 0.0
