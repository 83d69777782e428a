"""Batches of any Python iterable, made ahead by a thread or by processes, to measure what either would bring."""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import sys
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

READY = 4
_READY_IN_A_PROCESS = 2
_LONGEST_WAIT = 20.0
# Their threads may hold a lock at the moment of a fork, which nobody opens in the child.
_NOT_TO_BE_FORKED = ("tensorflow", "jax")


class ThreadAhead:
    """The same batches, made ahead by a thread: what a prefetch at the end of the pipeline would give."""

    def __init__(self, dataset: Iterable[Any], batches: int = READY) -> None:
        self._dataset = dataset
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        batches, end = iter(self._dataset), object()
        thread = ThreadPoolExecutor(1, "prefetch")
        try:
            # One more than is kept ready: the one that the thread is making.
            ready = deque(thread.submit(next, batches, end) for _ in range(self._batches + 1))
            while (batch := ready.popleft().result()) is not end:
                ready.append(thread.submit(next, batches, end))
                yield batch
        finally:
            thread.shutdown(wait=True, cancel_futures=True)


class ProcessesAhead:
    """As many batches as several forked processes make, each of which goes through the whole iterable.

    That is no loader to train with, as every process gives the same batches. It is as fast as one would be.

    Raises:
        TimeoutError: while it is iterated over, if no batch comes.
    """

    def __init__(self, dataset: Iterable[Any], processes: int) -> None:
        self._dataset = dataset
        self._processes = processes

    @staticmethod
    def is_possible() -> bool:
        """Whether this process can be forked without harm."""
        can_fork = "fork" in multiprocessing.get_all_start_methods()
        return can_fork and not any(name in sys.modules for name in _NOT_TO_BE_FORKED)

    @property
    def ready(self) -> int:
        """How many batches may be ready before the first one is asked for."""
        return self._processes * (_READY_IN_A_PROCESS + 1)

    def __iter__(self) -> Iterator[Any]:
        context = multiprocessing.get_context("fork")
        queues = [context.Queue(_READY_IN_A_PROCESS) for _ in range(self._processes)]
        makers = [context.Process(target=_make, args=(self._dataset, one), daemon=True) for one in queues]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            for maker in makers:
                maker.start()
        try:
            for one in itertools.cycle(queues):
                try:
                    made = one.get(timeout=_LONGEST_WAIT)
                except queue.Empty:
                    raise TimeoutError("no batch came from a process") from None
                if made is None:
                    return
                yield made[0]
        finally:
            for maker in makers:
                maker.kill()
                maker.join()


def _make(dataset: Iterable[Any], made: Any) -> None:
    try:
        for batch in dataset:
            made.put((batch,))
    except Exception:
        pass  # the end of what this process can make
    made.put(None)
