"""Builds a column: copies what exists, has the rest computed, and lays everything out in the order of the data set.

The journal grows in that order too, so an interrupted build is always the beginning of the finished one: it is
continued where it stopped, and the result has the same bytes as if it had not been. If the data set has changed
meanwhile, the interrupted build is put aside, and what is still right in it is copied from there.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.store.column_layout import ColumnFiles, ColumnLayout, OnProgress
from myxtts.data.store.folder import disk_errors
from myxtts.data.store.format import Column
from myxtts.data.store.records import (
    FAILED,
    RECORD,
    ReusableClips,
    find_reusable,
    find_whole,
    intact,
    read_journal,
    restamp,
    runs_and_work,
    same_source,
    write_all,
)
from myxtts.data.store.workers import WorkerPool

logger = logging.getLogger(__name__)

FAILURES_FILE = "failures.jsonl"


@dataclass(frozen=True)
class BuiltColumn:
    """A finished column.

    Attributes:
        records: RECORD [N], one per clip of the plan; those of clips that failed have the length FAILED.
        reasons: why, by position in the plan.
        computed: bool [N], which clips were not taken from an earlier version or an interrupted build.
    """

    records: np.ndarray
    reasons: dict[int, str]
    computed: np.ndarray


@dataclass(frozen=True)
class Survey:
    """What building a column will take.

    Attributes:
        missing: int64, positions in the plan of the clips that have to be computed.
        known_rows: rows of the clips that exist somewhere.
        done_rows: those of them that are already in place.
    """

    missing: np.ndarray
    known_rows: int
    done_rows: int


@dataclass
class ColumnBuilder:
    """Builds one column in the building folder.

    Attributes:
        column: what is stored.
        folder: the building folder, which exists.
        salvage: where an interrupted build goes that cannot be continued in place.
        shards: folders in which others have computed clips of the plan; what is intact there is copied.
        plan: RECORD [N], the clips in order: `clip`, `size`, `mtime`, `content` are set.
        by_content: clips are recognised by the hash of their source, not by size and time.
        sources: published clips that may be reused.
        item: what clip `i` of the plan is computed from, as JSON values.
        chunk: clips per task.
        on_progress: called with clips and rows as they are finished.
    """

    column: Column
    folder: Path
    salvage: Path
    plan: np.ndarray
    by_content: bool
    sources: Sequence[ReusableClips]
    item: Callable[[int], Any]
    chunk: int
    shards: Sequence[Path] = ()
    on_progress: OnProgress = field(default=lambda clips, rows: None)

    @property
    def data_path(self) -> Path:
        return self.folder / self.column.file

    @property
    def journal_path(self) -> Path:
        return self.folder / self.column.journal

    def survey(self) -> Survey:
        """What building will take, without changing anything."""
        if find_whole(self.plan, self.sources, self.by_content) is not None:
            return Survey(np.zeros(0, np.int64), 0, 0)
        interrupted = self._interrupted()
        done = len(interrupted) if self._fits(interrupted) else 0
        partial = ReusableClips(self.data_path, interrupted[interrupted["length"] != FAILED])
        sources = [*self.sources, *self._salvaged(checked=False), partial]
        which, rows = find_reusable(self.plan, sources, self.by_content)
        missing = np.flatnonzero(which < 0)
        copied = sum(
            int(source.records["length"][rows[which == number]].sum()) for number, source in enumerate(sources)
        )
        return Survey(missing[missing >= done], copied, _end(interrupted[:done]))

    def build(self, pool: WorkerPool) -> BuiltColumn:
        """Makes the column complete and puts it on the disk.

        Raises:
            StoreError: the disk refuses. What was done so far is continued by the next call.
        """
        with disk_errors(self.data_path):
            linked = self._link()
            if linked is not None:
                return linked
            kept = self._continue()
            done = len(kept)
            sources = [*self.sources, *self._salvaged(checked=True)]
            which, rows = find_reusable(self.plan, sources, self.by_content)
            todo = runs_and_work(done, which, rows, sources, self.column.row_bytes, self.chunk)
            with ColumnFiles(self.data_path, self.journal_path, self.folder / FAILURES_FILE) as files:
                ColumnLayout(self.column, self.plan, self.item, files, pool, self.on_progress, done, _end(kept)).run(
                    todo
                )
                records = read_journal(self.journal_path)
                end = _end(records) * self.column.row_bytes
                write_all(files.data, self.column.padding_row, end)
                os.ftruncate(files.data, end + self.column.row_bytes)
                os.fsync(files.data)
            reasons = self._reasons(records)
        if self.by_content:
            restamp(records[:done], self.plan[:done])
        computed = (which < 0) & (np.arange(len(which)) >= done)
        return BuiltColumn(records, reasons, computed)

    def _link(self) -> BuiltColumn | None:
        """Takes over the file of an earlier version as it is, if it holds exactly the clips of the plan."""
        source = find_whole(self.plan, self.sources, self.by_content)
        if source is None:
            return None
        self._discard()
        try:
            os.link(source.path, self.data_path)
        except OSError as error:
            logger.debug("%s cannot be linked (%s) and is copied", source.path, error.strerror)
            return None
        records = restamp(source.records.copy(), self.plan)
        self.on_progress(len(records), _end(records))
        return BuiltColumn(records, {}, np.zeros(len(records), bool))

    def _continue(self) -> np.ndarray:
        """The records of the first clips of the plan, which an interrupted build has already made.

        If it made anything else, it is put aside, and what it made is found there.
        """
        records = self._interrupted()
        if not len(records):
            self._discard()
            return records
        if not self._fits(records):
            self._put_aside()
            return records[:0]
        good = intact(self.data_path, records, self.column.row_bytes)
        kept = records if good.all() else records[: int(np.argmin(good))]
        os.truncate(self.journal_path, kept.nbytes)
        self.on_progress(len(kept), _end(kept))
        return kept

    def _interrupted(self) -> np.ndarray:
        """What the journal of an interrupted build says, RECORD [M]."""
        try:
            # With a second name the data file is that of a published version: it is never written to.
            own = os.stat(self.data_path).st_nlink == 1
        except FileNotFoundError:
            own = False
        return read_journal(self.journal_path) if own else np.zeros(0, RECORD)

    def _fits(self, records: np.ndarray) -> bool:
        """Whether an interrupted build is the beginning of this one."""
        plan = self.plan[: len(records)]
        return len(plan) == len(records) and bool(same_source(plan, records, self.by_content).all())

    def _discard(self) -> None:
        self.data_path.unlink(missing_ok=True)
        self.journal_path.unlink(missing_ok=True)

    def _put_aside(self) -> None:
        aside = self.salvage / f"{self.column.name}-{len(self._put_asides())}"
        aside.mkdir(parents=True)
        files = ((self.data_path, aside / self.column.file), (self.journal_path, aside / self.column.journal))
        try:
            # Linked first and unlinked after: at every moment one of the folders has both files.
            for source, target in files:
                os.link(source, target)
            self._discard()
        except OSError:  # a file system without links
            for source, target in files:
                os.replace(source, target)

    def _put_asides(self) -> list[Path]:
        return sorted(self.salvage.glob(f"{self.column.name}-*"))

    def _salvaged(self, checked: bool) -> list[ReusableClips]:
        folders = [*self._put_asides(), *self.shards]
        found = [ReusableClips.from_journal(self.column, folder, checked) for folder in folders]
        return [source for source in found if source is not None]

    def _reasons(self, records: np.ndarray) -> dict[int, str]:
        """Why clips failed, also those of the build that this one continued."""
        failed = {int(records["clip"][row]): int(row) for row in np.flatnonzero(records["length"] == FAILED)}
        if not failed:
            return {}
        reasons = dict.fromkeys(failed.values(), "failed")
        with open(self.folder / FAILURES_FILE, encoding="utf-8") as file:
            for line in file:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # torn by a kill; the clip's record was then not written either
                if entry["clip"] in failed:
                    reasons[failed[entry["clip"]]] = entry["reason"]
        return reasons


def _end(records: np.ndarray) -> int:
    """Rows that the records take; they lie one after another."""
    return int(np.maximum(records["length"], 0).sum())
