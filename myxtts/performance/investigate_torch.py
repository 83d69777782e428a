"""Looks into a PyTorch `DataLoader` that makes steps wait: its parts in its real workers, and other settings."""

from __future__ import annotations

import multiprocessing
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import psutil

from myxtts.hardware import usable_cpus
from myxtts.performance.batches import BatchStream, batch_bytes, count_objects
from myxtts.performance.facts import (
    MOSTLY,
    InputAlone,
    InputFacts,
    LoaderFacts,
    LoaderSettings,
    LoaderTrial,
    SlowElements,
)
from myxtts.performance.torch_loader import (
    BatchTimes,
    TimedLoader,
    dataset_name,
    loader_nodes,
    read_settings,
    rebuilt,
    time_item,
)
from myxtts.performance.trials import MeasuredLoop, take_alone

_MOST_WORKERS = 16
_READY = 8


def investigate(loop: MeasuredLoop) -> InputFacts:
    """Collects what is needed to name a culprit."""
    loader, settings = loop.stream.dataset, read_settings(loop.stream.dataset)
    loop.report("the loader alone, in its workers")
    alone, times, memory = _loader_alone(loop.stream, settings)
    slow = _slow_items(loader, times)
    facts = InputFacts(
        comparison=loop.comparison,
        waits_for_all=settings.num_workers == 0 and loop.is_synchronous,
        alone=alone,
        padding=loop.buffer.padding,
        slow=slow,
    )
    trials: dict[str, LoaderTrial] = {}
    for name, changes in settings_to_try(settings, facts, usable_cpus()).items():
        written = ", ".join(f"{key}={value}" for key, value in changes.items())
        loop.report(f"{written}, tried out")
        changed = rebuilt(loader, **changes)
        ready = changed.num_workers * (changed.prefetch_factor or 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # more workers than CPUs are meant
            stall = loop.stall_with(changed, ready=ready, steps=len(loop.comparison.run))
        if stall is not None:
            trials[name] = LoaderTrial(written, stall)
    batches = loop.buffer.batches
    of_loader = LoaderFacts(
        settings,
        batch_bytes=int(np.mean([batch_bytes(batch) for batch in batches])),
        batch_parts=count_objects(batches[0]),
        worker_memory=memory,
        **trials,
    )
    return replace(facts, loader=of_loader)


def settings_to_try(settings: LoaderSettings, facts: InputFacts, cpus: int) -> dict[str, dict[str, Any]]:
    """Arguments of `DataLoader` that may help, by the names of the fields of `LoaderFacts` that they become.

    Workers that wait may be more than there are CPUs, workers that compute may not.
    """
    workers = settings.num_workers
    tried: dict[str, dict[str, Any]] = {}
    more = min(_MOST_WORKERS, max(4, 4 * workers)) if facts.alone.waiting >= MOSTLY else cpus
    if more > workers:
        tried["more_workers"] = {"num_workers": more} | ({} if workers else {"persistent_workers": True})
    if workers > cpus:
        tried["fewer_workers"] = {"num_workers": cpus}
    if workers and not settings.persistent_workers and facts.comparison.run.epoch_starts:
        tried["persistent"] = {"persistent_workers": True}
    if workers and (settings.prefetch_factor or 0) < _READY and len(facts.spiky_steps):
        tried["more_ready"] = {"prefetch_factor": _READY}
    return tried


def _loader_alone(stream: BatchStream, settings: LoaderSettings) -> tuple[InputAlone, list[BatchTimes], int]:
    timed = TimedLoader(stream.dataset)
    batches = stream.batches(timed)
    before = _children()
    alone = take_alone(batches, stream.depth, started=timed.times.clear, processes=lambda: _children() - before)
    memory = sum(map(_own_memory, _children() - before))
    batches.close()
    assert alone is not None  # a loader starts again at its end
    nodes = loader_nodes(timed.times, settings, dataset_name(stream.dataset))
    return replace(alone, nodes=nodes), timed.times, memory


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}


def _own_memory(process: int) -> int:
    """Bytes that a process shares with no other; 0 if that is unknown."""
    try:
        return int(psutil.Process(process).memory_full_info().uss)
    except psutil.Error:
        return 0


def _slow_items(loader: Any, times: list[BatchTimes]) -> SlowElements | None:
    items = [item for one in times for item in one.items if item.count == 1]
    names = [f"clip {item.key}" if item.key is not None else f"item {place}" for place, item in enumerate(items)]

    def time_again(position: int) -> float:
        key = items[position].key
        return float("inf") if key is None else time_item(loader, key)

    return SlowElements.find(names, np.array([item.seconds for item in items]), time_again)
