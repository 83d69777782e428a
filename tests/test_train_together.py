"""Processes that train together: the weights of one, whatever happens to any of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_train_resume import PATIENCE, PROGRAM, final_state, last_batch, require_same_run, wait_for
from training_program import NEVER_LOST
from training_samples import QUICK, data_folder

from myxtts.training.cluster import LOST_TIMEOUT
from myxtts.training.record_file import read_records
from myxtts.training.run_folder import RunFolder, step_of

SETTINGS: dict[str, Any] = {"deterministic": True, "save_every": 3, "validate_every": 6, "max_steps": 12, "seed": 5}
# Largest difference of any weight between different numbers of processes: they add up in another order.
ROUNDING = 1e-6


class Run:
    """A run that was started, by one process or several."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], messages: Path) -> None:
        self.folder = folder
        self.process = process
        self._messages = messages

    @property
    def messages(self) -> str:
        return self._messages.read_text(encoding="utf-8")

    def finish(self) -> int:
        return self.process.wait(PATIENCE)

    def wait_for_batch(self, batch: int) -> None:
        assert wait_for(self.process, lambda: last_batch(self.folder) >= batch), self.messages

    def send(self, number: signal.Signals, rank: int) -> None:
        """Sends a signal to the process of a rank."""
        (process,) = re.findall(rf"rank {rank} is (\d+)", self.messages)
        os.kill(int(process), number)

    def errors(self) -> list[str]:
        return [line for line in self.messages.splitlines() if line.startswith("error: ")]


Start = Callable[..., Run]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("together"))


@pytest.fixture(scope="module")
def start(python_with_tensorflow: str, data: Path) -> Start:
    """Starts a run in a folder."""

    def start(folder: Path, **changes: Any) -> Run:
        command = [python_with_tensorflow, str(PROGRAM), str(data), str(folder), json.dumps(SETTINGS | changes)]
        messages = folder.with_suffix(".messages")
        with messages.open("w", encoding="utf-8") as file:
            return Run(folder, subprocess.Popen(command, stderr=file, text=True), messages)

    return start


@pytest.fixture(scope="module")
def two(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed run of two processes."""
    run = start(tmp_path_factory.mktemp("two") / "run", devices=2)
    assert run.finish() == 0, run.messages
    return run.folder


def difference(one: Path, other: Path) -> float:
    """The largest of any weight."""
    first, second = final_state(one), final_state(other)
    assert first.run.batch == second.run.batch
    assert first.run.position == second.run.position
    names = [name for name in first.arrays if name.startswith("weights/")]
    return max(float(np.abs(first.arrays[name] - second.arrays[name]).max()) for name in names)


def test_all_processes_know_of_a_validation_where_a_discriminator_judges(start: Start, tmp_path: Path) -> None:
    judged = {"mel_adversarial_share": 1.0, "max_steps": 4, "save_every": 4, "validate_every": 2}
    run = start(tmp_path / "run", devices=2, **judged)
    assert run.finish() == 0, run.messages
    records = list(read_records(run.folder / "log.jsonl"))
    assert [one["step"] for one in records if "validation" in one] == [2, 4]
    assert "discriminator" in next(one for one in records if "total" in one)


def test_two_processes_give_the_weights_of_one_and_their_times(start: Start, tmp_path: Path, two: Path) -> None:
    run = start(tmp_path / "run")
    assert run.finish() == 0, run.messages
    assert difference(run.folder, two) <= ROUNDING

    alone, together = (list(read_records(folder / "log.jsonl")) for folder in (run.folder, two))
    assert [record.keys() for record in alone] == [record.keys() for record in together]
    totals = [[one["total"] for one in each if "total" in one] for each in (alone, together)]
    np.testing.assert_allclose(totals[1], totals[0], rtol=1e-4)
    times = list(read_records(two / "timing.jsonl"))
    assert [one["clips"] for one in times] == [one["clips"] for one in read_records(run.folder / "timing.jsonl")]
    assert {one["all_reduce_ms"] for one in times} == {0.0}  # not measured where everything must be deterministic
    ranks = [one["ranks"] for one in times if "ranks" in one]
    assert ranks
    assert all(len(one) == 2 for one in ranks)
    assert {path.name for path in two.iterdir()} - {path.name for path in run.folder.iterdir()} == {"rank-1.log"}


def test_a_signal_to_any_process_saves_a_killed_one_is_named_and_the_run_goes_on_exactly(
    start: Start, tmp_path: Path, two: Path
) -> None:
    run = start(tmp_path / "run", devices=2)
    run.wait_for_batch(2)
    run.send(signal.SIGTERM, rank=1)
    assert run.finish() == 143, run.messages
    assert final_state(run.folder).run.batch == last_batch(run.folder)

    if last_batch(run.folder) < SETTINGS["max_steps"]:  # else it ended before the signal came
        run = start(run.folder, devices=2, resume=True)
        run.wait_for_batch(last_batch(run.folder) + 1)
        run.send(signal.SIGKILL, rank=0)
        assert run.finish() == 1, run.messages
        (error,) = run.errors()
        assert re.search(r"rank 0 \(127\.0\.0\.1:\d+\) was ended by SIGKILL; the other processes are ended", error)

    run = start(run.folder, devices=2, resume=True)
    assert run.finish() == 0, run.messages
    require_same_run(run.folder, two)


def train(python: str, data: Path, run: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    given = ["--data-path", str(data), "--checkpoint-dir", str(run), "--device=cpu", *QUICK, *options]
    given.append(f"--lost-timeout={NEVER_LOST}")
    command = [python, "-m", "myxtts", "train", *given, "--set=enable_tensorboard=false"]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_the_command_starts_processes_and_its_result_names_their_run(
    python_with_tensorflow: str, data: Path, tmp_path: Path
) -> None:
    trained = train(
        python_with_tensorflow, data, tmp_path / "run", "--devices=2", "--max-steps=2", "--json", "--set=log_every=1"
    )
    assert trained.returncode == 0, trained.stderr
    assert "2 processes train together on CPUs, since TensorFlow can use no GPU here" in trained.stderr
    assert "private network only" in trained.stderr
    result = json.loads(trained.stdout)
    assert (result["step"], result["reason"]) == (2, "finished")
    assert all(one["all_reduce_ms"] > 0 for one in read_records(tmp_path / "run" / "timing.jsonl"))
    assert RunFolder(tmp_path / "run").checkpoints() == [Path(result["checkpoint"])]


def test_a_process_that_never_comes_is_named_when_the_time_is_over(
    python_with_tensorflow: str, data: Path, tmp_path: Path
) -> None:
    cluster = {"cluster": {"worker": ["127.0.0.1:9", "127.0.0.1:10"]}, "task": {"type": "worker", "index": 0}}
    trained = train(
        *(python_with_tensorflow, data, tmp_path / "run", "--cluster=tf-config", "--start-timeout=3"),
        TF_CONFIG=json.dumps(cluster),
    )
    assert trained.returncode == 1, trained.stderr
    assert "rank 1 (127.0.0.1:10) did not come within 3 s (--start-timeout)" in trained.stderr


# The long forms


@pytest.mark.soak
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"decoder": "flow"},
        {"decoder": "flow", "gradient_accumulation_steps": 2},
        {"optimization_level": "enhanced"},
        {"optimization_level": "enhanced", "decoder": "flow"},
        {"preprocessing_mode": "runtime"},
        {"freeze_alignment_after": 8},
    ],
    ids=["regression", "flow", "flow, accumulating", "XLA", "XLA, flow", "runtime", "alignments kept"],
)
def test_one_two_and_three_processes_give_the_same_weights(
    start: Start, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings = {"max_steps": 24, "save_every": 12, "validate_every": 12} | changes
    for devices in (1, 2, 3):
        run = start(tmp_path / f"of-{devices}", devices=devices, **settings)
        assert run.finish() == 0, run.messages
    # Begun by one, continued by two.
    run = start(tmp_path / "changed", **(settings | {"max_steps": 24}), killed_at=13)
    assert run.finish() == -signal.SIGKILL
    run = start(tmp_path / "changed", devices=2, resume=True, **settings)
    assert run.finish() == 0, run.messages
    for other in ("of-2", "of-3", "changed"):
        assert difference(tmp_path / "of-1", tmp_path / other) <= ROUNDING, other


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_each_of_three_processes_can_be_lost(start: Start, tmp_path: Path, number: signal.Signals, rank: int) -> None:
    never = {"max_steps": 1_000_000, "save_every": 5, "validate_every": 1_000_000, "lost_timeout": LOST_TIMEOUT}
    run = start(tmp_path / "run", devices=3, **never)
    run.wait_for_batch(7)
    run.send(number, rank)
    assert run.finish() == 1, run.messages
    (error,) = run.errors()
    assert f"error: rank {rank} (" in error
    assert all(step_of(one) % 5 == 0 for one in RunFolder(run.folder).checkpoints())


@pytest.mark.soak
def test_two_deterministic_runs_of_two_processes_are_equal(start: Start, tmp_path: Path, two: Path) -> None:
    run = start(tmp_path / "run", devices=2)
    assert run.finish() == 0, run.messages
    require_same_run(run.folder, two)
