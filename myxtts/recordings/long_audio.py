"""A recording of hours, read in parts."""

from __future__ import annotations

import os

import numpy as np
import soundfile

from myxtts.audio.reading import audio_info, resample
from myxtts.errors import AudioError


class LongAudio:
    """An audio file of which parts are read, as one channel.

    Raises:
        AudioError: the file is missing, empty, or is not audio.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        info = audio_info(path)
        if info.missing_bytes:
            raise AudioError(f"{path}: the file was cut off, {info.missing_bytes:,} bytes of its audio are missing")
        self.rate = info.sample_rate
        self.seconds = info.frames / info.sample_rate

    def read(self, begin: float, end: float, rate: int | None = None) -> np.ndarray:
        """float32 [n] from second to second, at `rate` or at its own.

        Raises:
            AudioError: the file cannot be decoded there.
        """
        first, last = round(begin * self.rate), round(end * self.rate)
        try:
            with soundfile.SoundFile(self.path) as sound:
                sound.seek(first)
                samples = sound.read(last - first, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            reason = " ".join(error.error_string.split()).rstrip(".")
            raise AudioError(f"{self.path}: cannot be read at {begin:,.0f} s ({reason})") from None
        return resample(samples.mean(axis=1, dtype=np.float32), self.rate, rate or self.rate)
