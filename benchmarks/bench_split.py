"""How many cuts `myxtts split` finds again: clips that somebody cut, joined to one reading and split anew.

    .venv/bin/python benchmarks/bench_split.py [DATA] [--clips 200] [--language en] [--json split.json]

The clips of the data set, all or the first ones, are written one after another into one file, their texts into
another, a line each. A join counts as found if a clip of the split begins or ends within 0.2 s of it. Text is lost if
it is neither in a clip nor listed as text that is in none.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile
from common import describe_machine, parser, print_table, speak_corpus, write_json

from myxtts.audio.reading import read_audio
from myxtts.config.config import XTTSConfig
from myxtts.data.clips import Clip
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.recordings.split import SplitReport, SplitSettings, split_reading

RATE = 22050
NEAR_SECONDS = 0.2
LEAST_SHARE = 0.98


def main() -> None:
    options = parser(__doc__)
    options.add_argument("data", type=Path, nargs="?", help="a data set; default: one that espeak-ng speaks")
    options.add_argument("--clips", type=int, help="only so many; default: all")
    options.add_argument("--language", default="en", help="of the texts")
    given = options.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        source = given.data or speak_corpus(Path(folder) / "corpus", 150)
        clips = list(LJSpeechDataset(source, XTTSConfig(data_path=str(source))).metadata.clips)[: given.clips]
        reading, text = Path(folder) / "reading.wav", Path(folder) / "reading.txt"
        joins = join_clips(clips, reading)
        text.write_text("\n".join(clip.text for clip in clips) + "\n", encoding="utf-8")
        began = time.perf_counter()
        report = split_reading(reading, text, Path(folder) / "split", SplitSettings(given.language, lines=True))
        seconds = time.perf_counter() - began
    away = distances(joins, report)
    found, lost = float(np.mean(away <= NEAR_SECONDS)), lost_texts(clips, report)
    rows = [
        ("joins", f"{len(joins):,}"),
        ("found within 0.2 s", f"{100 * found:.1f} % (at least {100 * LEAST_SHARE:.0f})"),
        ("median distance", f"{1000 * float(np.median(away)):.0f} ms"),
        ("clips, of them doubtful", f"{len(report.clips):,}, {len(report.doubtful):,}"),
        ("texts in no clip, but listed", f"{len(report.unplaced):,}"),
        ("texts lost", f"{len(lost):,} (none)"),
        ("reading, seconds of computing", f"{report.seconds:,.0f} s, {seconds:,.0f} s"),
    ]
    print_table(f"{source.name}: {len(clips):,} clips joined and split again", ["", ""], rows)
    for one in lost:
        print(f"lost: {one}")
    write_json(given.json, {"joins": len(joins), "found": found, "lost": lost, "seconds": seconds})


def join_clips(clips: list[Clip], path: Path) -> np.ndarray:
    """Writes the clips one after another; the times of the joins in seconds."""
    ends = []
    samples = 0
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
        for clip in clips:
            audio = read_audio(clip.audio_path, RATE, clip.start, clip.duration)
            file.write(audio)
            samples += len(audio)
            ends.append(samples / RATE)
    return np.array(ends[:-1])


def distances(joins: np.ndarray, report: SplitReport) -> np.ndarray:
    """From each join to the nearest cut, in seconds."""
    cuts = np.array([time for clip in report.clips for time in (clip.begin, clip.end)])
    return np.abs(joins[:, None] - cuts).min(axis=1)


def lost_texts(clips: list[Clip], report: SplitReport) -> list[str]:
    """The texts that the report has nowhere."""
    told = [clip.text for clip in report.clips] + [one["text"] for one in report.unplaced]
    everything = " ".join(" ".join(one.split()) for one in told)
    return [clip.text for clip in clips if " ".join(clip.text.split()) not in everything]


if __name__ == "__main__":
    main()
