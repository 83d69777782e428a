"""Measures one row in a process of its own: this module is the program of that process, and what starts it.

A fresh process per measurement keeps threads, memory and caches of one row out of the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from loading.data import BenchData
from loading.memory import anonymous_bytes
from loading.page_cache import drop, files_below, resident_share
from loading.rows import ROWS, Row
from loading.source import Source
from loading.verify import verify

BENCHMARKS = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 0.05
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Request:
    """What is to be measured.

    Attributes:
        warmup: seconds before anything is counted: pages are mapped, buffers filled, `AUTOTUNE` has settled.
        seconds: how long batches are counted.
        least_batches: counted at least, however long it takes.
        probe_seconds: of one probe of the search for the highest rate; 0 for no search.
        tolerance: of that search.
        after: whether the row's own further measurements are made.
        cold: empty the page cache first and time one epoch, and nothing else.
        steps: run a simulated accelerator with these step times and steps, and nothing else.
        arguments: of the row, where they are not those of the table.
    """

    row: str
    folder: str
    warmup: float = 1.0
    seconds: float = 1.5
    least_batches: int = 12
    probe_seconds: float = 0.0
    tolerance: float = 0.05
    after: bool = False
    cold: bool = False
    steps: tuple[tuple[float, int], ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)


def environment() -> dict[str, str]:
    """Variables of a process that imports what this one does."""
    path = os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)])
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": path}


def measure(request: Request) -> dict[str, Any]:
    """Measures in a fresh process; adds the peak of its anonymous memory, and that of its children, in bytes.

    Pages that a child shares with its parent until one of them writes count in both.
    """
    with tempfile.TemporaryDirectory() as folder:
        result_path = Path(folder) / "result.json"
        command = [sys.executable, "-m", "loading.process", json.dumps(asdict(request)), str(result_path)]
        with open(Path(folder) / "errors.txt", "w+") as errors:
            variables = {**environment(), **ROWS[request.row].environment}
            child = subprocess.Popen(command, env=variables, stdout=errors, stderr=errors)
            peak = _watch(child)
            errors.seek(0)
            if child.returncode != 0:
                raise RuntimeError(f"{request.row} failed ({child.returncode}):\n{errors.read()[-3000:]}")
        return json.loads(result_path.read_text()) | {"peak_anonymous_bytes": peak}


def _watch(child: subprocess.Popen) -> int:
    """Waits for the process; returns the largest sum of anonymous memory of it and its children."""
    tree = psutil.Process(child.pid)
    peak, deadline = 0, time.monotonic() + TIMEOUT_SECONDS
    while child.poll() is None:
        try:
            peak = max(peak, sum(map(anonymous_bytes, _tree(tree))))
        except psutil.NoSuchProcess:
            break
        if time.monotonic() > deadline:
            for process in _tree(tree):
                process.kill()
        time.sleep(SAMPLE_SECONDS)
    child.wait()
    return peak


@dataclass(frozen=True)
class Usage:
    """What this process and its children have used so far."""

    user_seconds: float
    system_seconds: float
    page_faults: int

    @classmethod
    def now(cls) -> Usage:
        processes = _tree(psutil.Process())
        times = [process.cpu_times() for process in processes]
        return cls(
            sum(one.user for one in times), sum(one.system for one in times), sum(map(_page_faults, processes))
        )

    def __sub__(self, before: Usage) -> Usage:
        return Usage(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


def _page_faults(process: psutil.Process) -> int:
    """Faults that needed no disk."""
    content = Path(f"/proc/{process.pid}/stat").read_text()
    return int(content.rpartition(")")[2].split()[7])


def _tree(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


class Continued:
    """The rest of a stream; asking for its iterator does not begin again, and dropping it does not end it."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Continued:
        return self

    def __next__(self) -> Any:
        return next(self._batches)


def _run(request: Request) -> dict[str, Any]:
    row, data = ROWS[request.row], BenchData.open(Path(request.folder))
    row = replace(row, arguments={**row.arguments, **request.arguments})
    if request.cold:
        return _first_epoch(row, data)
    if request.steps:
        return _simulate(row, data, request)
    source = row.make(data)
    verify(row, data, source, next(source.batches))
    warmup = _take(source, request.warmup, source.warmup_batches)
    before = Usage.now()
    times = _take(source, request.seconds, request.least_batches)
    used = Usage.now() - before
    clips = len(times) * source.clips_per_batch
    results = {
        "clips_per_second": clips / times.sum(),
        "ms_per_batch": 1e3 * times.mean(),
        "variation": times.std() / times.mean(),
        "cpu_seconds_per_1000_clips": 1000 * (used.user_seconds + used.system_seconds) / clips,
        "system_seconds_per_1000_clips": 1000 * used.system_seconds / clips,
        "page_faults_per_batch": used.page_faults / len(times),
        "padding_share": source.padding_share,
        "batches": len(times),
        "warmup_seconds": warmup.sum(),
    }
    if request.probe_seconds:
        results["highest_rate"] = _highest_rate(source, request)
    return results | (source.after() if request.after else {})


def _take(source: Source, seconds: float, least: int) -> np.ndarray:
    """Takes batches for so long; returns the time each took."""
    marks = [time.perf_counter()]
    while len(marks) <= least or marks[-1] - marks[0] < seconds:
        batch = next(source.batches)
        marks.append(time.perf_counter())
    del batch
    return np.diff(marks)


def _highest_rate(source: Source, request: Request) -> dict[str, Any] | None:
    from loading.highest_rate import highest_rate

    try:
        found = highest_rate(
            lambda: Continued(source.batches),
            tolerance=request.tolerance,
            probe_seconds=request.probe_seconds,
            count_clips=lambda batch: 1,
        )
    except ValueError:
        return None  # the machine is too busy with other things for a rate to be found
    return {
        "step_ms": 1e3 * found.step_seconds,
        "clips_per_second": found.clips_per_second * source.clips_per_batch,
        "busy_share": found.run.busy_share,
        "probes": len(found.tried),
    }


def _first_epoch(row: Row, data: BenchData) -> dict[str, Any]:
    """Loads one epoch, the files not being in memory; timed from the first batch, so without starting up."""
    batches = data.clips // data.batch_size
    files = files_below(data.path)
    drop(files)  # before the row maps any of them, for what is mapped and touched cannot be dropped
    resident = resident_share(files)
    source = row.make(data)
    next(source.batches)
    start = time.perf_counter()
    for _ in range(1, batches):
        next(source.batches)
    seconds = time.perf_counter() - start
    return {
        "clips_per_second": (batches - 1) * source.clips_per_batch / seconds,
        "resident_share_before": resident,
        "seconds": seconds,
    }


def _simulate(row: Row, data: BenchData, request: Request) -> dict[str, Any]:
    from myxtts.performance.simulated_accelerator import SimulatedAccelerator

    source = row.make(data)
    _take(source, request.warmup, source.warmup_batches)
    runs = [
        SimulatedAccelerator(seconds).run(Continued(source.batches), steps).to_dict()
        for seconds, steps in request.steps
    ]
    return {"runs": runs}


def main() -> None:
    request, result_path = json.loads(sys.argv[1]), Path(sys.argv[2])
    result_path.write_text(json.dumps(_run(Request(**request)), default=float))
    # Some peers' threads and processes end only with the process, others wait for each other at its end.
    for process in psutil.Process().children(recursive=True):
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
