"""From a clip to the bytes that are stored: one class per column, free of processes and files to write.

What a feature is made from is given as JSON values, since it comes through a pipe: `MelFeatures` takes paths, and
`TokenFeatures` takes text, language and IPA. A clip that cannot be computed gives the reason in its place, one line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from myxtts.audio.mel import MelSettings, log_mel, trim
from myxtts.audio.reading import read_audio
from myxtts.data.store_format import MEL_DTYPES, TOKEN_DTYPE
from myxtts.errors import AudioError, MyXTTSError, TextError
from myxtts.text import TextSettings, Tokenizer

_HASH_BLOCK = 1 << 20


class Source(NamedTuple):
    """What a mel was made from: the audio file's size, time and xxh3-64."""

    size: int
    mtime_ns: int
    content: int


class Computed(NamedTuple):
    """The rows of one clip, and for mels the file they come from."""

    rows: np.ndarray
    source: Source | None = None


@dataclass(frozen=True)
class MelFeatures:
    """Mels of audio files, in the type they are stored in."""

    settings: MelSettings
    dtype: str

    def compute(self, paths: Sequence[str]) -> Iterator[Computed | str]:
        """One result per path, in order."""
        for path in paths:
            yield _or_reason(self._compute, path)

    def _compute(self, path: str) -> Computed:
        source = read_source(path)
        audio = read_audio(path, self.settings.sample_rate)
        if self.settings.trim_silence:
            audio = trim(audio, self.settings)
        mel = log_mel(audio, self.settings)
        status = os.stat(path)
        if (status.st_size, status.st_mtime_ns) != source[:2]:
            raise AudioError(f"{path}: changed while it was read")
        if not len(mel):
            raise AudioError(f"{path}: the audio is too short for a single frame")
        return Computed(np.ascontiguousarray(mel, MEL_DTYPES[self.dtype]), source)


class TokenFeatures:
    """Symbol ids of texts."""

    def __init__(self, settings: TextSettings) -> None:
        self._tokenizer = Tokenizer(settings)

    def compute(self, texts: Sequence[tuple[str, str, str | None]]) -> Iterator[Computed | str]:
        """One result per (text, language, ipa), in order."""
        try:
            encoded = self._tokenizer.encode_batch(*map(list, zip(*texts, strict=True)))
        except MyXTTSError:
            # One text of the batch cannot be encoded; one by one, the others still can.
            for text in texts:
                yield _or_reason(self._compute, text)
            return
        for text, ids in zip(texts, encoded, strict=True):
            yield _or_reason(self._checked, text, ids)

    def _compute(self, text: tuple[str, str, str | None]) -> Computed:
        return self._checked(text, self._tokenizer.encode(*text))

    def _checked(self, text: tuple[str, str, str | None], ids: np.ndarray) -> Computed:
        if not len(ids):
            raise TextError(f"nothing in the text can be spoken: {text[0][:60]!r}")
        return Computed(np.ascontiguousarray(ids, TOKEN_DTYPE))


def read_source(path: str) -> Source:
    """Size, time and hash of an audio file.

    Raises:
        OSError: it cannot be read.
    """
    digest = xxhash.xxh3_64()
    with open(path, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        while block := file.read(_HASH_BLOCK):
            digest.update(block)
    return Source(status.st_size, status.st_mtime_ns, digest.intdigest())


def settings_to_json(mel: MelSettings, dtype: str, text: TextSettings) -> dict[str, Any]:
    """What a worker needs to compute any column."""
    lexicons = {language: os.fspath(path) for language, path in text.lexicons.items()}
    return {
        "mel": vars_of(mel),
        "dtype": dtype,
        "text": vars_of(text) | {"lexicons": lexicons, "extra_languages": list(text.extra_languages)},
    }


def features_from_json(column: str, settings: Mapping[str, Any]) -> MelFeatures | TokenFeatures:
    """The inverse of `settings_to_json`, for one column."""
    if column == "mel":
        return MelFeatures(MelSettings(**settings["mel"]), settings["dtype"])
    text = dict(settings["text"])
    text["lexicons"] = {language: Path(path) for language, path in text["lexicons"].items()}
    text["extra_languages"] = tuple(text["extra_languages"])
    return TokenFeatures(TextSettings(**text))


def vars_of(settings: Any) -> dict[str, Any]:
    """The fields of a frozen dataclass, not copied deeply."""
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def _or_reason(function: Any, *arguments: Any) -> Computed | str:
    """The result, or why there is none in one line. Any failure is that of one clip; the others go on."""
    try:
        return function(*arguments)
    except MyXTTSError as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    return " ".join(reason.split())
