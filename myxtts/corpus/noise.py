"""Clips of noise to measure with: as long as LJSpeech's, with texts of matching length.

Loading and computing take the same time for noise as for speech, and noise needs no speech engine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from myxtts.corpus.sentences import sentences
from myxtts.errors import MyXTTSError

SAMPLE_RATE = 22050

# LJSpeech: 1.1 to 10.1 s, 6.6 s on average, most clips long, 15 characters per second.
_SHORTEST, _MOST_LIKELY, _LONGEST = 1.1, 8.5, 10.1
_CHARACTERS_PER_SECOND = 15


def make_noise(folder: Path, clips: int, seed: int = 0) -> Path:
    """Writes a data set in LJSpeech's layout into a new folder, and returns the folder."""
    import soundfile

    random = np.random.default_rng(seed)
    lengths = random.triangular(_SHORTEST, _MOST_LIKELY, _LONGEST, clips)
    words = " ".join(sentences("en", seed, clips)).replace("|", " ").split()
    lines = []
    try:
        (folder / "wavs").mkdir(parents=True)
        for number, seconds in enumerate(lengths):
            loudness = 0.1 + 0.1 * np.sin(np.linspace(0, 20, round(seconds * SAMPLE_RATE)))
            audio = loudness * random.standard_normal(len(loudness), np.float32)
            name = f"noise-{number:05d}"
            soundfile.write(folder / "wavs" / f"{name}.wav", audio.clip(-1, 1), SAMPLE_RATE, subtype="PCM_16")
            lines.append(f"{name}|{_text(words, number, seconds)}\n")
        (folder / "metadata.csv").write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise MyXTTSError(f"{error.filename or folder}: {error.strerror}") from error
    return folder


def _text(words: list[str], number: int, seconds: float) -> str:
    """Words for so many seconds, starting at another word for every clip."""
    text = ""
    place = number * 7
    while len(text) < _CHARACTERS_PER_SECOND * seconds:
        text += words[place % len(words)] + " "
        place += 1
    return text.strip()
