"""Runs that are stopped from outside, by signals and by force, and go on as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_samples import data_folder

from myxtts.training.interruption import SIGNALS, Interruption
from myxtts.training.record_file import read_records
from myxtts.training.run_folder import RunFolder
from myxtts.training.training_state import TrainingState

PROGRAM = Path(__file__).with_name("training_program.py")
PATIENCE = 1800.0
KILLED = -signal.SIGKILL

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("resuming"))


@pytest.fixture
def start(python_with_tensorflow: str, data: Path) -> Start:
    """Starts a run in a folder."""

    def start(run: Path, **changes: Any) -> subprocess.Popen[str]:
        command = [python_with_tensorflow, str(PROGRAM), str(data), str(run), json.dumps(changes)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    return start


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, errors


def wait_for(process: subprocess.Popen[str], condition: Any) -> bool:
    """Whether the condition came true before the program ended."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.01)
    return True


def losses(run: Path) -> list[tuple[int, float]]:
    return [(one["step"], one["total"]) for one in read_records(run / "log.jsonl") if "total" in one]


def last_batch(run: Path) -> int:
    return max((one["batch"] for one in read_records(run / "log.jsonl")), default=0)


def final_state(run: Path) -> TrainingState:
    return TrainingState.read(RunFolder(run).checkpoints()[-1])


def require_equal(one: TrainingState, other: TrainingState) -> None:
    assert one.run == other.run
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name], err_msg=name)


def run_and_kill(start: Start, run: Path, kills: int, **changes: Any) -> None:
    """Kills the run at random moments, resumes it each time, lets it finish."""
    generator = random.Random(kills)
    killed = 0
    for _ in range(kills):
        begun = last_batch(run)
        process = start(run, resume=True, **changes)
        further = begun + generator.randint(1, 6)
        if wait_for(process, lambda further=further: last_batch(run) >= further):
            time.sleep(generator.uniform(0, 0.3))
        process.kill()
        process.communicate()
        killed += process.returncode == KILLED
    assert killed == kills
    code, errors = finish(start(run, resume=True, **changes))
    assert code == 0, errors


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return {"deterministic": True, "save_every": 3, "validate_every": 1000, "seed": 5, "max_steps": 12}


def require_same_run(one: Path, other: Path) -> None:
    assert losses(one) == losses(other)
    require_equal(final_state(one), final_state(other))


def test_a_run_killed_twice_ends_with_the_weights_of_an_undisturbed_one(
    start: Start, tmp_path: Path, settings: dict[str, Any]
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, errors = finish(start(whole, **settings))
    assert code == 0, errors
    for step in (4, 8):
        assert finish(start(killed, resume=True, killed_at=step, **settings))[0] == KILLED
    code, errors = finish(start(killed, resume=True, **settings))
    assert code == 0, errors
    require_same_run(killed, whole)


@pytest.mark.soak
@pytest.mark.parametrize(
    "changes",
    [
        {"optimization_level": "enhanced"},
        {"gradient_accumulation_steps": 2, "freeze_alignment_after": 5},
        {"preprocessing_mode": "runtime", "validate_every": 7, "enable_tensorboard": True},
    ],
    ids=["xla", "accumulating, alignments kept", "runtime, validating"],
)
def test_a_run_killed_ten_times_ends_with_the_weights_of_an_undisturbed_one(
    start: Start, tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any]
) -> None:
    settings = settings | {"max_steps": 150} | changes
    code, errors = finish(start(tmp_path / "whole", **settings))
    assert code == 0, errors
    run_and_kill(start, tmp_path / "killed", 10, **settings)
    require_same_run(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_finishes_the_step_saves_and_ends(
    start: Start, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    never = 1_000_000
    process = start(
        tmp_path / "run", max_steps=never, save_every=never, validate_every=never, enable_graph_mode=False
    )
    assert wait_for(process, lambda: last_batch(tmp_path / "run") >= 3)
    process.send_signal(number)
    ended, errors = finish(process)
    assert ended == code, errors
    assert f"{number.name}: finishing the step and saving" in errors
    state = final_state(tmp_path / "run")
    assert state.run.batch == last_batch(tmp_path / "run")


STUCK = """
import time
from myxtts.training.interruption import Interruption

with Interruption(lambda number: print("first", number, flush=True)):
    print("begun", flush=True)
    time.sleep(3600)
"""


def test_a_second_ctrl_c_ends_at_once_whatever_the_program_is_doing() -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "first 2\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130
    process.stdout.close()


def test_signals_mean_what_they_did_before_once_the_run_is_over() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGTERM)
        wait_until = time.monotonic() + PATIENCE
        while interruption.signal is None:
            assert time.monotonic() < wait_until
            time.sleep(0.001)
    assert interruption.signal == signal.SIGTERM
    assert [signal.getsignal(number) for number in SIGNALS] == before
