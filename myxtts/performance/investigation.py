"""Looks into an input that makes steps wait: without a step, node by node, and with changes tried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from myxtts.performance.batches import BatchStream, ReplayBuffer, padding_share
from myxtts.performance.cpu_use import CpuMeter, CpuUse, LockProbe, held_share
from myxtts.performance.experiments import prefetched, shuffle_refill, slow_elements, speed_up_by_parallelism
from myxtts.performance.facts import MORE_PARALLEL, InputAlone, InputFacts, ShuffleRefill, SlowElements
from myxtts.performance.graph_nodes import TimedPipeline, host_part, slowest_node, with_python
from myxtts.performance.python_functions import PythonTimes
from myxtts.performance.replay_comparison import ReplayComparison
from myxtts.performance.step_run import StepRun, drain, run_steps

_ALONE_BATCHES = 60
_ALONE_SECONDS = 1.5
_FEWEST = 4
_TRIAL_STEPS = 40
_TRIAL_SECONDS = 4.0
_IDLE_SECONDS = 0.2
_PADDED_BATCHES = 8


def investigate(
    stream: BatchStream,
    step: Callable[[Any], Any],
    comparison: ReplayComparison,
    buffer: ReplayBuffer,
    report: Callable[[str], None],
) -> InputFacts:
    """Collects what is needed to name a culprit; `report` is called with what is being measured."""
    run = comparison.run
    waits_for_all = not stream.prepares_ahead and _is_synchronous(run)
    if stream.is_one_pass:
        alone = InputAlone(float(run.waits.mean()), run.cpu, 0.0, len(run))
        return InputFacts(comparison, waits_for_all, alone)
    report("the input alone")
    alone = _input_alone(stream)
    node = slowest_node(alone.nodes)
    prefetched_stall: float | None = None
    if not stream.prepares_ahead:
        report("a prefetch, tried out")
        prefetched_stall = _stall_prefetched(stream, step)
    speed_up = refill = slow = None
    if node is not None:
        dataset: Any = stream.dataset
        report("its slowest node")
        if node.parallelism < MORE_PARALLEL // 2:
            speed_up = speed_up_by_parallelism(node, dataset.options())
        refill, slow = _look_closer(dataset, run, alone)
    return InputFacts(
        comparison=comparison,
        waits_for_all=waits_for_all,
        alone=alone,
        padding=padding_share(buffer.batches[:_PADDED_BATCHES]),
        prefetched_stall=prefetched_stall,
        speed_up=speed_up,
        refill=refill,
        slow=slow,
    )


def _is_synchronous(run: StepRun) -> bool:
    """Whether a call of the step takes as long as the step."""
    return float(run.calls.mean()) > 0.5 * float((run.step_times - run.stalls).mean())


def _input_alone(stream: BatchStream) -> InputAlone:
    with LockProbe() as idle:
        time.sleep(_IDLE_SECONDS)
    if not stream.is_tf_data:
        count, seconds, cpu, late = _take(stream.batches(), stream.depth)
        return InputAlone(seconds / count, cpu, held_share(late, idle.late), count)
    dataset: Any = host_part(stream.dataset)
    timed = TimedPipeline(dataset.repeat())
    with PythonTimes(dataset) as python:

        def started() -> None:
            timed.start()
            python.restart()

        count, seconds, cpu, late = _take(timed.batches, stream.depth, started)
        in_python = {token: total / count for token, total in python.seconds().items()}
    nodes = with_python(timed.read(count), in_python)
    return InputAlone(seconds / count, cpu, held_share(late, idle.late), count, nodes)


def _take(
    batches: Iterator[Any], depth: int, started: Callable[[], None] = lambda: None
) -> tuple[int, float, CpuUse, float]:
    """Takes batches as fast as they come: how many, in how many seconds, with what CPU use, and how late the lock."""
    drain(batches, depth + 1)
    started()
    with LockProbe() as probe:
        meter = CpuMeter(without=probe.thread)
        count, seconds = drain(batches, _ALONE_BATCHES, least=_FEWEST, seconds=_ALONE_SECONDS)
        cpu = meter.read()
    return count, seconds, cpu, probe.late


def _stall_prefetched(stream: BatchStream, step: Callable[[Any], Any]) -> float:
    """Seconds per step that wait for data if batches are made ahead."""
    ahead = stream.batches(prefetched(stream.dataset))
    drain(ahead, 5)  # what a full buffer hides at first
    run = run_steps(ahead, step, _TRIAL_STEPS, seconds=_TRIAL_SECONDS)
    return float(np.mean(run.stalls))


def _look_closer(dataset: Any, run: StepRun, alone: InputAlone) -> tuple[ShuffleRefill | None, SlowElements | None]:
    """Times what slows down only some steps: filling a shuffle buffer, and slow clips."""
    refill = shuffle_refill(dataset) if run.epoch_starts else None
    maps = [one for one in alone.nodes if one.is_map and one.dataset is not None]
    slowest = max(maps, key=lambda one: one.seconds, default=None)
    if slowest is None:
        return refill, None
    most = max(2 * _FEWEST, min(400, round(slowest.calls * len(run))))
    return refill, slow_elements(slowest, most)
