"""Loading: ours against its peers on the same clips, in one run.

    .venv/bin/python benchmarks/bench_loading.py [--quick] [--rows ours-float16,packed-loop-float16]

Every row is measured in fresh processes, the repetitions interleaved so that noise hits all alike, and the median is
taken. Ratios are against the first row. What is compared:

- The clips are as long as LJSpeech's, their values random. All rows load the same ones, in batches of similar length.
  Peers get these batches from our own plan and pad them to their longest clip, which is a little less than our
  bucket's shape. Ours delivers every column of a batch, peers the mel and its length only.
- Peers run in their strongest form that we found: `AUTOTUNE` and prefetching in tf.data; in PyTorch a batch sampler
  whose workers build whole batches in NumPy; Grain and SPDL with threads, which hand nothing between processes.
  TFRecords are written in an order that is already shuffled and bucketed.
- The limit allocates the padded batches of our own bucketed row and copies as many bytes of the packed file into
  each: with memory fresh from the C library, and with memory that stays in the process, as our pipeline keeps it
  (`myxtts/data/store/allocation.py`).
- The first batch of every measurement is compared, clip by clip, with what it should hold.
- Memory is anonymous memory of the process and its children, imports included; CPU seconds are theirs too.

A second table gives the highest rate at which a simulated accelerator is still 95 % busy with each row, a third the
first epoch with an empty page cache. The last one lists what has to be shown, and whether it was. The results are
also written as JSON and as a chart. `--quick` takes about two minutes, the whole about twelve.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import describe_machine, parser, write_json
from loading.data import make_data
from loading.page_cache import files_below, warm
from loading.process import Request, environment, measure
from loading.report import (
    bounds,
    draw,
    print_bounds,
    print_checks,
    print_cold,
    print_loading,
    print_simulated,
    summarise,
)
from loading.rows import ROWS, Row
from rich.console import Console
from rich.progress import Progress

CHECKED_ROWS = ("ours-float16", "ours-float32")
CHECKED_BATCH = 16
CHECKED_STEPS = ((0.002, 1000), (0.050, 60))
WRITE_TFRECORDS = (
    "import sys, pathlib; from loading.data import BenchData; from loading.peers_tensorflow import write_tfrecords; "
    "write_tfrecords(BenchData.open(pathlib.Path(sys.argv[1])))"
)


def arguments() -> argparse.Namespace:
    options = parser(__doc__)
    options.set_defaults(json=Path("bench-results/bench_loading.json"))
    options.add_argument("--chart", type=Path, help="PNG of the results; default: beside the JSON")
    options.add_argument("--clips", type=int, default=3000, help="clips with features")
    options.add_argument("--runtime-clips", type=int, default=512, help="clips with audio")
    options.add_argument("--repetitions", type=int, default=3)
    options.add_argument("--seconds", type=float, default=1.5, help="length of one measurement")
    options.add_argument("--warmup", type=float, default=1.0, help="seconds before each")
    options.add_argument("--probe-seconds", type=float, default=0.3, help="of the simulated accelerator; 0: none")
    options.add_argument("--rows", help="names of rows, with commas between them; default: all")
    options.add_argument("--folder", type=Path, help="where the data is generated, on a disk; default: /tmp")
    options.add_argument("--quick", action="store_true", help="fewer clips, one short repetition")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.clips, chosen.runtime_clips = min(chosen.clips, 1200), min(chosen.runtime_clips, 128)
        chosen.repetitions, chosen.seconds, chosen.warmup, chosen.probe_seconds = 1, 0.7, 0.5, 0.15
    chosen.chart = chosen.chart or chosen.json.with_suffix(".png")
    unknown = set((chosen.rows or "").split(",")) - {"", *ROWS}
    if unknown:
        options.error(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    return chosen


def main() -> None:
    chosen = arguments()
    rows = [row for row in ROWS.values() if not chosen.rows or row.name in chosen.rows.split(",")]
    available = [row for row in rows if not row.missing()]
    print(describe_machine())
    with tempfile.TemporaryDirectory(dir=chosen.folder, prefix="bench-loading-") as folder:
        results, cold, checks = run(Path(folder), chosen, available)

    print_loading("Loading, batch 32, warm page cache", [row for row in rows if not row.runtime], results)
    print_loading("Runtime mode, batch 16, warm page cache", [row for row in rows if row.runtime], results)
    if "mel_in_step_ms_per_clip" in results.get("runtime-device", {}):
        cost = results["runtime-device"]["mel_in_step_ms_per_clip"]
        print(
            f"with device features, the mel inside a compiled step takes {cost:.2f} ms per clip on this machine's CPU"
        )
    print_simulated(rows, results)
    print_checks(checks)
    print_cold(cold, results)
    shown = bounds(results, checks)
    print_bounds(shown)
    document = {
        "benchmark": "loading",
        "clips": chosen.clips,
        "runtime_clips": chosen.runtime_clips,
        "rows": {row.name: {"title": row.title, **_outcome(row, results)} for row in rows},
        "cold": cold,
        "checks": checks,
        "bounds": [vars(one) for one in shown],
    }
    write_json(chosen.json, document)
    if results:
        draw(chosen.chart, results, describe_machine())


def run(folder: Path, chosen: argparse.Namespace, rows: list[Row]) -> tuple[dict, dict, dict]:
    """Everything that is measured: warm, cold, and the checks on the simulated accelerator."""
    repetitions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    cold: dict[str, list[dict[str, Any]]] = defaultdict(list)
    checks: dict[str, dict[str, Any]] = {}
    cold_rows = [row for row in rows if row.cold]
    checked = [row for row in rows if row.name in CHECKED_ROWS]
    total = chosen.repetitions * (len(rows) + len(cold_rows)) + len(checked)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("generating clips", total=total)
        make_data(folder, chosen.clips, chosen.runtime_clips, batch_size=32, runtime_batch_size=16)
        if any(row.name.startswith("tfrecord") for row in rows):
            command = [sys.executable, "-c", WRITE_TFRECORDS, str(folder)]
            subprocess.run(command, env=environment(), check=True, capture_output=True)
        request = Request("", str(folder), chosen.warmup, chosen.seconds)

        def one(row: Row, what: str, **changes: Any) -> dict[str, Any]:
            progress.update(bar, description=f"{row.title} ({what})")
            try:
                return measure(replace(request, row=row.name, **changes))
            finally:
                progress.advance(bar)

        for repetition in range(chosen.repetitions):
            warm(files_below(folder))
            # Back and forth, so that no row always follows the same one.
            for row in rows if repetition % 2 == 0 else reversed(rows):
                once = repetition == 0
                search = once and row.kind != "limit" and (row.key or not chosen.quick)
                result = one(
                    row,
                    "warm",
                    probe_seconds=chosen.probe_seconds if search else 0.0,
                    tolerance=0.1 if chosen.quick or row.runtime else 0.05,
                    after=once,
                )
                repetitions[row.name].append(result)
        for row in checked:
            steps = [(seconds, count // (4 if chosen.quick else 1)) for seconds, count in CHECKED_STEPS]
            result = one(row, "simulated accelerator", steps=steps, arguments={"batch_size": CHECKED_BATCH})
            for made in result["runs"]:
                checks[f"{row.title}, {1e3 * made['step_seconds']:g} ms"] = made
        for _ in range(chosen.repetitions):
            for row in cold_rows:
                cold[row.name].append(one(row, "cold", cold=True))
    return (
        {row.name: summarise(repetitions[row.name]) for row in rows},
        {name: summarise(results) for name, results in cold.items()},
        checks,
    )


def _outcome(row: Row, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    missing = row.missing()
    return {"not installed": missing} if missing else results[row.name]


if __name__ == "__main__":
    main()
