"""Word and character error rates by a speech recogniser: Moonshine, whose smallest English model is in its wheel."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from myxtts.evaluation.judges.judge import RATE, Figure, Observed, missing_modules
from myxtts.evaluation.judges.word_errors import text_errors

# Without silence around a clip twice as many words of recordings were wrong, mostly the first and the last.
_SILENCE = int(0.3 * RATE)
_MODEL = "tiny-en"
# One segment for the whole clip: cut at pauses, it hears words in the noise between.
_OPTIONS = {"vad_threshold": "0.0", "identify_speakers": "false"}


class MoonshineRecogniser:
    """WER and CER: errors of all clips over words or characters of all texts, so that long clips count for more."""

    name: ClassVar[str] = "wer"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure("wer", "WER", "words that a recogniser hears wrong; lower is better", is_share=True),
        Figure("cer", "CER", "characters of its transcript that are wrong; lower is better", is_share=True),
    )
    needs_text: ClassVar[bool] = True
    needs_recordings: ClassVar[bool] = False
    languages: ClassVar[frozenset[str] | None] = frozenset({"en"})

    def __init__(self) -> None:
        from moonshine_voice import ModelArch, get_assets_path
        from moonshine_voice.transcriber import Transcriber

        # It computes on one thread.
        self._model = Transcriber(os.path.join(get_assets_path(), _MODEL), ModelArch.TINY, options=_OPTIONS)

    @classmethod
    def missing(cls) -> str | None:
        found = importlib.util.find_spec("moonshine_voice")
        if found is None or found.origin is None:
            return missing_modules(["moonshine_voice"])
        if not (Path(found.origin).parent / "assets" / _MODEL).is_dir():
            return "this moonshine-voice has no model inside: pip install moonshine-voice==0.0.65"
        return None

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        heard = self._model.transcribe_without_streaming(np.pad(audio, _SILENCE).tolist(), RATE)
        transcript = " ".join(line.text for line in heard.lines)
        return {"heard": transcript, **dataclasses.asdict(text_errors(text, transcript, language))}

    @classmethod
    def summarize(cls, observed: Sequence[Observed], recordings: Sequence[Observed]) -> dict[str, float | None]:
        return {
            "wer": _rate(observed, "word_errors", "words"),
            "cer": _rate(observed, "character_errors", "characters"),
        }


def _rate(observed: Sequence[Observed], errors: str, of: str) -> float | None:
    total = sum(one.values[of] for one in observed)
    return sum(one.values[errors] for one in observed) / total if total else None
