"""How long `myxtts train` takes to its first step, and to have compiled every shape: new, again, and resumed.

    .venv/bin/python benchmarks/bench_startup.py [DATA] [--steps 30] [--before TREE] [--json startup.json]

The program is started as a user starts it, in a process of its own; seconds count from there, imports included. The
store is there already. `new` compiles everything and keeps it, `again` is another run that finds it, `resumed` goes
on with a run. `without` keeps nothing and waits for every compilation. The batches of all runs have the same shapes.

`--before` is a checkout of an earlier version, whose first row is `before`; ratios are to it. Everything is started
`--repetitions` times in turn, and the median counts: on a shared host single starts differ by a third.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, speak_corpus, write_json

WITHOUT = ["--set=compilation_cache=false", "--set=background_compilation=false"]
SETTINGS = ["size=tiny", "batch_size=16", "enable_tensorboard=false", "save_every=1000", "validate_every=1000"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path, nargs="?", help="a data set; default: one that espeak-ng speaks")
    options.add_argument("--steps", type=int, default=30)
    options.add_argument("--before", type=Path, metavar="TREE", help="a checkout of an earlier version")
    options.add_argument("--repetitions", type=int, default=1)
    given = options.parse_args()
    print(describe_machine())
    starts: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = given.data or speak_corpus(work / "corpus", 300)
        tree = None if given.before is None else given.before.resolve()
        for version in [None] if tree is None else [None, tree]:
            subprocess.run(_command("precompute", data), check=True, **_of(version, work))
        for number in range(given.repetitions):
            here = work / str(number)
            if tree is not None:
                starts["before"].append(_start(here, data, here / "before", given.steps, tree=tree))
            starts["without"].append(_start(here, data, here / "without", given.steps, *WITHOUT))
            starts["new"].append(_start(here, data, here / "run", given.steps))
            starts["again"].append(_start(here, data, here / "again", given.steps))
            starts["resumed"].append(_start(here, data, here / "run", 2 * given.steps, "--resume"))
    results = {
        name: {key: statistics.median(one[key] for one in several) for key in several[0]}
        for name, several in starts.items()
    }
    reference = next(iter(results.values()))
    rows = [
        [
            name,
            f"{one['first']:.1f}",
            f"{one['first'] / reference['first']:.2f}",
            f"{one['compiled']:.1f}",
            f"{one['compiled'] / reference['compiled']:.2f}",
        ]
        for name, one in results.items()
    ]
    columns = ["", "first step after, s", "ratio", "all compiled after, s", "ratio"]
    print_table(f"Training, from the start of its program, {given.repetitions} × each", columns, rows)
    write_json(given.json, dict(starts))


def _start(work: Path, data: Path, run: Path, steps: int, *more: str, tree: Path | None = None) -> dict[str, float]:
    """Seconds from the program's start to the end of its first step, and to the end of the last that was compiled."""
    timing = run / "timing.jsonl"
    before = len(timing.read_text().splitlines()) if timing.exists() else 0
    settings = [f"--set={one}" for one in SETTINGS]
    began = time.time()
    command = _command("train", data, "--checkpoint-dir", run, "--max-steps", steps, *settings, *more)
    subprocess.run(command, check=True, **_of(tree, work))
    records = [json.loads(line) for line in timing.read_text().splitlines()][before:]
    compiled = [one["time"] for one in records if one["compiled"]]
    return {"first": records[0]["time"] - began, "compiled": compiled[-1] - began}


def _of(tree: Path | None, work: Path) -> dict[str, Any]:
    """How a process is started: with a cache of its own, and with the program of another checkout."""
    search = {} if tree is None else {"PYTHONPATH": str(tree)}
    environment = os.environ | {"XDG_CACHE_HOME": str(work / "cache")} | search
    return {"cwd": tree, "env": environment, "stdout": subprocess.DEVNULL}


def _command(name: str, data: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "myxtts", name, "--data-path", str(data), "--quiet", *map(str, arguments)]


if __name__ == "__main__":
    main()
