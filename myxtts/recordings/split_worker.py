"""The work of `split` that takes long, in its own process.

Standard input: `{"kind": "listen" | "speak" | "hear", "items": [...]}`. Standard output: for each item, in order, a
line when its file is in place; for `hear`, the line is what was heard, as JSON.

    listen   {"recording", "begin", "end", "file"}: features and voice activity from second to second
    speak    {"sentences", "language", "file"}: features of the sentences, spoken by espeak-ng
    hear     {"path"}: what the recogniser hears in a clip
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.reading import read_audio, resample
from myxtts.errors import AudioError, MyXTTSError
from myxtts.recordings.long_audio import LongAudio
from myxtts.recordings.reading_features import RATE, listen
from myxtts.recordings.recogniser import recognise
from myxtts.recordings.voice_activity import speech_probability
from myxtts.recordings.wav_file import write_bytes
from myxtts.text.espeak import Espeak
from myxtts.text.normalization import normalize

_AUDIBLE = 0.005
_NOISE = 1e-4  # digital silence is like no room


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent process reports Ctrl-C
    task = json.load(sys.stdin)
    work: Callable[[dict[str, Any]], str] = {"listen": _listen, "speak": _speak, "hear": _hear}[task["kind"]]
    for item in task["items"]:
        try:
            answer = work(item)
        except (MyXTTSError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        print(json.dumps(answer), flush=True)
    return 0


def save_reference(path: Path, spoken: Sequence[np.ndarray], rate: int) -> None:
    """Writes the features of sentences, each spoken as float32 audio at `rate`."""
    random = np.random.default_rng(0)
    parts = []
    for audio in spoken:
        audible = np.flatnonzero(np.abs(audio) > _AUDIBLE)
        audio = audio[audible[0] : audible[-1] + 1] if len(audible) else audio[:0]
        if len(audio):
            audio = resample(audio, rate, RATE)
            audio = audio + _NOISE * random.standard_normal(len(audio), np.float32)
        parts.append(listen(audio).bands if len(audio) else np.zeros((0, 1), np.float32))
    filled = [part for part in parts if len(part)]
    bands = np.concatenate(filled) if filled else np.zeros((0, 1), np.float32)
    _save(path, bands=bands, lengths=np.array([len(part) for part in parts], np.int64))


def _listen(item: dict[str, Any]) -> str:
    audio = LongAudio(item["recording"]).read(item["begin"], item["end"], RATE)
    sounds = listen(audio)
    _save(Path(item["file"]), bands=sounds.bands, levels=sounds.levels, probability=speech_probability(audio, RATE))
    return ""


def _speak(item: dict[str, Any]) -> str:
    espeak = Espeak()
    language = item["language"]
    spoken = [espeak.speak(normalize(sentence, language), language) for sentence in item["sentences"]]
    scale = np.float32(1 / 32768)
    save_reference(Path(item["file"]), [audio * scale for audio in spoken], espeak.sample_rate)
    return ""


def _hear(item: dict[str, Any]) -> str:
    try:
        return recognise(read_audio(item["path"], RATE))
    except AudioError:
        return ""


def _save(path: Path, **arrays: np.ndarray) -> None:
    content = BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())


if __name__ == "__main__":
    sys.exit(main())
