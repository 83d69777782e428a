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
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.store.format import Column
from myxtts.data.store.records import FAILED, Run, Work, copy_range, pack_record, pack_records, restamp
from myxtts.data.store.workers import ComputedTask, Task, WorkerPool, WrittenTask

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


class ColumnLayout:
    """One pass over the clips of a column.

    Args:
        column: what is stored.
        plan: RECORD [N], the clips in order.
        item: what clip `i` of the plan is computed from, as JSON values.
        files: open for writing.
        pool: computes.
        on_progress: called with clips and rows as they are journaled.
        done: clips that are in the journal already.
        end: rows they take.
    """

    def __init__(
        self,
        column: Column,
        plan: np.ndarray,
        item: Callable[[int], Any],
        files: ColumnFiles,
        pool: WorkerPool,
        on_progress: OnProgress,
        done: int,
        end: int,
    ) -> None:
        self._column = column
        self._plan = plan
        self._item = item
        self._files = files
        self._pool = pool
        self._on_progress = on_progress
        self._row_bytes = column.row_bytes
        self._placed = self._journaled = done  # clips that have their offset; clips that are in the journal
        self._end = end  # rows given away
        self._ready: dict[int, Task | Run] = {}  # to be placed, by first clip
        self._written: dict[int, Task | Run] = {}  # to be journaled, by first clip
        self._copied_to: dict[int, int] = {}  # first row of a run, by first clip
        self._unplaced = 0
        self._unjournaled = 0  # tasks that a kill would lose

    def run(self, todo: Iterator[Run | Work]) -> None:
        """Works through the rest of the plan, in order."""
        self._pool.write_to(self._files.path)
        segment = next(todo, None)
        total = len(self._plan)
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
        # A worker that writes slowly must not let the others run ahead of the journal either.
        ahead = _AHEAD * self._pool.count
        return self._pool.has_room() and self._unplaced < ahead and self._unjournaled < 2 * ahead

    def _take(self, segment: Run | Work) -> None:
        if isinstance(segment, Run):
            self._ready[segment.first] = segment
            return
        rows = range(segment.first, segment.first + segment.count)
        items = [self._item(row) for row in rows]
        self._unplaced += 1
        self._unjournaled += 1
        self._pool.submit(Task(segment.first, self._column.name, items))

    def _handle(self, event: ComputedTask | WrittenTask) -> None:
        task = event.task
        if not isinstance(event, ComputedTask):
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
                plan = self._plan[self._journaled : self._journaled + len(segment.records)]
                moved = restamp(segment.records.copy(), plan)
                moved["offset"] += self._copied_to.pop(segment.first) - int(moved["offset"][0])
                records.append(pack_records(moved))
                rows += int(moved["length"].sum())
                count = len(moved)
            else:
                packed, done = self._pack(segment)
                records.append(packed)
                rows += done
                count = len(segment.results)
                self._unjournaled -= 1
            self._journaled += count
            clips += count
        if records:
            _append(self._files.journal, b"".join(records))
            self._on_progress(clips, rows)

    def _pack(self, task: Task) -> tuple[bytes, int]:
        assert task.offset is not None
        offset = first = task.offset // self._row_bytes
        packed = []
        for row, result in enumerate(task.results, start=task.number):
            clip, size, mtime, content = self._plan[row].item()[:4]
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


def _append(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
