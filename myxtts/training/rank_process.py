"""The rank's side of `launcher.py`: takes its task, tells how it goes, and ends with its launcher."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from myxtts.errors import MyXTTSError
from myxtts.training.cluster import Rank, RankLostError
from myxtts.training.interruption import SIGNALS, exit_code
from myxtts.training.launcher import FAILED, JOINED, LOST, RESULT

# What a rank does: gets its task, itself, and what to call when it has joined the others. It returns its result and
# the signal that interrupted it, if one did.
Work = Callable[[dict[str, Any], Rank, Callable[[], None]], tuple[dict[str, Any], int | None]]


def run_rank(work: Work) -> None:
    """Does the work of the rank that the launcher has written to standard input, and ends this process."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed is for people

    def tell(event: str, **more: Any) -> None:
        print(json.dumps({"event": event, **more}), file=events, flush=True)

    def joined() -> None:
        # TensorFlow has put its own handlers in place; until training begins, there is nothing to save.
        for number in SIGNALS:
            signal.signal(number, end_at_once)
        tell(JOINED, process=os.getpid())

    def end_at_once(number: int, frame: FrameType | None) -> None:
        tell(RESULT, result=None, signal=number)
        os._exit(exit_code(number))

    given = json.loads(sys.stdin.readline())
    place = given["rank"]
    threading.Thread(target=_end_with_launcher, name="launcher", daemon=True).start()
    code = 1
    try:
        result, number = work(given["task"], Rank(**{**place, "addresses": tuple(place["addresses"])}), joined)
        tell(RESULT, result=result, signal=number)
        code = 0 if number is None else exit_code(number)
    except RankLostError as error:
        tell(LOST, rank=error.rank)
    except MyXTTSError as error:
        tell(FAILED, message=str(error), exit_code=error.exit_code)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        # Not by the usual way: at its end TensorFlow would wait for processes that are gone.
        os._exit(code)


def _end_with_launcher() -> None:
    sys.stdin.read()
    os._exit(1)
