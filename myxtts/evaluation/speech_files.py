"""Finds speech in files, to have it judged: a data set, a folder of audio files, or single files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from myxtts.audio.reading import audio_info, read_audio
from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.clips.metadata_file import read_metadata_file
from myxtts.errors import DataError, TextError
from myxtts.evaluation.judges import Speech
from myxtts.text.encoding import as_utf8

METADATA = "metadata.csv"
_SUFFIXES = {f".{name.lower()}" for name in soundfile.available_formats()} | {".opus"}


@dataclass(frozen=True)
class SpeechFile:
    """An audio file with speech.

    Attributes:
        path: of the file.
        id: its name without suffix, or its id in the data set.
        text: what it should say; None if nobody knows.
        speaker, language: empty and None if nobody knows.
    """

    path: str
    id: str
    text: str | None = None
    speaker: str = ""
    language: str | None = None

    def read(self) -> Speech:
        """The clip at the file's own rate.

        Raises:
            AudioError: the file cannot be read.
        """
        rate = audio_info(self.path).sample_rate
        return Speech(read_audio(self.path, rate), rate, self.text, self.speaker, self.id, self.language)


def find_speech(
    path: Path, texts: Mapping[str, SpeechFile] | None = None, most: int | None = None
) -> list[SpeechFile]:
    """The speech in a file or folder.

    A folder with a metadata.csv is a data set. Of any other folder all audio files are taken, not those of folders in
    it. The text of an audio file is that of its id in `texts`, or is in a file of the same name that ends in .txt.

    Args:
        path: of a file or folder.
        texts: what `read_texts` found; a file belongs to the id that is its name up to any dot.
        most: how many clips at most, evenly spread over all.

    Raises:
        DataError: there is no speech.
    """
    if (path / METADATA).is_file():
        clips = read_metadata(DataConfig(dataset_path=str(path))).clips
        found = [SpeechFile(clip.audio_path, clip.id, clip.text, clip.speaker, clip.language) for clip in clips]
    elif path.is_dir():
        names = sorted(name for name in os.listdir(path) if Path(name).suffix.lower() in _SUFFIXES)
        found = [_with_text(path / name, texts or {}) for name in names]
    elif path.is_file():
        found = [_with_text(path, texts or {})]
    else:
        raise DataError(f"{path}: there is no such file or folder")
    if not found:
        raise DataError(f"{path}: there is no audio file in it, and no {METADATA}")
    return _spread(found, most)


def read_texts(path: Path) -> dict[str, SpeechFile]:
    """The texts of a metadata file (`id|text`, and what else a data set's may have), by id.

    Raises:
        DataError: the file cannot be read or used.
    """
    rows = [cells for _, cells in read_metadata_file(str(path)).rows]
    texts = {}
    for cells in rows:
        name = Path(cells.get("id", "")).name
        text = cells.get("normalized_text") or cells.get("text")
        texts[name] = SpeechFile("", name, text, cells.get("speaker", ""), cells.get("language") or None)
    return texts


def _with_text(path: Path, texts: Mapping[str, SpeechFile]) -> SpeechFile:
    name = path.stem
    known = texts.get(name)
    while known is None and "." in name:
        name = name.rpartition(".")[0]
        known = texts.get(name)
    if known is not None:
        return SpeechFile(str(path), known.id, known.text, known.speaker, known.language)
    beside = path.with_suffix(".txt")
    try:
        text = as_utf8(beside.read_bytes()).decode().strip() if beside.is_file() else None
    except (OSError, UnicodeDecodeError):
        raise TextError(f"{beside}: cannot be read as UTF-8 text") from None
    return SpeechFile(str(path), path.stem, text or None)


def _spread(found: Sequence[SpeechFile], most: int | None) -> list[SpeechFile]:
    if most is None or len(found) <= most:
        return list(found)
    return [found[place] for place in np.linspace(0, len(found) - 1, most).round().astype(int)]
