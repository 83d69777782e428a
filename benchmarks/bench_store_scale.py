"""Does a batch cost the same, and memory stay the same, however large the store is?

    .venv/bin/python benchmarks/bench_store_scale.py [--clips 1000 10000 100000] [--json scale.json]

Stores of clips as long as LJSpeech's, float16, batch 32. Their mel.bin is one hole, so that a store of 100,000 clips
(9 GB) takes no disk space; reading a hole fills the page cache with zeros as reading a disk fills it with data. Each
store is measured in fresh processes: a thousand batches from all over the store, then the same ones again. The
first time their pages are not mapped yet, the second time they are; cost per batch is the second. `start` is what
opening the store, planning and the first batch take; `next epoch` is how long the wait for the first batch of the
second epoch is, with a full prefetch buffer before it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import describe_machine, parser, print_table, write_json
from loading.data import FRAMES_PER_TOKEN, NUM_BUCKETS, SEED, ljspeech_frames, write_sparse_store
from loading.memory import anonymous_bytes
from loading.process import Usage, environment
from loading.report import summarise

from myxtts.audio.mel import MelSettings

BATCH_SIZE = 32
MEL_BYTES = 6.6 * 22050 / 256 * 80 * 2  # of an average clip
FLAT = 1.2  # what repetitions of one store differ by


def measure_here(folder: Path, batches: int) -> dict[str, float]:
    """The program of a measuring process."""
    import tensorflow as tf

    from myxtts.config.config import DataConfig
    from myxtts.data.batches.clip_table import ClipTable
    from myxtts.data.batches.pipeline import PipelineSettings, create_dataset
    from myxtts.data.batches.plan import BatchOrder, BatchPlan
    from myxtts.data.store import FeatureStore
    from myxtts.data.tf_native_loader import TFNativeDataLoader

    tf.constant(0)
    imported = anonymous_bytes(psutil.Process())
    start = time.perf_counter()
    store = FeatureStore.open(folder)
    plan = BatchPlan(store.mel_lengths, store.token_lengths, batch_size=BATCH_SIZE, num_buckets=NUM_BUCKETS)
    loader = TFNativeDataLoader(clips=store, table=ClipTable.build(store, None, ()))
    settings = PipelineSettings.from_config(DataConfig())

    def dataset(start_step: int = 0) -> Any:
        return iter(create_dataset(loader, plan, settings, BatchOrder(SEED, start_step=start_step)))

    def seconds_per_batch(iterator: Any) -> tuple[float, Usage]:
        for _ in range(20):
            next(iterator)
        began, before = time.perf_counter(), Usage.now()
        for _ in range(batches):
            next(iterator)
        return (time.perf_counter() - began) / batches, Usage.now() - before

    iterator = dataset()
    next(iterator)
    started = time.perf_counter() - start
    first, _ = seconds_per_batch(iterator)
    again, used = seconds_per_batch(dataset())
    iterator = dataset(start_step=max(0, len(plan) - settings.prefetch - 2))
    waits = []
    for _ in range(2 * settings.prefetch):
        began = time.perf_counter()
        next(iterator)
        waits.append(time.perf_counter() - began)
    return {
        "clips_per_second": BATCH_SIZE / again,
        "ms_per_batch": 1e3 * again,
        "first_ms_per_batch": 1e3 * first,
        "cpu_ms_per_batch": 1e3 * (used.user_seconds + used.system_seconds) / batches,
        "start_seconds": started,
        "next_epoch_ms": 1e3 * float(np.max(waits[2:])),
        "anonymous_bytes_added": anonymous_bytes(psutil.Process()) - imported,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--clips", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options.add_argument("--batches", type=int, default=1_000, help="per measurement")
    options.add_argument("--repetitions", type=int, default=5)
    options.add_argument("--measure", type=Path, help="measure this store, in this process, and print JSON")
    chosen = options.parse_args()
    if chosen.measure:
        print(json.dumps(measure_here(chosen.measure, chosen.batches)))
        sys.stdout.flush()
        os._exit(0)

    measured: dict[int, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-store-scale-") as folder:
        for clips in chosen.clips:
            frames = ljspeech_frames(clips, MelSettings())
            write_sparse_store(Path(folder) / str(clips), frames, frames // FRAMES_PER_TOKEN + 1, "float16")
        for _ in range(chosen.repetitions):
            for clips in chosen.clips:
                command = [sys.executable, __file__, "--measure", str(Path(folder) / str(clips))]
                command += ["--batches", str(chosen.batches)]
                done = subprocess.run(command, env=environment(), check=True, stdout=subprocess.PIPE)
                measured[clips].append(json.loads(done.stdout.splitlines()[-1]))

    results = {clips: summarise(repetitions) for clips, repetitions in measured.items()}
    smallest, largest = results[chosen.clips[0]], results[chosen.clips[-1]]
    print(describe_machine())
    print_table(
        "\nStore size, batch 32, float16",
        (
            "clips",
            "ms/batch",
            "ratio",
            "CPU ms/batch",
            "first time ms",
            "next epoch ms",
            "start s",
            "anonymous MB added",
        ),
        [
            (
                f"{clips:,}",
                f"{result['ms_per_batch']:.2f}",
                f"{result['ms_per_batch'] / smallest['ms_per_batch']:.2f}",
                f"{result['cpu_ms_per_batch']:.2f}",
                f"{result['first_ms_per_batch']:.2f}",
                f"{result['next_epoch_ms']:.1f}",
                f"{result['start_seconds']:.2f}",
                f"{result['anonymous_bytes_added'] / 1e6:,.0f}",
            )
            for clips, result in results.items()
        ],
    )
    growth = largest["anonymous_bytes_added"] - smallest["anonymous_bytes_added"]
    per_clip = growth / (chosen.clips[-1] - chosen.clips[0])
    cost = largest["ms_per_batch"] / smallest["ms_per_batch"]
    verdict = "met" if cost <= FLAT else "MISSED"
    print(f"\ncost per batch, largest against smallest: {cost:.2f} (at most {FLAT}): {verdict}")
    print(f"anonymous memory per further clip: {per_clip:,.0f} bytes, where its mel has {MEL_BYTES:,.0f}")
    write_json(
        chosen.json,
        {"benchmark": "store_scale", "stores": {str(clips): result for clips, result in results.items()}},
    )


if __name__ == "__main__":
    main()
