"""Stopping on request: the first SIGINT or SIGTERM lets the step finish, the second Ctrl-C ends the process at once.

Python runs signal handlers only between two lines of the main thread, and that thread spends its time inside
TensorFlow. So a thread of its own reads the signal's number from a socket, and can act whatever the main thread does.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def exit_code(number: int) -> int:
    """The exit code of a process that was ended by a signal, as in shells: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


class Interruption:
    """Context manager that catches the signals. It does nothing outside the main thread, where Python cannot.

    Args:
        on_first: called with the signal's number when the first one arrives, in another thread.

    Attributes:
        signal: number of the first signal, or None.
    """

    def __init__(self, on_first: Callable[[int], None] | None = None) -> None:
        self.signal: int | None = None
        self._on_first = on_first
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._previous_descriptor = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._previous = {number: signal.signal(number, _do_nothing) for number in SIGNALS}
        self._thread = threading.Thread(target=self._read, name="interruption", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._previous:
            return
        signal.set_wakeup_fd(self._previous_descriptor)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _read(self) -> None:
        while data := self._reader.recv(16):
            for number in data:
                if number not in SIGNALS:
                    continue
                if self.signal is not None and number == signal.SIGINT:
                    os._exit(exit_code(number))
                if self.signal is None:
                    self.signal = number
                    if self._on_first is not None:
                        self._on_first(number)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The interpreter writes to the socket only for signals that have a handler."""
