"""Trains the vocoder that comes with MyXTTS, and puts it into the package.

    .venv/bin/python tools/train_shipped_vocoder.py VOICES WORK [--steps N] [--leave-out NAME]

VOICES is a folder with one data set for each voice, each in LJSpeech's layout and free to be used (CC0). Voices of
espeak-ng in several languages are added, so that no pitch and no sound is new to it. WORK holds the data set that is
made of all of them, and the run. A run that is stopped goes on when this is called again. At the end the averaged
weights are written to myxtts/shipped/vocoder as float16; with --leave-out, which is for measuring how well it does on
a voice it has not heard, they stay in WORK.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.inference.trained_vocoder import SHIPPED
from myxtts.models.checkpoint import CONFIG, VOCODER, WEIGHTS, new_checkpoint, read_checkpoint

HEADER = "id|text|speaker|language"
ESPEAK_CLIPS = 200
# Kept in a checkpoint for resuming only.
TRAINING_FILES = ("training.npz", "training.json", "checksums.json")
SETTINGS = [
    "batch_size=16",
    "adversarial_share=0.75",
    "save_every=500",
    "validate_every=1000",
    "text_symbols=graphemes",
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("voices", type=Path)
    options.add_argument("work", type=Path)
    options.add_argument("--steps", type=int, default=2800)
    options.add_argument("--leave-out", metavar="NAME")
    given = options.parse_args()
    data, run = given.work / "data", given.work / "run"
    if not data.exists():
        join_voices(
            [one for one in sorted(given.voices.iterdir()) if one.is_dir() and one.name != given.leave_out], data
        )
    settings = [f"--set={setting}" for setting in SETTINGS]
    length = ["--max-steps", given.steps]
    myxtts("train-vocoder", "--data-path", data, "--checkpoint-dir", run, "--resume", *length, *settings)
    if given.leave_out is None:
        ship(run, SHIPPED)


def join_voices(voices: list[Path], data: Path) -> None:
    """One data set of all voices, whose audio files are links."""
    spoken = data.with_name("espeak")
    if not spoken.exists():
        myxtts(
            "make-corpus", spoken, "--clips", ESPEAK_CLIPS, "--speakers", 16, "--language", "en", "--language", "fa"
        )
    making = data.with_name("data.new")
    shutil.rmtree(making, ignore_errors=True)
    (making / "wavs").mkdir(parents=True)
    lines = [HEADER]
    for voice in [*voices, spoken]:
        language = voice.name.rpartition("-")[2] if voice is not spoken else "en"
        for audio in sorted((voice / "wavs").iterdir()):
            name = f"{voice.name}-{audio.stem}"
            (making / "wavs" / f"{name}{audio.suffix}").symlink_to(audio.resolve())
            lines.append(f"{name}|{voice.name}|{voice.name}|{language}")
    (making / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    making.rename(data)


def ship(run: Path, target: Path) -> None:
    """Copies the newest checkpoint of a run without what resuming needs, its weights as float16."""
    checkpoint = read_checkpoint(run, VOCODER)
    target.parent.mkdir(exist_ok=True)
    with new_checkpoint(target) as folder:
        for file in checkpoint.path.iterdir():
            if file.name not in TRAINING_FILES:
                shutil.copyfile(file, folder / file.name)
        with np.load(checkpoint.path / WEIGHTS) as file:
            weights = {name: file[name].astype(np.float16) for name in file.files}
        with open(folder / WEIGHTS, "wb") as out:
            np.savez(out, **weights)
        without_folders(checkpoint.config).to_yaml(folder / CONFIG)


def without_folders(config: XTTSConfig) -> XTTSConfig:
    """The configuration without the folders of this machine."""
    default = XTTSConfig()
    data = config.data.model_copy(update={"dataset_path": default.data.dataset_path, "cache_dir": None})
    training = config.training.model_copy(update={"checkpoint_dir": default.training.checkpoint_dir})
    return config.model_copy(update={"data": data, "training": training})


def myxtts(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "myxtts", *map(str, arguments)], check=True)


if __name__ == "__main__":
    main()
