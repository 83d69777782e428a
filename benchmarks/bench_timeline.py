"""What an accelerator sees, before and after: steps and waits as a picture.

    .venv/bin/python benchmarks/bench_timeline.py [--step-ms 25] [--picture timeline.png] [--json timeline.json]

The same WAV clips, as long as LJSpeech's, in batches of 16 feed a simulated accelerator that takes a fixed time per
batch: once as many pipelines do it (soundfile and librosa for every clip, in `tf.numpy_function`, in parallel, with
prefetch), once as `myxtts train` does it (features from the store).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from common import describe_machine, parser, print_table, write_json
from loading.data import make_data
from loading.peers_runtime import through_python

from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.performance.simulated_accelerator import SimulatedAccelerator, SimulatedRun

BATCH_SIZE = 16
SHOWN_SECONDS = 4.0


def from_store(folder: Path) -> Iterable[Any]:
    settings = {"text_symbols": "graphemes", "batch_size": BATCH_SIZE, "train_split": 0.9, "val_split": 0.1}
    config = XTTSConfig(data_path=str(folder), preprocessing_mode="precompute", **settings)
    return LJSpeechDataset(None, config).batches("train").dataset(seed=0)


def draw(path: Path, runs: dict[str, SimulatedRun]) -> None:
    """A strip for each run: work in blue, waits in orange."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 1.2 + 1.1 * len(runs)), layout="constrained", dpi=140)
    for axes, (name, run) in zip(figure.subplots(len(runs), 1, sharex=True), runs.items(), strict=True):
        ends = run.timeline.step_times.cumsum()
        begins = ends - run.timeline.step_times
        work = [(end - run.step_seconds, run.step_seconds) for end in ends]
        waits = list(zip(begins, run.timeline.step_times - run.step_seconds, strict=True))
        axes.broken_barh(waits, (0, 1), color="#e07b39", linewidth=0)
        axes.broken_barh(work, (0, 1), color="#3465a4", edgecolor="white", linewidth=0.3)
        axes.set_title(f"{name}: {100 * run.busy_share:.0f} % busy", loc="left", fontsize=11)
        axes.set(xlim=(0, SHOWN_SECONDS), ylim=(0, 1), yticks=[])
        axes.spines[["top", "left", "right"]].set_visible(False)
    axes.set_xlabel("seconds; blue: the (simulated) accelerator works, orange: it waits for data")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--step-ms", type=float, default=25.0, help="what the accelerator takes for a batch")
    options.add_argument("--clips", type=int, default=512)
    options.add_argument("--picture", type=Path, help="PNG to write; default: beside the JSON")
    chosen = options.parse_args()
    picture = chosen.picture or (chosen.json and chosen.json.with_suffix(".png"))
    accelerator = SimulatedAccelerator(chosen.step_ms / 1e3)
    steps = int(SHOWN_SECONDS / accelerator.step_seconds)
    print(describe_machine())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = make_data(folder, BATCH_SIZE, chosen.clips, batch_size=8, runtime_batch_size=BATCH_SIZE)
        runs = {
            "soundfile and librosa per clip, in parallel, with prefetch": accelerator.run(
                through_python(data).batches, steps
            ),
            "MyXTTS, features from the store": accelerator.run(from_store(folder / "runtime"), steps),
        }
    rows = [
        [name, f"{100 * run.busy_share:.1f} %", f"{100 * run.stall_share:.1f} %", f"{run.clips_per_second:,.0f}"]
        for name, run in runs.items()
    ]
    title = f"simulated accelerator, {chosen.step_ms:g} ms for {BATCH_SIZE} clips"
    print_table(title, ("", "busy", "waits for data", "clips/s"), rows)
    if picture is not None:
        draw(picture, runs)
    write_json(chosen.json, {name: run.to_dict() for name, run in runs.items()})


if __name__ == "__main__":
    main()
