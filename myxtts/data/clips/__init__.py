"""What a clip is, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

ProblemKind = Literal[
    "undecodable-text",
    "wrong-columns",
    "pipe-in-text",
    "empty-id",
    "escaping-id",
    "duplicate-id",
    "empty-text",
    "unusable-text",
    "no-speaker",
    "unknown-language",
    "missing-audio",
    "empty-audio",
    "unreadable-audio",
    "truncated-audio",
    "wrong-part",
]
# What is wrong with a clip's audio, and not with its line.
AUDIO_PROBLEMS: frozenset[ProblemKind] = frozenset(
    {"missing-audio", "empty-audio", "unreadable-audio", "truncated-audio", "wrong-part"}
)


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording with its text.

    Attributes:
        id: unique in the data set; Unicode NFC, `/` between folders, no audio suffix.
        audio_path: the file, as it is spelt on disk (a plain string: a data set may have millions).
        text: the spoken words, as written; the normalised column where the metadata has one.
        speaker: name of the voice.
        language: code such as `en` or `fa`.
        ipa: the text already in IPA, or None.
        source: the metadata file, or the text file, the clip comes from.
        line: its line there, from 1.
        start, duration: the part of the audio file that it is, in seconds; no duration: to the end.
    """

    id: str
    audio_path: str
    text: str
    speaker: str
    language: str
    ipa: str | None
    source: str
    line: int
    start: float = 0.0
    duration: float | None = None

    def problem(self, kind: ProblemKind, message: str) -> Problem:
        """Something that is wrong with it."""
        return Problem(kind, message, self.source, self.line, self.id)


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why one line of metadata gives no usable clip."""

    kind: ProblemKind
    message: str
    file: str
    line: int
    clip_id: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def number_names(names: Iterable[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The distinct names in the order of their first appearance, so that clips appended later change no number, and
    the number of each, int32."""
    numbers: dict[str, int] = {}
    numbered = [numbers.setdefault(name, len(numbers)) for name in names]
    return tuple(numbers), np.array(numbered, np.int32)
