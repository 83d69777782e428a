"""How hard Python's interpreter lock is to get, by asking for it all the time.

A thread sleeps a millisecond and looks how late it wakes up. To run again it needs a CPU and the interpreter's lock.
Compared with how late it is while nothing else runs in Python, the rest is the lock.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType

_NAP = 1e-3


class LockProbe:
    """Asks for the interpreter's lock while its block runs.

    Example:
        >>> with LockProbe() as probe:
        ...     time.sleep(0.02)
        >>> probe.late < 1.0
        True

    Attributes:
        thread: the number of its thread, while the block runs.
        late: mean seconds that the thread woke up late, once the block is left.
    """

    def __init__(self) -> None:
        self.late = 0.0
        self.thread: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="lock-probe", daemon=True)

    def __enter__(self) -> LockProbe:
        self._thread.start()
        self.thread = self._thread.native_id
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        naps, began = 0, time.perf_counter()
        while not self._stop.is_set():
            time.sleep(_NAP)
            naps += 1
        self.late = max(0.0, (time.perf_counter() - began) / max(1, naps) - _NAP)


def held_share(late: float, late_otherwise: float) -> float:
    """The share of the time that somebody held the lock, 0 to 1, from the lateness with and without them."""
    by_lock = max(0.0, late - late_otherwise)
    return by_lock / (by_lock + _NAP + late_otherwise)
