"""What computing a store in shards costs against one pool of workers, on the same CPUs, and what Ray adds.

Every row runs the commands as a user does, so each pays for its start. Shards and Ray pay off where there are more
machines; here they share this one, and what they take longer is what they cost. All stores must be equal, byte by
byte.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import children_cpu_seconds, print_table
from loading.data import write_audio

from myxtts.audio.mel import MelSettings
from myxtts.hardware import usable_cpus

SHARDS = 4


def measure(folder: Path, quick: bool) -> dict[str, Any]:
    """A pool, shards and a merge, Ray."""
    clips, cpus = (200 if quick else 2_000), usable_cpus()
    data = folder / "data"
    write_audio(data, clips, MelSettings())
    found: dict[str, dict[str, float]] = {}
    stores: dict[str, dict[str, bytes]] = {}

    def precompute(cache: Path, workers: int, *more: str) -> None:
        command = [sys.executable, "-m", "myxtts", "precompute", "--data-path", data, "--cache-dir", cache, "--quiet"]
        command += ["--num-workers", workers, "--set", "text_symbols=graphemes", *more]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)

    def measure(name: str, *stages: Any) -> None:
        cache = folder / f"store-{len(stores)}"
        before, seconds = children_cpu_seconds(), []
        for stage in stages:
            began = time.perf_counter()
            stage(cache)
            seconds.append(time.perf_counter() - began)
        cpu = children_cpu_seconds() - before
        found[name] = {"seconds": seconds[0], "merge_seconds": sum(seconds[1:]), "cpu": cpu}
        stores[name] = {path.name: path.read_bytes() for path in cache.glob("*/v000001/*")}
        shutil.rmtree(cache)

    def in_shards(cache: Path) -> None:
        with ThreadPoolExecutor(cpus) as at_a_time:
            numbers = range(1, SHARDS + 1)
            list(at_a_time.map(lambda number: precompute(cache, 1, "--shard", f"{number}/{SHARDS}"), numbers))

    measure(f"one pool of {cpus} workers", lambda cache: precompute(cache, cpus))
    measure(f"{SHARDS} shards, {cpus} at a time", in_shards, lambda cache: precompute(cache, cpus))
    if importlib.util.find_spec("ray") is not None:
        measure("Ray on this machine, its merge included", lambda cache: precompute(cache, cpus, "--ray"))
    pool = next(iter(found.values()))
    rows = [
        (
            name,
            f"{one['seconds']:.1f}",
            f"{one['merge_seconds']:.1f}" if one["merge_seconds"] else "",
            f"{(one['seconds'] + one['merge_seconds']) / pool['seconds']:.2f}",
            "" if name.startswith("Ray") else f"{one['cpu'] / pool['cpu']:.2f}",  # Ray's workers are not counted
        )
        for name, one in found.items()
    ]
    print_table(f"{clips:,} clips", ("", "seconds", "merging, s", "ratio", "CPU, ratio"), rows)
    first = next(iter(stores.values()))
    equal = all(files == first for files in stores.values())
    print(f"the stores are {'equal, byte by byte' if equal else 'NOT equal'}")
    return {"clips": clips, "rows": found, "equal": equal}
