"""Training with one process, and with two on the same CPUs.

The same batches, the same cores in all: one process has both, two have one each. What two take longer is what the sum
and the second process cost; with a GPU for each, the computing would be halved instead. CPU is that of all processes,
from start to end.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import children_cpu_seconds, print_table
from loading.data import write_audio

from myxtts.audio.mel import MelSettings


def measure(folder: Path, quick: bool) -> dict[str, Any]:
    """One process against two with the same work."""
    steps, repetitions = (20, 1) if quick else (120, 3)
    data = folder / "data"
    write_audio(data, 200, MelSettings())
    taken: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    for repetition in range(repetitions):
        for devices in taken:
            taken[devices].append(_train(data, folder / f"run-{devices}-{repetition}", devices, steps))
    medians = {
        devices: {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        for devices, runs in taken.items()
    }
    alone = medians[1]
    rows = [
        (
            f"{devices} process{'es' * (devices > 1)}",
            f"{found['step_ms']:.0f}",
            f"{found['step_ms'] / alone['step_ms']:.2f}",
            f"{100 * found['all_reduce_ms'] / found['step_ms']:.1f} %",
            f"{100 * found['stall_ms'] / found['step_ms']:.1f} %",
            f"{found['cpu_seconds'] / alone['cpu_seconds']:.2f}",
            f"{found['start_seconds']:.1f}",
        )
        for devices, found in medians.items()
    ]
    columns = ("", "ms a step", "ratio", "all-reduce", "stall", "CPU, ratio", "start, s")
    print_table(f"training the tiny model for {steps} steps on the same CPUs", columns, rows)
    return {str(devices): found for devices, found in medians.items()}


def _train(data: Path, run: Path, devices: int, steps: int) -> dict[str, float]:
    """The times of a run, by what it has written."""
    command = [
        *(sys.executable, "-m", "myxtts", "train", "--quiet", "--preset", "cpu", "--device", "cpu"),
        *("--data-path", data, "--checkpoint-dir", run, "--max-steps", steps, "--devices", devices),
        *("--set", "num_buckets=1", "--set", "enable_tensorboard=false", "--set", "text_symbols=graphemes"),
        *("--set", f"validate_every={10 * steps}", "--batch-size", 8),
    ]
    before, began = children_cpu_seconds(), time.time()
    # One process computes on all cores; of two, each on half of them, which the launcher sees to.
    subprocess.run([str(part) for part in command], check=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    records = [json.loads(line) for line in (run / "timing.jsonl").read_text(encoding="utf-8").splitlines()]
    later = [one for one in records if not one["compiled"]][len(records) // 4 :]
    return {
        "step_ms": statistics.median(one["step_ms"] for one in later),
        "stall_ms": statistics.fmean(one["stall_ms"] for one in later),
        "all_reduce_ms": statistics.fmean(one.get("all_reduce_ms", 0.0) for one in later),
        "cpu_seconds": children_cpu_seconds() - before,
        "start_seconds": records[0]["time"] - began,
    }
