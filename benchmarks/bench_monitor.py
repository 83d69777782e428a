"""What the performance monitor costs per step.

    .venv/bin/python benchmarks/bench_monitor.py [--steps 200000] [--json monitor.json]

One step here is what a trainer does: two timed operations and one `log_step_timing`. The bound is 0.5 % of a
step of 10 ms, 50 µs. The first row is the least a program can do to know its times: take them and append them
to a list that grows for ever.
"""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable

from common import describe_machine, parser, print_table, write_json

from myxtts.performance.monitor import PerformanceMonitor

STEP_SECONDS = 0.010
BOUND = 0.005
REPEATS = 3


def by_hand() -> Callable[[], None]:
    times: list[tuple[float, float, float]] = []

    def step() -> None:
        began = time.perf_counter()
        loaded = time.perf_counter()
        done = time.perf_counter()
        times.append((began, loaded - began, done - loaded))

    return step


def logged() -> Callable[[], None]:
    monitor = PerformanceMonitor()
    return lambda: monitor.log_step_timing(0.0001, 0.0099, 32)


def timed_block() -> Callable[[], None]:
    monitor = PerformanceMonitor()

    def step() -> None:
        with monitor.time_operation("load"):
            pass

    return step


def timed_call() -> Callable[[], None]:
    monitor = PerformanceMonitor()

    @monitor.time_operation("load")
    def step() -> None:
        pass

    return step


def whole_step(monitor: PerformanceMonitor | None = None) -> Callable[[], None]:
    shared = monitor or PerformanceMonitor()

    def step() -> None:
        with shared.time_operation("load"):
            pass
        with shared.time_operation("train"):
            pass
        shared.log_step_timing(0.0001, 0.0099, 32)

    return step


def seconds_per_step(step: Callable[[], None], steps: int) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(steps):
            step()
        best = min(best, (time.perf_counter() - began) / steps)
    return best


def while_read(steps: int) -> float:
    """The whole step while another thread asks for the report ten times a second."""
    monitor = PerformanceMonitor()
    stop = threading.Event()

    def read() -> None:
        while not stop.wait(0.1):
            monitor.get_summary_report()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        return seconds_per_step(whole_step(monitor), steps)
    finally:
        stop.set()
        reader.join()


def bytes_after(step: Callable[[], None], steps: int) -> int:
    tracemalloc.start()
    for _ in range(steps):
        step()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=200_000)
    arguments = options.parse_args()
    steps = arguments.steps

    seconds = {
        "by hand: perf_counter three times, append": seconds_per_step(by_hand(), steps),
        "log_step_timing": seconds_per_step(logged(), steps),
        "time_operation as a block": seconds_per_step(timed_block(), steps),
        "time_operation as a decorator": seconds_per_step(timed_call(), steps),
        "whole step: two blocks and log_step_timing": seconds_per_step(whole_step(), steps),
        "the same, read ten times a second by another thread": while_read(steps),
    }
    kept = {
        "by hand: perf_counter three times, append": bytes_after(by_hand(), steps),
        "whole step: two blocks and log_step_timing": bytes_after(whole_step(), steps),
    }
    by_hand_seconds = next(iter(seconds.values()))

    print(describe_machine())
    print_table(
        f"\nCost of the monitor, {steps:,} steps",
        ("", "µs per step", "ratio", "% of 10 ms", "KB kept"),
        [
            (
                name,
                f"{1e6 * cost:.2f}",
                f"{cost / by_hand_seconds:.1f}",
                f"{100 * cost / STEP_SECONDS:.3f}",
                f"{kept[name] / 1e3:,.0f}" if name in kept else "",
            )
            for name, cost in seconds.items()
        ],
    )
    worst = max(seconds.values())
    print(f"\nbound: {100 * BOUND} % of 10 ms; highest: {100 * worst / STEP_SECONDS:.3f} %")
    write_json(
        arguments.json,
        {"benchmark": "monitor", "steps": steps, "seconds_per_step": seconds, "bytes_kept": kept},
    )


if __name__ == "__main__":
    main()
