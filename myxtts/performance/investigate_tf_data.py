"""Looks into a `tf.data` pipeline that makes steps wait: alone, node by node, and with changes tried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from myxtts.performance.batches import BatchStream
from myxtts.performance.experiments import shuffle_refill, slow_elements, speed_up_by_parallelism
from myxtts.performance.facts import MORE_PARALLEL, InputAlone, InputFacts, SlowElements
from myxtts.performance.graph_nodes import TimedPipeline, host_part, slowest_node, with_python
from myxtts.performance.python_functions import PythonTimes
from myxtts.performance.trials import FEWEST_BATCHES, MeasuredLoop, take_alone

_PREFETCHED = 4


def investigate(loop: MeasuredLoop) -> InputFacts:
    """Collects what is needed to name a culprit."""
    stream, run, dataset = loop.stream, loop.comparison.run, loop.stream.dataset
    loop.report("the input alone")
    alone = _input_alone(stream)
    node = slowest_node(alone.nodes)
    prefetched_stall: float | None = None
    if not stream.prepares_ahead:
        loop.report("a prefetch, tried out")
        ahead = dataset.prefetch(_PREFETCHED)
        prefetched_stall = loop.stall_with(ahead, ready=_PREFETCHED)
    speed_up = slow = None
    if node is not None:
        loop.report("its slowest node")
        if node.parallelism < MORE_PARALLEL // 2:
            speed_up = speed_up_by_parallelism(node, dataset.options())
        slow = _slow_clips(alone, len(run))
    facts = InputFacts(
        comparison=loop.comparison,
        waits_for_all=not stream.prepares_ahead and loop.is_synchronous,
        alone=alone,
        padding=loop.buffer.padding,
        prefetched_stall=prefetched_stall,
        speed_up=speed_up,
        slow=slow,
    )
    if facts.epoch_starts or len(facts.spiky_steps):
        loop.report("its shuffle buffers")
        facts = replace(facts, refill=shuffle_refill(dataset))
    return facts


def _input_alone(stream: BatchStream) -> InputAlone:
    dataset: Any = host_part(stream.dataset)
    timed = TimedPipeline(dataset.repeat())
    with PythonTimes(dataset) as python:

        def started() -> None:
            timed.start()
            python.restart()

        alone = take_alone(timed.batches, stream.depth, started=started)
        assert alone is not None  # it repeats
        in_python = {token: total / alone.batches for token, total in python.seconds().items()}
    return replace(alone, nodes=with_python(timed.read(alone.batches), in_python))


def _slow_clips(alone: InputAlone, steps: int) -> SlowElements | None:
    maps = [one for one in alone.nodes if one.is_map and one.dataset is not None]
    slowest = max(maps, key=lambda one: one.seconds, default=None)
    if slowest is None:
        return None
    return slow_elements(slowest, max(2 * FEWEST_BATCHES, min(400, round(slowest.calls * steps))))
