"""Names the culprit: the one change that would remove most of the lost time.

Every suspect is judged by what its absence is worth, tried out where that is possible and computed from the measured
times of the pipeline's nodes where it is not. That a thing is there (a Python function, say) is no reason by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from myxtts.performance import diagnosis as found
from myxtts.performance.diagnosis import number
from myxtts.performance.experiments import MORE_PARALLEL
from myxtts.performance.facts import Facts, near
from myxtts.performance.graph_nodes import Node, stages
from myxtts.performance.stall import HIGHLY_INPUT_BOUND

# From the most to the least specific, and the easiest change before the harder one. The first suspect in this order
# that would remove enough is the culprit; if none would, the one that removes most.
_ORDER = (
    found.NO_PREFETCH,
    found.SHUFFLE_REFILL,
    found.SLOW_CLIPS,
    found.LOW_PARALLELISM,
    found.PADDING,
    found.PYTHON_FUNCTION,
    found.SLOW_STORAGE,
    found.STARVED_CPU,
    found.PER_CLIP_WORK,
)
_ENOUGH = 0.75
_NOT_ENOUGH = 0.7
_LEAST = 0.15

_SHOWN = 3
_LOCK_HELD = 0.35
_MOSTLY = 0.5
_WORTH_SPEED_UP = 1.5
_SATURATED = 0.85


@dataclass(frozen=True)
class Suspect:
    """A culprit, and what its absence is worth.

    Attributes:
        culprit: one of the documented names.
        removed: share of the stall that would go, 0 to 1.
        text: which node, clip or resource.
        evidence: what was measured.
        measured: whether `removed` was measured by trying it.
    """

    culprit: str
    removed: float
    text: str
    evidence: tuple[str, ...] = field(default=())
    measured: bool = False


def choose(suspects: Sequence[Suspect]) -> list[Suspect]:
    """Suspects worth naming, the culprit first; empty if none would remove a fair part of the stall."""
    named = sorted(
        (suspect for suspect in suspects if suspect.removed >= _LEAST), key=lambda one: _ORDER.index(one.culprit)
    )
    if not named:
        return []
    enough = [suspect for suspect in named if suspect.removed >= _ENOUGH]
    first = enough[0] if enough else max(named, key=lambda one: one.removed)
    rest = sorted((suspect for suspect in named if suspect is not first), key=lambda one: -one.removed)
    return [first, *rest]


def suspects(facts: Facts) -> list[Suspect]:
    """Everything that the measurements speak against."""
    rules = (
        _no_prefetch,
        _shuffle_refill,
        _slow_clips,
        _low_parallelism,
        _padding,
        _python_function,
        _slow_storage,
        _starved_cpu,
        _per_clip_work,
    )
    return [suspect for rule in rules if (suspect := rule(facts)) is not None]


def slowest_node(nodes: Sequence[Node]) -> Node | None:
    """The node that the pipeline's slowest stage spends most time in."""
    if not nodes:
        return None
    slowest = max(stages(nodes), key=lambda stage: stage.seconds)
    return max(slowest.nodes, key=lambda node: node.seconds, default=None)


def _ratio(facts: Facts, node: Node, saved: float) -> float:
    """The pipeline's time after `saved` seconds per batch less of this node's blocking time, over its present one."""
    times = [(stage.seconds, node in stage.nodes) for stage in stages(facts.alone.nodes)]
    before = max(seconds for seconds, _ in times)
    after = max(max(0.0, seconds - saved) if hit else seconds for seconds, hit in times)
    return after / before if before else 1.0


def _slow_node(facts: Facts) -> Node | None:
    """The node that holds the pipeline up, if the pipeline's own pace is what the step waits for."""
    return slowest_node(facts.alone.nodes) if facts.explained >= _MOSTLY else None


def _in_python(facts: Facts, node: Node) -> bool:
    """Whether a node's time goes into Python functions; whoever waits for the lock is not in one yet."""
    return node.python_seconds >= _MOSTLY * min(node.seconds, facts.alone.seconds)


def _blocking_text(facts: Facts, node: Node) -> str:
    total = sum(one.seconds / one.parallelism for one in facts.alone.nodes)
    share = node.seconds / node.parallelism / total if total else 0.0
    return f"{node.name}: {100 * share:.0f} % of the pipeline's blocking time"


def _no_prefetch(facts: Facts) -> Suspect | None:
    if facts.prefetched_stall is None:
        return None
    removed = float(np.clip(1 - facts.prefetched_stall / facts.stall, 0, 1))
    waits = f"{number(1e3 * facts.prefetched_stall)} in place of {number(1e3 * facts.stall)}"
    return Suspect(
        found.NO_PREFETCH,
        removed,
        "the pipeline does not end with a prefetch, so every step waits while its batch is made",
        (f"made ahead, batches are waited for {waits} ms per step (measured)",),
        measured=True,
    )


def _shuffle_refill(facts: Facts) -> Suspect | None:
    refill, share = facts.refill, facts.stall_at_epochs
    if refill is None or not len(facts.epoch_starts):
        return None
    per_step = refill.seconds * len(facts.epoch_starts) / len(facts.stalls)
    filling = f"{number(1e3 * refill.seconds)} ms"
    explained = min(1.0, per_step / facts.stall) if facts.stall else 0.0
    return Suspect(
        found.SHUFFLE_REFILL,
        min(share, explained),
        f"{refill.node} holds {refill.elements:,} elements and is filled again at the start of every epoch",
        (f"filling it takes {filling}; {100 * share:.0f} % of the waiting is where an epoch begins",),
    )


def _slow_clips(facts: Facts) -> Suspect | None:
    spiky = [step for step in facts.spiky_steps.tolist() if step not in near(facts.epoch_starts)]
    slow = facts.slow
    if slow is None and facts.alone.nodes:
        return None
    total = float(facts.stalls.sum())
    share = float(facts.stalls[spiky].sum()) / total if spiky and total else 0.0
    if slow is None:
        if not spiky or len(spiky) < 2 or facts.waits_for_all:
            return None
        shown = ", ".join(str(step + 1) for step in spiky[:_SHOWN])
        return Suspect(
            found.SLOW_CLIPS,
            share,
            f"{len(spiky)} of {len(facts.stalls)} batches hold {100 * share:.0f} % of the waiting: steps {shown}",
        )
    removed = max(share, facts.removed(1 - slow.excess_share))
    shown = ", ".join(slow.names[:_SHOWN])
    more = f" and {len(slow.names) - _SHOWN} more" if len(slow.names) > _SHOWN else ""
    return Suspect(
        found.SLOW_CLIPS,
        removed,
        f"{len(slow.names)} of {slow.count} clips take {slow.times_median:.0f} times as long as the rest: "
        f"{shown}{more}",
        (f"{len(spiky)} of {len(facts.stalls)} steps hold {100 * share:.0f} % of the waiting",),
    )


def _low_parallelism(facts: Facts) -> Suspect | None:
    node, speed_up = _slow_node(facts), facts.speed_up
    if node is None or speed_up is None:
        return None
    if facts.alone.waiting < _MOSTLY:
        # More calls that compute than CPUs are faster only at the expense of whoever else wants to run.
        speed_up = min(speed_up, facts.alone.cpu.cpus / node.parallelism)
    if speed_up < _WORTH_SPEED_UP:
        return None
    blocking = node.seconds / node.parallelism
    ratio = _ratio(facts, node, blocking * (1 - 1 / speed_up))
    return Suspect(
        found.LOW_PARALLELISM,
        facts.removed(ratio),
        f"{_blocking_text(facts, node)}, {_calls_at_once(node)}",
        (f"with {MORE_PARALLEL} calls at once it is {facts.speed_up:.1f} times as fast (measured)",),
        measured=True,
    )


def _calls_at_once(node: Node) -> str:
    return "one call after the other" if node.parallelism == 1 else f"{node.parallelism} calls at once"


def _padding(facts: Facts) -> Suspect | None:
    node = _slow_node(facts)
    if node is None or not node.is_batch or facts.padding < _MOSTLY:
        return None
    ratio = _ratio(facts, node, node.seconds / node.parallelism * facts.padding)
    return Suspect(
        found.PADDING,
        facts.removed(ratio),
        f"{_blocking_text(facts, node)}, and {100 * facts.padding:.0f} % of what it makes is padding",
    )


def _python_function(facts: Facts) -> Suspect | None:
    node, alone = _slow_node(facts), facts.alone
    if alone.lock_held < _LOCK_HELD or facts.explained < _MOSTLY:
        return None
    evidence = (f"the interpreter's lock is held {100 * alone.lock_held:.0f} % of the time that batches are made",)
    if node is None:
        text = "the loader works in Python, in one interpreter"
        return Suspect(found.PYTHON_FUNCTION, facts.removed(1 - alone.lock_held), text, evidence)
    if not _in_python(facts, node):
        return None
    text = f"{_blocking_text(facts, node)}, a Python function"
    share = max(alone.lock_held, min(1.0, node.python_seconds / node.seconds))
    ratio = _ratio(facts, node, share * node.seconds / node.parallelism)
    return Suspect(found.PYTHON_FUNCTION, facts.removed(ratio), text, evidence)


def _slow_storage(facts: Facts) -> Suspect | None:
    node, alone = _slow_node(facts), facts.alone
    if alone.waiting < _MOSTLY or alone.lock_held >= _LOCK_HELD or facts.explained < _MOSTLY:
        return None
    evidence = [f"while batches are made, the pipeline waits {100 * alone.waiting:.0f} % of the time and uses no CPU"]
    if node is None:
        return Suspect(
            found.SLOW_STORAGE,
            facts.removed(1 - alone.waiting),
            "the loader waits for bytes, and does not compute",
            tuple(evidence),
        )
    if facts.speed_up is not None and facts.speed_up < _WORTH_SPEED_UP:
        evidence.append(f"{MORE_PARALLEL} calls at once do not help ({facts.speed_up:.1f} times, measured)")
    ratio = _ratio(facts, node, node.seconds / node.parallelism * alone.waiting)
    return Suspect(
        found.SLOW_STORAGE,
        facts.removed(ratio),
        f"{_blocking_text(facts, node)}, and that is waiting for bytes",
        tuple(evidence),
    )


def _starved_cpu(facts: Facts) -> Suspect | None:
    cpu = facts.alone.cpu
    computing = 1 - facts.alone.waiting
    denied = cpu.denied_share
    pinned = cpu.cpus < cpu.machine_cpus and cpu.own >= _SATURATED * cpu.cpus * cpu.wall
    if pinned:
        denied = 1 - (1 - denied) * cpu.cpus / cpu.machine_cpus
    if denied < 0.2:
        return None
    ratio = 1 - denied * computing
    removed = facts.removed(ratio)
    if facts.share_left(ratio) >= HIGHLY_INPUT_BOUND:
        removed = min(removed, _NOT_ENOUGH)  # with the CPUs to itself it would be too slow still
    return Suspect(
        found.STARVED_CPU,
        removed,
        f"others kept the process from a CPU {100 * denied:.0f} % of the time that it wanted one"
        if not pinned
        else f"the process may use {cpu.cpus} of {cpu.machine_cpus} CPUs, and uses them up",
        (str(cpu),),
    )


def _per_clip_work(facts: Facts) -> Suspect | None:
    node, alone = _slow_node(facts), facts.alone
    if node is None or alone.waiting >= _MOSTLY or _in_python(facts, node):
        return None
    if node.is_batch and facts.padding >= _MOSTLY:
        return None
    per_call = node.seconds / node.calls if node.calls else 0.0
    ratio = _ratio(facts, node, node.seconds / node.parallelism)
    calls = f"{node.calls:,.0f} calls of {1e6 * per_call:.0f} µs" if node.calls > 1.5 else "one call"
    return Suspect(
        found.PER_CLIP_WORK,
        facts.removed(ratio),
        f"{_blocking_text(facts, node)}, {calls} for a batch, again in every epoch",
    )
