"""The samples that a batch is made from in runtime mode, as NumPy sees them."""

from __future__ import annotations

import numpy as np

from myxtts.audio.mel import MelSettings, trim
from myxtts.audio.reading import read_audio, read_pcm16


def read_samples(path: str, settings: MelSettings, dtype: type[np.float32] | type[np.int16]) -> np.ndarray:
    """A clip's samples at the settings' rate, trimmed if they say so.

    Raises:
        AudioError: the file cannot be read.
    """
    audio = read_pcm16(path, settings.sample_rate) if dtype is np.int16 else read_audio(path, settings.sample_rate)
    return trim(audio, settings)


def crop_samples(audio: np.ndarray, first_frame: int, frames: int, settings: MelSettings) -> np.ndarray:
    """The samples under `frames` frames from `first_frame` on; a clip that ends before begins again."""
    whole = max(settings.frames(len(audio)), 1) * settings.hop_length
    position = (first_frame * settings.hop_length + np.arange(frames * settings.hop_length)) % whole
    return np.take(audio, position, mode="clip")
