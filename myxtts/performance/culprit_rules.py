"""Rules that find what makes a pipeline wait: one for each culprit of `culprits.py`, from facts to a suspect.

A rule judges a suspect by what its absence is worth: tried out where that is possible, otherwise computed from the
measured times of the pipeline's nodes. That a thing is there (a Python function, say) is no reason by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from myxtts.performance.diagnosis import number
from myxtts.performance.facts import MORE_PARALLEL, MOSTLY, InputFacts, LoaderTrial, Measurements
from myxtts.performance.stall import HIGHLY_INPUT_BOUND

LOCK_HELD = 0.35
_NOT_ENOUGH = 0.7  # less than a culprit has to remove to be chosen before others, in `culprits.py`
_SHOWN = 3
_WORTH_SPEED_UP = 1.5
_SATURATED = 0.85
_DENIED = 0.2
# In the second half of a run every shape of a well-planned pipeline has been seen, except for a few stragglers.
_FEWEST_NEW_SHAPES = 4
_WORTH_COMPILING = 0.2


@dataclass(frozen=True)
class Suspect:
    """What a rule found.

    Attributes:
        removed: what goes with the culprit, 0 to 1: a share of the stall, or of step time for culprits of the step.
        text: which node, clip or resource.
        evidence: what was measured.
        measured: whether `removed` was measured by trying it.
        lines: the change as code, with the values that were found; empty: as the culprit has it.
    """

    removed: float
    text: str
    evidence: tuple[str, ...] = ()
    measured: bool = False
    lines: tuple[str, ...] = ()


def no_prefetch(facts: InputFacts) -> Suspect | None:
    if facts.prefetched_stall is None:
        return None
    waits = f"{number(1e3 * facts.prefetched_stall)} instead of {number(1e3 * facts.comparison.stall)}"
    return Suspect(
        float(np.clip(1 - facts.prefetched_stall / facts.comparison.stall, 0, 1)),
        "the pipeline does not end with a prefetch, so every step waits while its batch is made",
        (f"with batches made ahead, a step waits {waits} ms (measured)", *_maker(facts)),
        measured=True,
    )


def _maker(facts: InputFacts) -> tuple[str, ...]:
    """Which function makes the batches of a Python iterable, as evidence."""
    return () if facts.maker is None else (str(facts.maker),)


def _by_processes(facts: InputFacts, text: str, *evidence: str) -> Suspect | None:
    """A suspect that processes in place of one thread remove, as far as they were seen to."""
    stall = facts.comparison.stall
    if facts.processes_stall is None or not stall:
        return None
    waits = f"{number(1e3 * facts.processes_stall)} instead of {number(1e3 * stall)}"
    measured = f"with {facts.processes} processes that make batches, a step waits {waits} ms (measured)"
    removed = float(np.clip(1 - facts.processes_stall / stall, 0, 1))
    return Suspect(removed, text, (*_maker(facts), measured, *evidence), measured=True)


def shuffle_refill(facts: InputFacts) -> Suspect | None:
    refill, share = facts.refill, facts.stall_at_epochs
    epochs, stall = len(facts.epoch_starts), facts.comparison.stall
    if refill is None or not epochs:
        return None
    explained = min(1.0, refill.seconds * epochs / len(facts.stalls) / stall) if stall else 0.0
    filling = f"filling it takes {number(1e3 * refill.seconds)} ms"
    return Suspect(
        min(share, explained),
        f"{refill.node} holds {refill.elements:,} elements and is filled again at the start of every epoch",
        (f"{filling}; {100 * share:.0f} % of the waiting is where an epoch begins",),
    )


def slow_clips(facts: InputFacts) -> Suspect | None:
    slow = facts.slow
    if slow is None and facts.alone.nodes:
        return None
    spiky = [step for step in facts.spiky_steps.tolist() if step not in facts.near_epochs]
    total = float(facts.stalls.sum())
    share = float(facts.stalls[spiky].sum()) / total if spiky and total else 0.0
    if slow is None:
        if len(spiky) < 2 or facts.waits_for_all:
            return None
        shown = ", ".join(str(step + 1) for step in spiky[:_SHOWN])
        of = f"{len(spiky)} of {len(facts.stalls)}"
        return Suspect(share, f"{of} batches hold {100 * share:.0f} % of the waiting: steps {shown}")
    shown = ", ".join(slow.names[:_SHOWN])
    more = f" and {len(slow.names) - _SHOWN} more" if len(slow.names) > _SHOWN else ""
    longer = f"take {slow.times_median:.0f} times as long as the rest"
    return Suspect(
        max(share, facts.removed(1 - slow.excess_share)),
        f"{len(slow.names)} of {slow.count} clips {longer}: {shown}{more}",
        (f"{len(spiky)} of {len(facts.stalls)} steps hold {100 * share:.0f} % of the waiting", *_more_ready(facts)),
    )


def _more_ready(facts: InputFacts) -> tuple[str, ...]:
    """What a PyTorch loader that keeps more batches ready is worth, as evidence."""
    trial = facts.loader.more_ready if facts.loader is not None else None
    return () if trial is None else (_waits_with(facts, trial),)


def _waits_with(facts: InputFacts, trial: LoaderTrial) -> str:
    waits = f"{number(1e3 * trial.stall)} instead of {number(1e3 * facts.comparison.stall)}"
    return f"with {trial.settings} a step waits {waits} ms (measured)"


def _tried(facts: InputFacts, trial: LoaderTrial | None, text: str, *evidence: str) -> Suspect | None:
    """A suspect that other settings of a PyTorch loader remove, as far as they were seen to."""
    stall = facts.comparison.stall
    if trial is None or not stall:
        return None
    removed = float(np.clip(1 - trial.stall / stall, 0, 1))
    lines = (f"DataLoader(..., {trial.settings})",)
    return Suspect(removed, text, (_waits_with(facts, trial), *evidence), measured=True, lines=lines)


def worker_start(facts: InputFacts) -> Suspect | None:
    loader, starts = facts.loader, list(facts.epoch_starts)
    if loader is None or not starts or facts.stall_at_epochs < MOSTLY:
        return None
    settings = loader.settings
    waits = number(1e3 * float(facts.stalls[starts].mean()))
    by = {"fork": "forking", "spawn": "spawning"}.get(settings.start_method, "starting")
    return _tried(
        facts,
        loader.persistent,
        f"every epoch begins by {by} {settings.num_workers} worker{'s' * (settings.num_workers != 1)}",
        f"an epoch's first step waits {waits} ms; {100 * facts.stall_at_epochs:.0f} % of the waiting is there",
    )


def too_many_workers(facts: InputFacts) -> Suspect | None:
    loader = facts.loader
    if loader is None:
        return None
    workers, cpus = loader.settings.num_workers, facts.alone.cpu.cpus
    memory = f"the workers have {number(loader.worker_memory / 1e6)} MB of memory for themselves"
    text = f"{workers} workers on {cpus} CPU{'s' * (cpus != 1)} are in each other's way"
    return _tried(facts, loader.fewer_workers, text, memory)


def too_few_workers(facts: InputFacts) -> Suspect | None:
    loader = facts.loader
    if loader is None:
        return None
    workers = loader.settings.num_workers
    text = f"{workers} worker{'s' * (workers != 1)} cannot make batches as fast as the step takes them"
    if not workers:
        text = "there are no workers, so the training process makes every batch itself"
    return _tried(facts, loader.more_workers, text, *_part_times(facts))


def _part_times(facts: InputFacts) -> tuple[str, ...]:
    """The times of a loader's parts, as evidence."""
    parts = [f"{node.name} {number(1e3 * node.seconds)}" for node in facts.alone.nodes if node.seconds >= 1e-5]
    return (f"ms per batch: {', '.join(parts)}",) if parts else ()


def slow_collate(facts: InputFacts) -> Suspect | None:
    collate, dataset = facts.node("Collate"), facts.node("Dataset")
    if collate is None or dataset is None or collate.seconds < dataset.seconds or facts.explained < MOSTLY:
        return None
    return Suspect(
        facts.removed_without({collate: collate.blocking}), facts.blocking_text(collate), _part_times(facts)
    )


def hand_over(facts: InputFacts) -> Suspect | None:
    loader, send, receive = facts.loader, facts.node("Send"), facts.node("Receive")
    if loader is None or send is None or receive is None or facts.explained < MOSTLY:
        return None
    seconds = send.blocking + receive.blocking
    parts = f"{loader.batch_parts:,} objects, {number(loader.batch_bytes / 1e6)} MB of arrays"
    return Suspect(
        facts.removed_without({send: send.blocking, receive: receive.blocking}),
        f"handing a batch over from a worker takes {number(1e3 * seconds)} ms ({parts})",
        _part_times(facts),
    )


def low_parallelism(facts: InputFacts) -> Suspect | None:
    node, speed_up = facts.slow_node, facts.speed_up
    if node is None and facts.alone.lock_held < LOCK_HELD:
        return _by_processes(facts, "one thread makes one batch after the other")
    if node is None or speed_up is None:
        return None
    if facts.alone.waiting < MOSTLY:
        # More computing calls than CPUs are faster only at the expense of other threads.
        speed_up = min(speed_up, facts.alone.cpu.cpus / node.parallelism)
    if speed_up < _WORTH_SPEED_UP:
        return None
    calls = "one call after the other" if node.parallelism == 1 else f"{node.parallelism} calls at once"
    return Suspect(
        facts.removed_without({node: node.blocking * (1 - 1 / speed_up)}),
        f"{facts.blocking_text(node)}, {calls}",
        (f"with {MORE_PARALLEL} calls at once it is {facts.speed_up:.1f} times as fast (measured)",),
        measured=True,
    )


def padding(facts: InputFacts) -> Suspect | None:
    node = facts.slow_node
    if node is None or not node.is_batch or facts.padding < MOSTLY:
        return None
    return Suspect(
        facts.removed_without({node: node.blocking * facts.padding}),
        f"{facts.blocking_text(node)}, and {100 * facts.padding:.0f} % of what it makes is padding",
    )


def python_function(facts: InputFacts) -> Suspect | None:
    node, alone = facts.slow_node, facts.alone
    if alone.lock_held < LOCK_HELD or facts.explained < MOSTLY:
        return None
    evidence = (f"the interpreter lock is held {100 * alone.lock_held:.0f} % of the time that batches are made",)
    if node is None:
        text = "the loader works in Python, in one interpreter"
        estimated = Suspect(facts.removed(1 - alone.lock_held), text, (*_maker(facts), *evidence))
        return _by_processes(facts, text, *evidence) or estimated
    if not facts.is_python(node):
        return None
    share = max(alone.lock_held, min(1.0, node.python_seconds / node.seconds))
    removed = facts.removed_without({node: share * node.blocking})
    return Suspect(removed, f"{facts.blocking_text(node)}, a Python function", evidence)


def slow_storage(facts: InputFacts) -> Suspect | None:
    node, alone = facts.slow_node, facts.alone
    if alone.waiting < MOSTLY or alone.lock_held >= LOCK_HELD or facts.explained < MOSTLY:
        return None
    evidence = [f"while batches are made, the pipeline waits {100 * alone.waiting:.0f} % of the time and uses no CPU"]
    if node is None:
        text = "the loader waits for bytes, and does not compute"
        return Suspect(facts.removed(1 - alone.waiting), text, (*_maker(facts), *evidence))
    if facts.speed_up is not None and facts.speed_up < _WORTH_SPEED_UP:
        evidence.append(f"{MORE_PARALLEL} calls at once do not help ({facts.speed_up:.1f} times, measured)")
    if facts.loader is not None and facts.loader.more_workers is not None:
        evidence.append(_waits_with(facts, facts.loader.more_workers))
    removed = facts.removed_without({node: node.blocking * alone.waiting})
    return Suspect(removed, f"{facts.blocking_text(node)}, and that is waiting for bytes", tuple(evidence))


def starved_cpu(facts: InputFacts) -> Suspect | None:
    cpu = facts.alone.cpu
    denied = cpu.denied_share
    pinned = cpu.cpus < cpu.machine_cpus and cpu.own >= _SATURATED * cpu.cpus * cpu.wall
    if pinned:
        denied = 1 - (1 - denied) * cpu.cpus / cpu.machine_cpus
    if denied < _DENIED:
        return None
    ratio = 1 - denied * (1 - facts.alone.waiting)
    removed = facts.removed(ratio)
    if facts.share_left(ratio) >= HIGHLY_INPUT_BOUND:
        removed = min(removed, _NOT_ENOUGH)  # even with the CPUs to itself it would be too slow
    text = f"others kept the process from a CPU {100 * denied:.0f} % of the time that it wanted one"
    if pinned:
        text = f"the process may use {cpu.cpus} of {cpu.machine_cpus} CPUs, and uses them up"
    return Suspect(removed, text, (str(cpu),))


def per_clip_work(facts: InputFacts) -> Suspect | None:
    node, maker = facts.slow_node, facts.maker
    if maker is not None and maker.work >= MOSTLY and facts.explained >= MOSTLY:
        return Suspect(facts.removed(1 - maker.work), "one thread computes every batch", _maker(facts))
    if node is None or facts.alone.waiting >= MOSTLY or facts.is_python(node):
        return None
    if facts.loader is not None and node.kind != "Dataset":
        return None
    if node.is_batch and facts.padding >= MOSTLY:
        return None
    per_call = node.seconds / node.calls if node.calls else 0.0
    calls = f"{node.calls:,.0f} calls of {1e6 * per_call:.0f} µs" if node.calls > 1.5 else "one call"
    return Suspect(
        facts.removed_without({node: node.blocking}),
        f"{facts.blocking_text(node)}, {calls} for a batch, again in every epoch",
    )


def recompilation(facts: Measurements) -> Suspect | None:
    run, compiling = facts.comparison.run, facts.comparison.compiling
    half = len(run) // 2
    late = [step for step in facts.comparison.new_shapes if step >= half and compiling[step] > 0]
    total = float(run.step_times[half:].sum())
    if len(late) < _FEWEST_NEW_SHAPES or not total:
        return None
    shapes = f"{len(set(run.shapes))} shapes in {len(run)} steps"
    longer = f"took {number(1e3 * float(np.mean(compiling[late])))} ms longer"
    return Suspect(
        float(compiling[half:].sum()) / total,
        f"new batch shapes keep coming, and the step is compiled for each ({shapes})",
        (f"{len(late)} of the last {len(run) - half} steps had a new shape and {longer}",),
        measured=True,
    )


def eager_step(facts: Measurements) -> Suspect | None:
    eager = facts.eager
    if eager is None:
        return None
    runs = f"the step runs {eager.operations} operations one by one"
    if eager.problem is not None:
        return Suspect(0.0, "", (f"{runs} and cannot be compiled as it is ({eager.problem})",))
    if eager.gain < _WORTH_COMPILING:
        return None
    return Suspect(
        eager.gain * facts.computing,
        f"{runs}, each dispatched from Python",
        (f"as a tf.function the step takes {100 * eager.gain:.0f} % less time (measured)",),
        measured=True,
    )


def no_pin_memory(facts: Measurements) -> Suspect | None:
    copy, step_seconds = facts.pinned_copy, facts.comparison.step_seconds
    if copy is None or not step_seconds:
        return None
    saved = max(0.0, copy.pageable - copy.pinned)
    pinned = f"{number(1e3 * copy.pinned)} ms from pinned memory (measured)"
    return Suspect(
        min(1.0, saved / step_seconds),
        f"copying a batch to the GPU takes {number(1e3 * copy.pageable)} ms, and {pinned}",
        measured=True,
    )
