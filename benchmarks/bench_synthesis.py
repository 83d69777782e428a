"""Speech synthesis: how many times faster than real time it is.

    .venv/bin/python benchmarks/bench_synthesis.py [--size tiny] [--iterations 32] [--repeat 3]

The weights are untrained: the result is noise, but computed as speech would be. The whole way from text to audio is
timed, then the mel and the vocoder alone; librosa's Griffin-Lim is timed on the same magnitudes with the same number
of iterations.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from common import describe_machine, parser, print_table, write_json

from myxtts.config.config import XTTSConfig
from myxtts.inference import XTTSInference
from myxtts.models.checkpoint import save_checkpoint
from myxtts.models.create import create_model
from myxtts.runtime.griffin_lim import GriffinLim

TEXT = (
    "The quick brown fox jumps over the lazy dog. Where did it go? Nobody in the village had seen it since the "
    "morning.\n\nThey searched the fields, the barn, and the narrow path along the river. In the evening it came "
    "back by itself."
)
# Untrained durations are 4.5 frames per token; at this speed they are like those of real speech.
SPEED = 1.5


def seconds_of(repeat: int, work: Callable[..., Any], *arguments: Any, **named: Any) -> float:
    """Median of `repeat` runs, after a warm-up run."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        work(*arguments, **named)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def librosa_griffin_lim(magnitude: np.ndarray, iterations: int, hop: int) -> Callable[[], Any] | None:
    try:
        import librosa
    except ImportError:
        return None
    return lambda: librosa.griffinlim(
        magnitude.T, n_iter=iterations, hop_length=hop, momentum=0.99, center=False, random_state=0
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", default="tiny", choices=("tiny", "base"))
    options.add_argument("--iterations", type=int, default=32)
    options.add_argument("--repeat", type=int, default=3)
    given = options.parse_args()

    results: list[dict[str, Any]] = []

    def add(what: str, speech: float, taken: float) -> None:
        results.append({"what": what, "speech_seconds": speech, "seconds": taken, "times_real_time": speech / taken})

    for decoder in ("regression", "flow"):
        config = XTTSConfig(size=given.size, decoder=decoder, text_symbols="graphemes")
        with tempfile.TemporaryDirectory() as folder:
            save_checkpoint(Path(folder) / "model", create_model(config), config)
            speaker = XTTSInference(Path(folder) / "model")
        vocoder = GriffinLim(speaker.mel_settings, given.iterations)
        speaker.vocoder = vocoder
        speech = speaker.synthesize(TEXT, speed=SPEED)
        taken = seconds_of(given.repeat, speaker.synthesize, TEXT, speed=SPEED)
        add(f"text to sound, {decoder}", speech.seconds, taken)
        speaker.vocoder = _Silence(speaker.sample_rate, config.data.hop_length)
        taken = seconds_of(given.repeat, speaker.synthesize, TEXT, speed=SPEED)
        add(f"text to mel, {decoder}", speech.seconds, taken)

    mel = np.concatenate([utterance.mel for utterance in speech.utterances])
    spoken = len(mel) * config.data.hop_length / config.data.sample_rate
    add("mel to sound, GriffinLim", spoken, seconds_of(given.repeat, vocoder, mel))
    magnitude = vocoder._magnitude(np.exp(mel))
    peer = librosa_griffin_lim(magnitude, given.iterations, config.data.hop_length)
    if peer is not None:
        add("magnitudes to sound, librosa.griffinlim", spoken, seconds_of(given.repeat, peer))

    print(describe_machine())
    rows = [
        [row["what"], f"{row['speech_seconds']:.1f}", f"{row['seconds']:.2f}", f"{row['times_real_time']:.1f}"]
        for row in results
    ]
    if peer is None:
        rows.append(["magnitudes to sound, librosa.griffinlim", "", "", "not installed"])
    title = f"Synthesis, {given.size}, {given.iterations} iterations of Griffin-Lim"
    print_table(title, ["what", "s of speech", "s", "× real time"], rows)
    write_json(given.json, {"size": given.size, "iterations": given.iterations, "results": results})


class _Silence:
    """A vocoder that takes no time."""

    def __init__(self, sample_rate: int, hop_length: int) -> None:
        self.sample_rate = sample_rate
        self._hop = hop_length

    def stream(self, mel: np.ndarray, chunk_frames: int = 0) -> Iterator[np.ndarray]:
        yield np.zeros(len(mel) * self._hop, np.float32)


if __name__ == "__main__":
    main()
