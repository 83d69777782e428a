"""From the id in a metadata line to the audio file it names.

Ids are text from a file that a stranger may have written. They are only ever compared with the names that
listing a folder gives, never handed to the operating system, so an id can name nothing outside the folders
that are searched: an absolute path or one with `..` is refused before. Symbolic links *inside* those folders
are the owner's doing and are followed (audio often lives on another disk).
"""

from __future__ import annotations

import os
import re
from unicodedata import normalize

# What libsndfile reads and speech data comes in; an id without suffix takes the first that exists.
AUDIO_SUFFIXES = (
    ".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".caf", ".w64", ".rf64"
)  # fmt: skip
_RANK = {suffix: rank for rank, suffix in enumerate(AUDIO_SUFFIXES)}
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


class EscapingId(ValueError):
    """An id that names something outside the data folder."""


def split_id(raw: str) -> tuple[str, ...]:
    """The folders and the name an id consists of, in NFC; empty if there is nothing left of it.

    Raises:
        EscapingId: for an absolute path or one that climbs with `..`.
    """
    if _ABSOLUTE.match(raw):
        raise EscapingId("is an absolute path")
    parts = tuple(part for part in normalize("NFC", raw).split("/") if part not in ("", "."))
    if ".." in parts or ".." in raw.split("\\"):
        raise EscapingId("leaves the data folder")
    return parts


def canonical_id(parts: tuple[str, ...]) -> str:
    """The clip's id: the same whether the metadata writes the suffix or not."""
    stem, suffix = os.path.splitext(parts[-1])
    name = stem if suffix.lower() in _RANK else parts[-1]
    return "/".join((*parts[:-1], name))


class AudioFolder:
    """The files below one folder, listed once per sub-folder and found by id.

    Names are compared in NFC, so that a file system that decomposes accents (macOS) and metadata that
    composes them, or the reverse, still meet. Of two files that differ in nothing else, the composed name
    wins.
    """

    def __init__(self, path: str) -> None:
        """Lists `path`; raises OSError if that is not possible."""
        self.path = path
        self._folders: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._by_stem: dict[str, list[tuple[int, bool, str]]] = {}
        self._opened: dict[str, AudioFolder | None] = {}
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                name = normalize("NFC", entry.name)
                try:
                    if entry.is_dir():
                        self._folders.setdefault(name, entry.name)
                    elif entry.is_file():
                        self._add_file(name, entry.name)
                except OSError:  # a symbolic link that leads in a circle
                    continue

    def _add_file(self, name: str, spelt: str) -> None:
        if spelt == name:
            self._files[name] = spelt
        else:
            self._files.setdefault(name, spelt)
        stem, suffix = os.path.splitext(name)
        rank = _RANK.get(suffix.lower())
        if rank is not None:
            self._files.setdefault(stem + suffix.lower(), spelt)
            self._by_stem.setdefault(stem, []).append((rank, spelt != name, spelt))

    def find(self, parts: tuple[str, ...]) -> str | None:
        """The path of the file that the parts of an id name, with or without its suffix, or None."""
        if len(parts) > 1:
            folder = self._open(parts[0])
            return folder.find(parts[1:]) if folder else None
        name = parts[0]
        stem, suffix = os.path.splitext(name)
        spelt = None
        if suffix.lower() in _RANK:
            spelt = self._files.get(name) or self._files.get(stem + suffix.lower())
        if spelt is None and name in self._by_stem:
            spelt = min(self._by_stem[name])[-1]
        return os.path.join(self.path, spelt) if spelt is not None else None

    def _open(self, name: str) -> AudioFolder | None:
        if name not in self._opened:
            spelt = self._folders.get(name)
            try:
                self._opened[name] = AudioFolder(os.path.join(self.path, spelt)) if spelt else None
            except OSError:
                self._opened[name] = None
        return self._opened[name]
