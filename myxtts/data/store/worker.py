"""A process that computes features, started by `worker_pool` with a socket to talk to it.

It is a program of its own rather than a fork of its parent, so a parent that has loaded TensorFlow, runs threads, or
is a script without a main guard can use it, and numerical libraries are told to use one thread before they load.

Messages are JSON on a socket, both ways, an object each. It answers in the order it is asked:

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

import importlib
import json
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import xxhash

from myxtts.data.store.columns import Computer
from myxtts.data.store.records import write_all
from myxtts.errors import MyXTTSError


class _TaskServer:
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
                self._send({"ready": True})

    def _compute(self, message: dict[str, Any]) -> None:
        computer, items = self._computer(message["column"]), message["items"]
        skip = {int(place): reason for place, reason in message["skip"].items()}
        results: list[Any] = [skip.get(place) for place in range(len(items))]
        kept = []
        todo = [place for place in range(len(items)) if place not in skip]
        batches = [[place] for place in todo] if message["careful"] else [todo] if todo else []
        for places in batches:
            if message["careful"]:
                self._send({"at": places[0]})
            for place, computed in zip(places, computer.compute([items[p] for p in places]), strict=True):
                if isinstance(computed, str):
                    results[place] = computed
                    continue
                rows = computed.rows
                results[place] = [len(rows), xxhash.xxh3_64_intdigest(_bytes(rows)), computed.source]
                kept.append(rows)
        self._kept[message["compute"]] = kept
        self._send({"computed": message["compute"], "results": results})

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
            self._send({"refused": task, "errno": error.errno})
        else:
            self._send({"written": task})

    def _send(self, message: dict[str, Any]) -> None:
        self._connection.send_bytes(json.dumps(message).encode("utf-8"))


def _bytes(rows: np.ndarray) -> memoryview:
    return rows.data.cast("B")


def main(descriptor: int) -> None:
    """Serves the parent at the other end of a socket until it closes."""
    # Ctrl-C reaches the whole group; the parent decides what it means, and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection:
        try:
            _TaskServer(connection).serve()
        except BrokenPipeError:
            pass
        except MyXTTSError as error:
            connection.send_bytes(json.dumps({"mistake": str(error)}).encode("utf-8"))
        except Exception:
            connection.send_bytes(json.dumps({"fatal": traceback.format_exc()}).encode("utf-8"))
