"""Vocoders on real recordings: what judges say of them, and how fast they are.

    .venv/bin/python benchmarks/bench_vocoder.py [DATA …] [--vocoder NAME=PATH …] [--clips 8] [--judges dnsmos,wer]

Each DATA is a data set. Of each of its speakers a few held-out clips (the validation split; `--all-clips` takes any,
for voices that no vocoder was trained on) are vocoded: recording → mel → sound. `shipped`, `griffin-lim` (ours) and
librosa's Griffin-Lim are always in the table; `--vocoder` adds files or folders. The judges need the `judges` extra.
`closed` is the share of the distance between Griffin-Lim and the recording that a vocoder closes, by P.808. The last
table is the speed of mel to sound, on all CPUs and on one thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from common import describe_machine, parser, print_table, write_json

from myxtts.audio.mel import MelSettings, log_mel, mel_filterbank
from myxtts.audio.reading import read_audio
from myxtts.config.config import XTTSConfig
from myxtts.data.clips import Clip
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.evaluation.judges import Speech, judge_speech
from myxtts.inference.vocoder import create_vocoder

RECORDING, GRIFFIN_LIM, LIBROSA = "recording", "griffin-lim", "librosa's Griffin-Lim"
SPEED_SECONDS = 20.0
SPEED_REPEATS = 3
P808, OVERALL, WER = "dnsmos_p808", "dnsmos_ovrl", "wer"

Figures = Mapping[str, float | None]
Vocode = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", nargs="*", type=Path)
    options.add_argument("--vocoder", action="append", default=[], metavar="NAME=PATH")
    options.add_argument("--clips", type=int, default=8, help="of each data set")
    options.add_argument("--all-clips", action="store_true", help="take any clips, not only held-out ones")
    options.add_argument("--judges", default="dnsmos,wer")
    options.add_argument("--language", default="en", help="of data sets that do not name theirs")
    options.add_argument("--one-thread", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    settings = MelSettings()
    choices = {"shipped": "auto", GRIFFIN_LIM: GRIFFIN_LIM} | dict(one.split("=", 1) for one in given.vocoder)
    if given.one_thread:
        _limit_threads()
    vocoders: dict[str, Vocode] = {name: create_vocoder(choice, settings) for name, choice in choices.items()}
    if given.one_thread:
        print(json.dumps(_speeds(vocoders, settings)))
        return
    vocoders[LIBROSA] = lambda mel: _librosa(mel, settings)

    print(describe_machine())
    results = {}
    for data in given.data:
        for speaker, clips in _clips(data, given).items():
            results[f"{data.name}: {speaker}"] = _judged(f"{data.name}: {speaker}", clips, vocoders, settings, given)
    speeds = {"all CPUs": _speeds({name: one for name, one in vocoders.items() if name != LIBROSA}, settings)}
    arguments = [argument for one in given.vocoder for argument in ("--vocoder", one)]
    printed = subprocess.run(
        [sys.executable, __file__, "--one-thread", *arguments], check=True, capture_output=True, text=True
    ).stdout
    speeds["one thread"] = json.loads(printed)
    print_table(
        "mel to sound, times real time",
        ["vocoder", *speeds],
        [[name, *(f"{speeds[kind][name]:.0f}" for kind in speeds)] for name in speeds["all CPUs"]],
    )
    write_json(given.json, {"judged": results, "speed": speeds})


def _clips(data: Path, given: argparse.Namespace) -> dict[str, list[Clip]]:
    """The first clips of each speaker."""
    metadata = LJSpeechDataset(None, XTTSConfig(data_path=str(data), language=given.language)).metadata
    rows = range(len(metadata.clips)) if given.all_clips else metadata.rows("val")
    found: dict[str, list[Clip]] = {}
    for clip in (metadata.clips[row] for row in rows):
        of_speaker = found.setdefault(clip.speaker, [])
        if len(of_speaker) < given.clips:
            of_speaker.append(clip)
    return found


def _judged(
    title: str, chosen: list[Clip], vocoders: dict[str, Vocode], settings: MelSettings, given: argparse.Namespace
) -> dict[str, object]:
    """Prints and returns the figures of some clips."""
    groups: dict[str, list[Speech]] = {name: [] for name in (RECORDING, *vocoders)}
    for clip in chosen:
        audio = read_audio(clip.audio_path, settings.sample_rate, clip.start, clip.duration)
        audio = audio[: len(audio) // settings.hop_length * settings.hop_length]
        mel = log_mel(audio, settings)
        sounds = {RECORDING: audio} | {name: vocode(mel) for name, vocode in vocoders.items()}
        for name, sound in sounds.items():
            groups[name].append(Speech(sound, settings.sample_rate, clip.text, language=clip.language))
    found = {name: judge_speech(clips, chosen[0].language, given.judges).figures for name, clips in groups.items()}
    closed = {name: _closed(figures, found[GRIFFIN_LIM], found[RECORDING]) for name, figures in found.items()}
    rows = [
        [name, _text(figures, P808), _text(figures, OVERALL), _text(figures, WER, 100), f"{100 * closed[name]:.0f} %"]
        for name, figures in found.items()
    ]
    print_table(f"{title}, {len(chosen)} clips", ["", "P.808", "overall", "WER in %", "closed"], rows)
    return {"clips": len(chosen), "figures": found, "closed": closed}


def _closed(figures: Figures, low: Figures, high: Figures) -> float:
    """The share of the distance from `low` to `high` by P.808; not a number if there is no such figure."""
    here, bottom, top = (values.get(P808) for values in (figures, low, high))
    if here is None or bottom is None or top is None:
        return math.nan
    return (here - bottom) / (top - bottom)


def _text(figures: Figures, name: str, scale: float = 1.0) -> str:
    value = figures.get(name)
    return "–" if value is None else f"{scale * value:.2f}"


def _librosa(mel: np.ndarray, settings: MelSettings) -> np.ndarray:
    import librosa

    magnitude = np.maximum(np.exp(mel) @ np.linalg.pinv(mel_filterbank(settings)).T, 1e-8)
    padding = settings.padding
    # librosa centres its frames; ours begin `padding` samples before the first sample.
    sound = librosa.griffinlim(
        magnitude.T.astype(np.float32),
        n_iter=32,
        hop_length=settings.hop_length,
        n_fft=settings.n_fft,
        center=False,
        random_state=0,
    )
    return sound[padding : padding + len(mel) * settings.hop_length]


def _speeds(vocoders: dict[str, Vocode], settings: MelSettings) -> dict[str, float]:
    """How many times faster than real time each is, the median of a few runs after one that warms up."""
    frames = int(SPEED_SECONDS * settings.sample_rate / settings.hop_length)
    time_axis, band = np.arange(frames)[:, None] / 40, np.arange(settings.n_mels)
    mel = (-5 + 2 * np.sin(time_axis + band / 7) - band / 40).astype(np.float32)
    found = {}
    for name, vocode in vocoders.items():
        vocode(mel)
        times = []
        for _ in range(SPEED_REPEATS):
            began = time.perf_counter()
            vocode(mel)
            times.append(time.perf_counter() - began)
        found[name] = SPEED_SECONDS / float(np.median(times))
    return found


def _limit_threads() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


if __name__ == "__main__":
    main()
