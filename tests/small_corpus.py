"""A data set small enough to be made for every test, in LJSpeech layout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from myxtts.config.config import DataConfig

if TYPE_CHECKING:
    from myxtts.data.modes import PreparedData
    from myxtts.data.store import FeatureStore

RATE = 22050
WORDS = ["the", "sun", "over", "old", "hills", "and", "a", "quiet", "river", "runs", "to", "sea"]


def write_audio(path: Path, samples: int, seed: int, rate: int = RATE, channels: int = 1) -> None:
    """A few tones and noise; the suffix says which format."""
    random = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    audio = 0.2 * np.sin(2 * np.pi * random.uniform(100, 300) * time) + 0.02 * random.normal(size=samples)
    stacked = np.stack([audio * (1 + 0.1 * channel) for channel in range(channels)], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, stacked, rate, subtype="PCM_16")


def make_corpus(folder: Path, clips: int = 8, first: int = 0, suffix: str = "wav", **audio: int) -> Path:
    """Adds clips `first`, `first + 1`, ... of 0.1 to 0.6 s to a data set. The same number is always the same
    clip."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + clips):
        random = np.random.default_rng(1000 + number)
        rate = audio.get("rate", RATE)
        samples = int(random.uniform(0.1, 0.6) * rate)
        write_audio(folder / "wavs" / f"clip-{number}.{suffix}", samples, number, **audio)
        add_line(folder, f"clip-{number}", " ".join(random.choice(WORDS, 4)))
    return folder


def add_line(folder: Path, clip_id: str, text: str) -> None:
    with open(folder / "metadata.csv", "a", encoding="utf-8") as file:
        file.write(f"{clip_id}|{text}\n")


def configure(folder: Path, **settings: object) -> DataConfig:
    """A configuration that needs no extra and starts one worker."""
    return DataConfig(**{"dataset_path": str(folder), "text_symbols": "graphemes", "num_workers": 1} | settings)


def store_of(prepared: PreparedData) -> FeatureStore:
    """The store of a data set that was prepared in mode `precompute`."""
    assert prepared.store is not None, prepared.reason
    return prepared.store


def content(version: Path) -> dict[str, bytes]:
    """The files of a version."""
    return {name: (version / name).read_bytes() for name in sorted(os.listdir(version))}
