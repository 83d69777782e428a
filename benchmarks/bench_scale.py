"""Several processes, and several machines, against one: what it costs to spread the same work.

    .venv/bin/python benchmarks/bench_scale.py [--parts processes] [--quick] [--json scale.json]

Each part is a function here or in `scaling/`, and prints a table of its own.

- processes: `myxtts train` with one process, and with `--devices 2` on the same CPUs: the same batches, the same
  cores in all (one process has both, two have one each). What two take longer is what the sum and the second process
  cost; with a GPU for each, the computing would be halved instead. CPU is that of all processes, from start to end.
- shards: a store computed by one pool of workers, in shards that are merged, and by Ray.
- progressive: how long steps wait for batches before a store takes over, at the change, and after.
- service: runtime batches loaded by the trainer, and by a loader beside it.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json
from loading.data import write_audio
from scaling.progressive import progressive
from scaling.service import service
from scaling.shards import shards

from myxtts.audio.mel import MelSettings

Part = Callable[[Path, bool], dict[str, Any]]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}, separated by commas")
    options.add_argument("--quick", action="store_true", help="fewer steps, one repetition")
    chosen = options.parse_args()
    names = chosen.parts.split(",")
    if unknown := set(names) - set(PARTS):
        options.error(f"no such part: {', '.join(sorted(unknown))}")
    print(describe_machine())
    results = {}
    for name in names:
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
            results[name] = PARTS[name](Path(folder), chosen.quick)
    write_json(chosen.json, results)


def processes(folder: Path, quick: bool) -> dict[str, Any]:
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
    before, began = _cpu_seconds(), time.time()
    # One process computes on all cores; of two, each on half of them, which the launcher sees to.
    subprocess.run([str(part) for part in command], check=True, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"})
    records = [json.loads(line) for line in (run / "timing.jsonl").read_text(encoding="utf-8").splitlines()]
    later = [one for one in records if not one["compiled"]][len(records) // 4 :]
    return {
        "step_ms": statistics.median(one["step_ms"] for one in later),
        "stall_ms": statistics.fmean(one["stall_ms"] for one in later),
        "all_reduce_ms": statistics.fmean(one.get("all_reduce_ms", 0.0) for one in later),
        "cpu_seconds": _cpu_seconds() - before,
        "start_seconds": records[0]["time"] - began,
    }


def _cpu_seconds() -> float:
    """Of the programs that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


PARTS: dict[str, Part] = {"processes": processes, "shards": shards, "progressive": progressive, "service": service}


if __name__ == "__main__":
    main()
