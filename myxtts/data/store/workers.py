"""The processes that compute columns: starting them, feeding them, surviving them; and what runs in them.

A worker is a program of its own and no fork of its parent, so a parent that has loaded TensorFlow, runs threads, or
is a script without a main guard can use it, and numerical libraries are told to use one thread before they load.

A worker that crashes (a decoder that fails on a broken file, the kernel short of memory) stops no other. Its
tasks are given to a new one, the task it was at item by item, and an item that kills a worker twice is a clip that
failed.

Messages are JSON on a socket, both ways, an object each. A worker answers in the order it is asked:

    {"computers": {...}}            first of all, by column [module, name, settings]; answered by {"ready": true}
    {"file": path}                  the data file to write to, from now on
    {"compute": task, ...}          with "column", "items", "skip" (place to reason) and "careful": computes and keeps
                                    the bytes; answered by {"computed": task, "results": [...]}. If it is careful,
                                    each item is announced by {"at": place} before it is touched
    {"write": task, "offset": n}    writes the bytes it kept; answered by {"written": task}, or by
                                    {"refused": task, "errno": n}

A result is a reason (text) or [rows, checksum, source], source being null or [size, mtime_ns, hash]. When the parent
ends, however it ends, the socket closes and the worker stops.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from myxtts.child_program import child_command, child_environment
from myxtts.data.store.columns import ColumnEntry, Computer
from myxtts.data.store.folder import disk_error
from myxtts.data.store.records import write_all
from myxtts.errors import DataError, MyXTTSError, StoreError

if TYPE_CHECKING:
    from myxtts.config.config import DataConfig

QUEUED = 2  # tasks a worker has: the one it is at, and the next, so that it never waits for an answer
_IDLE_DEATHS = 8
_WORKER = __name__


@dataclass
class Task:
    """Consecutive clips to compute.

    Attributes:
        number: position of the first clip in the plan.
        column: name of the column.
        items: what each is made from.
        results: per clip a reason, or [rows, checksum, source]; empty until computed.
        offset: where its bytes go in the data file, once that is known.
        written: they are there. Until then they are in the worker's memory.
        skip: places of clips that are not to be computed, and the reason.
        careful: one clip at a time, each announced before it is touched; after a worker died of the task.
    """

    number: int
    column: str
    items: Sequence[Any]
    results: list[Any] = field(default_factory=list)
    offset: int | None = None
    written: bool = False
    skip: dict[int, str] = field(default_factory=dict)
    careful: bool = False


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
                # It inherits the lock, so that nobody builds here while a worker may still write.
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
        asked = {"column": task.column, "items": task.items, "skip": task.skip, "careful": task.careful}
        self.send({"compute": task.number, **asked})

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
        self.count = max(1, count)
        self._computers = computers
        self._lock = lock
        self._errors = os.memfd_create("worker-errors")
        self._workers: list[_WorkerProcess] = []
        self._answers = selectors.DefaultSelector()  # kept: making one for every answer takes longer than reading it
        self._file: Path | None = None
        self._idle_deaths = 0

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        workers, self._workers = self._workers, []
        self._answers.close()
        for worker in workers:
            worker.connection.close()
            if error is not None:
                worker.process.kill()  # what it was at is not waited for
        for worker in workers:
            worker.stop()
        os.close(self._errors)

    def write_to(self, path: Path) -> None:
        """The data file of everything computed from now on."""
        self._file = path
        for worker in self._workers:
            worker.send({"file": os.fspath(path)})

    def has_room(self) -> bool:
        """Whether a task would be taken up at once or next."""
        return len(self._workers) < self.count or any(len(w.computing) < QUEUED for w in self._workers)

    def submit(self, task: Task) -> None:
        """Gives a task to the worker with the least to do."""
        if len(self._workers) < self.count:
            self._workers.append(self._start())
        min(self._workers, key=lambda worker: len(worker.computing)).compute(task)

    def write(self, task: Task) -> None:
        """Lets the worker that has the task's bytes write them at `task.offset`.

        If that worker has died, the task is being computed again, and comes from `events` a second time.
        """
        for worker in self._workers:
            if task.number in worker.holding:
                worker.send({"write": task.number, "offset": task.offset})

    def events(self) -> Iterator[Task]:
        """Tasks that were computed or written; waits until one was.

        Raises:
            StoreError: the disk refused, or workers cannot be started.
        """
        for key, _ in self._answers.select():
            worker: _WorkerProcess = key.data
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
                yield task
            elif "written" in message:
                task = worker.holding.pop(message["written"])
                task.written = True
                yield task
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
        self._answers.register(worker.connection, selectors.EVENT_READ, worker)
        if self._file is not None:
            worker.send({"file": os.fspath(self._file)})
        return worker

    def _replace(self, dead: _WorkerProcess) -> None:
        """Starts a worker for one that died, and gives it the tasks whose bytes died with it."""
        code = dead.process.wait()
        self._answers.unregister(dead.connection)
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


class _TaskServer:
    """What runs in a worker."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._described: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self._computers: dict[str, Computer] = {}
        self._kept: dict[int, list[np.ndarray]] = {}
        self._file = -1

    def serve(self) -> None:
        while True:
            try:
                message = json.loads(self._connection.recv_bytes())
            except (EOFError, ConnectionResetError):
                return
            if "compute" in message:
                self._compute(message)
            elif "write" in message:
                self._write(message["write"], message["offset"])
            elif "file" in message:
                if self._file >= 0:
                    os.close(self._file)
                self._file = os.open(message["file"], os.O_WRONLY)
            else:
                self._described = message["computers"]
                # What decoders print about single files from here on would only disturb the progress bar.
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), sys.stderr.fileno())
                self.send({"ready": True})

    def _compute(self, message: dict[str, Any]) -> None:
        computer, items = self._computer(message["column"]), message["items"]
        skip = {int(place): reason for place, reason in message["skip"].items()}
        results: list[Any] = [skip.get(place) for place in range(len(items))]
        kept = []
        todo = [place for place in range(len(items)) if place not in skip]
        batches = [[place] for place in todo] if message["careful"] else [todo] if todo else []
        for places in batches:
            if message["careful"]:
                self.send({"at": places[0]})
            for place, computed in zip(places, computer.compute([items[p] for p in places]), strict=True):
                if isinstance(computed, str):
                    results[place] = computed
                    continue
                rows = computed.rows
                results[place] = [len(rows), xxhash.xxh3_64_intdigest(_bytes(rows)), computed.source]
                kept.append(rows)
        self._kept[message["compute"]] = kept
        self.send({"computed": message["compute"], "results": results})

    def _computer(self, column: str) -> Computer:
        if column not in self._computers:
            module, name, settings = self._described[column]
            self._computers[column] = getattr(importlib.import_module(module), name)(**settings)
        return self._computers[column]

    def _write(self, task: int, offset: int) -> None:
        kept = self._kept.pop(task)
        try:
            write_all(self._file, _bytes(kept[0]) if len(kept) == 1 else b"".join(map(_bytes, kept)), offset)
        except OSError as error:
            self.send({"refused": task, "errno": error.errno})
        else:
            self.send({"written": task})

    def send(self, message: dict[str, Any]) -> None:
        self._connection.send_bytes(json.dumps(message).encode("utf-8"))


def main(descriptor: int) -> None:
    """Serves the parent at the other end of a socket until it closes."""
    # Ctrl-C reaches the whole group; the parent decides what it means, and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection:
        server = _TaskServer(connection)
        try:
            server.serve()
        except BrokenPipeError:
            pass
        except MyXTTSError as error:
            server.send({"mistake": str(error)})
        except Exception:
            server.send({"fatal": traceback.format_exc()})
    # The parent waits for the process to end, and taking the interpreter apart would take as long as twenty clips.
    os._exit(0)


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


def _bytes(rows: np.ndarray) -> memoryview:
    return rows.data.cast("B")
