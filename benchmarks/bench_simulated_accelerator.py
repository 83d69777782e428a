"""Is the simulated accelerator right? Three verifications on the real clock.

    .venv/bin/python benchmarks/bench_simulated_accelerator.py [--seconds 3] [--json simulated.json]

1. An ideal source (batches already in memory) keeps it at least 99.5 % busy.
2. With a source of known delay, made by sleeping or by a thread that works ahead, the stall is within 3 % of
   the true one, which the source notes by itself.
3. With a source faster than the device the stall is zero, although the host waits in `next()`. (On a machine
   that is busy otherwise the source itself may oversleep; run it on a quiet one.)
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import describe_machine, parser, print_table, write_json

from myxtts.performance.simulated_accelerator import SimulatedAccelerator, SimulatedRun

STEP_SECONDS = (0.002, 0.010, 0.050)
WARMUP = 5
BATCH = np.zeros([16, 80], np.float32)


class SleepingSource:
    """Sleeps before each batch, in the training thread, and notes when each was ready."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.ready: list[float] = []

    def __iter__(self) -> Iterator[np.ndarray]:
        while True:
            time.sleep(self.delay)
            self.ready.append(time.perf_counter())
            yield BATCH


class ThreadSource:
    """Makes a batch every `delay` seconds in a thread of its own, four ahead, and notes when each was ready."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.ready: list[float] = []
        self._stop = threading.Event()

    def __iter__(self) -> Iterator[np.ndarray]:
        batches: queue.Queue[np.ndarray] = queue.Queue(maxsize=4)

        def produce() -> None:
            while not self._stop.is_set():
                time.sleep(self.delay)
                self.ready.append(time.perf_counter())
                batches.put(BATCH)

        threading.Thread(target=produce, daemon=True).start()
        try:
            while True:
                yield batches.get()
        finally:
            self._stop.set()
            while not batches.empty():
                batches.get_nowait()


def run(source: Any, step_seconds: float, seconds: float) -> tuple[SimulatedRun, float]:
    """The run, and the share of a CPU that the device and its feeding took."""
    worked = time.thread_time()
    result = SimulatedAccelerator(step_seconds).run(source, max(30, int(seconds / step_seconds)), warmup=WARMUP)
    return result, (time.thread_time() - worked) / result.timeline.seconds


def true_stall(ready: list[float], steps: int, step_seconds: float) -> float:
    """With a source slower than the device, all time beyond the steps' own was spent waiting."""
    return ready[WARMUP + steps - 1] - ready[WARMUP - 1] - steps * step_seconds


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=3.0, help="length of each measurement")
    arguments = options.parse_args()
    results = []
    rows = []

    def verify(name: str, result: SimulatedRun, cpu: float, shown: str, bound: str, met: bool) -> None:
        results.append({"name": name, "shown": shown, "bound": bound, "met": met, **result.to_dict()})
        rows.append(
            (
                name,
                f"{1e3 * result.step_seconds:g}",
                f"{result.steps:,}",
                f"{100 * result.busy_share:.2f}",
                f"{1e3 * result.stalls.mean():.3f}",
                f"{1e3 * (result.fetch_seconds + result.dispatch_seconds).mean():.2f}",
                f"{100 * result.variation:.2f}",
                f"{100 * cpu:.1f}",
                shown,
                bound,
                "yes" if met else "NO",
            )
        )

    for step_seconds in STEP_SECONDS:
        result, cpu = run(itertools.repeat(BATCH), step_seconds, arguments.seconds)
        shown = f"{100 * result.busy_share:.2f} % busy"
        verify("1. ideal source", result, cpu, shown, "at least 99.5 %", result.busy_share >= 0.995)

    for kind, source_class in (("sleeping", SleepingSource), ("thread", ThreadSource)):
        for step_seconds in STEP_SECONDS:
            source = source_class(1.5 * step_seconds)
            result, cpu = run(source, step_seconds, arguments.seconds)
            true = true_stall(source.ready, result.steps, step_seconds)
            off = result.stalls.sum() / true - 1
            name = f"2. {kind} source, 1.5 × the step"
            verify(name, result, cpu, f"stall {100 * off:+.2f} % off", "within 3 %", abs(off) <= 0.03)

    for kind, source_class in (("sleeping", SleepingSource), ("thread", ThreadSource)):
        for step_seconds in STEP_SECONDS:
            result, cpu = run(source_class(0.5 * step_seconds), step_seconds, arguments.seconds)
            shown = f"stall {100 * result.stall_share:.3f} %"
            name = f"3. {kind} source, 0.5 × the step"
            verify(name, result, cpu, shown, "zero", result.stalls.max() == 0.0)

    print(describe_machine())
    print_table(
        "\nSimulated accelerator, verified",
        (
            "simulated",
            "step ms",
            "steps",
            "busy %",
            "stall ms",
            "host waits ms",
            "std/mean %",
            "CPU %",
            "shown",
            "bound",
            "met",
        ),
        rows,
    )
    write_json(arguments.json, {"benchmark": "simulated_accelerator", "runs": results})


if __name__ == "__main__":
    main()
