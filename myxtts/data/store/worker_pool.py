"""The parent's side of the processes that compute features: starting them, feeding them, surviving them.

A worker that crashes (a decoder that fails on a broken file, the kernel short of memory) takes nobody with it. Its
tasks are given to a new one, the task it was at item by item, and an item that kills a worker twice is a clip that
failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from myxtts.child_program import child_command, child_environment
from myxtts.data.store.columns import ColumnEntry
from myxtts.data.store.folder import disk_error
from myxtts.errors import DataError, StoreError

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig

QUEUED = 2  # tasks a worker has: the one it is at, and the next, so that it never waits for an answer
_IDLE_DEATHS = 8
_WORKER = "myxtts.data.store.worker"


@dataclass
class Task:
    """Consecutive clips to compute.

    Attributes:
        number: position of the first clip in the plan.
        column: name of the column.
        items: what each is made from.
        results: per clip a reason, or [rows, checksum, source]; empty until computed.
        offset: where its bytes go in the data file, once that is known.
        skip: places of clips that are not to be computed, and the reason.
        careful: one clip at a time, each announced before it is touched; after a worker died of the task.
    """

    number: int
    column: str
    items: Sequence[Any]
    results: list[Any] = field(default_factory=list)
    offset: int | None = None
    skip: dict[int, str] = field(default_factory=dict)
    careful: bool = False


@dataclass
class ComputedTask:
    """A task's results are there; its bytes are in the worker's memory until `WorkerPool.write` is called."""

    task: Task


@dataclass
class WrittenTask:
    """A task's bytes are in the data file."""

    task: Task


class _WorkerProcess:
    """One process, the tasks it has, and what it was last heard to be at."""

    def __init__(self, computers: Mapping[str, Any], lock: int | None, errors: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                child_command(_WORKER, theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=child_environment(),
                # With the lock in its hands too, nobody builds here while a worker may still write.
                pass_fds=[theirs.fileno()] + ([] if lock is None else [lock]),
            )
        self.connection = Connection(ours.detach())
        self.ready = False
        self.computing: list[Task] = []
        self.holding: dict[int, Task] = {}
        self.at: int | None = None
        self.send({"computers": computers})

    def send(self, message: dict[str, Any]) -> None:
        # If it has died, the end of its socket is what is read next.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send_bytes(json.dumps(message).encode("utf-8"))

    def compute(self, task: Task) -> None:
        self.computing.append(task)
        self.send(
            {
                "compute": task.number,
                "column": task.column,
                "items": task.items,
                "skip": task.skip,
                "careful": task.careful,
            }
        )

    def stop(self) -> None:
        self.connection.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class WorkerPool:
    """Processes that compute tasks and write their bytes. They start with the first task.

    Args:
        count: how many.
        computers: by column, what computes it and its settings (see `computers_of`).
        lock: file descriptor of the store's lock, which they inherit.
    """

    def __init__(self, count: int, computers: Mapping[str, Any], lock: int | None = None) -> None:
        self._count = max(1, count)
        self._computers = computers
        self._lock = lock
        self._errors = os.memfd_create("worker-errors")
        self._workers: list[_WorkerProcess] = []
        self._file: Path | None = None
        self._idle_deaths = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
            if error is not None:
                worker.process.kill()  # what it was at is not waited for
        for worker in workers:
            worker.stop()
        os.close(self._errors)

    @property
    def count(self) -> int:
        return self._count

    def write_to(self, path: Path) -> None:
        """The data file of everything computed from now on."""
        self._file = path
        for worker in self._workers:
            worker.send({"file": os.fspath(path)})

    def has_room(self) -> bool:
        """Whether a task would be taken up at once or next."""
        return len(self._workers) < self._count or any(len(w.computing) < QUEUED for w in self._workers)

    def submit(self, task: Task) -> None:
        """Gives a task to the worker with the least to do."""
        if len(self._workers) < self._count:
            self._workers.append(self._start())
        min(self._workers, key=lambda worker: len(worker.computing)).compute(task)

    def write(self, task: Task) -> None:
        """Lets the worker that has the task's bytes write them at `task.offset`.

        If that worker has died, the task is being computed again, and `ComputedTask` will come a second time.
        """
        for worker in self._workers:
            if task.number in worker.holding:
                worker.send({"write": task.number, "offset": task.offset})

    def events(self) -> Iterator[ComputedTask | WrittenTask]:
        """What has happened; waits until something has.

        Raises:
            StoreError: the disk refused, or workers cannot be started.
        """
        by_connection = {worker.connection: worker for worker in self._workers}
        for connection in wait(list(by_connection)):
            worker = by_connection[connection]  # type: ignore[index]
            try:
                message = json.loads(worker.connection.recv_bytes())
            except (EOFError, ConnectionResetError):
                self._replace(worker)
                continue
            if "computed" in message:
                task = worker.computing.pop(0)
                if task.results and task.results != message["results"]:
                    raise StoreError("the data set changes while it is read; run again when it is complete")
                task.results = message["results"]
                worker.at = None
                worker.holding[task.number] = task
                yield ComputedTask(task)
            elif "written" in message:
                yield WrittenTask(worker.holding.pop(message["written"]))
            elif "at" in message:
                worker.at = message["at"]
            elif "refused" in message:
                number = message["errno"]
                raise disk_error(OSError(number, os.strerror(number)), self._file or Path())
            elif "mistake" in message:
                raise DataError(message["mistake"])
            elif "fatal" in message:
                raise RuntimeError(message["fatal"])
            else:
                worker.ready = True

    def _start(self) -> _WorkerProcess:
        worker = _WorkerProcess(self._computers, self._lock, self._errors)
        if self._file is not None:
            worker.send({"file": os.fspath(self._file)})
        return worker

    def _replace(self, dead: _WorkerProcess) -> None:
        """Starts a worker for one that died, and gives it the tasks whose bytes died with it."""
        code = dead.process.wait()
        dead.connection.close()
        if not dead.ready:
            raise StoreError(f"a worker process could not start: {self._last_error() or _cause(code)}")
        culprit = dead.computing[0] if dead.computing else None
        if culprit is None:
            self._idle_deaths += 1
            if self._idle_deaths > _IDLE_DEATHS:
                raise StoreError(f"worker processes keep dying: the last {_cause(code)}")
        elif culprit.careful and dead.at is not None:
            culprit.skip[dead.at] = f"a worker {_cause(code)} twice while computing it"
        else:
            culprit.careful = True
        lost = [*dead.holding.values(), *dead.computing]
        self._workers[self._workers.index(dead)] = worker = self._start()
        for task in lost:
            worker.compute(task)

    def _last_error(self) -> str:
        lines = os.pread(self._errors, 1 << 16, 0).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""


def computers_of(entries: Iterable[ColumnEntry], config: DataConfig) -> dict[str, Any]:
    """By column, `[module, name, settings]` of what computes it, as JSON values."""
    return {
        entry.name: [entry.computer.__module__, entry.computer.__qualname__, entry.settings(config)]
        for entry in entries
    }


def _cause(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"
