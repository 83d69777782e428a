"""Word and character error rates by a speech recogniser: Moonshine, whose smallest English model is in its wheel."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from myxtts.evaluation.judges.judge import Figure, Observation, missing_modules
from myxtts.evaluation.judges.word_errors import text_errors
from myxtts.recordings.recogniser import recognise, recogniser_model


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

    @classmethod
    def missing(cls) -> str | None:
        if importlib.util.find_spec("moonshine_voice") is None:
            return missing_modules(["moonshine_voice"])
        if recogniser_model() is None:
            return "this moonshine-voice has no model inside: pip install moonshine-voice==0.0.65"
        return None

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        transcript = recognise(audio)
        return {"heard": transcript, **dataclasses.asdict(text_errors(text, transcript, language))}

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        return {
            "wer": _rate(observed, "word_errors", "words"),
            "cer": _rate(observed, "character_errors", "characters"),
        }


def _rate(observed: Sequence[Observation], errors: str, of: str) -> float | None:
    total = sum(one.values[of] for one in observed)
    return sum(one.values[errors] for one in observed) / total if total else None
