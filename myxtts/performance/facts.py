"""What was measured of an input that makes steps wait, and of the steps themselves, and what follows from it.

The rules of `culprits` judge these facts and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.performance.cpu_use import CpuUse
from myxtts.performance.graph_nodes import Node, slowest_node, stage_seconds, stages
from myxtts.performance.replay_comparison import ReplayComparison

# From here on a share is most of something.
MOSTLY = 0.5
# Calls at once when parallelism is tried out.
MORE_PARALLEL = 16

# An element that takes so many times as long as the median one is an outlier.
_OUTLIER = 8.0
_TRIED_AGAIN = 10
_FEWEST_ELEMENTS = 8
# Filling a shuffle buffer takes far longer than any other wait, or it cannot be told from them.
_REFILL_OVER_MEDIAN = 4.0
_RARE = 0.1


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

    @classmethod
    def find(
        cls, names: Sequence[str], seconds: np.ndarray, time_again: Callable[[int], float]
    ) -> SlowElements | None:
        """The elements that stand out by their times; None if none does.

        Args:
            names: of the elements.
            seconds: float [N], that each took.
            time_again: the seconds of the element at a position, measured once more.
        """
        lasted = np.array(seconds, np.float64)
        if len(lasted) < _FEWEST_ELEMENTS:
            return None
        median = float(np.median(lasted))
        limit = max(_OUTLIER * median, median + 1e-3)
        suspects = np.flatnonzero(lasted > limit)[:_TRIED_AGAIN]
        for position in suspects.tolist():
            # Once may have been chance; a slow clip is slow again.
            for _ in range(2):
                lasted[position] = min(lasted[position], time_again(position))
        slow = np.flatnonzero(lasted > limit)
        by_chance = np.mean(lasted[suspects] <= limit) > MOSTLY if len(suspects) else True
        if by_chance or len(slow) > 0.2 * len(lasted):
            return None
        by_time = slow[np.argsort(-lasted[slow])]
        return cls(
            tuple(dict.fromkeys(names[position] for position in by_time)),
            len(lasted),
            float(lasted[slow].mean()) / max(median, 1e-9),
            float((lasted[slow] - median).sum()) / float(lasted.sum()),
        )


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
class LoaderSettings:
    """How a PyTorch `DataLoader` was made. Its `collate_fn` and sampler are given by their names."""

    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool
    persistent_workers: bool
    batch_size: int | None
    sampler: str
    collate_fn: str
    start_method: str


@dataclass(frozen=True)
class LoaderTrial:
    """A `DataLoader` with other settings, tried out.

    Attributes:
        settings: the arguments that differ, as Python.
        stall: seconds that a step waits for data with them.
    """

    settings: str
    stall: float


@dataclass(frozen=True)
class LoaderFacts:
    """What was measured of a PyTorch `DataLoader` beside the times of its parts, which are nodes.

    Attributes:
        settings: as it was given.
        batch_bytes: of the arrays in a batch.
        batch_parts: how many arrays and other objects a batch consists of.
        worker_memory: bytes that its workers have for themselves, all together.
        more_workers, fewer_workers, persistent, more_ready: tried out; None: there was no reason to.
    """

    settings: LoaderSettings
    batch_bytes: int = 0
    batch_parts: int = 0
    worker_memory: int = 0
    more_workers: LoaderTrial | None = None
    fewer_workers: LoaderTrial | None = None
    persistent: LoaderTrial | None = None
    more_ready: LoaderTrial | None = None


@dataclass(frozen=True)
class PinnedCopy:
    """Copying a batch to the GPU of a PyTorch step. Seconds per batch.

    Attributes:
        pageable: from memory as the loader gives it.
        pinned: from pinned memory.
    """

    pageable: float
    pinned: float


@dataclass(frozen=True)
class BatchMaker:
    """The thread that makes the batches of a Python iterable. Shares are of the time that batches are made, 0 to 1.

    Attributes:
        function: the innermost one in which at least half of the time is spent, with its file and line.
        share: spent in it and in what it calls.
        is_loop: whether it is the training loop's own thread.
        computing: spent on a CPU; None: the system does not say.
        queued: spent waiting for a CPU.
        locked: spent waiting for the interpreter lock, which other threads had.
    """

    function: str
    share: float
    is_loop: bool
    computing: float | None = None
    queued: float = 0.0
    locked: float = 0.0

    @classmethod
    def of_times(
        cls, function: str, share: float, is_loop: bool, computing: float, queued: float, lock_held: float
    ) -> BatchMaker:
        """From a thread's times: while the lock is held and this thread does not compute, another one has it."""
        locked = max(0.0, min(1 - computing - queued, lock_held - computing))
        return cls(function, share, is_loop, computing, queued, locked)

    @property
    def work(self) -> float:
        """The share of its time that is work, had it always got a CPU when it wanted one; 0 if that is unknown."""
        others = 1 - (self.computing or 0.0) - self.queued
        return self.computing / (self.computing + others) if self.computing else 0.0

    @property
    def waiting(self) -> float | None:
        """Spent waiting for anything else: bytes, a lock, a process."""
        return None if self.computing is None else max(0.0, 1 - self.computing - self.queued - self.locked)

    def __str__(self) -> str:
        where = "the loop's own thread" if self.is_loop else "a thread of the loader"
        text = f"{where} makes the batches, {100 * self.share:.0f} % of the time in {self.function}"
        if self.computing is None or self.waiting is None:
            return text
        parts = {"computes": self.computing, "waits": self.waiting, "waits for the lock": self.locked}
        parts["waits for a CPU"] = self.queued
        return f"{text}: it {', '.join(f'{name} {100 * one:.0f} %' for name, one in parts.items() if one >= 0.05)}"


@dataclass(frozen=True)
class InputAlone:
    """The input measured without a step.

    Attributes:
        seconds: per batch.
        cpu: what the process did meanwhile.
        lock_held: share of the time that the interpreter lock was held.
        nodes: the parts of a `tf.data` pipeline or of a PyTorch loader, with their times; empty for other sources.
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
        loader: of a PyTorch `DataLoader`; None if it is something else.
        maker: the thread that makes the batches of a Python iterable; None if it is something else.
        processes: that were tried in its place.
        processes_stall: waiting for data with them; None if that was not tried.
    """

    comparison: ReplayComparison
    waits_for_all: bool
    alone: InputAlone
    padding: float = 0.0
    prefetched_stall: float | None = None
    speed_up: float | None = None
    refill: ShuffleRefill | None = None
    slow: SlowElements | None = None
    loader: LoaderFacts | None = None
    maker: BatchMaker | None = None
    processes: int = 0
    processes_stall: float | None = None

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

    def removed_without(self, saved: Mapping[Node, float]) -> float:
        """The share of the stall that goes if nodes block so many seconds less per batch."""
        found = stages(self.alone.nodes)
        before = max(map(stage_seconds, found), default=0.0)
        after = max(
            (max(0.0, stage_seconds(stage) - sum(saved.get(node, 0.0) for node in stage)) for stage in found),
            default=0.0,
        )
        return self.removed(after / before if before else 1.0)

    def is_python(self, node: Node) -> bool:
        """Whether a node's time goes into Python functions; a thread that waits for the lock is not in one yet."""
        return node.python_seconds >= MOSTLY * min(node.seconds, self.alone.seconds)

    def node(self, kind: str) -> Node | None:
        """The first node of a kind."""
        return next((node for node in self.alone.nodes if node.kind == kind), None)

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
    def epoch_starts(self) -> tuple[int, ...]:
        """The steps that begin an epoch.

        A pipeline that repeats itself does not show them. If it has a shuffle buffer to fill again, they are the
        steps that wait about as long as that takes, while others do not.
        """
        seen = self.comparison.run.epoch_starts
        if seen or self.refill is None or self.refill.seconds < _REFILL_OVER_MEDIAN * float(np.median(self.stalls)):
            return seen
        bursts = np.flatnonzero(self.stalls >= MOSTLY * self.refill.seconds)
        return tuple(bursts.tolist()) if len(bursts) <= _RARE * len(self.stalls) else ()

    @property
    def near_epochs(self) -> set[int]:
        """Steps that begin an epoch, and those right after: a batch is made while the step before it runs."""
        return {start + late for start in self.epoch_starts for late in (0, 1)}

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
        pinned_copy: the same from pinned memory and from other memory; None: PyTorch has no GPU, or pins already.
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
    pinned_copy: PinnedCopy | None = None

    @property
    def computing(self) -> float:
        """Share of step time that is the step's own, 0 to 1."""
        step_seconds = self.comparison.step_seconds
        return min(1.0, self.comparison.ceiling / step_seconds) if step_seconds else 0.0
