"""Builds a column: copies what exists, has the rest computed, and lays everything out in the order of the
data set.

A clip's place in the data file depends on the lengths of all clips before it, which trimming and resampling
keep unknown until they are computed. So a worker computes a clip, reports its length, and keeps its bytes;
as soon as all clips before it have reported, it is told the offset and writes. The journal grows in the
same order, so an interrupted build is always the beginning of the finished one: it is continued where it
stopped, and the result has the same bytes as if it had not been.
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

from myxtts.data.column import (
    FAILED,
    RECORD,
    Column,
    Reusable,
    Run,
    Work,
    copy_range,
    find_reusable,
    find_whole,
    intact,
    pack_record,
    pack_records,
    read_journal,
    same_source,
    segments,
    write_all,
)
from myxtts.data.store_folder import disk_errors
from myxtts.data.worker_pool import Computed, Task, WorkerPool

logger = logging.getLogger(__name__)

FAILURES_FILE = "failures.jsonl"
_AHEAD = 4  # tasks per worker that may be computed before the clips in front of them are

OnProgress = Callable[[int, int], None]  # clips and rows that were finished since the last call


@dataclass(frozen=True)
class BuiltColumn:
    """A finished column.

    Attributes:
        records: RECORD [N], one per clip of the plan; those of clips that failed have the length FAILED.
        reasons: why, by position in the plan.
        reused: clips taken from an earlier version or an interrupted build.
        computed: clips computed now.
        linked: the whole file is that of an earlier version.
    """

    records: np.ndarray
    reasons: dict[int, str]
    reused: int
    computed: int
    linked: bool


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
        plan: RECORD [N], the clips in order: `clip`, `size`, `mtime`, `content` are set.
        by_content: clips are recognised by the hash of their source, not by size and time.
        sources: published clips that may be taken over.
        item: what clip `i` of the plan is computed from, as JSON values.
        chunk: clips per task.
        padding: bytes of the last row.
    """

    column: Column
    folder: Path
    salvage: Path
    plan: np.ndarray
    by_content: bool
    sources: Sequence[Reusable]
    item: Callable[[int], Any]
    chunk: int
    padding: bytes
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
        partial = Reusable(self.data_path, interrupted[interrupted["length"] != FAILED])
        sources = [*self.sources, *self._salvaged(), partial]
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
            sources = [*self.sources, *self._salvaged()]
            which, rows = find_reusable(self.plan, sources, self.by_content)
            todo = segments(done, which, rows, sources, self.column.row_bytes, self.chunk)
            with _Files(self.data_path, self.journal_path, self.folder / FAILURES_FILE) as files:
                _Layout(self, files, pool, done, _end(kept)).run(todo)
                records = read_journal(self.journal_path)
                end = _end(records) * self.column.row_bytes
                write_all(files.data, self.padding, end)
                os.ftruncate(files.data, end + len(self.padding))
                os.fsync(files.data)
            reasons = self._reasons(records)
        if self.by_content:
            _restamp(records[:done], self.plan[:done])
        computed = int(np.count_nonzero(which[done:] < 0))
        return BuiltColumn(records, reasons, len(self.plan) - computed, computed, False)

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
        records = _restamp(source.records.copy(), self.plan)
        self.on_progress(len(records), _end(records))
        return BuiltColumn(records, {}, len(records), 0, True)

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
        # Linked first and unlinked after: at every moment one of the folders has both files.
        os.link(self.data_path, aside / self.column.file)
        os.link(self.journal_path, aside / self.column.journal)
        self._discard()

    def _put_asides(self) -> list[Path]:
        return sorted(self.salvage.glob(f"{self.column.name}-*"))

    def _salvaged(self) -> list[Reusable]:
        found = [Reusable.from_journal(self.column, folder) for folder in self._put_asides()]
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


class _Files:
    """The files that grow while a column is built."""

    def __init__(self, data: Path, journal: Path, failures: Path) -> None:
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.path = data
        self.data = os.open(data, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.journal = os.open(journal, append, 0o666)
        self.failures = os.open(failures, append, 0o666)

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.data, self.journal, self.failures):
            os.close(descriptor)


class _Layout:
    """Puts computed tasks and copied runs into the data file in order, and into the journal after that."""

    def __init__(self, builder: ColumnBuilder, files: _Files, pool: WorkerPool, done: int, end: int) -> None:
        self._builder = builder
        self._files = files
        self._pool = pool
        self._row_bytes = builder.column.row_bytes
        self._placed = self._journaled = done  # clips that have their offset; clips that are in the journal
        self._end = end  # rows given away
        self._ready: dict[int, Task | Run] = {}  # to be placed, by first clip
        self._written: dict[int, Task | Run] = {}  # to be journaled, by first clip
        self._copied_to: dict[int, int] = {}  # first row of a run, by first clip
        self._unplaced = 0

    def run(self, todo: Any) -> None:
        self._pool.write_to(self._files.path)
        segment = next(todo, None)
        total = len(self._builder.plan)
        while self._journaled < total:
            while segment is not None and self._accepts(segment):
                self._take(segment)
                segment = next(todo, None)
            self._place()
            self._journal()
            if self._journaled < total and not (segment is not None and self._accepts(segment)):
                for event in self._pool.events():
                    self._handle(event)

    def _accepts(self, segment: Run | Work) -> bool:
        if isinstance(segment, Run):
            return len(self._ready) < _AHEAD * self._pool.count + 1
        return self._pool.has_room() and self._unplaced < _AHEAD * self._pool.count

    def _take(self, segment: Run | Work) -> None:
        if isinstance(segment, Run):
            self._ready[segment.first] = segment
            return
        rows = range(segment.first, segment.first + segment.count)
        items = [self._builder.item(row) for row in rows]
        self._unplaced += 1
        self._pool.submit(Task(segment.first, self._builder.column.name, items))

    def _handle(self, event: Any) -> None:
        task = event.task
        if not isinstance(event, Computed):
            self._written[task.number] = task
        elif task.offset is None:
            self._ready[task.number] = task
        else:
            self._pool.write(task)

    def _place(self) -> None:
        """Gives everything that is next in line its offset."""
        while (segment := self._ready.pop(self._placed, None)) is not None:
            if isinstance(segment, Run):
                self._copy(segment)
                self._placed += len(segment.records)
                continue
            rows = sum(result[0] for result in segment.results if not isinstance(result, str))
            segment.offset = self._end * self._row_bytes
            self._end += rows
            self._placed += len(segment.results)
            self._unplaced -= 1
            self._pool.write(segment)

    def _copy(self, run: Run) -> None:
        start = int(run.records["offset"][0])
        rows = int(run.records["length"].sum())
        source = os.open(run.path, os.O_RDONLY)
        try:
            size = self._row_bytes
            copy_range(source, self._files.data, start * size, self._end * size, rows * size)
        finally:
            os.close(source)
        self._copied_to[run.first] = self._end
        self._end += rows
        self._written[run.first] = run

    def _journal(self) -> None:
        """Records what is written, up to the first clip that is not."""
        records = []
        clips = rows = 0
        while (segment := self._written.pop(self._journaled, None)) is not None:
            if isinstance(segment, Run):
                plan = self._builder.plan[self._journaled : self._journaled + len(segment.records)]
                moved = _restamp(segment.records.copy(), plan)
                moved["offset"] += self._copied_to.pop(segment.first) - int(moved["offset"][0])
                records.append(pack_records(moved))
                rows += int(moved["length"].sum())
                count = len(moved)
            else:
                packed, done = self._pack(segment)
                records.append(packed)
                rows += done
                count = len(segment.results)
            self._journaled += count
            clips += count
        if records:
            _append(self._files.journal, b"".join(records))
            self._builder.on_progress(clips, rows)

    def _pack(self, task: Task) -> tuple[bytes, int]:
        assert task.offset is not None
        offset = first = task.offset // self._row_bytes
        packed = []
        for row, result in enumerate(task.results, start=task.number):
            clip, size, mtime, content = self._builder.plan[row].item()[:4]
            if isinstance(result, str):
                line = json.dumps({"clip": clip, "reason": result}, ensure_ascii=False)
                _append(self._files.failures, (line + "\n").encode("utf-8"))
                packed.append(pack_record(clip, size, mtime, content, offset, FAILED, 0))
                continue
            length, checksum, source = result
            if source is not None:
                size, mtime, content = source
            packed.append(pack_record(clip, size, mtime, content, offset, length, checksum))
            offset += length
        return b"".join(packed), offset - first


def _restamp(records: np.ndarray, plan: np.ndarray) -> np.ndarray:
    """Size and time as the sources have them now: a source known by its content may have been copied or
    touched."""
    records["size"], records["mtime"] = plan["size"], plan["mtime"]
    return records


def _end(records: np.ndarray) -> int:
    """Rows that the records take; they lie one after another."""
    return int(np.maximum(records["length"], 0).sum())


def _append(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
