"""What a store of millions of clips in parts costs each rank to open, to begin and to hold; is its order exact?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import soundfile
from common import print_table
from loading.memory import anonymous_bytes

from myxtts.config.config import DataConfig
from scaling.synthetic_parts import configure, make_parts

CLIPS_PER_PART = 500_000
BATCHES = 100
METADATA_CLIPS = 20_000
SEED = 1


def rank(folder: Path, clips_per_part: int) -> dict[str, float]:
    """What a rank does: open, plan, load. The program of a process of its own."""
    import tensorflow as tf

    from myxtts.data.ljspeech import LJSpeechDataset

    tf.constant(0)
    imported = anonymous_bytes(psutil.Process())
    config = configure(folder, clips_per_part)
    clock, cpu = time.perf_counter(), time.process_time()
    dataset = LJSpeechDataset(None, config)
    opened = time.perf_counter()
    source = dataset.batches("train")
    planned = time.perf_counter()
    batches = iter(source.dataset(seed=SEED))
    next(batches)
    first, first_cpu = time.perf_counter(), time.process_time()
    for _ in range(BATCHES):
        next(batches)
    return {
        "open_seconds": opened - clock,
        "plan_seconds": planned - opened,
        "first_batch_seconds": first - clock,
        "first_batch_cpu_seconds": first_cpu - cpu,
        "imported_bytes": imported,
        "anonymous_bytes": anonymous_bytes(psutil.Process()),
        "batches": len(source.plan),
    }


def order(folder: Path, clips_per_part: int) -> dict[str, float]:
    """Deals out two epochs and counts how often each clip comes. The program of a process of its own."""
    from myxtts.data.batches.store_windows import StoreWindows
    from myxtts.data.batches.window_plan import WindowedPlan
    from myxtts.data.parts import open_trusted

    config = configure(folder, clips_per_part)
    store = open_trusted(config)
    windows = StoreWindows(store, "train")
    plan = WindowedPlan(windows, windows.summary(config.max_mel_frames, config.max_tokens, "skip"), batch_size=32)
    expected = (store.split_codes() == 0).astype(np.uint8)
    seconds, exact = [], True
    for epoch in range(2):
        came = np.zeros(len(store), np.uint8)
        for window in plan.window_order(SEED, epoch).tolist():
            begun = time.perf_counter()
            indices = plan.batches_of(window, SEED, epoch).indices
            seconds.append(time.perf_counter() - begun)
            np.add.at(came, indices[indices >= 0], 1)
        exact = exact and bool(np.array_equal(came, expected))
    store.close()
    return {"exact": exact, "windows": len(windows), "window_seconds": float(np.median(seconds))}


def metadata_cost(folder: Path, clips: int = METADATA_CLIPS) -> dict[str, float]:
    """What reading the metadata of a data set takes for each clip: what ranks do without."""
    from myxtts.data.clips.metadata import read_metadata

    (folder / "wavs").mkdir(parents=True)
    soundfile.write(folder / "first.wav", np.zeros(16, np.int16), 22050)
    for number in range(clips):
        os.link(folder / "first.wav", folder / "wavs" / f"LJ{number:06d}.wav")
    text = "A sentence of about as many letters as those of LJSpeech have on average, which is a hundred of them"
    (folder / "metadata.csv").write_text("".join(f"LJ{number:06d}|{text} {number}\n" for number in range(clips)))
    config = DataConfig(dataset_path=str(folder))
    begun = time.process_time()
    read_metadata(config)
    seconds = time.process_time() - begun
    tracemalloc.start()
    read = read_metadata(config)
    assert len(read.splits) == clips
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {"bytes_per_clip": most / clips, "us_per_clip": 1e6 * seconds / clips}


def measure(clips: list[int], folder: Path | None, clips_per_part: int = CLIPS_PER_PART) -> list[dict[str, Any]]:
    """A row for each number of clips."""
    results = []
    for count in clips:
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            place = Path(temporary)
            parts = -(-count // clips_per_part)
            make_parts(configure(place, clips_per_part), parts)
            row: dict[str, Any] = {"clips": parts * clips_per_part, "parts": parts}
            row["first_run"] = _run("rank", place, clips_per_part)
            row["next_run"] = _run("rank", place, clips_per_part)
            row["order"] = _run("order", place, clips_per_part)
            results.append(row)
    return results


def print_results(results: list[dict[str, Any]]) -> None:
    print_table(
        "\nA store in parts: what each rank pays",
        (
            "clips",
            "parts",
            "windows",
            "opens s",
            "first batch s",
            "again s",
            "CPU s",
            "memory MB",
            "window s",
            "every clip once",
        ),
        [
            (
                f"{row['clips']:,}",
                f"{row['parts']}",
                f"{row['order']['windows']}",
                f"{row['next_run']['open_seconds']:.2f}",
                f"{row['first_run']['first_batch_seconds']:.1f}",
                f"{row['next_run']['first_batch_seconds']:.1f}",
                f"{row['next_run']['first_batch_cpu_seconds']:.1f}",
                f"{row['next_run']['anonymous_bytes'] / 1e6:,.0f}",
                f"{row['order']['window_seconds']:.2f}",
                "yes" if row["order"]["exact"] else "NO",
            )
            for row in results
        ],
    )
    print(
        "first batch: with TensorFlow imported and nothing else done, lengths counted for the first time; again:\n"
        "with what the first run kept, and its CPU seconds, which a busy host does not change much. memory:\n"
        "anonymous, TensorFlow included, with three windows of clips in it."
    )


def _run(what: str, folder: Path, clips_per_part: int) -> dict[str, float]:
    program = Path(__file__).resolve().parents[1]
    code = (
        f"import sys; sys.path.insert(0, {str(program)!r}); import json; from pathlib import Path; "
        f"from scaling.store import {what}; print(json.dumps({what}(Path(sys.argv[1]), int(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", code, str(folder), str(clips_per_part)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])
