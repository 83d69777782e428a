"""Trains the voice that comes with MyXTTS (`myxtts say`, `--init-from starter`), and puts it into the package.

    .venv/bin/python tools/train_starter.py VOICES WORK [--steps N] [--leave-out NAME] [--init-from RUN]

VOICES is a folder with one data set for each voice, each in LJSpeech's layout, free to be used (CC0), and named after
voice and language, as in `kerstin-de`. They are brought to one loudness; English voices of espeak-ng are added, which
read the lines of FILE or sentences of their own. WORK holds the data sets and the run; a run that is stopped goes on
when this is called again. At the end the weights are written to myxtts/shipped/starter as float16, and a bundle of
them with the shipped vocoder, with a voice for each language, to myxtts/shipped/starter-bundle. With --leave-out,
which is for measuring what the starter is worth to a voice it has not heard, everything stays in WORK. The shipped
one was trained in two parts, so that the first could be measured: without the English voice, then with it.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from shipped_models import join_voices, myxtts, ship

from myxtts.models.checkpoint import SPEECH
from myxtts.models.shipped import STARTER_BUNDLE, STARTER_VOICE

SETTINGS = ["size=tiny", "batch_size=16", "save_every=500", "validate_every=500", "language=en"]
SPOKEN_CLIPS, SPEAKERS = 800, 6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("voices", type=Path)
    options.add_argument("work", type=Path)
    options.add_argument("--steps", type=int, default=6000)
    options.add_argument("--leave-out", metavar="NAME")
    options.add_argument("--texts", type=Path, metavar="FILE")
    options.add_argument("--init-from", type=Path, metavar="RUN")
    given = options.parse_args()
    names = [one.name for one in sorted(given.voices.iterdir()) if one.is_dir() and one.name != given.leave_out]
    recorded = [given.work / name for name in names]
    data, run, spoken = given.work / "data", given.work / "run", given.work / "espeak-en"
    if not data.exists():
        for name, voice in zip(names, recorded, strict=True):
            myxtts("prepare", given.voices / name, voice, "--sample-rate", 22050)
        texts = [] if given.texts is None else ["--text-file", given.texts]
        myxtts("make-corpus", spoken, "--clips", SPOKEN_CLIPS, "--speakers", SPEAKERS, *texts)
        join_voices([*recorded, spoken], data)
    settings = [f"--set={setting}" for setting in SETTINGS]
    begun = given.init_from is None or run.exists()
    how = ["--resume"] if begun else ["--init-from", given.init_from]
    myxtts("train", "--data-path", data, "--checkpoint-dir", run, *how, "--max-steps", given.steps, *settings)
    if given.leave_out is not None:
        return
    ship(run, STARTER_VOICE, SPEECH)
    shutil.rmtree(STARTER_BUNDLE, ignore_errors=True)
    voices = []
    for voice in recorded:
        longest = max((voice / "wavs").iterdir(), key=lambda file: file.stat().st_size)
        voices += ["--voice", f"{voice.name.rpartition('-')[2]}={longest}"]
    myxtts("export", "--checkpoint", STARTER_VOICE, "--output", STARTER_BUNDLE, *voices)


if __name__ == "__main__":
    main()
