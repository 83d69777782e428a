"""Judges that need no model: what follows the protocol, and what can go wrong with one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from myxtts.errors import UsageError
from myxtts.evaluation.judges import Figure, Observation


class LoudnessJudge:
    """Root mean square of a clip."""

    name: ClassVar[str] = "loudness"
    figures: ClassVar[tuple[Figure, ...]] = (Figure("loudness", "loudness", "root mean square"),)
    needs_text: ClassVar[bool] = False
    needs_recordings: ClassVar[bool] = False
    languages: ClassVar[frozenset[str] | None] = None

    @classmethod
    def missing(cls) -> str | None:
        return None

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        return {"loudness": float(np.sqrt(np.mean(audio**2))), "samples": len(audio)}

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        return {"loudness": float(np.mean([one.values["loudness"] for one in observed]))}


class FirstWordJudge:
    """Hears the first word of every text, and knows two languages."""

    name: ClassVar[str] = "first-word"
    figures: ClassVar[tuple[Figure, ...]] = (Figure("first_words", "first words", "share of one", is_share=True),)
    needs_text: ClassVar[bool] = True
    needs_recordings: ClassVar[bool] = False
    languages: ClassVar[frozenset[str] | None] = frozenset({"en", "de"})

    @classmethod
    def missing(cls) -> str | None:
        return None

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        return {"heard": text.split()[0]}

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        return {"first_words": 1.0}


class AbsentJudge(LoudnessJudge):
    name: ClassVar[str] = "absent"

    @classmethod
    def missing(cls) -> str | None:
        return "absent not installed: pip install absent"


class DyingJudge(LoudnessJudge):
    name: ClassVar[str] = "dying"

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        os._exit(3)


class BrokenJudge(LoudnessJudge):
    name: ClassVar[str] = "broken"

    def __init__(self) -> None:
        raise UsageError("weights.bin: not the weights of this judge")
