"""Small data sets made of sounds that need no speech engine: voiced, noisy and silent stretches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

RATE = 22050


def sound(seed: int, seconds: float, rate: int = RATE) -> np.ndarray:
    """float32 [n] within ±0.8: a gliding tone with overtones, then noise, then near silence."""
    generator = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    pitch = 90 + 20 * (seed % 7) + 15 * np.sin(2 * np.pi * 3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voiced = sum(np.sin(k * phase) / k for k in range(1, 12))
    noise = generator.standard_normal(len(time))
    loudness = np.interp(time, [0, 0.4 * seconds, 0.7 * seconds, seconds], [0.3, 0.25, 0.05, 0.002])
    return np.clip(loudness * (voiced + 0.1 * noise), -0.8, 0.8).astype(np.float32)


def make_data_set(
    folder: Path,
    lengths: Sequence[float],
    speakers: int = 1,
    suffix: str = "wav",
    subtype: str | None = "PCM_16",
) -> Path:
    """Clips `c000`, `c001`, … of these lengths in seconds, with texts about as long as they are."""
    (folder / "wavs").mkdir(parents=True)
    lines = ["id|text|speaker"]
    for number, seconds in enumerate(lengths):
        audio = sound(number, seconds)
        soundfile.write(folder / "wavs" / f"c{number:03d}.{suffix}", audio, RATE, subtype=subtype)
        words = " ".join(["word", "voice", "sound", "clip"][(number + k) % 4] for k in range(1 + int(2 * seconds)))
        lines.append(f"c{number:03d}|Text {'abcdefgh'[number % 8]} {words}.|speaker{number % speakers}")
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    return folder
