"""The clips of a generated corpus: who says what, in which language."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from myxtts.corpus.sentences import sentences
from myxtts.corpus.voices import SpeakerVoice, first_voices
from myxtts.errors import DataError, UsageError
from myxtts.text.encoding import as_utf8

DEFAULT_CLIPS = 200
_SHOWN = 3  # wrong lines that an error message shows


@dataclass(frozen=True)
class CorpusSettings:
    """The settings of a corpus. They decide every byte of it.

    Attributes:
        clips: number of clips; None: each line of the text file once (once per speaker with `same_sentences`), or
            200 without a text file.
        speakers: number of voices; each speaks a block of clips of equal size.
        languages: codes that espeak-ng knows; every speaker speaks all of them in turn.
        seed: of the sentences.
        sample_rate: in Hz.
        text_file: in UTF-8, one sentence per line, for one language. Lines are used in order, and again from the
            top if there are more clips. None: the built-in sentences.
        same_sentences: every speaker speaks the same sentences; otherwise no sentence is spoken twice.
    """

    clips: int | None = None
    speakers: int = 1
    languages: tuple[str, ...] = ("en",)
    seed: int = 0
    sample_rate: int = 22050
    text_file: str | os.PathLike[str] | None = None
    same_sentences: bool = False

    def __post_init__(self) -> None:
        if not 8000 <= self.sample_rate <= 96000:
            raise UsageError(f"sample_rate is {self.sample_rate}; it should be 8000 to 96000 Hz")
        if not self.languages or len(set(self.languages)) != len(self.languages):
            raise UsageError("languages should be one or more, each named once")
        if self.text_file is not None and len(self.languages) > 1:
            raise UsageError("a text file is in one language; make a corpus for each")

    @cached_property
    def lines(self) -> list[str] | None:
        """The sentences of the text file, or None without one.

        Raises:
            DataError: the file cannot be read, is not UTF-8, has no sentence, or has a `|` in one.
        """
        return None if self.text_file is None else _read_text_file(self.text_file)

    @property
    def total_clips(self) -> int:
        """The number of clips of these settings. Raises as `lines` does."""
        if self.clips is not None:
            return self.clips
        if self.lines is None:
            return max(DEFAULT_CLIPS, self.speakers)
        return len(self.lines) * (self.speakers if self.same_sentences else 1)


@dataclass(frozen=True)
class PlannedClip:
    id: str
    text: str
    speaker: SpeakerVoice
    language: str


def plan_corpus(settings: CorpusSettings) -> list[PlannedClip]:
    """Every clip in order: speakers in blocks, languages in turn."""
    voices = first_voices(settings.speakers)
    clips = settings.total_clips
    if clips < settings.speakers:
        raise UsageError(f"{clips} clips are fewer than {settings.speakers} speakers")
    spoken: Counter[tuple[str, str]] = Counter()
    places = []
    for number in range(clips):
        voice = voices[number * len(voices) // clips]
        language = settings.languages[number % len(settings.languages)]
        said_by = voice.name if settings.same_sentences else ""
        places.append((voice, language, spoken[said_by, language]))
        spoken[said_by, language] += 1
    texts = {}
    for language in settings.languages:
        needed = 1 + max((index for _, code, index in places if code == language), default=-1)
        texts[language] = settings.lines or sentences(language, settings.seed, needed)
    digits = max(5, len(str(clips)))
    return [
        PlannedClip(
            f"{voice.name}-{number:0{digits}}", texts[language][index % len(texts[language])], voice, language
        )
        for number, (voice, language, index) in enumerate(places, start=1)
    ]


def _read_text_file(path: str | os.PathLike[str]) -> list[str]:
    try:
        data = as_utf8(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise DataError(f"{os.fspath(path)}: is not whole UTF-16; save it as UTF-8") from None
    lines, wrong = [], []
    for number, raw in enumerate(data.splitlines(), start=1):
        try:
            line = " ".join(raw.decode().split())
        except UnicodeDecodeError:
            wrong.append(f"{os.fspath(path)}:{number}: not UTF-8")
            continue
        if "|" in line:
            wrong.append(f"{os.fspath(path)}:{number}: has a '|', which separates the columns of metadata")
        elif any(character.isalnum() for character in line):
            lines.append(line)
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise DataError("\n".join(wrong[:_SHOWN] + more))
    if not lines:
        raise DataError(f"{os.fspath(path)}: has no sentence; it should have one per line")
    return lines
