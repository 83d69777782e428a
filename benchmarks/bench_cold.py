"""Cold data: what helps when the store is not in the page cache, measured in fresh processes with it dropped.

    .venv/bin/python benchmarks/bench_cold.py [--clips 3000 30000] [--json cold.json]

Batches of 32 float16 clips, bucketed and shuffled, as fast as they come, from the first on. A store of 3,000 clips is
read to its end: whatever the kernel reads beyond what was asked for is needed a little later. Of one of 30,000 clips
only the first batches are read: that is what every epoch is like with a store larger than the memory.

- workers: more batches loaded at a time, so more page faults wait for the disk at once.
- MADV_RANDOM: the kernel reads the page that was touched and not what lies around it.
- WILLNEED: a thread asks for the bytes of the clips of the next batches, so many batches ahead (`posix_fadvise`;
  `myxtts/data/batches/pages_ahead.py`, which is what training does with a store that is larger than the memory).
- whole file: a thread reads the store from its beginning to its end while batches are loaded.

`read` is what came from the disk for each byte that was asked for; `cached %` is what the page cache held of the
store when the first batch was asked for (0, or the row was not cold). Results depend on the disk and on its
`read_ahead_kb`, which is printed.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import describe_machine, parser, print_table, write_json
from loading.data import FRAMES_PER_TOKEN, NUM_BUCKETS, SEED, ljspeech_frames, random_mels, write_store
from loading.page_cache import drop, files_below, resident_share
from loading.process import environment
from loading.report import summarise

from myxtts.audio.mel import MelSettings
from myxtts.data.batches.pages_ahead import ask_ahead
from myxtts.data.store import FeatureStore
from myxtts.hardware import usable_cpus

BATCH_SIZE = 32
BLOCK = 8 << 20


@dataclass(frozen=True)
class Way:
    """One way of reading cold data."""

    title: str
    workers: int = 0  # 0: as many as there are CPUs, the default of the pipeline
    random: bool = False
    ahead: int = 0  # batches
    whole: bool = False


WAYS = (
    Way("as it is"),
    Way("16 workers", workers=16),
    Way("MADV_RANDOM", random=True),
    Way("WILLNEED 8 ahead", ahead=8),
    Way("WILLNEED 32 ahead", ahead=32),
    Way("whole file", whole=True),
)


def measure_here(folder: Path, way: Way, batches: int) -> dict[str, float]:
    """The program of a measuring process."""
    from myxtts.config.config import DataConfig
    from myxtts.data.batches.clip_table import ClipTable
    from myxtts.data.batches.pipeline import PipelineSettings, create_dataset
    from myxtts.data.batches.plan import BatchOrder, BatchPlan
    from myxtts.data.tf_native_loader import TFNativeDataLoader

    drop(files_below(folder))
    store = FeatureStore.open(folder)
    plan = BatchPlan(store.mel_lengths, store.token_lengths, batch_size=BATCH_SIZE, num_buckets=NUM_BUCKETS)
    loader = TFNativeDataLoader(clips=store, table=ClipTable.build(store, None, ()))
    settings = PipelineSettings.from_config(DataConfig(num_workers=way.workers or usable_cpus()))
    order = BatchOrder(SEED, epochs=1)
    dataset = create_dataset(loader, plan, settings, order)
    epoch = plan.epoch(SEED, 0)
    batches = min(batches, len(epoch))
    if way.random:
        advise(store.mel_path, mmap.MADV_RANDOM)
    if way.ahead:
        ask_ahead(dataset, store, plan, order, ahead=way.ahead, memory=0)
    if way.whole:
        _start(lambda: read_whole(store.mel_path))

    cached = resident_share([store.mel_path])
    read_before, marks = _read_bytes(), [time.perf_counter()]
    for _ in itertools.islice(iter(dataset), batches):
        marks.append(time.perf_counter())
    seconds = np.diff(marks)
    rows = np.concatenate([epoch[number] for number in range(batches)])
    row_bytes = store.mel_data.strides[0]
    asked = int(store.mel_lengths[rows[rows >= 0]].sum()) * row_bytes
    return {
        "clips_per_second": float((rows >= 0).sum() / seconds.sum()),
        "first_batch_seconds": float(seconds[0]),
        "p95_ms": 1e3 * float(np.quantile(seconds, 0.95)),
        "longest_ms": 1e3 * float(seconds[1:].max()),
        "read_per_byte": (_read_bytes() - read_before) / asked,
        "cached_before": cached,
    }


def read_whole(path: Path) -> None:
    """Brings a file into the page cache, block after block."""
    descriptor = os.open(path, os.O_RDONLY)
    buffer = bytearray(BLOCK)
    while os.readv(descriptor, [buffer]):
        pass


def advise(path: Path, advice: int) -> None:
    """madvise(2) for every mapping of a file in this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    for start, stop in _mappings(path):
        if libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), advice):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _mappings(path: Path) -> Iterator[tuple[int, int]]:
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == str(path):
            start, stop = (int(address, 16) for address in fields[0].split("-"))
            yield start, stop


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _read_bytes() -> int:
    """Bytes that this process made the disk read, read-ahead included."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    return 0


def read_ahead_kb(path: Path) -> str:
    """What the kernel reads around a page of this file that was touched, as far as the system tells."""
    device = os.stat(path).st_dev
    settings = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    return settings.read_text().strip() if settings.exists() else "unknown"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, nargs="+", default=[3_000, 30_000])
    options.add_argument("--batches", type=int, default=100, help="at most, per measurement")
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--folder", type=Path, help="where the stores are written, on a disk; default: /tmp")
    options.add_argument("--measure", nargs=2, help="measure a store in a way, in this process, and print JSON")
    chosen = options.parse_args()
    if chosen.measure:
        folder, way = chosen.measure
        print(json.dumps(measure_here(Path(folder), Way(**json.loads(way)), chosen.batches)))
        sys.stdout.flush()
        os._exit(0)

    measured: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    print(describe_machine())
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-cold-") as folder:
        for clips in chosen.clips:
            _write(Path(folder) / str(clips), clips)
        print(f"read_ahead_kb: {read_ahead_kb(Path(folder))}")
        for _ in range(chosen.repetitions):
            for clips in chosen.clips:
                for way in WAYS:
                    store = str(Path(folder) / str(clips))
                    command = [sys.executable, __file__, "--measure", store, json.dumps(asdict(way))]
                    command += ["--batches", str(chosen.batches)]
                    done = subprocess.run(command, env=environment(), check=True, capture_output=True)
                    measured[clips, way.title].append(json.loads(done.stdout.splitlines()[-1]))

    results = {name: summarise(repetitions) for name, repetitions in measured.items()}
    for clips in chosen.clips:
        base = results[clips, WAYS[0].title]["clips_per_second"]
        lines = []
        for way in WAYS:
            result = results[clips, way.title]
            lines.append(
                (
                    way.title,
                    f"{result['clips_per_second']:,.0f}",
                    f"{result['clips_per_second'] / base:.2f}",
                    f"{result['lowest']:,.0f}–{result['highest']:,.0f}",
                    f"{1e3 * result['first_batch_seconds']:,.0f}",
                    f"{result['p95_ms']:.1f}",
                    f"{result['longest_ms']:,.0f}",
                    f"{result['read_per_byte']:.1f}",
                    f"{100 * result['cached_before']:.1f}",
                )
            )
        columns = ("", "clips/s", "ratio", "range", "first ms", "p95 ms", "longest ms", "read", "cached %")
        print_table(f"\nCold page cache, store of {clips:,} clips", columns, lines)
    named = {f"{clips} clips, {title}": result for (clips, title), result in results.items()}
    write_json(chosen.json, {"benchmark": "cold", "rows": named})


def _write(folder: Path, clips: int) -> None:
    """A store of clips with random mels."""
    settings = MelSettings()
    pool, frames = random_mels(settings), ljspeech_frames(clips, settings)
    first = np.random.default_rng(SEED).integers(0, len(pool) - frames.max(), clips)
    mels = [pool[start : start + count] for start, count in zip(first, frames, strict=True)]
    write_store(folder, mels, frames // FRAMES_PER_TOKEN + 1, "float16")


if __name__ == "__main__":
    main()
