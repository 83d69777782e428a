"""What a judge is, and what it is given: speech, and the recordings that the speech is compared with.

A judge observes every clip on its own, in a worker process, and then makes figures of all observations. A new judge
is a class that follows `Judge`, and its name in `panel.JUDGES`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

# Every judge hears audio at this rate, in Hz, whatever it was made at.
RATE = 16000


class Speech(NamedTuple):
    """One clip to judge.

    Attributes:
        audio: float32 [n], full scale being ±1.
        rate: samples per second.
        text: what it should say; None if nobody knows.
        speaker: whose voice it should be.
        id: of its sentence; two clips with the same id are one sentence, recorded and generated.
        language: of the text; None: that of the call.
    """

    audio: np.ndarray
    rate: int
    text: str | None = None
    speaker: str = ""
    id: str = ""
    language: str | None = None


@dataclass(frozen=True, eq=False)
class Observation:
    """What a judge observed of one clip.

    Attributes:
        values: by name; plain values for people and JSON, and whatever else the judge's figures need.
        speaker, id: of the clip.
    """

    values: Mapping[str, Any]
    speaker: str = ""
    id: str = ""


class Figure(NamedTuple):
    """A figure that a judge makes.

    Attributes:
        name: in JSON.
        title: in tables.
        meaning: one line, with the better direction.
        is_share: it is from 0 to 1 (errors may pass 1) and shown in percent.
    """

    name: str
    title: str
    meaning: str
    is_share: bool = False

    def text(self, value: float | None) -> str:
        """A value as a table shows it; a dash where there is none."""
        if value is None:
            return "–"
        return f"{100 * value:.1f} %" if self.is_share else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


class Judge(Protocol):
    """Listens to clips and makes figures of them. It is created in a worker process, where it loads its model.

    Attributes:
        name: what users choose it by.
        figures: what it makes.
        needs_text: a clip without text is not for it.
        needs_recordings: it compares clips with the recordings of their speakers.
        languages: codes of those it knows; None: it does not depend on the language.
    """

    name: ClassVar[str]
    figures: ClassVar[tuple[Figure, ...]]
    needs_text: ClassVar[bool]
    needs_recordings: ClassVar[bool]
    languages: ClassVar[frozenset[str] | None]

    def __init__(self) -> None: ...

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be used here, in one line with what to install; None if it can."""

    def observe(self, audio: np.ndarray, text: str, language: str) -> Mapping[str, Any]:
        """What it hears in one clip.

        Args:
            audio: float32 [n] at `RATE`, n at least 1.
            text: what it should say; empty if there is none, which happens only if `needs_text` is false.
            language: of the text.
        """

    @classmethod
    def summarize(cls, observed: Sequence[Observation], recordings: Sequence[Observation]) -> dict[str, float | None]:
        """A value for each of its figures; None where there is nothing to measure.

        Args:
            observed: at least one clip.
            recordings: its observations of the speakers' recordings; empty unless `needs_recordings`.
        """


def missing_modules(names: Sequence[str]) -> str | None:
    """What to say if any of these modules of the `judges` extra is not installed; nothing is imported."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    return f"{', '.join(absent)} not installed: pip install 'myxtts[judges]'" if absent else None
