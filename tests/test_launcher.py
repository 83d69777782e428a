"""Starting and watching processes that train together: whatever one of them does, all end, with one reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from myxtts.errors import MyXTTSError, TrainingError, UsageError
from myxtts.training import launcher
from myxtts.training.cluster import Cluster, on_this_machine
from myxtts.training.launcher import run_ranks

PATIENCE = 600.0


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def run(folder: Path, *does: str, cluster: Cluster | None = None, start_timeout: float = PATIENCE) -> dict[str, Any]:
    task = {str(number): what for number, what in enumerate(does)} | {"folder": str(folder)}
    return run_ranks("small_rank", cluster or on_this_machine(len(does)), task, folder, start_timeout)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def require_ended(folder: Path) -> None:
    processes = [int(file.read_text(encoding="utf-8")) for file in folder.glob("joined-*")]
    wait_until(lambda: not any(psutil.pid_exists(process) for process in processes))


def test_the_result_is_that_of_the_first_rank(tmp_path: Path) -> None:
    assert run(tmp_path, "end", "end") == {"result": {"rank": 0}, "signal": None}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["joined-0", "joined-1", "rank-1.log"]


@pytest.mark.parametrize(
    ("does", "kind", "message"),
    [
        (["wait for a signal", "be killed"], TrainingError, "rank 1 (127.0.0.1:{1}) was ended by SIGKILL; the other"),
        (["be killed", "lose 0"], TrainingError, "rank 0 (127.0.0.1:{0}) was ended by SIGKILL; the other processes"),
        (["lose 1", "fail"], UsageError, "something is wrong"),
        (["lose 1", "wait for a signal"], TrainingError, "rank 1 (127.0.0.1:{1}) does not answer any more; the"),
        (["lose 1", "crash"], TrainingError, "rank 1 (127.0.0.1:{1}) failed: ZeroDivisionError: a bug ("),
        (
            ["wait for a signal", "lose someone"],
            TrainingError,
            "rank 0 (127.0.0.1:{0}) does not answer any more; the",
        ),
        (["lose someone", "lose someone"], TrainingError, "the connection between the processes is lost; the other"),
    ],
    ids=["killed", "the first killed", "a user's mistake", "no answer", "a bug", "silent", "the network"],
)
def test_a_rank_that_fails_ends_all_and_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: list[str], kind: type[MyXTTSError], message: str
) -> None:
    # One that waits for a signal has nothing to tell; the others end by themselves, on a slow host too.
    monkeypatch.setattr(launcher, "_SECONDS_TO_TELL", 0.2 if "wait for a signal" in does else PATIENCE)
    monkeypatch.setattr(launcher, "_SECONDS_TO_END", 0.1)
    cluster = on_this_machine(2)
    with pytest.raises(kind) as failed:
        run(tmp_path, *does, cluster=cluster)
    ports = [address.rpartition(":")[2] for address in cluster.addresses]
    assert str(failed.value).startswith(message.format(*ports))
    assert "\n" not in str(failed.value)
    require_ended(tmp_path)


def test_a_rank_that_never_comes_is_named_when_the_time_is_over(tmp_path: Path) -> None:
    cluster = on_this_machine(2)
    with pytest.raises(TrainingError) as failed:
        run(tmp_path, "end", "never come", cluster=cluster, start_timeout=0.5)
    assert f"rank 1 ({cluster.addresses[1]}) did not come within 0.5 s (--start-timeout)" in str(failed.value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_the_ranks_end_by_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    said: list[str] = []
    monkeypatch.setattr(launcher.logger, "info", lambda text, *values: said.append(text % values))

    def send() -> None:
        wait_until(lambda: len(list(tmp_path.glob("waits-*"))) == 2)
        wait_until(lambda: bool(said))
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    told = run(tmp_path, "wait for a signal", "wait for a signal")
    sender.join()
    assert told == {"result": {"saved": True}, "signal": number}
    processes = [(tmp_path / f"joined-{rank}").read_text(encoding="utf-8") for rank in (0, 1)]
    assert said == ["all processes have come: rank 0 is {}, rank 1 is {}".format(*processes)]


def test_a_signal_while_a_rank_is_missing_ends_all_at_once(tmp_path: Path) -> None:
    def send() -> None:
        wait_until(lambda: (tmp_path / "waits-0").exists())
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    assert run(tmp_path, "wait for a signal", "never come") == {"result": None, "signal": signal.SIGTERM}
    sender.join()
    require_ended(tmp_path)


PROGRAM = """
import sys
from pathlib import Path
from myxtts.training.cluster import on_this_machine
from myxtts.training.launcher import run_ranks

task = {"0": "wait for a signal", "1": "wait for a signal", "folder": sys.argv[1]}
run_ranks("small_rank", on_this_machine(2), task, Path(sys.argv[1]))
"""


@pytest.mark.long
def test_ranks_end_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], env=os.environ | {"PYTHONPATH": path}, start_new_session=True
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("waits-*"))) == 2)
    finally:
        process.kill()
        process.wait()
    require_ended(tmp_path)
