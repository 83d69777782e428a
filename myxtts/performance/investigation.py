"""Looks into an input that makes a step wait: alone, node by node, and with changes tried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from myxtts.performance.batches import Kept, Source, padding_share
from myxtts.performance.cpu_use import CpuMeter, CpuUse
from myxtts.performance.culprit import slowest_node
from myxtts.performance.experiments import (
    MORE_PARALLEL,
    Refill,
    SlowElements,
    prefetched,
    shuffle_refill,
    slow_elements,
    speed_up_by_parallelism,
)
from myxtts.performance.facts import Facts, InputAlone
from myxtts.performance.graph_nodes import Node, TimedPipeline, host_part, with_python
from myxtts.performance.interpreter_lock import LockProbe, held_share
from myxtts.performance.python_timing import PythonTimes
from myxtts.performance.simulated_accelerator import wait_until_ready
from myxtts.performance.step_run import StepRun, run_steps

_ALONE_BATCHES = 60
_ALONE_SECONDS = 1.5
_FEWEST = 4
_TRIAL_STEPS = 40
_TRIAL_SECONDS = 4.0
_IDLE_SECONDS = 0.2
_PADDED_BATCHES = 8


def investigate(
    source: Source,
    step: Callable[[Any], Any],
    run: StepRun,
    stall: float,
    ceiling: float,
    kept: Kept,
    report: Callable[[str], None],
) -> Facts:
    """Collects what is needed to name a culprit.

    Args:
        source: of the batches.
        step: the training step.
        run: its measured steps on the real input.
        stall: seconds per step that wait for data.
        ceiling: seconds per step with perfect input.
        kept: batches.
        report: is told what is being measured.
    """
    waits_for_all = not source.has_batches_ahead and _is_synchronous(run)
    if source.is_one_pass:
        alone = InputAlone(float(run.waits.mean()), run.cpu, 0.0, len(run))
        return Facts(stall, ceiling, run.stalls, waits_for_all, alone, run.epoch_starts)
    report("the input alone")
    alone = _input_alone(source)
    node = slowest_node(alone.nodes)
    trial: float | None = None
    if not source.has_batches_ahead:
        report("a prefetch, tried out")
        trial = _stall_prefetched(source, step)
    speed_up = refill = slow = None
    if node is not None:
        dataset: Any = source.dataset
        report("its slowest node")
        if node.parallelism < MORE_PARALLEL // 2:
            speed_up = speed_up_by_parallelism(node, dataset.options())
        refill, slow = _look_closer(dataset, run, alone)
    return Facts(
        stall=stall,
        ceiling=ceiling,
        stalls=run.stalls,
        waits_for_all=waits_for_all,
        alone=alone,
        epoch_starts=run.epoch_starts,
        padding=padding_share(kept.batches[:_PADDED_BATCHES]),
        prefetched_stall=trial,
        speed_up=speed_up,
        refill=refill,
        slow=slow,
    )


def _is_synchronous(run: StepRun) -> bool:
    """Whether a call of the step takes as long as the step."""
    return float(run.calls.mean()) > 0.5 * float((run.step_times - run.stalls).mean())


def _input_alone(source: Source) -> InputAlone:
    with LockProbe() as idle:
        time.sleep(_IDLE_SECONDS)
    if not source.is_tf_data:
        batches = source.batches()
        seconds, cpu, late, count = _drain(batches, source.depth)
        return InputAlone(seconds, cpu, held_share(late, idle.late), count)
    dataset: Any = host_part(source.dataset)
    timed = TimedPipeline(dataset.repeat())
    with PythonTimes(dataset) as python:

        def started() -> None:
            timed.start()
            python.restart()

        seconds, cpu, late, count = _drain(timed.batches, source.depth, started)
        in_python = {token: total / count for token, total in python.seconds().items()}
    nodes: list[Node] = with_python(timed.read(count), in_python)
    return InputAlone(seconds, cpu, held_share(late, idle.late), count, nodes)


def _drain(
    batches: Iterator[Any], depth: int, started: Callable[[], None] = lambda: None
) -> tuple[float, CpuUse, float, int]:
    """Takes batches as fast as they come: seconds per batch, what the CPUs did, how late the lock came, how many."""
    for _ in range(depth + 1):
        wait_until_ready(next(batches))
    started()
    with LockProbe() as probe:
        meter, began, count = CpuMeter(without=probe.thread), time.perf_counter(), 0
        while count < _ALONE_BATCHES and (count < _FEWEST or time.perf_counter() - began < _ALONE_SECONDS):
            wait_until_ready(next(batches))
            count += 1
        seconds = (time.perf_counter() - began) / count
        cpu = meter.read()
    return seconds, cpu, probe.late, count


def _stall_prefetched(source: Source, step: Callable[[Any], Any]) -> float:
    """Seconds per step that wait for data if batches are made ahead."""
    ahead = source.batches(prefetched(source.dataset))
    for _ in range(5):  # what a full buffer hides at first
        next(ahead)
    run = run_steps(ahead, step, _TRIAL_STEPS, seconds=_TRIAL_SECONDS)
    return float(np.mean(run.stalls))


def _look_closer(dataset: Any, run: StepRun, alone: InputAlone) -> tuple[Refill | None, SlowElements | None]:
    """Times what only shows now and then: a shuffle buffer being filled, and slow clips."""
    refill = shuffle_refill(dataset) if run.epoch_starts else None
    maps = [one for one in alone.nodes if one.is_map and one.dataset is not None]
    slowest = max(maps, key=lambda one: one.seconds, default=None)
    if slowest is None:
        return refill, None
    most = max(2 * _FEWEST, min(400, round(slowest.calls * len(run))))
    return refill, slow_elements(slowest, most)
