"""Threads that speak, a bounded queue before them, and how what they make reaches an asyncio loop.

Threads, not processes: ONNX Runtime and NumPy compute without Python's lock, and all threads share one copy of the
weights. `benchmarks/bench_serving.py` compares numbers of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from myxtts.errors import MyXTTSError

logger = logging.getLogger(__name__)

Work = Callable[[], Generator[Any, None, None]]

# The share of the last job in the mean by which a client is told when to try again.
_NEWEST = 0.2


class QueueFullError(Exception):
    """No further job is taken.

    Attributes:
        retry_after: seconds after which there may be room.
    """

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class StoppedError(Exception):
    """The server stops, and the job was not begun."""


class Job:
    """Something that a worker makes piece by piece while the loop takes the pieces.

    `take` belongs to the loop that submitted the job; the rest may be called by any thread.
    """

    def __init__(self, work: Work, most_bytes: int, forget: Callable[[Job], None]) -> None:
        self._work = work
        self._most_bytes = most_bytes
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._changed = threading.Condition()
        self._pieces: deque[Any] = deque()
        self._bytes = 0
        self._over = False
        self._cancelled = False
        self._error: BaseException | None = None

    async def take(self) -> Any:
        """The next piece, or None after the last one, or when the job was cancelled.

        Raises:
            MyXTTSError: what was asked for cannot be done.
            StoppedError: the server stops.
        """
        while True:
            with self._changed:
                if self._pieces:
                    piece = self._pieces.popleft()
                    self._bytes -= _size(piece)
                    self._changed.notify_all()
                    return piece
                if self._error is not None:
                    raise self._error
                if self._over:
                    return None
                self._arrived.clear()
            await self._arrived.wait()

    def cancel(self) -> None:
        """Nobody wants the pieces any more: a worker that makes them is free after the one that it is at."""
        with self._changed:
            self._cancelled = True
            self._over = True
            self._pieces.clear()
            self._changed.notify_all()
        self._forget(self)
        self._notify()

    def fail(self, error: BaseException) -> None:
        """Ends the job with an error."""
        with self._changed:
            self._error = error
            self._over = True
        self._notify()

    def run(self) -> None:
        """Makes the pieces; called by the worker."""
        try:
            with contextlib.closing(self._work()) as pieces:
                for piece in pieces:
                    if not self._put(piece):
                        break
        except MyXTTSError as error:
            self.fail(error)
        except Exception as error:
            # Neither its message nor its traceback: both could hold what the client sent.
            logger.error("speaking failed: %s at %s", type(error).__name__, raised_at(error))
            self.fail(error)
        with self._changed:
            self._over = True
        self._notify()

    def _put(self, piece: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._cancelled or self._bytes < self._most_bytes)
            if self._cancelled:
                return False
            self._pieces.append(piece)
            self._bytes += _size(piece)
        self._notify()
        return True

    def _notify(self) -> None:
        # A loop that is closed has nobody waiting.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arrived.set)


class SpeechQueue:
    """Workers and the jobs that wait for them.

    Args:
        workers: threads, so many jobs at a time.
        waiting: most jobs that wait.
        most_bytes: of a job's pieces that nobody has taken; then its worker waits.
    """

    def __init__(self, workers: int, waiting: int, most_bytes: int) -> None:
        self.workers = workers
        self._most_waiting = waiting
        self._most_bytes = most_bytes
        self._jobs: deque[Job] = deque()
        self._running: set[Job] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._mean_seconds = 1.0
        self._threads = [
            threading.Thread(target=self._run, name=f"speaker-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        return len(self._jobs)

    @property
    def busy(self) -> int:
        return len(self._running)

    @property
    def stopping(self) -> bool:
        return self._stopping

    def submit(self, work: Work) -> Job:
        """Queues a job; called in the loop that will take its pieces.

        Raises:
            QueueFullError: too many wait already.
            StoppedError: the server stops.
        """
        with self._changed:
            if self._stopping:
                raise StoppedError("the server stops")
            free = self.workers - len(self._running)
            if len(self._jobs) >= self._most_waiting + free:
                seconds = self._mean_seconds * (len(self._jobs) + 1) / self.workers
                raise QueueFullError(max(1, min(60, round(seconds))))
            job = Job(work, self._most_bytes, self._forget)
            self._jobs.append(job)
            self._changed.notify()
        return job

    def stop(self) -> None:
        """No new jobs; those that wait fail, those that run go on to their end."""
        with self._changed:
            self._stopping = True
            left = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for job in left:
            job.fail(StoppedError("the server stops"))

    def join(self, seconds: float) -> None:
        """Waits until the threads have ended, after `stop`; cancels what still runs after `seconds`."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        for job in list(self._running):
            job.cancel()
        for thread in self._threads:
            thread.join(5.0)

    def _forget(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._stopping)
                if not self._jobs:
                    return
                job = self._jobs.popleft()
                self._running.add(job)
            start = time.monotonic()
            job.run()
            with self._changed:
                self._running.discard(job)
                self._mean_seconds += _NEWEST * (time.monotonic() - start - self._mean_seconds)


def _size(piece: Any) -> int:
    return len(piece) if isinstance(piece, bytes) else 1


def raised_at(error: BaseException) -> str:
    """File and line where an error was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"
