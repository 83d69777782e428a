"""Worker processes that listen: one clip at a time each, with every judge.

Every model computes on one thread, and the numerical libraries of a worker are told so before they load, so as many
clips are judged at a time as there are CPUs. The models stay out of the caller's process and memory.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import socket
import subprocess
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import soxr

from myxtts.child_program import child_command, child_environment
from myxtts.errors import MyXTTSError
from myxtts.evaluation.judges.judge import RATE, Judge, Speech

# A clip to judge: the clip, its language, and the names of the judges.
Task = tuple[Speech, str, Sequence[str]]
# By judge what it observed.
Observations = dict[str, Mapping[str, Any]]


def listen(
    judges: Sequence[type[Judge]], tasks: Sequence[Task], workers: int, done: Callable[[Speech], None]
) -> list[Observations]:
    """Has every task's clip judged by its judges: the observations in the order of the tasks.

    Args:
        judges: classes at the top of a module.
        tasks: clips whose audio has at least one sample.
        workers: how many processes.
        done: is called after each clip.

    Raises:
        MyXTTSError: a judge cannot load its model, or its process died.
    """
    found: dict[int, Observations] = {}
    waiting = iter(enumerate(tasks))
    names = [(judge.__module__, judge.__qualname__) for judge in judges]
    with contextlib.ExitStack() as stack:
        pool = [stack.enter_context(_worker(names)) for _ in range(min(workers, len(tasks)))]
        busy: dict[Connection, int] = {}
        for worker in pool:
            _give(worker, waiting, busy)
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                place = busy.pop(ready)
                found[place] = _answer(ready)
                done(tasks[place][0])
                _give(ready, waiting, busy)
    return [found[place] for place in range(len(tasks))]


def _give(worker: Connection, waiting: Iterator[tuple[int, Task]], busy: dict[Connection, int]) -> None:
    given = next(waiting, None)
    if given is not None:
        # A worker that has died is noticed when its answer is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            worker.send(given[1])
        busy[worker] = given[0]


def _answer(worker: Connection) -> Observations:
    try:
        answer = worker.recv()
    except (EOFError, ConnectionResetError):
        raise MyXTTSError("a process of the judges died; --judges chooses others, or none") from None
    if isinstance(answer, MyXTTSError):
        raise answer
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


@contextlib.contextmanager
def _worker(names: Sequence[tuple[str, str]]) -> Iterator[Connection]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            child_command(__name__, theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment(),
            pass_fds=[theirs.fileno()],
        )
    connection = Connection(ours.detach())
    try:
        connection.send(names)
        yield connection
    finally:
        connection.close()
        process.kill()
        process.wait()


def main(descriptor: int) -> None:
    """Serves the parent at the other end of a socket until it closes."""
    # Ctrl-C reaches the whole group; the parent decides what it means, and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection, contextlib.suppress(EOFError, ConnectionError):
        judges: dict[str, Judge] = {}
        classes: dict[str, type[Judge]] = {
            judge.name: judge
            for judge in (getattr(importlib.import_module(module), name) for module, name in connection.recv())
        }
        while True:
            speech, language, wanted = connection.recv()
            try:
                answer: object = _observe(speech, language, wanted, judges, classes)
            except MyXTTSError as error:
                answer = error
            except Exception:
                answer = traceback.format_exc()
            connection.send(answer)


def _observe(
    speech: Speech, language: str, wanted: Sequence[str], judges: dict[str, Judge], classes: dict[str, type[Judge]]
) -> Observations:
    audio = at_judges_rate(speech)
    for name in wanted:
        if name not in judges:
            judges[name] = classes[name]()
    return {name: judges[name].observe(audio, speech.text or "", language) for name in wanted}


def at_judges_rate(speech: Speech) -> np.ndarray:
    """A clip's audio as judges hear it: float32 [n] at `RATE`."""
    audio = np.asarray(speech.audio, np.float32)
    return audio if speech.rate == RATE else soxr.resample(audio, speech.rate, RATE)
