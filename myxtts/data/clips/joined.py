"""Several data sets used as one.

A clip's id and its speaker begin with the name of the data set: the speaker `default` of one data set is not that of
another, and neither are two clips of the same id. Languages are codes and mean the same everywhere. A clip is in the
split that it has in its data set alone, so that what was held out of one stays held out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from myxtts.data.clips.metadata import Metadata, Split
from myxtts.errors import DataError


@dataclass(frozen=True)
class JoinedMetadata(Metadata):
    """The clips of several data sets, one data set after another.

    Attributes:
        members: the metadata of each, with its own ids and speakers.
        names: what each is called here; see `data_set_names`.
        paths: their folders.
    """

    members: tuple[Metadata, ...] = ()
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, paths: Sequence[str], members: Sequence[Metadata]) -> JoinedMetadata:
        """The data sets in these folders as one."""
        names = data_set_names(paths)
        named = list(zip(names, members, strict=True))
        return cls(
            clips=[
                replace(clip, id=f"{name}/{clip.id}", speaker=f"{name}/{clip.speaker}")
                for name, member in named
                for clip in member.clips
            ],
            problems=[problem for member in members for problem in member.problems],
            rule=members[0].rule,
            notes=[f"{name}: {note}" for name, member in named for note in member.notes],
            layout="; ".join(f"{name}: {member.layout}" for name, member in named),
            members=tuple(members),
            names=names,
            paths=tuple(paths),
        )

    @cached_property
    def splits(self) -> list[Split]:
        known = {
            f"{name}/{clip.id}": split
            for name, member in zip(self.names, self.members, strict=True)
            for clip, split in zip(member.clips, member.splits, strict=True)
        }
        return [known[clip.id] for clip in self.clips]

    def data_sets(self) -> np.ndarray:
        """The number of each clip's data set, int64 [N]."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return np.array([numbers[clip.id.partition("/")[0]] for clip in self.clips], np.int64)

    def require_usable(self) -> None:
        for path, member in zip(self.paths, self.members, strict=True):
            if not member.clips:
                try:
                    member.require_usable()
                except DataError as error:
                    raise DataError(f"{path}: {error}") from None
        super().require_usable()


def data_set_names(paths: Sequence[str]) -> tuple[str, ...]:
    """What data sets are called: their folders' names, numbered where two have the same."""
    names: list[str] = []
    for path in paths:
        name = os.path.basename(os.path.realpath(path)) or "data"
        number, numbered = 1, name
        while numbered in names:
            number += 1
            numbered = f"{name}-{number}"
        names.append(numbered)
    return tuple(names)
