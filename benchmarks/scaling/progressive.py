"""How long a step waits for its batch before the store is there, at the change to it, and after.

A step is a pause of fixed length, so that what is waited for beside it is loading alone.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from common import print_table
from loading.data import write_audio

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig

BATCH_SIZE = 8
STEP_SECONDS = 0.15


def measure(folder: Path, quick: bool) -> dict[str, Any]:
    """Waits of a run that begins without its store."""
    from myxtts.data.batch_source import BatchSource
    from myxtts.data.modes import prepare
    from myxtts.data.progressive import PendingStore, ProgressiveSource

    clips = 240 if quick else 1_000
    write_audio(folder / "data", clips, MelSettings())
    config = DataConfig(
        dataset_path=str(folder / "data"),
        text_symbols="graphemes",
        batch_size=BATCH_SIZE,
        num_buckets=2,
        train_split=1.0,
        val_split=0.0,
        build_beside_minutes=0.0,
    )
    began = time.perf_counter()
    prepared = prepare(config, beside=True)
    if prepared.building is None:
        raise SystemExit(f"the store is not built beside: {prepared.reason}")
    store = PendingStore(prepared, prepared.building, print)
    source = ProgressiveSource.of(BatchSource.build(prepared, config, "train"), "train", store)
    batches = source.dataset(seed=1)
    waits: dict[str, list[float]] = {"before": [], "at the change": [], "after": []}
    running = iter(batches)
    first = complete = None
    while len(waits["after"]) < len(source.plan):
        asked = time.perf_counter()
        changed = batches.changed_at is not None
        next(running)
        now = time.perf_counter()
        first = first or now - began
        if complete is None and not prepared.building.running:
            complete = now - began
        half = "after" if changed else "before" if batches.changed_at is None else "at the change"
        waits[half].append(now - asked)
        time.sleep(STEP_SECONDS)
    shown = {name: [1e3 * wait for wait in found[1 if name == "before" else 0 :]] for name, found in waits.items()}
    rows = [
        (name, f"{len(found)}", f"{statistics.median(found):.1f}", f"{max(found):.1f}")
        for name, found in shown.items()
    ]
    title = f"{clips:,} clips; the first batch after {first:.1f} s, the store complete after {complete:.1f} s"
    print_table(title, ("", "batches", "median wait, ms", "longest, ms"), rows)
    return {"first_seconds": first, "complete_seconds": complete, "waits_ms": shown}
