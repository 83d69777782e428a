"""Whether wrong transcripts are found: some texts of a data set are exchanged, and a voice trained on it ranks them.

    .venv/bin/python benchmarks/bench_transcripts.py [DATA] [--swapped 20] [--steps 312] [--json transcripts.json]

Pairs of clips of about the same length exchange their texts, so that no length gives them away. A `tiny` voice is
trained on the data set with these mistakes, as a user would who does not know of them, and `check-data --checkpoint`
ranks all clips. The swapped ones should be among the worst: 20 of them among the 30 worst. Minutes on two cores.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import describe_machine, parser, print_table, speak_corpus, write_json

from myxtts.config.config import XTTSConfig
from myxtts.data.clips import Clip
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.evaluation.transcripts import rank_transcripts

SEED = 5
WORST = 30


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path, nargs="?", help="a data set; default: one that espeak-ng speaks")
    options.add_argument("--swapped", type=int, default=20, help="clips with a wrong text; an even number")
    options.add_argument("--steps", type=int, default=312, help="of the training")
    given = options.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        source = given.data or speak_corpus(Path(folder) / "corpus", 800)
        clips = list(LJSpeechDataset(source, XTTSConfig(data_path=str(source))).metadata.clips)
        data, run = Path(folder) / "data", Path(folder) / "run"
        swapped = write_swapped(clips, given.swapped, data)
        train(data, run, given.steps)
        ranked = rank_transcripts(run, data)
    places = np.array([place for place, fit in enumerate(ranked, start=1) if fit.clip.id in swapped])
    misfits = np.array([fit.misfit for fit in ranked])
    found = int(np.sum(places <= WORST))
    named = [fit for fit in ranked if fit.wrong]
    rows = [
        (f"swapped among the {WORST} worst", f"{found} of {len(swapped)}"),
        ("place of the last of them", f"{places.max()} of {len(ranked):,}"),
        ("called wrong", f"{len(named)}, of them swapped {sum(fit.clip.id in swapped for fit in named)}"),
        ("misfit: swapped, lowest", f"{misfits[places - 1].min():.2f}"),
        ("misfit: others, highest", f"{np.delete(misfits, places - 1).max():.2f}"),
    ]
    print_table(f"{source.name}: {len(swapped)} texts swapped, {given.steps} steps", ["", ""], rows)
    write_json(given.json, {"found": found, "swapped": len(swapped), "last_place": int(places.max())})


def write_swapped(clips: list[Clip], count: int, data: Path) -> set[str]:
    """A data set of links to the audio, where pairs of clips have each other's text; their ids."""
    by_length = sorted(clips, key=lambda clip: len(clip.text))
    firsts = np.random.default_rng(SEED).choice(len(clips) // 2, count // 2, replace=False) * 2
    texts = {clip.id: clip.text for clip in clips}
    swapped = set()
    for first in firsts:
        one, other = by_length[first], by_length[first + 1]
        texts[one.id], texts[other.id] = other.text, one.text
        swapped |= {one.id, other.id}
    (data / "wavs").mkdir(parents=True)
    lines = ["id|text|speaker|language"]
    for clip in clips:
        audio = Path(clip.audio_path).resolve()
        link = data / "wavs" / f"{clip.id}{audio.suffix}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(audio)
        lines.append(f"{clip.id}|{texts[clip.id]}|{clip.speaker}|{clip.language}")
    (data / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return swapped


def train(data: Path, run: Path, steps: int) -> None:
    """A voice, with the settings that a user gets."""
    command = ["train", "--data-path", data, "--checkpoint-dir", run, "--max-steps", steps, "--quiet"]
    subprocess.run([sys.executable, "-m", "myxtts", *map(str, command)], check=True)


if __name__ == "__main__":
    main()
