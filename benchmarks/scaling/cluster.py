"""Would one machine feed eight accelerators from a store in parts? Each is simulated, in a process of its own.

Every process does what a rank does: it opens the store, makes its own batches and hands them to its accelerator,
whose step takes as long as a GPU would with that many clips a second. All share the machine's cores and page cache.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from common import print_table
from loading.memory import anonymous_bytes

from scaling.synthetic_parts import configure, make_parts

ACCELERATORS = 8
BATCH_SIZE = 32
CLIPS_PER_SECOND = 200  # of each accelerator
CLIPS_PER_PART = 2_000
PARTS = 4
WARMUP_STEPS = 12
TARGET = 0.99


def measure(
    accelerators: int = ACCELERATORS,
    clips_per_second: float = CLIPS_PER_SECOND,
    seconds: float = 10.0,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Busy shares of the accelerators, and the CPU that feeding them took."""
    # Imported and not used before the processes are forked from this one: that is seconds for each of them.
    import tensorflow  # noqa: F401

    import myxtts.data.batch_source  # noqa: F401

    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        config_folder = Path(temporary)
        make_parts(configure(config_folder, CLIPS_PER_PART), PARTS, filled=True)
        ready, results = fork.Barrier(accelerators), fork.Queue()
        processes = [
            fork.Process(target=_feed, args=(rank, config_folder, clips_per_second, seconds, ready, results))
            for rank in range(accelerators)
        ]
        for process in processes:
            process.start()
        rows = [results.get() for _ in processes]
        for process in processes:
            process.join()
    failed = [row["error"] for row in rows if "error" in row]
    if failed:
        raise RuntimeError(failed[0])
    rows.sort(key=lambda row: row["rank"])
    return {
        "accelerators": accelerators,
        "clips_per_second": clips_per_second,
        "cpus": psutil.cpu_count(),
        "ranks": rows,
        "least_busy": min(row["busy_share"] for row in rows),
        "cpu_share": sum(row["cpu_seconds"] for row in rows) / max(row["seconds"] for row in rows),
    }


def _feed(rank: int, folder: Path, clips_per_second: float, seconds: float, ready: Any, results: Any) -> None:
    try:
        from myxtts.data.ljspeech import LJSpeechDataset
        from myxtts.performance.simulated_accelerator import SimulatedAccelerator

        config = configure(folder, CLIPS_PER_PART, batch_size=BATCH_SIZE, num_workers=1)
        batches = iter(LJSpeechDataset(None, config).batches("train").dataset(seed=rank))
        next(batches)
        step = BATCH_SIZE / clips_per_second
        ready.wait()
        cpu, clock = time.process_time(), time.perf_counter()
        run = SimulatedAccelerator(step).run(batches, max(20, int(seconds / step)), warmup=WARMUP_STEPS)
        results.put(
            {
                "rank": rank,
                "busy_share": run.busy_share,
                "stall_share": run.stall_share,
                "clips_per_second": run.clips_per_second,
                "cpu_seconds": time.process_time() - cpu,
                "seconds": time.perf_counter() - clock,
                "anonymous_bytes": anonymous_bytes(psutil.Process()),
            }
        )
    except BaseException as error:
        ready.abort()
        results.put({"rank": rank, "error": f"rank {rank}: {type(error).__name__}: {error}"})


def print_results(result: dict[str, Any]) -> None:
    print_table(
        f"\n{result['accelerators']} simulated accelerators of {result['clips_per_second']:g} clips/s each, "
        f"one machine, {result['cpus']} CPUs",
        ("rank", "busy %", "waiting for data %", "clips/s", "CPU s per 1,000 clips", "memory MB"),
        [
            (
                f"{row['rank']}",
                f"{100 * row['busy_share']:.2f}",
                f"{100 * row['stall_share']:.2f}",
                f"{row['clips_per_second']:,.0f}",
                f"{1000 * row['cpu_seconds'] / (row['clips_per_second'] * row['seconds']):.2f}",
                f"{row['anonymous_bytes'] / 1e6:,.0f}",
            )
            for row in result["ranks"]
        ],
    )
    met = "each at least" if result["least_busy"] >= TARGET else "not all"
    print(f"{met} {TARGET:.0%} busy; feeding all of them took {result['cpu_share']:.2f} CPUs (simulated)")
