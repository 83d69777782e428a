"""What a layout is: how it is recognised in a folder, and what it says about each clip.

A layout looks at names and at the beginning of text files, never at audio. It states what is written and leaves it to
`metadata` to judge it: ids, languages, missing audio and duplicates are handled there, the same for every layout.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from myxtts.data.clips import Problem
from myxtts.errors import DataError

# Where audio lies beside its metadata, after the configured `wavs_dir`.
AUDIO_FOLDERS = ("wavs", "wav", "audio", "clips")

Role = Literal["train", "val"]


@dataclass(frozen=True, slots=True)
class ClipRow:
    """One clip as it is written.

    Attributes:
        file: where it is written.
        line: its line there, from 1.
        cells: `id`, `text`, `normalized_text`, `ipa`, `speaker`, `language`, and `audio`, the path of its file as it
            is written; those that the layout has. Without an `id`, the path of the audio is the id.
        audio_path: its file, where the layout knows it; "" if it knows that there is none.
        start, duration: the part of the file, in seconds; no duration: to the end.
    """

    file: str
    line: int
    cells: Mapping[str, str]
    audio_path: str | None = None
    start: float = 0.0
    duration: float | None = None


@dataclass(frozen=True)
class SetContent:
    """What is written about the clips of a set.

    Attributes:
        rows: one for each clip.
        problems: one for each line, or file, that is not a row.
        notes: what a person may want to know.
    """

    rows: list[ClipRow] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ClipSet:
    """Clips that are listed together, and where their audio is.

    Attributes:
        layout: its name.
        path: the metadata file; the folder, where each text is a file.
        read: reads it; raises `DataError` where all of it is meaningless.
        folders: of the audio, in the order in which they are searched.
        search_below: a folder anywhere below which audio may be; None if `folders` are all there is.
        wavs: the folder where audio was expected first, for messages.
        id_prefix: what the ids begin with, so that two sets share none.
        speaker, language: of clips that name none; None: as configured.
        role: the set is there to train on, or to validate with; None: clips are split by id.
        notes: what a person may want to know about the choice.
    """

    layout: str
    path: str
    read: Callable[[], SetContent]
    folders: tuple[str, ...] = ()
    search_below: str | None = None
    wavs: str = ""
    id_prefix: str = ""
    speaker: str | None = None
    language: str | None = None
    role: Role | None = None
    notes: tuple[str, ...] = ()


class Folder:
    """A folder of a data set as recognition looks at it: names, without hidden ones."""

    def __init__(self, path: str, root: str, wavs_dir: str) -> None:
        """The folder `path` of a data set in `root`, whose audio is in `wavs_dir` if that exists."""
        self.path = path
        self.root = root
        self.wavs_dir = wavs_dir
        self._opened: dict[str, Folder] = {}  # so that each is listed once, however many layouts look

    @cached_property
    def _names(self) -> tuple[list[str], list[str]]:
        files: list[str] = []
        folders: list[str] = []
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if not entry.name.startswith("."):
                        (folders if _is_folder(entry) else files).append(entry.name)
        except OSError:
            return [], []
        return sorted(files), sorted(folders)

    @property
    def files(self) -> list[str]:
        """Names of its files, in order."""
        return self._names[0]

    @property
    def folders(self) -> list[str]:
        """Names of its folders, in order."""
        return self._names[1]

    def join(self, *names: str) -> str:
        """A path below it."""
        return os.path.join(self.path, *names)

    def folder(self, name: str) -> Folder:
        """A folder in it."""
        return self._opened.setdefault(name, Folder(self.join(name), self.root, self.wavs_dir))

    def first(self, wanted: Callable[[Folder], bool], depth: int, most: int = 64) -> Folder | None:
        """The first folder from this one down that is wanted, at most `depth` levels down, of the first `most`."""
        level = [self]
        for _ in range(depth + 1):
            for folder in level[:most]:
                if wanted(folder):
                    return folder
            level = [folder.folder(name) for folder in level[:most] for name in folder.folders][:most]
        return None

    def listed_set(self, layout: str, path: str, read: Callable[[], SetContent]) -> ClipSet:
        """The set of a metadata file, with the folders of its audio.

        These are the nearest `wavs_dir`, or where there is none, the nearest folders that are called as is usual;
        besides, the folders that ids may be written from.
        """
        beside = os.path.dirname(path)
        places = list(dict.fromkeys((self.path, self.root, beside)))
        present = [
            folder for folder in (os.path.join(place, self.wavs_dir) for place in places) if os.path.isdir(folder)
        ]
        usual: list[str] = []
        for place in () if present else dict.fromkeys((beside, *places)):
            named = [os.path.join(place, name) for name in AUDIO_FOLDERS]
            usual = usual or [folder for folder in named if os.path.isdir(folder)]
        folders = tuple(dict.fromkeys((*present[:1], *places, *usual)))
        wavs = os.path.join(self.path, self.wavs_dir)
        return ClipSet(layout, path, read, folders, None if present or usual else self.root, wavs)


@dataclass(frozen=True)
class Layout:
    """A way to lay out a data set.

    Attributes:
        name: as `data_layout` has it.
        looks_for: what it is recognised by, for messages.
        find: the sets in a folder; none if it is not laid out like this.
        open_file: the set of one metadata file that is named; None: this layout has no such file.
        recognises: whether such a file is of this layout.
    """

    name: str
    looks_for: str
    find: Callable[[Folder], Sequence[ClipSet]]
    open_file: Callable[[Folder, str], ClipSet] | None = None
    recognises: Callable[[str], bool] = lambda path: False


def choose_by_name(sets: Sequence[ClipSet], names: Sequence[str]) -> list[ClipSet] | None:
    """Of several sets beside each other, those to use: one, or those to train on and to validate with.

    Args:
        sets: what there is.
        names: of the files or folders, which tell what each is for.

    Returns:
        None if the names do not tell.
    """
    if len(sets) < 2:
        return list(sets)
    roles = [_role_of(name) for name in names]
    if None in roles or "train" not in roles:
        return None
    separate = "val" in roles
    used = [
        replace(one, role=role if separate else None)
        for one, role in zip(sets, roles, strict=True)
        if role in ("train", "val")
    ]
    left_out = [name for name, role in zip(names, roles, strict=True) if role == "test"]
    if left_out:
        used[0] = replace(used[0], notes=(f"left out as a test set: {', '.join(left_out)}",))
    return used


_ROLES: dict[str, Literal["train", "val", "test"]] = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val", "eval": "val",
    "test": "test",
}  # fmt: skip


def _role_of(name: str) -> Literal["train", "val", "test"] | None:
    """What a metadata file or a folder is for, by the words of its name."""
    words = "".join(letter if letter.isalpha() else " " for letter in name.casefold()).split()
    return next((_ROLES[word] for word in words if word in _ROLES), None)


def choose_file(folder: Folder, sets: Sequence[ClipSet]) -> list[ClipSet]:
    """Of several metadata files in a folder, those to use.

    Raises:
        DataError: their names do not tell.
    """
    names = [os.path.basename(one.path) for one in sets]
    chosen = choose_by_name(sets, names)
    if chosen is None:
        raise DataError(f"{folder.path}: {', '.join(names)} all list clips; choose with --set metadata_file=NAME")
    return chosen


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link that leads in a circle
        return False
