"""How much one has to record: voices from few minutes of a person's recordings, from nothing and from a base.

    .venv/bin/python benchmarks/bench_minutes.py DATA WORK --base RUN [--minutes 5 10 20 40] [--other DATA …]

DATA are the recordings, as `myxtts prepare` leaves them. Of these, so many minutes are taken, spread evenly, and two
voices are trained on each part: one from random weights, and one from the base, a checkpoint that has not heard the
person. The second is done after few epochs: a voice that hears the same sentences too often forgets the others.
All speak the sentences of `sentences_en.txt`, which are in no corpus, to the judges of `bench_human.py`.

WORK holds parts, runs and judgements. A program that was stopped goes on where it was; a training's minutes are those
of the wall clock, summed over its starts.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import soundfile
from bench_human import RECORDING, clips_of, compared_with, recording, spoken_by
from common import describe_machine, parser, print_table, write_json

from myxtts import XTTSConfig
from myxtts.audio.mel import MelSettings
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.evaluation.judges import Speech
from myxtts.evaluation.judges.panel import JudgePanel

JUDGED, MINUTES = "judged.json", "minutes.json"
JUDGES = "wer,dnsmos,similarity"
STEPS, FINE_EPOCHS, BATCH = 2000, 33, 16
SETTINGS = ["size=tiny", f"batch_size={BATCH}", "save_every=500", "validate_every=500", "language=en"]
# A base speaks already: the discriminator judges from the first step, and the learning rate is lower.
FROM_BASE = ["mel_adversarial_share=1", "learning_rate=0.0005", "warmup_steps=100"]


class Voice(NamedTuple):
    """One voice of the comparison: minutes of recordings, and the checkpoint that it begins with."""

    minutes: int
    base: Path | None

    @property
    def start(self) -> str:
        return "nothing" if self.base is None else "the base"

    def folder(self, work: Path) -> Path:
        return work / f"{self.minutes}-from-{self.start.split()[-1]}"

    def steps(self, data: Path) -> int:
        clips = len(list((data / "wavs").iterdir()))
        return STEPS if self.base is None else FINE_EPOCHS * clips // BATCH


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("work", type=Path)
    options.add_argument("--base", type=Path, metavar="RUN", help="a checkpoint of other voices")
    options.add_argument("--minutes", type=int, nargs="+", default=[5, 10, 20, 40])
    options.add_argument("--sentences", type=int, default=40)
    options.add_argument("--other", action="append", default=[], type=Path, metavar="DATA")
    given = options.parse_args()
    print(describe_machine())
    bases = [given.base, None] if given.base else [None]
    voices = [Voice(minutes, base) for base in bases for minutes in given.minutes]

    panel = JudgePanel.choose(JUDGES)  # a missing judge is said before anything is trained
    settings = MelSettings()
    compared = compared_with(given.data, given.other, settings)
    held_out = [recording(clip, settings) for clip in clips_of(given.data, given.sentences, held_out=True)]
    results = {RECORDING: _judged(given.work / RECORDING, held_out, compared, panel)}
    for voice in voices:
        folder = voice.folder(given.work)
        _train(voice, _part(given.data, given.work, voice.minutes), folder)
        spoken = [] if (folder / JUDGED).exists() else spoken_by(folder / "run", given.sentences)
        results[folder.name] = _judged(folder, spoken, compared, panel) | {"minutes": _minutes(folder)}

    rows = [["her recordings", "", "", *_figures(results[RECORDING])]]
    for voice in voices:
        found = results[voice.folder(given.work).name]
        rows.append([f"{voice.minutes} minutes", voice.start, f"{found['minutes']:.0f}", *_figures(found)])
    columns = ["recordings", "from", "training, minutes", "WER %", "P.808", "similarity"]
    print_table(f"{given.sentences} sentences", columns, rows)
    write_json(given.json, results)


def _part(data: Path, work: Path, minutes: int) -> Path:
    """A data set of so many minutes of the recordings, links to them. A smaller one is part of every larger."""
    part = work / f"{minutes}-minutes"
    if part.exists():
        return part
    clips = list(LJSpeechDataset(None, XTTSConfig(data_path=str(data))).metadata.clips)
    random.Random(0).shuffle(clips)
    making = part.with_name(f"{part.name}.new")
    shutil.rmtree(making, ignore_errors=True)
    (making / "wavs").mkdir(parents=True)
    lines, seconds = ["id|text|speaker|language"], 0.0
    for clip in clips:
        if seconds >= minutes * 60:
            break
        audio = Path(clip.audio_path).resolve()
        seconds += soundfile.info(audio).duration
        (making / "wavs" / audio.name).symlink_to(audio)
        lines.append(f"{audio.stem}|{clip.text}|{clip.speaker}|en")
    (making / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return making.rename(part)


def _train(voice: Voice, data: Path, folder: Path) -> None:
    """Trains the voice, or what is left of it, and adds the minutes to those of earlier starts."""
    steps = voice.steps(data)
    run, settings = folder / "run", SETTINGS + (FROM_BASE if voice.base else [])
    if (run / f"step-{steps:08d}").exists():
        return
    begun = any(run.glob("step-*"))
    how = ["--init-from", voice.base] if voice.base and not begun else ["--resume"]
    if not begun:
        shutil.rmtree(run, ignore_errors=True)
    command = ["train", "--data-path", data, "--checkpoint-dir", run, *how, "--max-steps", steps, "--quiet"]
    started = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            [sys.executable, "-m", "myxtts", *map(str, command), *(f"--set={one}" for one in settings)], check=True
        )
    finally:
        minutes = _minutes(folder) + (time.monotonic() - started) / 60
        (folder / MINUTES).write_text(json.dumps(minutes))


def _minutes(folder: Path) -> float:
    file = folder / MINUTES
    return float(json.loads(file.read_text())) if file.exists() else 0.0


def _judged(folder: Path, speech: list[Speech], compared: list[Speech], panel: JudgePanel) -> dict[str, Any]:
    """The judges' figures of one group of clips, kept in the folder."""
    file = folder / JUDGED
    if not file.exists():
        found = panel.judge({folder.name: speech}, "en", compared)
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found.groups[folder.name].to_dict(), indent=1))
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


def _figures(found: dict[str, Any]) -> list[str]:
    return [f"{100 * found['wer']:.1f}", f"{found['dnsmos_p808']:.2f}", f"{found['similarity']:.3f}"]


if __name__ == "__main__":
    main()
