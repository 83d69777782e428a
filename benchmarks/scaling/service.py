"""Batches of runtime mode loaded by the training process, and by a loader beside it: clips/s, and the trainer's CPU.

The loader runs on the same machine, so clips/s do not rise; what the trainer's CPU falls by is what other machines
would take over.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from common import print_table
from loading.data import write_audio

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig

BATCH_SIZE = 16


def measure(folder: Path, quick: bool) -> dict[str, Any]:
    """Local against served."""
    from myxtts.data.batch_service import ServedSource
    from myxtts.data.batch_source import BatchSource
    from myxtts.data.modes import prepare

    clips, measured = (64, 256) if quick else (256, 2_000)
    write_audio(folder / "data", clips, MelSettings())
    config = DataConfig(
        dataset_path=str(folder / "data"),
        preprocessing_mode="runtime",
        text_symbols="graphemes",
        batch_size=BATCH_SIZE,
        num_buckets=1,
        train_split=1.0,
        val_split=0.0,
    )
    source = BatchSource.build(prepare(config), config, "train")
    found = {"loaded by the trainer": _measure(iter(source.dataset(seed=1)), measured)}
    port = _free_ports()
    command = [sys.executable, "-m", "myxtts", "serve-data", "--port", str(port), "--host", "127.0.0.1", "--json"]
    quiet = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet) as loader:
        try:
            cast(Any, loader.stdout).readline()  # it has started
            served = ServedSource.of(source, [f"127.0.0.1:{port}"])
            found["loaded by serve-data"] = _measure(iter(served.dataset(seed=1)), measured)
        finally:
            loader.kill()
    local = next(iter(found.values()))
    rows = [
        (
            name,
            f"{one['clips_per_second']:.0f}",
            f"{one['clips_per_second'] / local['clips_per_second']:.2f}",
            f"{one['cpu_per_1000']:.2f}",
            f"{one['cpu_per_1000'] / local['cpu_per_1000']:.3f}",
        )
        for name, one in found.items()
    ]
    columns = ("", "clips/s", "ratio", "trainer's CPU, s per 1,000 clips", "ratio")
    print_table(f"runtime batches of {BATCH_SIZE} clips", columns, rows)
    return found


def _measure(batches: Iterator[Mapping[str, Any]], clips: int) -> dict[str, float]:
    for _ in range(4):  # compiled, and the pipeline filled
        next(batches)
    began, cpu = time.perf_counter(), time.process_time()
    count = -(-clips // BATCH_SIZE)
    for _ in range(count):
        next(batches)
    taken, cpu = time.perf_counter() - began, time.process_time() - cpu
    loaded = count * BATCH_SIZE
    return {"clips_per_second": loaded / taken, "cpu_per_1000": 1000 * cpu / loaded}


def _free_ports() -> int:
    """A port that is free, and so is the one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port
