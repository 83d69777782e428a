"""16-bit WAV files that appear whole."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import numpy as np
import soundfile

from myxtts.audio.reading import to_pcm16


def wav_bytes(audio: np.ndarray, rate: int) -> bytes:
    """A 16-bit WAV file of float32 audio [n]."""
    file = BytesIO()
    soundfile.write(file, to_pcm16(audio), rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def write_bytes(path: Path, content: bytes) -> None:
    """A file that appears whole, by rename; its folder is made where it is missing.

    Raises:
        OSError: it cannot be written; its `filename` is always set.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")  # its own name: two processes may write the same file
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        error.filename = str(path)
        raise
