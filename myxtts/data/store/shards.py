"""Shards of a store: blocks of its clips that many processes or machines compute beside it.

A shard is a folder in the store's `shards/`, with data files, journals and a lock of its own, and nothing else: no
index and no manifest. The next build of the store checks its bytes, copies them to where they belong and removes it,
so the store has the bytes that one machine would have given it. A shard that was killed is continued by the same
command; what it does not have is computed when the store is made.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.store.builder import BuildPlace, ColumnsBuild
from myxtts.data.store.columns import COLUMNS
from myxtts.data.store.folder import SALVAGE, SHARDS, StoreFolder
from myxtts.data.store.format import FailedClip
from myxtts.data.store.job import ClipList
from myxtts.data.store.records import RECORD
from myxtts.data.store.target import Target
from myxtts.errors import UsageError


@dataclass(frozen=True)
class Shard:
    """One of `count` blocks of clips; `number` is 1 to `count`."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise UsageError(f"shard {self}: there are shards 1/{self.count} to {self.count}/{self.count}")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """A shard as it is written on the command line: `2/8`.

        Raises:
            UsageError: it is no such text, or there is no such shard.
        """
        match = re.fullmatch(r"([0-9]+)/([1-9][0-9]*)", text)
        if match is None:
            raise UsageError(f"shard '{text}': should be NUMBER/COUNT, e.g. 2/8")
        return cls(int(match[1]), int(match[2]))

    def folder(self, store: StoreFolder) -> Path:
        """Where it is built."""
        return store.path / SHARDS / f"{self.number}-of-{self.count}"

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Its part of all rows: consecutive, and as many as the others have, to one."""
        first, last = (len(rows) * place // self.count for place in (self.number - 1, self.number))
        return rows[first:last]


@dataclass(frozen=True)
class ShardResult:
    """A shard that is complete, and what it took.

    Attributes:
        shard: as it is written, `2/8`.
        folder: of the shard, of a store in parts the first one; None if the store was up to date.
        clips: in its block.
        columns: by name, how many clips it has.
        failed: clips that could not be computed; whoever makes the store tries them again.
        audio_seconds: read for it.
        seconds: it took.
    """

    shard: str
    folder: Path | None
    clips: int
    columns: dict[str, int]
    failed: tuple[FailedClip, ...]
    audio_seconds: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """For JSON; of each column, `mels` and the like."""
        counts = {COLUMNS[name].plural: count for name, count in self.columns.items()}
        return {
            "shard": self.shard,
            "folder": None if self.folder is None else str(self.folder),
            "clips": self.clips,
            **counts,
            "failed": [asdict(entry) for entry in self.failed],
            "audio_seconds": self.audio_seconds,
            "seconds": self.seconds,
        }


@dataclass
class ShardBuilder(ColumnsBuild):
    """One build of a shard, with the shard's lock held."""

    def run(self, shard: Shard) -> ShardResult:
        """Computes what the store does not have of the shard's block.

        Raises:
            StorageError: the disk has no room, or cannot be written.
        """
        job = self.job
        if not self.reusable.trusted:
            job.hash_sources()
        folder = shard.folder(self.target.folder)
        place = BuildPlace(folder, folder / SALVAGE)
        plans = self._blocks(shard)
        columns = [(entry, column) for entry, column in self._columns() if entry.name in plans]
        audio_seconds = 0.0
        if plans:
            builders = {
                entry.name: (self._builder(entry, column, plans[entry.name], place, reuse=False), plans[entry.name])
                for entry, column in columns
            }
            audio_seconds = self._look_ahead(builders)
        made: dict[str, int] = {}
        with self._pool() as pool:
            for entry, column in columns:
                plan = self._left(plans[entry.name])
                built = self._build_column(entry, self._builder(entry, column, plan, place, reuse=False), plan, pool)
                made[entry.name] = len(plan.clips) - len(built.reasons)
        return ShardResult(
            shard=str(shard),
            folder=folder,
            clips=max((len(plan.clips) for plan in plans.values()), default=0),
            columns=made,
            failed=tuple(self.failed),
            audio_seconds=audio_seconds,
            seconds=time.monotonic() - job.started,
        )

    def _blocks(self, shard: Shard) -> dict[str, ClipList]:
        """By column, the clips of the shard that the store and its siblings do not have.

        What is missing is shared out, and not all clips, so a store that grew at its end is shared out evenly too.
        Other shards do not count: whatever they have done, a block stays the same.
        """
        plan, store = self.job.plan, self.target.folder
        missing = self.missing(BuildPlace(store.building, store.salvage))
        block = shard.block(np.unique(np.concatenate([np.zeros(0, np.int64), *missing.values()])))
        chosen = {name: np.intersect1d(rows, block) for name, rows in missing.items()}
        return {name: plan.only(rows) for name, rows in chosen.items() if len(rows)}


def journaled_mels(target: Target) -> int:
    """Mels that the shards of a store have in their journals, for progress."""
    journal = next(column.journal for column in target.columns if column.name == "mel")
    paths = (shard / journal for shard in target.folder.shards())
    return sum(path.stat().st_size // RECORD.itemsize for path in paths if path.is_file())
