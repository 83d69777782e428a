"""What the programs share that train the models in `myxtts/shipped`."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.models.checkpoint import CONFIG, WEIGHTS, new_checkpoint, read_checkpoint

HEADER = "id|text|speaker|language"
# Kept in a checkpoint for resuming only.
TRAINING_FILES = ("training.npz", "training.json", "checksums.json")


def join_voices(voices: list[Path], data: Path) -> None:
    """One data set of all voices, whose audio files are links.

    Args:
        voices: folders in LJSpeech's layout. The language is in the folder's name, as in `kerstin-de`, or in the
            metadata, as are speakers.
        data: the folder to make.
    """
    making = data.with_name(f"{data.name}.new")
    shutil.rmtree(making, ignore_errors=True)
    (making / "wavs").mkdir(parents=True)
    lines = [HEADER]
    for voice in voices:
        audio = {path.stem: path for path in (voice / "wavs").iterdir()}
        with open(voice / "metadata.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE) if row[0] in audio]
        for clip, text, *more in rows:
            speaker, language = more if len(more) == 2 else ("default", "en")
            language = voice.name.partition("-")[2] or language
            name = f"{voice.name}-{clip}"
            (making / "wavs" / f"{name}{audio[clip].suffix}").symlink_to(audio[clip].resolve())
            lines.append(f"{name}|{text}|{voice.name}-{speaker}|{language}")
    (making / "metadata.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    making.rename(data)


def ship(run: Path, target: Path, kind: str) -> None:
    """Copies the checkpoint of a run without what resuming needs, its weights as float16."""
    checkpoint = read_checkpoint(run, kind)
    target.parent.mkdir(exist_ok=True)
    with new_checkpoint(target) as folder:
        for file in checkpoint.path.iterdir():
            if file.name not in TRAINING_FILES:
                shutil.copyfile(file, folder / file.name)
        with np.load(checkpoint.path / WEIGHTS) as file:
            weights = {name: file[name].astype(np.float16) for name in file.files}
        with open(folder / WEIGHTS, "wb") as out:
            np.savez(out, **weights)
        _without_folders(checkpoint.config).to_yaml(folder / CONFIG)


def myxtts(*arguments: object) -> None:
    """Runs a command of the program."""
    subprocess.run([sys.executable, "-m", "myxtts", *map(str, arguments)], check=True)


def _without_folders(config: XTTSConfig) -> XTTSConfig:
    """The configuration without the folders of this machine."""
    default = XTTSConfig()
    data = config.data.model_copy(update={"dataset_path": default.data.dataset_path, "cache_dir": None})
    training = config.training.model_copy(update={"checkpoint_dir": default.training.checkpoint_dir})
    return config.model_copy(update={"data": data, "training": training})
