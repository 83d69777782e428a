"""What `diagnose` concludes from given times: one set of facts for every culprit, on a schedule made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from myxtts.performance.cpu_use import CpuUse
from myxtts.performance.culprits import CULPRITS
from myxtts.performance.diagnose_pipeline import judge
from myxtts.performance.facts import (
    BatchMaker,
    EagerStep,
    InputAlone,
    InputFacts,
    LoaderFacts,
    LoaderSettings,
    LoaderTrial,
    Measurements,
    PinnedCopy,
    ShuffleRefill,
    SlowElements,
)
from myxtts.performance.graph_nodes import Node
from myxtts.performance.replay_comparison import ReplayComparison, _compare
from myxtts.performance.stall import StepTimeline
from myxtts.performance.step_run import StepRun

STEPS, STEP = 30, 0.03
IDLE = CpuUse(wall=1.0)
SHAPE = ((8, 24, 8),)


def run_of(
    stalls: Sequence[float], calls: float = 1e-4, shapes: Sequence[Any] = (SHAPE,) * STEPS, epochs: Sequence[int] = ()
) -> StepRun:
    """Steps that wait so many seconds each, and then take `STEP` and what their call takes."""
    waits = np.array(stalls, np.float64)
    completed = np.concatenate([[0.0], np.cumsum(waits + STEP + (calls if calls > 1e-3 else 0.0))])
    called = completed[:-1] + np.where(waits > 0, waits, -0.01)
    ready = np.concatenate([[-STEP], called])
    timeline = StepTimeline(ready, completed)
    return StepRun(timeline, waits, called, np.full(len(waits), calls), tuple(shapes), tuple(epochs), IDLE)


def compared(stalls: Sequence[float] = (0.0,) * STEPS, **changes: Any) -> ReplayComparison:
    return _compare(run_of(stalls, **changes), [run_of((0.0,) * STEPS)], {SHAPE})


def working(seconds: float) -> CpuUse:
    """Every one of 30 batches takes so much CPU time, and nobody competes."""
    return CpuUse(wall=1.0, own=STEPS * seconds, cpus=2, machine_cpus=2)


def node(kind: str, seconds: float, parallelism: int = 1, calls: float = 8, python: float = 0.0) -> Node:
    return Node(f"{kind} load", kind, seconds, calls, parallelism, python)


def waiting(*nodes: Node, cpu: CpuUse = IDLE, lock_held: float = 0.0, **facts: Any) -> Measurements:
    """Every step waits 20 ms for an input that takes 50 ms per batch."""
    comparison = facts.pop("comparison", compared((0.02,) * STEPS))
    alone = InputAlone(facts.pop("seconds", 0.05), cpu, lock_held, STEPS, nodes)
    waits_for_all = facts.pop("waits_for_all", False)
    return Measurements(comparison, InputFacts(comparison, waits_for_all, alone, **facts), simulated=True)


def spikes(*steps: int, seconds: float, **changes: Any) -> ReplayComparison:
    stalls = np.zeros(STEPS)
    stalls[list(steps)] = seconds
    return compared(stalls.tolist(), **changes)


LOADER = LoaderFacts(LoaderSettings(2, 2, False, False, 8, "RandomSampler", "collate", "fork"))


def of_loader(
    receive: float = 0.0, send: float = 0.0, collate: float = 0.0, dataset: float = 0.1, **facts: Any
) -> Measurements:
    """A PyTorch loader with two workers, whose parts take so many seconds per batch."""
    workers = LOADER.settings.num_workers
    parts = {"Receive": (receive, 1), "Send": (send, workers), "Collate": (collate, workers)}
    nodes = [Node(kind, kind, seconds, 1, threads) for kind, (seconds, threads) in parts.items()]
    nodes.append(Node("Clips.__getitem__", "Dataset", dataset, 8, workers))
    return replace(waiting(*nodes, **({"loader": LOADER} | facts)), is_tf_data=False)


TRIED = {
    "worker-start": ("DataLoader(..., persistent_workers=True)",),
    "too-many-workers": ("DataLoader(..., num_workers=2)",),
    "too-few-workers": ("DataLoader(..., num_workers=8)",),
}
CROWDED = CpuUse(wall=1.0, own=0.2, queued=1.6, others=1.8, cpus=2, machine_cpus=2)
FACTS = {
    "no-prefetch": waiting(node("Map", 0.02), seconds=0.02, waits_for_all=True, prefetched_stall=0.0),
    "shuffle-refill": waiting(
        node("ParallelMap", 0.01, 16),
        seconds=0.01,
        comparison=spikes(10, 20, seconds=0.3, epochs=(10, 20)),
        refill=ShuffleRefill("Shuffle", 240, 0.3),
    ),
    "slow-clips": waiting(
        node("ParallelMap", 0.01, 16),
        seconds=0.01,
        comparison=spikes(7, 22, seconds=0.5),
        slow=SlowElements(("clip 59", "clip 119"), 200, 300.0, 0.7),
    ),
    "low-parallelism": waiting(node("Map", 0.05), speed_up=8.0),
    "padding": waiting(node("PaddedBatch", 0.05), cpu=working(0.05), padding=0.9),
    "python-function": waiting(node("ParallelMap", 0.8, 16, python=0.8), cpu=working(0.05), lock_held=0.9),
    "slow-storage": waiting(node("ParallelMap", 0.8, 16)),
    "starved-cpu": waiting(node("Map", 0.05), cpu=CROWDED),
    "per-clip-work": waiting(node("ParallelMap", 0.1, 2, calls=1024), cpu=working(0.1)),
    "worker-start": of_loader(
        comparison=spikes(10, 20, seconds=0.3, epochs=(10, 20)),
        loader=replace(LOADER, persistent=LoaderTrial("persistent_workers=True", 0.0)),
    ),
    "too-many-workers": of_loader(
        dataset=0.4, loader=replace(LOADER, fewer_workers=LoaderTrial("num_workers=2", 0.001))
    ),
    "too-few-workers": of_loader(
        dataset=0.1, loader=replace(LOADER, more_workers=LoaderTrial("num_workers=8", 0.001))
    ),
    "slow-collate": of_loader(collate=0.09, dataset=0.01, cpu=working(0.1)),
    "hand-over": of_loader(receive=0.05, send=0.03, dataset=0.01, cpu=working(0.1)),
    "no-pin-memory": Measurements(compared(), pinned_copy=PinnedCopy(0.012, 0.004), is_tf_data=False),
    "recompilation": Measurements(compared(calls=0.1, shapes=[((4, 20 + k, 8),) for k in range(STEPS)])),
    "eager-step": Measurements(compared(), eager=EagerStep(300, 0.9)),
}


@pytest.mark.parametrize("name", CULPRITS)
def test_a_culprit_is_named_with_its_remedy_and_its_gain(name: str) -> None:
    found, culprit = judge(FACTS[name]), CULPRITS[name]
    assert found.culprit == name, f"\n{found}"
    assert found.fixes[0].culprit == name
    lines = TRIED.get(name) or culprit.tf_data or culprit.iterable
    assert (found.fixes[0].text, found.fixes[0].lines) == (culprit.remedy, lines)
    assert found.fixes[0].gain == pytest.approx(found.lost_share, rel=0.3)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("no-prefetch", waiting(node("Map", 0.02), seconds=0.02, waits_for_all=True, prefetched_stall=0.02)),
        ("low-parallelism", waiting(node("Map", 0.05), speed_up=1.1)),
        ("low-parallelism", waiting(node("Map", 0.05, 2), cpu=working(0.05), speed_up=8.0)),  # as many calls as CPUs
        ("padding", waiting(node("PaddedBatch", 0.05), cpu=working(0.05), padding=0.1)),
        ("python-function", waiting(node("ParallelMap", 0.8, 16, python=0.001), cpu=working(0.05), lock_held=0.9)),
        ("slow-storage", waiting(node("ParallelMap", 0.8, 16), cpu=working(0.8))),
        ("starved-cpu", waiting(node("Map", 0.05), cpu=replace(CROWDED, others=0.0))),
        ("recompilation", Measurements(compared(calls=0.1))),
        ("worker-start", of_loader(loader=replace(LOADER, persistent=LoaderTrial("persistent_workers=True", 0.0)))),
        ("too-few-workers", of_loader(loader=replace(LOADER, more_workers=LoaderTrial("num_workers=8", 0.02)))),
        ("slow-collate", of_loader(collate=0.04, dataset=0.06, cpu=working(0.1))),
        ("hand-over", of_loader(receive=0.001, send=0.001, dataset=0.1, cpu=working(0.1))),
        ("no-pin-memory", Measurements(compared(), pinned_copy=PinnedCopy(0.0041, 0.004), is_tf_data=False)),
        ("eager-step", Measurements(compared(), eager=EagerStep(300, 0.05))),
    ],
)
def test_what_would_gain_nothing_is_not_accused(name: str, facts: Measurements) -> None:
    assert judge(facts).culprit != name


def test_the_parts_of_a_loader_point_to_what_its_workers_do() -> None:
    computing = judge(of_loader(dataset=0.1, cpu=working(0.1)))
    waiting_for_bytes = judge(of_loader(dataset=0.1))
    assert (computing.culprit, waiting_for_bytes.culprit) == ("per-clip-work", "slow-storage")
    assert [node.name for node in computing.nodes] == ["Receive", "Send", "Collate", "Clips.__getitem__"]


def test_a_refill_is_told_from_clip_work_by_its_waits_where_no_epoch_is_seen() -> None:
    at_work = node("Map", 0.05, calls=16)
    refill = ShuffleRefill("Shuffle", 960, 0.3)
    facts: dict[str, Any] = {"cpu": working(0.05), "refill": refill}
    in_bursts = waiting(at_work, comparison=spikes(10, 25, seconds=0.29), **facts)
    everywhere = waiting(at_work, comparison=compared((0.02,) * STEPS), **facts)
    assert in_bursts.input is not None
    assert in_bursts.input.epoch_starts == (10, 25)
    assert (judge(in_bursts).culprit, judge(everywhere).culprit) == ("shuffle-refill", "per-clip-work")


def of_iterable(lock_held: float = 0.0, **facts: Any) -> Measurements:
    maker = facts.pop("maker", BatchMaker("make (data.py:7)", 0.9, True, computing=0.9))
    measured = waiting(lock_held=lock_held, maker=maker, processes=2, **facts)
    return replace(measured, is_tf_data=False)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("python-function", of_iterable(lock_held=0.8, cpu=working(0.05), processes_stall=0.002)),
        ("python-function", of_iterable(lock_held=0.8, cpu=working(0.05))),
        ("low-parallelism", of_iterable(cpu=working(0.05), processes_stall=0.002)),
        ("per-clip-work", of_iterable(cpu=working(0.05))),
        ("slow-storage", of_iterable(maker=BatchMaker("read (data.py:7)", 0.9, True, 0.02), processes_stall=0.02)),
        ("no-prefetch", of_iterable(cpu=working(0.05), prefetched_stall=0.001, processes_stall=0.0)),
    ],
)
def test_a_python_iterable_has_a_culprit_and_the_function_it_is_in(name: str, facts: Measurements) -> None:
    found = judge(facts)
    assert found.culprit == name, f"\n{found}"
    assert found.fixes[0].lines == CULPRITS[name].iterable
    assert any("(data.py:7)" in line for line in found.evidence)


def test_time_that_others_have_the_lock_is_not_called_waiting() -> None:
    maker = BatchMaker.of_times("make (data.py:7)", 0.9, False, computing=0.2, queued=0.1, lock_held=0.8)
    assert (maker.locked, maker.waiting) == (pytest.approx(0.6), pytest.approx(0.1))
    assert "computes 20 %, waits 10 %, waits for the lock 60 %, waits for a CPU 10 %" in str(maker)


def test_an_input_that_keeps_up_needs_nothing() -> None:
    found = judge(Measurements(compared()))
    assert (found.verdict, found.culprit, found.fixes, found.lost_share) == ("not input-bound", "none", (), 0.0)
    assert "stop tuning input" in str(found)


def test_shares_follow_from_the_times() -> None:
    found = judge(waiting(node("Map", 0.05), speed_up=8.0))
    assert found.verdict == "highly input-bound"
    assert found.input_share == pytest.approx(0.02 / 0.05)
    assert (found.step_ms, found.ceiling_ms) == (pytest.approx(50), pytest.approx(30))
    assert found.split.fetch == pytest.approx(found.input_share, abs=0.01)


def test_a_share_that_may_be_chance_accuses_nobody() -> None:
    found = judge(Measurements(spikes(3, seconds=0.1)))
    assert found.verdict == "moderately input-bound"
    assert found.culprit == "none"
    assert "too uncertain" in str(found)


def test_a_step_that_cannot_be_compiled_is_mentioned() -> None:
    found = judge(Measurements(compared(), eager=EagerStep(300, 0.0, "no graph")))
    assert found.culprit == "none"
    assert "cannot be compiled as it is (no graph)" in str(found)


def test_what_a_cold_page_cache_adds_is_reported() -> None:
    found = judge(Measurements(compared(), cold_share=0.3))
    assert found.cold_fetch_share == pytest.approx(0.3)
    assert "from a cold page cache 30.0 % of step time waits" in str(found)
