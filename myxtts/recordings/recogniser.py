"""What an English recogniser hears in a clip, where one is installed (Moonshine, with its smallest model inside)."""

from __future__ import annotations

import importlib.util
import os
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from myxtts.recordings.reading_features import RATE
from myxtts.text.normalization import normalize

if TYPE_CHECKING:
    from moonshine_voice.transcriber import Transcriber

# Without silence around a clip it misses the first or the last word.
_SILENCE = int(0.3 * RATE)
# One segment for the whole clip.
_OPTIONS = {"vad_threshold": "0.0", "identify_speakers": "false"}


def can_recognise(language: str) -> bool:
    """Whether a recogniser for this language is installed."""
    return language.partition("-")[0] == "en" and importlib.util.find_spec("moonshine_voice") is not None


def recognise(audio: np.ndarray) -> str:
    """The words in float32 audio [n] at 16 kHz."""
    heard = _transcriber().transcribe_without_streaming(np.pad(audio, _SILENCE).tolist(), RATE)
    return " ".join(line.text for line in heard.lines)


def agreement(text: str, heard: str, language: str) -> float:
    """How much of two texts is the same, 0 to 1; spelling of numbers, marks and capitals do not count."""

    def letters(written: str) -> str:
        return "".join(letter for letter in normalize(written, language).casefold() if letter.isalnum())

    return SequenceMatcher(None, letters(text), letters(heard), autojunk=False).ratio()


@lru_cache(maxsize=1)
def _transcriber() -> Transcriber:
    from moonshine_voice import ModelArch, get_assets_path
    from moonshine_voice.transcriber import Transcriber

    return Transcriber(os.path.join(get_assets_path(), "tiny-en"), ModelArch.TINY, options=_OPTIONS)
