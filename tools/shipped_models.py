"""What the programs share that train the models in `myxtts/shipped`."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.models.checkpoint import CONFIG, new_checkpoint, read_checkpoint

HEADER = "id|text|speaker|language"
# Kept in a checkpoint for resuming only.
TRAINING_FILES = ("training.npz", "training.json", "checksums.json")


def join_voices(voices: list[Path], data: Path) -> None:
    """One data set of all voices, whose audio files are links.

    The clips that a voice's own split holds out stay out: they are for judging what is trained here.

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
        metadata = LJSpeechDataset(None, XTTSConfig(data_path=str(voice))).metadata
        held_out = {metadata.clips[row].id for row in metadata.rows("val")}
        for clip, text, *more in rows:
            if clip in held_out:
                continue
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
            if file.name in TRAINING_FILES:
                continue
            if file.suffix != ".npz":
                shutil.copyfile(file, folder / file.name)
                continue
            with np.load(file) as saved:
                weights = {name: saved[name].astype(np.float16) for name in saved.files}
            with open(folder / file.name, "wb") as out:
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
