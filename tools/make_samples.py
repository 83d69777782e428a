"""Makes docs/samples: what the voice that comes with MyXTTS says, for people who have not installed it.

    .venv/bin/python tools/make_samples.py [FOLDER]

Each sample is an MP3 file, with its text beside it for `myxtts judge`. The voice was trained on recordings in the
public domain (CC0), so what it says may be passed on.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import soundfile

from myxtts import XTTSInference
from myxtts.models.shipped import STARTER

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "samples"


@dataclass(frozen=True)
class Sample:
    """A text to speak.

    Attributes:
        text: as it is written.
        speed: 2 is twice as fast.
    """

    text: str
    speed: float = 1.0


SAMPLES = {
    "hello": Sample("Hello! I learned to speak from fifty-eight minutes of one woman's recordings."),
    "story": Sample(
        "The morning train was late again, so we walked along the river instead. By noon the fog had lifted, and "
        "somebody had put the kettle on."
    ),
    "numbers": Sample("On 3 May 2024, 1,250 people paid $20 each; Dr. Smith was No. 5."),
    "pause": Sample("Shall we begin? [pause:0.8] Then let us begin."),
    "fast": Sample("At one and a half times the speed, I can still be followed.", speed=1.5),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder = options.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    speaker = XTTSInference(STARTER)
    for name, sample in SAMPLES.items():
        speech = speaker.synthesize(sample.text, speed=sample.speed)
        path = folder / f"{name}.mp3"
        soundfile.write(path, speech.audio, speech.sample_rate, format="MP3", subtype="MPEG_LAYER_III")
        path.with_suffix(".txt").write_text(sample.text + "\n", encoding="utf-8")
        print(f"{path}: {speech.seconds:.1f} s, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
