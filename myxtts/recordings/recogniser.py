"""What an English recogniser hears in a clip, where one is installed (Moonshine, with its smallest model inside)."""

from __future__ import annotations

import importlib.util
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from myxtts.recordings.reading_features import RATE
from myxtts.text.normalization import normalize

if TYPE_CHECKING:
    from moonshine_voice.transcriber import Transcriber

# Without silence around a clip twice as many words of recordings were wrong, mostly the first and the last.
_SILENCE = int(0.3 * RATE)
_MODEL = "tiny-en"
# One segment for the whole clip: cut at pauses, it hears words in the noise between.
_OPTIONS = {"vad_threshold": "0.0", "identify_speakers": "false"}


def can_recognise(language: str) -> bool:
    """Whether a recogniser for this language is installed."""
    return language.partition("-")[0] == "en" and recogniser_model() is not None


def recogniser_model() -> Path | None:
    """The folder of the model; None: the package is not installed, or it is a later one, without a model."""
    found = importlib.util.find_spec("moonshine_voice")
    if found is None or found.origin is None:
        return None
    model = Path(found.origin).parent / "assets" / _MODEL
    return model if model.is_dir() else None


def recognise(audio: np.ndarray) -> str:
    """The words in float32 audio [n] at 16 kHz, computed on one thread."""
    heard = _transcriber().transcribe_without_streaming(np.pad(audio, _SILENCE).tolist(), RATE)
    return " ".join(line.text for line in heard.lines)


def agreement(text: str, heard: str, language: str) -> float:
    """How much of two texts is the same, 0 to 1; spelling of numbers, marks and capitals do not count."""

    def letters(written: str) -> str:
        return "".join(letter for letter in normalize(written, language).casefold() if letter.isalnum())

    return SequenceMatcher(None, letters(text), letters(heard), autojunk=False).ratio()


@lru_cache(maxsize=1)
def _transcriber() -> Transcriber:
    from moonshine_voice import ModelArch
    from moonshine_voice.transcriber import Transcriber

    return Transcriber(str(recogniser_model()), ModelArch.TINY, options=_OPTIONS)
