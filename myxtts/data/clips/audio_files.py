"""From the id in a metadata line to the audio file it names.

Ids are text from a file that a stranger may have written. They are only ever compared with the names that
listing a folder gives, never handed to the operating system, so an id can name nothing outside the folders
that are searched: an absolute path or one with `..` is refused before. Symbolic links *inside* those folders
are the owner's doing and are followed (audio often lives on another disk).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from unicodedata import normalize

from myxtts.audio.reading import UNREAD_SUFFIXES

# What libsndfile reads and speech data comes in; an id without suffix takes the first that exists. What telephones
# record comes last: it is found, so that it can be said that it cannot be read.
AUDIO_SUFFIXES = (
    ".wav", ".flac", ".ogg", ".opus", ".oga", ".mp3", ".aiff", ".aif", ".aifc", ".au", ".caf", ".w64", ".rf64",
    *UNREAD_SUFFIXES,
)  # fmt: skip
_RANK = {suffix: rank for rank, suffix in enumerate(AUDIO_SUFFIXES)}
_ABSOLUTE = re.compile(r"[/\\]|[A-Za-z]:[/\\]")


def is_audio(name: str) -> bool:
    """Whether a file's name has the suffix of an audio file."""
    return os.path.splitext(name)[1].lower() in _RANK


def by_preference(names: Sequence[str]) -> list[str]:
    """Names of audio files, in the order in which an id without suffix takes them."""
    return sorted(names, key=lambda name: (_RANK[os.path.splitext(name)[1].lower()], name))


def walk_folders(path: str) -> Iterator[tuple[str, list[str]]]:
    """Each folder from `path` down and the names of its files, both in order, without hidden ones.

    Links to folders are followed, each folder once. What cannot be listed is left out.
    """
    seen: set[tuple[int, int]] = set()
    for folder, below, files in os.walk(path, followlinks=True):
        below[:] = sorted(name for name in below if not name.startswith("."))
        try:
            status = os.stat(folder)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) in seen:
            below.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        yield folder, sorted(name for name in files if not name.startswith("."))


class EscapingIdError(ValueError):
    """An id that names something outside the data folder."""


def split_id(raw: str) -> tuple[str, ...]:
    """The folders and the name an id consists of, in NFC; empty if there is nothing left of it.

    Raises:
        EscapingIdError: for an absolute path or one that climbs with `..`.
    """
    if _ABSOLUTE.match(raw):
        raise EscapingIdError("is an absolute path")
    parts = tuple(part for part in normalize("NFC", raw).split("/") if part not in ("", "."))
    if ".." in parts or ".." in raw.split("\\"):
        raise EscapingIdError("leaves the data folder")
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


class AudioTree:
    """All audio files below a folder, found by id in whichever folder they are; listed when first asked."""

    def __init__(self, path: str) -> None:
        self.path = path

    def find(self, parts: tuple[str, ...]) -> list[str]:
        """The paths that end in the parts of an id, with or without its suffix; of one folder only the first."""
        wanted = (*parts[:-1], canonical_id(parts).rpartition("/")[2])
        suffix = os.path.splitext(parts[-1])[1].lower()
        found: dict[str, str] = {}
        for path in self._by_stem.get(wanted[-1], ()):
            folder, name = os.path.split(path)
            above = tuple(normalize("NFC", folder).split(os.sep))
            if above[len(above) - len(parts) + 1 :] != wanted[:-1]:
                continue
            if suffix not in _RANK or os.path.splitext(name)[1].lower() == suffix:
                found.setdefault(folder, path)
        return list(found.values())

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        by_stem: dict[str, list[str]] = {}
        for folder, files in walk_folders(self.path):
            for name in by_preference([name for name in files if is_audio(name)]):
                stem = os.path.splitext(normalize("NFC", name))[0]
                by_stem.setdefault(stem, []).append(os.path.join(folder, name))
        return by_stem


class WrittenPaths:
    """Finds the files that the paths in a manifest name, also where they were written on another machine.

    A path may be relative to the manifest, to a folder that is searched, or to a folder elsewhere; it may be absolute
    or from Windows. What stands in front of the folders that are searched is left off: the least that leads to a
    file, and then the same for every path that begins alike. So only names that listing a folder gives are ever
    opened, and a file that is missing is not taken for one of the same name in another folder.
    """

    def __init__(self, folders: Sequence[AudioFolder], base: str) -> None:
        """Searches `folders` in turn; the manifest lies in the folder `base`."""
        self._folders = folders
        self._base = os.path.abspath(base)
        self._known: list[tuple[tuple[str, ...], AudioFolder]] = []

    def find(self, written: str) -> tuple[tuple[str, ...], str | None]:
        """The parts of a path that name the file, and the file, or None; no parts if nothing is left of it."""
        parts = _written_parts(written)
        if not parts:
            return (), None
        for folder in self._folders:
            inside = self._relative_to(folder, written)
            path = folder.find(inside) if inside else None
            if inside and path:
                if parts[-len(inside) :] == inside:
                    self._remember(parts[: -len(inside)], folder)
                return inside, path
        known = [(len(prefix), folder) for prefix, folder in self._known if parts[: len(prefix)] == prefix]
        for skipped, folder in known:
            path = folder.find(parts[skipped:]) if parts[skipped:] else None
            if path:
                return parts[skipped:], path
        if known:
            return parts[known[0][0] :] or parts, None
        for skipped in range(len(parts)):
            for folder in self._folders:
                path = folder.find(parts[skipped:])
                if path:
                    self._remember(parts[:skipped], folder)
                    return parts[skipped:], path
        return parts, None

    def _remember(self, prefix: tuple[str, ...], folder: AudioFolder) -> None:
        if (prefix, folder) not in self._known:
            self._known.append((prefix, folder))

    def _relative_to(self, folder: AudioFolder, written: str) -> tuple[str, ...]:
        """The parts of a path from the manifest, where they lead into the folder."""
        if "\0" in written:
            return ()
        path = os.path.normpath(os.path.join(self._base, written))
        inside = os.path.relpath(path, os.path.abspath(folder.path))
        return () if inside.split(os.sep)[0] in ("..", ".") else tuple(normalize("NFC", inside).split(os.sep))


def _written_parts(written: str) -> tuple[str, ...]:
    """The names in a path, without the drive, and without what goes up."""
    parts = re.split(r"[/\\]", normalize("NFC", re.sub(r"^[A-Za-z]:(?=[/\\])", "", written)))
    return tuple(part for part in parts if part not in ("", ".", ".."))
