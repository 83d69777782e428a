"""Trains the voice that comes with MyXTTS (`myxtts say`, `--init-from starter`), and puts it into the package.

    .venv/bin/python tools/train_starter.py VOICES WORK [--steps N] [--leave-out NAME] [--spoken CLIPS] […]

VOICES is a folder with one data set for each voice, each in LJSpeech's layout, free to be used (CC0), and named after
voice and language, as in `kerstin-de`. They are brought to one loudness, and English voices of espeak-ng are added on
request. WORK holds the data sets and the run; a run that is stopped goes on when this is called again. At the end the
weights are written to myxtts/shipped/starter as float16, and a bundle of them with the shipped vocoder to
myxtts/shipped/starter-bundle, with a voice for each language if there are several. With --leave-out, which is for
measuring what a base is worth to a voice it has not heard, everything stays in WORK.

The shipped voice is `kathleen-en` alone, as docs/human-voices.md trained it: VOICES with that folder only.
`tools/make_samples.py` then lets the new one speak for the README.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from shipped_models import join_voices, myxtts, ship

from myxtts.models.checkpoint import SPEECH
from myxtts.models.shipped import STARTER_BUNDLE, STARTER_VOICE

SETTINGS = ["size=tiny", "batch_size=16", "save_every=500", "validate_every=500", "language=en"]
SPEAKERS = 6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("voices", type=Path)
    options.add_argument("work", type=Path)
    options.add_argument("--steps", type=int, default=5000)
    options.add_argument("--leave-out", metavar="NAME")
    options.add_argument("--spoken", type=int, default=0, metavar="CLIPS", help="of espeak-ng's voices")
    options.add_argument("--init-from", type=Path, metavar="RUN")
    given = options.parse_args()
    names = [one.name for one in sorted(given.voices.iterdir()) if one.is_dir() and one.name != given.leave_out]
    recorded = [given.work / name for name in names]
    data, run, spoken = given.work / "data", given.work / "run", given.work / "espeak-en"
    if not data.exists():
        for name, voice in zip(names, recorded, strict=True):
            myxtts("prepare", given.voices / name, voice, "--sample-rate", 22050)
        if given.spoken:
            myxtts("make-corpus", spoken, "--clips", given.spoken, "--speakers", SPEAKERS)
        join_voices([*recorded, *([spoken] if given.spoken else [])], data)
    settings = [f"--set={setting}" for setting in SETTINGS]
    begun = given.init_from is None or run.exists()
    how = ["--resume"] if begun else ["--init-from", given.init_from]
    myxtts("train", "--data-path", data, "--checkpoint-dir", run, *how, "--max-steps", given.steps, *settings)
    if given.leave_out is None:
        put_into_package(run, recorded)


def put_into_package(run: Path, voices: list[Path]) -> None:
    """The checkpoint, and a bundle; of several voices it keeps one for each language, that of a recording."""
    ship(run, STARTER_VOICE, SPEECH)
    shutil.rmtree(STARTER_BUNDLE, ignore_errors=True)
    kept = []
    for voice in voices if len(voices) > 1 else ():
        longest = max((voice / "wavs").iterdir(), key=lambda file: file.stat().st_size)
        kept += ["--voice", f"{voice.name.rpartition('-')[2]}={longest}"]
    myxtts("export", "--checkpoint", STARTER_VOICE, "--output", STARTER_BUNDLE, *kept)


if __name__ == "__main__":
    main()
