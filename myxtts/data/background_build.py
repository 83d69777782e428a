"""Building a store beside a training that has begun already: how long it would take, and the process that does it.

The process runs at low priority and uses half the workers, so that the loading of batches comes first. It ends with
the process that started it, however that ends, and loses no more than a killed build does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np

from myxtts.child_program import child_command, child_environment
from myxtts.config.config import DataConfig
from myxtts.data.precompute import precompute
from myxtts.data.store.builder import BuildPlace, ColumnsBuild
from myxtts.data.store.columns import COLUMNS
from myxtts.data.store.job import BuildJob
from myxtts.data.store.target import ReusableColumns, Settings
from myxtts.errors import MyXTTSError

NICENESS = 10
_TRIED = 8  # clips that are computed to know how long one takes
_MODULE = __name__


@dataclass(frozen=True)
class BuildEstimate:
    """What building the store of a configuration would take.

    Attributes:
        seconds: with all workers and nothing else to do.
        clips: whose mels have to be computed.
        settings: of the store.
    """

    seconds: float
    clips: int
    settings: Settings


def estimate_build(job: BuildJob) -> BuildEstimate | None:
    """Looks at what the store lacks and computes a few of those clips; None if it is up to date.

    Raises:
        StoreError: the store cannot be made here, or not rebuilt.
    """
    config = job.config
    found = job.find_up_to_date(retry_failed=False)
    if found is not None:
        found[0].close()
        return None
    target = job.place_to_build()
    with closing(ReusableColumns.of_target(target, config, job.workers)) as reusable:
        build = ColumnsBuild(job, target, reusable, lock=-1)
        missing = build.missing(BuildPlace.of_store(target.folder))["mel"]
    entry = COLUMNS["mel"]
    computer = entry.computer(**entry.settings(config))
    spread = missing[np.linspace(0, len(missing) - 1, min(_TRIED, len(missing))).astype(np.int64)]
    items = [entry.source.item(job.plan.clips[row]) for row in spread]
    list(computer.compute(items[:1]))  # the first one makes windows and weights
    started = time.perf_counter()
    list(computer.compute(items))
    each = (time.perf_counter() - started) / max(1, len(items))
    return BuildEstimate(each * len(missing) / job.workers, len(missing), target.settings)


class BackgroundBuild:
    """A process that brings a store up to date.

    Args:
        config: the data set, its audio and text settings, where the store is.
        estimate: what it is expected to take.
        options: of `precompute`, as JSON values.
    """

    def __init__(self, config: DataConfig, estimate: BuildEstimate, **options: Any) -> None:
        self.estimate = estimate
        self.workers = max(1, config.workers // 2)
        self.error: str | None = None
        self._seconds = estimate.seconds * config.workers / self.workers
        self._stage: tuple[float, int, int] | None = None  # of the mels: when they began, clips, clips done
        self._process = subprocess.Popen(
            child_command(_MODULE),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=child_environment(),
        )
        request = {"config": config.model_dump(mode="json"), "num_workers": self.workers, **options}
        # Left open: when this process ends, it closes, and the build ends too. One that cannot start reads nothing.
        with suppress(BrokenPipeError):
            print(json.dumps(request), file=self._process.stdin, flush=True)
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="background-build", daemon=True)
        self._listener.start()

    @property
    def running(self) -> bool:
        """Whether it still builds."""
        return not self._ended.is_set()

    @property
    def seconds_left(self) -> float:
        """About how long it will take, by what it has done so far."""
        if not self.running:
            return 0.0
        if self._stage is None:
            return self._seconds
        began, clips, done = self._stage
        spent = time.monotonic() - began
        return spent * (clips - done) / done if done else self._seconds

    def wait(self) -> None:
        """Waits until it ends; `error` says whether the store is there."""
        self._ended.wait()

    def close(self) -> None:
        """Ends it; the next build goes on from its journal."""
        if self.running:
            self.error = self.error or "it was ended"
            self._process.kill()
        self._listener.join()

    def _listen(self) -> None:
        complete = False
        for line in cast(IO[str], self._process.stdout):
            message = json.loads(line)
            if "stage" in message:
                mels = message["stage"] == COLUMNS["mel"].stage
                self._stage = (time.monotonic(), message["clips"], 0) if mels else None
            elif "advanced" in message and self._stage is not None:
                began, clips, done = self._stage
                self._stage = began, clips, done + message["advanced"]
            elif "error" in message:
                self.error = message["error"]
            elif "version" in message:
                complete = True
        code = self._process.wait()
        if not complete and self.error is None:
            self.error = f"the process that builds it ended with {code}"
        self._ended.set()


class _ProgressLines:
    """Says on standard output how the work goes."""

    def stage(self, name: str, clips: int) -> None:
        _say(stage=name, clips=clips)

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        _say(advanced=clips)


def _say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    """Builds as one line on standard input says; ends when that closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    os.nice(NICENESS)
    request = json.loads(sys.stdin.readline())

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    config = DataConfig.model_validate(request.pop("config"))
    try:
        done = precompute(config, progress=_ProgressLines(), **request)
    except MyXTTSError as error:
        _say(error=str(error).splitlines()[0])
    else:
        _say(version=str(done.version))
