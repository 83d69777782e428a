"""Speaks one chunk of a corpus, in a process of its own.

espeak-ng carries noise and flutter on from one sentence to the next, so the bytes of a clip depend on all
that the process has said before. A fresh process and a fixed list make them a function of the list alone.

Standard input: `{"sample_rate": 22050, "clips": [{"path", "text", "voice", "rate_wpm", "pitch"}, …]}`. Standard
output: a line for each clip once its file is in place. Exit 1, with the reason on standard error, if one cannot be
made.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import wave
from typing import Any

import numpy as np

from myxtts.errors import MyXTTSError
from myxtts.text.espeak import Espeak

# Variants differ by 18 dB; at one level a model has to tell voices apart by how they sound.
_RMS = 0.07
_PEAK = 0.95
_FULL_SCALE = 32767


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is the parent's to report
    chunk = json.load(sys.stdin)
    for clip in chunk["clips"]:
        try:
            _write_wav(clip["path"], _speak(clip, chunk["sample_rate"]), chunk["sample_rate"])
        except MyXTTSError as error:
            print(error, file=sys.stderr)
            return 1
        except OSError as error:
            print(f"{clip['path']}: {error.strerror}", file=sys.stderr)
            return 1
        print(flush=True)
    return 0


def _speak(clip: dict[str, Any], sample_rate: int) -> np.ndarray:
    """int16 [n] at `sample_rate`."""
    espeak = Espeak()
    spoken = espeak.speak(clip["text"], clip["voice"], rate_wpm=clip["rate_wpm"], pitch=clip["pitch"])
    audio = spoken.astype(np.float64) / (_FULL_SCALE + 1)
    if sample_rate != espeak.sample_rate:
        import soxr

        audio = soxr.resample(audio, espeak.sample_rate, sample_rate)
    if not audio.any():
        raise MyXTTSError(f"there is nothing to say in '{clip['text'][:60]}'")
    gain = min(_RMS / np.sqrt(np.mean(audio**2)), _PEAK / np.abs(audio).max())
    return np.rint(audio * gain * _FULL_SCALE).astype("<i2")


def _write_wav(path: str, audio: np.ndarray, sample_rate: int) -> None:
    part = f"{path}.{os.getpid()}.part"  # a worker that outlives a killed parent by a clip has its own
    with open(part, "wb") as target, wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(audio.tobytes())
    os.replace(part, path)


if __name__ == "__main__":
    sys.exit(main())
