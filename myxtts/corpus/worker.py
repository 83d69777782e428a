"""Speaks one chunk of a corpus, in its own process.

espeak-ng keeps the state of its noise from one sentence to the next, so the bytes of a clip depend on everything that
the process has spoken before. In a new process they depend only on the list of clips.

Standard input: `{"sample_rate": 22050, "clips": [{"path", "text", "voice", "rate_wpm", "pitch"}, …]}`. Standard
output: a line for each clip when its file is in place. If a clip cannot be made: exit code 1, and the reason on
standard error.
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

# Variants differ by 18 dB. All get the same level, so that a model cannot recognise a voice by its loudness.
_RMS = 0.07
_PEAK = 0.95
_FULL_SCALE = 32767


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent process reports Ctrl-C
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
        raise MyXTTSError(f"espeak-ng is silent for the text '{clip['text'][:60]}'")
    gain = min(_RMS / np.sqrt(np.mean(audio**2)), _PEAK / np.abs(audio).max())
    return np.rint(audio * gain * _FULL_SCALE).astype("<i2")


def _write_wav(path: str, audio: np.ndarray, sample_rate: int) -> None:
    part = f"{path}.{os.getpid()}.part"  # its own name: the parent may be killed and started again
    with open(part, "wb") as target, wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(audio.tobytes())
    os.replace(part, path)


if __name__ == "__main__":
    sys.exit(main())
