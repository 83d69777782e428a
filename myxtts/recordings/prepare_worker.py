"""Cleans some of the clips of a data set, in its own process.

Standard input: `{"settings": {…}, "wavs": folder, "clips": [{"id", "path", "start", "duration"}, …]}`. Standard
output: for each clip, in order, a line of JSON as `prepare` keeps it in its journal, when the clip's file is there;
`{"id", "error"}` for one that cannot be read.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from myxtts.audio.reading import audio_info, read_audio, resample
from myxtts.errors import AudioError
from myxtts.recordings.cleaning import at_loudness, loudness, speech_ends, with_silent_ends, without_rumble
from myxtts.recordings.measurement import measure
from myxtts.recordings.voice_activity import speech_probability, speech_spans
from myxtts.recordings.wav_file import wav_bytes, write_bytes


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the parent process reports Ctrl-C
    task = json.load(sys.stdin)
    for clip in task["clips"]:
        try:
            answer = _clean(clip, Path(task["wavs"]), task["settings"])
        except AudioError as error:
            answer = {"error": str(error)}
        except OSError as error:
            print(f"{error.filename or clip['path']}: {error.strerror}", file=sys.stderr)
            return 1
        print(json.dumps({"id": clip["id"]} | answer), flush=True)
    return 0


def _clean(clip: dict[str, Any], wavs: Path, settings: dict[str, Any]) -> dict[str, Any]:
    status = os.stat(clip["path"])
    own_rate = audio_info(clip["path"]).sample_rate
    rate = settings["sample_rate"] or own_rate
    recorded = read_audio(clip["path"], own_rate, clip["start"], clip["duration"])
    filtered = without_rumble(recorded, own_rate)
    spans = speech_spans(speech_probability(filtered, own_rate))
    measurement = measure(recorded, filtered, own_rate, spans)
    audio = resample(filtered, own_rate, rate)
    if spans:
        audio = with_silent_ends(audio, rate, speech_ends(audio, rate, spans), settings["silence"])
        audio = at_loudness(audio, rate, settings["loudness"])
    file = wav_bytes(audio, rate)
    write_bytes(wavs / f"{clip['id']}.wav", file)
    level = loudness(audio, rate)
    return {
        "source": [status.st_size, status.st_mtime_ns],
        "checksum": xxhash.xxh3_64_hexdigest(file),
        "before": asdict(measurement),
        "seconds": round(len(audio) / rate, 3),
        "loudness": round(level, 1) if np.isfinite(level) else None,
    }


if __name__ == "__main__":
    sys.exit(main())
