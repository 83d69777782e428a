"""How long `myxtts train` takes to its first step, and to have compiled every shape: new, again, and resumed.

    .venv/bin/python benchmarks/bench_startup.py [DATA] [--steps 30] [--json startup.json]

The program is started as a user starts it, in a process of its own; seconds count from there, imports included. The
store is there already. `new` compiles everything and keeps it, `again` is another run that finds it, `resumed` goes
on with a run. `without` keeps nothing and waits for every compilation. The batches of all runs have the same shapes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import describe_machine, parser, print_table, speak_corpus, write_json

WITHOUT = ["--set=compilation_cache=false", "--set=background_compilation=false"]
SETTINGS = ["size=tiny", "batch_size=16", "enable_tensorboard=false", "save_every=1000", "validate_every=1000"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path, nargs="?", help="a data set; default: one that espeak-ng speaks")
    options.add_argument("--steps", type=int, default=30)
    given = options.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        data = given.data or speak_corpus(work / "corpus", 300)
        subprocess.run(_command("precompute", data), check=True)
        results = {
            "without": _start(work, data, work / "without", given.steps, *WITHOUT),
            "new": _start(work, data, work / "run", given.steps),
            "again": _start(work, data, work / "again", given.steps),
            "resumed": _start(work, data, work / "run", 2 * given.steps, "--resume"),
        }
    alone = results["without"]
    rows = [
        [
            name,
            f"{one['first']:.1f}",
            f"{one['first'] / alone['first']:.2f}",
            str(one["shapes"]),
            f"{one['compiled']:.1f}",
            f"{one['compiled'] / alone['compiled']:.2f}",
        ]
        for name, one in results.items()
    ]
    columns = ["", "first step after, s", "ratio", "shapes", "all compiled after, s", "ratio"]
    print_table("myxtts train, from its start", columns, rows)
    write_json(given.json, results)


def _start(work: Path, data: Path, run: Path, steps: int, *more: str) -> dict[str, float]:
    """Seconds from the program's start to the end of its first step, and to the end of the last that was compiled."""
    timing = run / "timing.jsonl"
    before = len(timing.read_text().splitlines()) if timing.exists() else 0
    environment = os.environ | {"XDG_CACHE_HOME": str(work / "cache")}
    settings = [f"--set={one}" for one in SETTINGS]
    began = time.time()
    command = _command("train", data, "--checkpoint-dir", run, "--max-steps", steps, *settings, *more)
    subprocess.run(command, check=True, env=environment)
    records = [json.loads(line) for line in timing.read_text().splitlines()][before:]
    compiled = [one["time"] for one in records if one["compiled"]]
    return {"first": records[0]["time"] - began, "shapes": len(compiled), "compiled": compiled[-1] - began}


def _command(name: str, data: Path, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "myxtts", name, "--data-path", str(data), "--quiet", *map(str, arguments)]


if __name__ == "__main__":
    main()
