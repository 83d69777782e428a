"""Trains the vocoder that comes with MyXTTS, and puts it into the package.

    .venv/bin/python tools/train_shipped_vocoder.py VOICES WORK [--steps N] [--leave-out NAME]

VOICES is a folder with one data set for each voice, each in LJSpeech's layout and free to be used (CC0). Voices of
espeak-ng in several languages are added, so that no pitch and no sound is new to it. WORK holds the data set that is
made of all of them, and the run. A run that is stopped goes on when this is called again. At the end the averaged
weights are written to myxtts/shipped/vocoder as float16; with --leave-out, which is for measuring how well it does on
a voice it has not heard, they stay in WORK.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from shipped_models import join_voices, myxtts, ship

from myxtts.models.checkpoint import VOCODER
from myxtts.models.shipped import SHIPPED_VOCODER

SPEAKERS = ("--clips", 200, "--speakers", 16, "--language", "en", "--language", "fa")
SETTINGS = [
    "batch_size=16",
    "adversarial_share=0.75",
    "save_every=500",
    "validate_every=1000",
    "text_symbols=graphemes",
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("voices", type=Path)
    options.add_argument("work", type=Path)
    options.add_argument("--steps", type=int, default=2800)
    options.add_argument("--leave-out", metavar="NAME")
    given = options.parse_args()
    data, run, spoken = given.work / "data", given.work / "run", given.work / "espeak"
    if not data.exists():
        myxtts("make-corpus", spoken, *SPEAKERS)
        voices = [one for one in sorted(given.voices.iterdir()) if one.is_dir() and one.name != given.leave_out]
        join_voices([*voices, spoken], data)
    settings = [f"--set={setting}" for setting in SETTINGS]
    length = ["--max-steps", given.steps]
    myxtts("train-vocoder", "--data-path", data, "--checkpoint-dir", run, "--resume", *length, *settings)
    if given.leave_out is None:
        ship(run, SHIPPED_VOCODER, VOCODER)


if __name__ == "__main__":
    main()
