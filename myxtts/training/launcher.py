"""Starts the processes of this machine that train together, and watches them.

TensorFlow waits without end for a process that never comes, and ignores SIGTERM meanwhile. So none of the ranks is
the process that a user started: that one is here, and can end them whatever they do. It is told by each rank, line by
line on the rank's standard output, when it has joined the others and how it ended. A rank ends with its launcher,
whose end of a pipe it reads (`rank_process.py`).
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Any, TypeAlias, cast

from myxtts.child_program import child_command
from myxtts.errors import MyXTTSError, TrainingError, UsageError
from myxtts.hardware import usable_cpus
from myxtts.training.cluster import Cluster, Rank, not_listening
from myxtts.training.interruption import SIGNALS

logger = logging.getLogger(__name__)

START_TIMEOUT = 300.0

# When a rank fails, the others notice, and each tells what it knows; then they have so long to end by themselves.
_SECONDS_TO_TELL = 2.0
_SECONDS_TO_END = 5.0
_POLL = 0.1

JOINED, FAILED, LOST, RESULT = "joined", "failed", "lost", "result"


@dataclass(eq=False)
class _Child:
    """A rank that was started here, and what it has told."""

    rank: Rank
    process: subprocess.Popen[str]
    log: Path | None
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    code: int | None = None

    @property
    def is_done(self) -> bool:
        return RESULT in self.told and self.code is not None

    @property
    def is_in_trouble(self) -> bool:
        return FAILED in self.told or LOST in self.told or (self.code is not None and not self.is_done)


# What a rank has told, or None once it has ended and told everything.
Events: TypeAlias = "queue.Queue[tuple[_Child, dict[str, Any] | None]]"


def run_ranks(
    module: str, cluster: Cluster, task: Mapping[str, Any], folder: Path, start_timeout: float = START_TIMEOUT
) -> dict[str, Any]:
    """Runs the ranks of a cluster that belong to this machine until all of them have ended.

    Args:
        module: its `main()` is a rank, by `rank_process.run_rank`.
        cluster: the ranks.
        task: what each of them is to do, the same for all; JSON-ready.
        folder: ranks other than 0 write their messages to files here.
        start_timeout: seconds in which all ranks must have come, those of other machines too.

    Returns:
        What the first rank here told at its end: `result`, and `signal`, which interrupted it, or None.

    Raises:
        TrainingError: a rank failed or did not come; the message says which, and the others are ended.
    """
    events: Events = queue.Queue()
    children: list[_Child] = []
    with _caught_signals() as signals:
        try:
            for rank in cluster.ranks():
                children.append(_start(module, rank, task, folder, events))
            return _watch(children, cluster, events, signals, start_timeout)
        finally:
            for child in children:
                child.process.kill()
            for child in children:
                child.process.wait()


def _watch(
    children: list[_Child],
    cluster: Cluster,
    events: Events,
    signals: list[int],
    start_timeout: float,
) -> dict[str, Any]:
    deadline = time.monotonic() + start_timeout
    troubled_until: float | None = None
    handled = 0
    have_come = False
    while True:
        _take(events)
        if not have_come and all(JOINED in child.told for child in children):
            have_come = True
            processes = [f"rank {child.rank.number} is {child.told[JOINED]['process']}" for child in children]
            logger.info("all processes have come: %s", ", ".join(processes))
        if len(signals) > handled:
            if not have_come or signals.count(signal.SIGINT) > 1:
                return {"result": None, "signal": signals[handled]}
            for child in children:
                child.process.send_signal(signals[handled])
            handled += 1
        if all(child.is_done for child in children):
            return children[0].told[RESULT]
        if any(child.is_in_trouble for child in children):
            now = time.monotonic()
            troubled_until = troubled_until or now + _SECONDS_TO_TELL
            killed = any(child.code is not None and child.code < 0 for child in children)
            if killed or now > troubled_until or all(child.code is not None for child in children):
                _let_end(children, events)
                for child in children:
                    if child.told.get(RESULT, {}).get("signal") is not None:
                        return child.told[RESULT]
                raise _trouble(children, cluster)
        elif not have_come and time.monotonic() > deadline:
            raise _never_came(children, cluster, start_timeout)


def _start(
    module: str,
    rank: Rank,
    task: Mapping[str, Any],
    folder: Path,
    events: Events,
) -> _Child:
    environment = dict(os.environ)
    if rank.of_machine > 1:
        # Ranks that compute on CPUs share them.
        environment.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, usable_cpus() // rank.of_machine)))
    log = None if rank.number == 0 else folder / f"rank-{rank.number}.log"
    with open(os.devnull if log is None else log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            child_command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if log is None else file,
            encoding="utf-8",
            env=environment,
            # Ctrl-C in a terminal reaches the launcher alone, which tells the ranks.
            start_new_session=True,
        )
    child = _Child(rank, process, log)
    with suppress(BrokenPipeError):
        stdin = cast(IO[str], process.stdin)
        stdin.write(json.dumps({"rank": asdict(rank), "task": dict(task)}) + "\n")
        stdin.flush()

    def listen() -> None:
        for line in cast(IO[str], process.stdout):
            with suppress(ValueError):
                events.put((child, json.loads(line)))
        events.put((child, None))

    threading.Thread(target=listen, name=f"rank-{rank.number}", daemon=True).start()
    return child


def _take(events: Events) -> None:
    """Notes what the ranks have told; waits a moment for the first of it."""
    wait = True
    with suppress(queue.Empty):
        while True:
            child, event = events.get(wait, _POLL)
            wait = False
            if event is None:
                child.code = child.process.wait()
            else:
                child.told[event.pop("event")] = event


def _let_end(children: list[_Child], events: Events) -> None:
    """Gives ranks that are about to end by themselves the time to do so, and to tell why."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < deadline and any(child.code is None for child in children):
        _take(events)


def _trouble(children: list[_Child], cluster: Cluster) -> MyXTTSError:
    """The error that explains best why the ranks ended."""
    names = Rank(0, cluster.addresses)
    again = "the other processes are ended; --resume goes on from the last checkpoint"
    for child in children:
        if child.code is not None and child.code < 0:
            ended_by = signal.Signals(-child.code).name
            return TrainingError(f"{names.name(child.rank.number)} was ended by {ended_by}; {again}")
    for child in children:
        if FAILED in child.told:
            failure = child.told[FAILED]
            kind: Callable[[str], MyXTTSError] = UsageError if failure["exit_code"] == 2 else TrainingError
            return kind(failure["message"])
    for child in children:
        if child.code is not None and not child.is_done and LOST not in child.told:
            where = "" if child.log is None else f" ({child.log})"
            return TrainingError(f"{names.name(child.rank.number)} failed: {_last_line(child.log)}{where}; {again}")
    lost = [child.told[LOST]["rank"] for child in children if LOST in child.told]
    silent = [child.rank.number for child in children if child.code is None and LOST not in child.told]
    known = [rank for rank in lost if rank is not None] or silent
    if not known:
        return TrainingError(f"the connection between the processes is lost; {again}")
    return TrainingError(f"{names.name(known[0])} does not answer any more; {again}")


def _never_came(children: list[_Child], cluster: Cluster, seconds: float) -> TrainingError:
    names = Rank(0, cluster.addresses)
    missing = not_listening(cluster.addresses)
    missing = missing or [child.rank.number for child in children if JOINED not in child.told]
    who = ", ".join(names.name(number) for number in missing)
    return TrainingError(
        f"{who} did not come within {seconds:g} s (--start-timeout); all processes are ended\n"
        "start every process of the cluster, and let its ports through between the machines"
    )


def _last_line(log: Path | None) -> str:
    if log is None:
        return "see above"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "without a message"


@contextmanager
def _caught_signals() -> Iterator[list[int]]:
    """The signals that have arrived meanwhile."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    previous = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield arrived
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
