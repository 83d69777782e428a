"""The quality of a voice: what `tiny` learns in a few minutes on a CPU.

    .venv/bin/python benchmarks/bench_voice.py [voice] [flow] [cloning] [--folder DIR] [--json voice.json]

Every stage is the command a user would run: `make-corpus`, `precompute`, `train`, `evaluate`. `voice` trains one
espeak-ng voice on 2,500 clips with the regression decoder, `flow` the same with the flow decoder, `cloning` 128
voices on 8,000 clips. Cloning is then evaluated on new sentences, with these voices and 22 unseen ones. Minutes of
training include compiling the step. The bounds are the project's goals (docs/evaluation.md explains the figures).
The vocoder is Griffin-Lim, so that a better one does not change them; judges hear people's voices (`bench_human.py`).

`--folder` keeps corpora and runs; a second call continues where the first one stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import describe_machine, parser, print_table, write_json

SEEN, UNSEEN = 128, 22


@dataclass(frozen=True)
class Experiment:
    """One training run, and the bounds (smallest, largest) of its figures."""

    corpus: str
    train: tuple[str, ...]
    most_minutes: float
    bounds: dict[str, tuple[float, float]]


ONE_VOICE = {"retrieval": (0.95, 1.0), "duration_ratio": (0.9, 1.1), "mcd_position": (0.5, 9.0)}
SHORT_RUN = ("--set=warmup_steps=100", "--set=learning_rate=0.002", "--set=num_buckets=4")
EXPERIMENTS = {
    "voice": Experiment("voice", ("--max-steps=1000", *SHORT_RUN), 10, ONE_VOICE),
    "flow": Experiment("voice", ("--max-steps=1600", "--set=decoder=flow", *SHORT_RUN), 20, {}),
    "cloning": Experiment(
        "cloning",
        ("--max-steps=1500", *SHORT_RUN),
        30,
        {"voice_top1_seen": (0.9, 1.0), "voice_top1_unseen": (0.7, 1.0), "voice_top3_unseen": (0.9, 1.0)},
    ),
}
CORPORA = {
    "voice": ("--clips=2600", "--seed=1"),
    "cloning": ("--clips=8000", f"--speakers={SEEN}", "--seed=1"),
    "voices": (f"--clips={4 * (SEEN + UNSEEN)}", f"--speakers={SEEN + UNSEEN}", "--same-sentences", "--seed=2"),
}
SPLIT = ("--set=train_split=0.96", "--set=val_split=0.04")


def myxtts(*arguments: object) -> str:
    """Runs a myxtts command; returns its standard output."""
    command = [sys.executable, "-m", "myxtts", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def run_experiment(experiment: Experiment, name: str, folder: Path) -> dict[str, Any]:
    corpus, run = folder / experiment.corpus, folder / f"run-{name}"
    myxtts("make-corpus", corpus, *CORPORA[experiment.corpus])
    myxtts("precompute", "--data-path", corpus, *SPLIT)
    trained = folder / f"trained-{name}.json"
    if not trained.exists():
        start = time.perf_counter()
        options = ("--checkpoint-dir", run, "--device=cpu", *SPLIT, *experiment.train, "--json")
        result = json.loads(myxtts("train", "--data-path", corpus, *options))
        trained.write_text(json.dumps({"minutes": (time.perf_counter() - start) / 60, **result}))
    held_out = corpus
    if experiment.corpus == "cloning":
        held_out = folder / "voices"
        myxtts("make-corpus", held_out, *CORPORA["voices"])
    options = ("--judges=none", "--vocoder=griffin-lim", "--json")
    evaluation = json.loads(myxtts("evaluate", "--checkpoint", run, "--data-path", held_out, *options))
    return {"training": json.loads(trained.read_text()), "evaluation": evaluation}


def table_rows(experiment: Experiment, figures: dict[str, Any]) -> list[list[str]]:
    minutes = figures["training"]["minutes"]
    rows = [
        [
            "minutes of training",
            f"{minutes:.1f}",
            f"at most {experiment.most_minutes:g}",
            _met(minutes, 0, experiment.most_minutes),
        ]
    ]
    for name, value in figures["evaluation"].items():
        if isinstance(value, float):
            bound, met = "", ""
            if name in experiment.bounds:
                low, high = experiment.bounds[name]
                bound = f"{low:g} to {high:g}" if high != 9.0 else f"over {low:g}"
                met = _met(value, low, high)
            rows.append([name, f"{value:.3f}", bound, met])
    return rows


def _met(value: float, low: float, high: float) -> str:
    return "yes" if low <= value <= high else "NO"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, []], help="default: all")
    options.add_argument("--folder", type=Path, help="where to keep corpora and runs; default: a temporary folder")
    chosen = options.parse_args()
    print(describe_machine())
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.experiments or EXPERIMENTS:
            figures = results[name] = run_experiment(EXPERIMENTS[name], name, chosen.folder or Path(temporary))
            print_table(
                f"{name}, {figures['training']['step']:,} steps",
                ("", "measured", "bound", "met"),
                table_rows(EXPERIMENTS[name], figures),
            )
    write_json(chosen.json, results)


if __name__ == "__main__":
    main()
