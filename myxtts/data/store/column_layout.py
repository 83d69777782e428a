"""Puts the clips of a column into its data file in order, and into its journal after that.

A clip's place depends on the lengths of all clips before it, which trimming and resampling keep unknown until they
are computed. So a worker computes a clip, reports its length, and keeps its bytes; as soon as all clips before it
have reported, it is told the offset and writes. Only what lies behind the last clip of the journal is ever written
to.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.store.format import Column
from myxtts.data.store.records import FAILED, Run, Work, copy_range, pack_records, restamp
from myxtts.data.store.workers import Task, WorkerPool

_AHEAD = 4  # tasks per worker that may be computed before the clips in front of them are

OnProgress = Callable[[int, int], None]  # clips and rows that were finished since the last call


class ColumnFiles:
    """The files that grow while a column is built."""

    def __init__(self, data: Path, journal: Path, failures: Path) -> None:
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.path = data
        self.data = os.open(data, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self.journal = os.open(journal, append, 0o666)
        self.failures = os.open(failures, append, 0o666)

    def __enter__(self) -> ColumnFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.data, self.journal, self.failures):
            os.close(descriptor)


@dataclass
class ColumnLayout:
    """One pass over the clips of a column.

    Attributes:
        column: what is stored.
        plan: RECORD [N], the clips in order.
        item: what clip `i` of the plan is computed from, as JSON values.
        files: open for writing.
        pool: computes.
        on_progress: called with clips and rows as they are journaled.
        done: clips that are in the journal already.
        end: rows they take.
    """

    column: Column
    plan: np.ndarray
    item: Callable[[int], Any]
    files: ColumnFiles
    pool: WorkerPool
    on_progress: OnProgress
    done: int
    end: int

    def __post_init__(self) -> None:
        self._placed = self._journaled = self.done  # clips that have their offset; clips that are in the journal
        self._end = self.end  # rows given away
        self._ready: dict[int, Task | Run] = {}  # to be placed, by first clip
        self._written: dict[int, Task | Run] = {}  # to be journaled, by first clip
        self._copied_to: dict[int, int] = {}  # first row of a run, by first clip
        self._unplaced = 0
        self._unjournaled = 0  # tasks that a kill would lose

    def run(self, todo: Iterator[Run | Work]) -> None:
        """Works through the rest of the plan, in order."""
        self.pool.write_to(self.files.path)
        segment = next(todo, None)
        total = len(self.plan)
        while self._journaled < total:
            while segment is not None and self._accepts(segment):
                self._take(segment)
                segment = next(todo, None)
            self._place()
            self._journal()
            if self._journaled < total and not (segment is not None and self._accepts(segment)):
                for task in self.pool.events():
                    self._handle(task)

    def _accepts(self, segment: Run | Work) -> bool:
        if isinstance(segment, Run):
            return len(self._ready) < _AHEAD * self.pool.count + 1
        # A worker that writes slowly must not let the others run ahead of the journal either.
        ahead = _AHEAD * self.pool.count
        return self.pool.has_room() and self._unplaced < ahead and self._unjournaled < 2 * ahead

    def _take(self, segment: Run | Work) -> None:
        if isinstance(segment, Run):
            self._ready[segment.first] = segment
            return
        rows = range(segment.first, segment.first + segment.count)
        items = [self.item(row) for row in rows]
        self._unplaced += 1
        self._unjournaled += 1
        self.pool.submit(Task(segment.first, self.column.name, items))

    def _handle(self, task: Task) -> None:
        if task.written:
            self._written[task.number] = task
        elif task.offset is None:
            self._ready[task.number] = task
        else:
            self.pool.write(task)

    def _place(self) -> None:
        """Gives everything that is next in line its offset."""
        while (segment := self._ready.pop(self._placed, None)) is not None:
            if isinstance(segment, Run):
                self._copy(segment)
                self._placed += len(segment.records)
                continue
            rows = sum(result[0] for result in segment.results if not isinstance(result, str))
            segment.offset = self._end * self.column.row_bytes
            self._end += rows
            self._placed += len(segment.results)
            self._unplaced -= 1
            self.pool.write(segment)

    def _copy(self, run: Run) -> None:
        start = int(run.records["offset"][0])
        rows = int(run.records["length"].sum())
        source = os.open(run.path, os.O_RDONLY)
        try:
            size = self.column.row_bytes
            copy_range(source, self.files.data, start * size, self._end * size, rows * size)
        finally:
            os.close(source)
        self._copied_to[run.first] = self._end
        self._end += rows
        self._written[run.first] = run

    def _journal(self) -> None:
        """Records what is written, up to the first clip that is not."""
        made = []
        while (segment := self._written.pop(self._journaled, None)) is not None:
            made.append(self._copied(segment) if isinstance(segment, Run) else self._computed(segment))
            self._journaled += len(made[-1])
        if made:
            records = np.concatenate(made)
            _append(self.files.journal, pack_records(records))
            self.on_progress(len(records), int(np.maximum(records["length"], 0).sum()))

    def _copied(self, run: Run) -> np.ndarray:
        """The records of clips that were copied."""
        records = restamp(run.records.copy(), self.plan[run.first : run.first + len(run.records)])
        records["offset"] += self._copied_to.pop(run.first) - int(records["offset"][0])
        return records

    def _computed(self, task: Task) -> np.ndarray:
        """The records of a task's clips; why clips failed is written down first."""
        assert task.offset is not None
        self._unjournaled -= 1
        offset = task.offset // self.column.row_bytes
        records = self.plan[task.number : task.number + len(task.results)].copy()
        for record, result in zip(records, task.results, strict=True):
            record["offset"] = offset
            if isinstance(result, str):
                line = json.dumps({"clip": int(record["clip"]), "reason": result}, ensure_ascii=False)
                _append(self.files.failures, (line + "\n").encode("utf-8"))
                record["length"], record["checksum"] = FAILED, 0
                continue
            record["length"], record["checksum"], source = result
            if source is not None:
                record["size"], record["mtime"], record["content"] = source
            offset += int(record["length"])
        return records


def _append(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
