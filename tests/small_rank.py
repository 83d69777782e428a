"""A rank that trains nothing: what it does is in its task. For tests of the launcher, without TensorFlow."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from myxtts.errors import UsageError
from myxtts.training.cluster import Rank, RankLostError
from myxtts.training.interruption import Interruption
from myxtts.training.rank_process import run_rank


def main() -> None:
    run_rank(work)


def work(task: dict[str, Any], rank: Rank, joined: Callable[[], None]) -> tuple[dict[str, Any], int | None]:
    does = task[str(rank.number)]
    if does == "never come":
        time.sleep(3600)
    joined()
    (Path(task["folder"]) / f"joined-{rank.number}").write_text(str(os.getpid()), encoding="utf-8")
    if does == "fail":
        raise UsageError("something is wrong")
    if does == "crash":
        raise ZeroDivisionError("a bug")
    if does == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "wait for a signal":
        with Interruption() as interruption:
            (Path(task["folder"]) / f"waits-{rank.number}").touch()
            while interruption.signal is None:
                time.sleep(0.01)
            return {"saved": True}, interruption.signal
    if does == "lose someone":
        raise RankLostError(None)
    if does.startswith("lose "):
        lost = does.removeprefix("lose ")
        while not (Path(task["folder"]) / f"joined-{lost}").exists():
            time.sleep(0.01)
        raise RankLostError(int(lost))
    return {"rank": rank.number}, None


if __name__ == "__main__":
    main()
