"""Looks into a Python iterable that makes steps wait: in which function, doing what, and what would help."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from myxtts.hardware import usable_cpus
from myxtts.performance import batches as batches_module
from myxtts.performance.cpu_use import thread_seconds
from myxtts.performance.facts import BatchMaker, InputAlone, InputFacts
from myxtts.performance.made_ahead import READY, ProcessesAhead, ThreadAhead
from myxtts.performance.stack_sampler import StackSampler, busiest_thread, main_function
from myxtts.performance.step_run import drain
from myxtts.performance.trials import FEWEST_BATCHES, MeasuredLoop, take_alone

_SAMPLED_BATCHES = 60
_SAMPLED_SECONDS = 1.0
_PROCESSES = 4


def investigate(loop: MeasuredLoop) -> InputFacts:
    """Collects what is needed to name a culprit."""
    stream, run = loop.stream, loop.comparison.run
    loop.report("the input alone")
    batches = stream.batches()
    taken = take_alone(batches, stream.depth)
    if taken is None:  # an iterator that is at its end
        alone, maker = InputAlone(float(run.waits.mean()), run.cpu, 0.0, len(run)), None
    else:
        alone, maker = taken, _find_maker(batches, taken.lock_held)
    batches.close()
    thread_stall = processes_stall = None
    processes = max(2, min(_PROCESSES, usable_cpus()))
    if taken is not None and not stream.prepares_ahead:
        loop.report("a thread that makes batches ahead, tried out")
        thread_stall = loop.stall_with(ThreadAhead(stream.dataset), ready=READY)
    if taken is not None and ProcessesAhead.is_possible():
        loop.report(f"{processes} processes that make batches ahead, tried out")
        ahead = ProcessesAhead(stream.dataset, processes)
        try:
            processes_stall = loop.stall_with(ahead, ready=ahead.ready)
        except TimeoutError:
            processes_stall = None
    return InputFacts(
        comparison=loop.comparison,
        waits_for_all=not stream.prepares_ahead and loop.is_synchronous,
        alone=alone,
        padding=loop.buffer.padding,
        prefetched_stall=thread_stall,
        maker=maker,
        processes=processes,
        processes_stall=processes_stall,
    )


def _find_maker(batches: Iterator[Any], lock_held: float) -> BatchMaker | None:
    """Samples the threads of this process while batches are taken, and finds the one that makes them."""
    taker = threading.get_ident()
    before, began = thread_seconds(), time.perf_counter()
    with StackSampler() as sampler:
        count, _ = drain(batches, _SAMPLED_BATCHES, least=FEWEST_BATCHES, seconds=_SAMPLED_SECONDS)
    wall, after = time.perf_counter() - began, thread_seconds()
    if not count:
        return None
    stacks = sampler.stacks()
    maker = busiest_thread(stacks, taker)
    function = main_function(stacks.get(maker, {}), below=(batches_module.__file__,))
    if function is None:
        return None
    thread = next((one for one in threading.enumerate() if one.ident == maker), None)
    number = str(thread.native_id) if thread is not None else ""
    if number not in before or number not in after:
        return BatchMaker(function.name, function.share, maker == taker)
    times = zip(after[number], before[number], strict=True)
    computing, queued = (min(1.0, (now - then) / wall) for now, then in times)
    return BatchMaker.of_times(function.name, function.share, maker == taker, computing, queued, lock_held)
