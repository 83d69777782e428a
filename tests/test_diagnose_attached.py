"""`diagnose --attach`: what is concluded from the stacks of a process, and how a refusal is told."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli import app
from myxtts.errors import UsageError
from myxtts.performance.attached import AttachError, judge_stacks, observe, observe_program, parse_stacks

HERE = Path(__file__).parent
TORCH = "torch/utils/data"
MAIN = 'process 7:"python train.py";thread (7): MainThread;<module> (train.py:9);main (train.py:5)'
NEXT = f"_BaseDataLoaderIter.__next__ ({TORCH}/dataloader.py:725)"
WORKER = 'process 7:"python train.py";process 8:"python train.py";thread (8): MainThread;<module> (train.py:9)'
FETCH = f"_worker_loop ({TORCH}/_utils/worker.py:374);_MapDatasetFetcher.fetch ({TORCH}/_utils/fetch.py:54)"
WITH_WORKER = [
    f"{MAIN};{NEXT};Queue.get (multiprocessing/queues.py:113) 60",
    f"{MAIN};step (train.py:3) 40",
    'process 7:"python train.py";thread (9): QueueFeederThread;Condition.wait (threading.py:327) 100',
    # A forked worker's stack begins with what its parent did, its loader included.
    f"{WORKER};DataLoader.__iter__ ({TORCH}/dataloader.py:505);{FETCH};Clips.__getitem__ (clips.py:57) 90",
    f"{WORKER};DataLoader.__iter__ ({TORCH}/dataloader.py:505);_worker_loop ({TORCH}/_utils/worker.py:334) 10",
]
WITHOUT_WORKER = [
    f"{MAIN};{NEXT};_MapDatasetFetcher.fetch ({TORCH}/_utils/fetch.py:54);Clips.__getitem__ (clips.py:{line}) 30"
    for line in (57, 58)
] + [f"{MAIN};step (train.py:3) 40"]


def changed(lines: list[str], old: str, new: str) -> list[str]:
    return [line.replace(old, new) for line in lines]


def test_the_training_thread_waits_for_its_loader_while_the_worker_is_busy() -> None:
    found = judge_stacks(parse_stacks(WITH_WORKER, 7), 7, {8: 0.02})
    assert (found.process, found.samples, found.waiting) == (7, 100, pytest.approx(0.6))
    assert found.loop == "main (train.py:5)"
    (worker,) = found.workers
    assert (worker.process, worker.busy, worker.function) == (8, pytest.approx(0.9), "Clips.__getitem__ (clips.py)")
    assert (found.verdict, found.culprit) == ("highly input-bound", "too-few-workers")


@pytest.mark.parametrize(
    ("lines", "computing", "culprit"),
    [
        (WITH_WORKER, 0.8, "per-clip-work"),
        (changed(WITH_WORKER, "Clips.__getitem__", "collate"), 0.8, "slow-collate"),
        (changed(WITH_WORKER, "_MapDatasetFetcher.fetch", "wait"), 0.1, "hand-over"),
        (WITHOUT_WORKER, 0.0, "too-few-workers"),
        ([*changed(WITHOUT_WORKER, NEXT, "other (train.py:4)"), f"{MAIN};{NEXT} 1"], 0.0, "none"),
    ],
)
def test_what_the_workers_do_points_to_a_culprit(lines: list[str], computing: float, culprit: str) -> None:
    found = judge_stacks(parse_stacks(lines, 7), 7, {8: computing})
    assert found.culprit == culprit, f"\n{found}"
    assert "VERDICT" in str(found)


def test_the_function_that_the_loop_waits_in_is_named_without_workers() -> None:
    found = judge_stacks(parse_stacks(WITHOUT_WORKER, 7), 7, {})
    assert found.function == "Clips.__getitem__ (clips.py)"


def test_a_command_line_may_have_any_character() -> None:
    command = ['process 7:"python -c import time', "", 'x = 1; print("a;b 3")"']
    lines = [*command[:-1], f"{command[-1]};thread (7): Main;main (a.py:1);f (a.py:2) 5"]
    (stack,) = parse_stacks([*lines, "not a stack"], 1)
    assert (stack.process, stack.thread, stack.count) == (7, "7", 5)
    assert stack.frames == ("main (a.py:1)", "f (a.py:2)")


def test_a_process_that_asks_no_loader_is_not_judged() -> None:
    with pytest.raises(AttachError, match="no thread was seen asking a loader"):
        judge_stacks(parse_stacks([f"{MAIN};step (train.py:3) 40"], 7), 7, {})


@pytest.mark.long
def test_what_cannot_be_observed_is_told_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(AttachError, match="does not run Python") as refused:
            observe(child.pid, 1)
        assert "\n" not in str(refused.value)
    finally:
        child.kill()
        child.wait()
    with pytest.raises(AttachError, match="there is no such process"):
        observe(child.pid, 1)
    with pytest.raises(AttachError, match="ended with code 3 before it asked a loader"):
        observe_program([sys.executable, "-c", "raise SystemExit(3)"], 1)
    with pytest.raises(UsageError, match="no-such-program: cannot be started"):
        observe_program(["no-such-program"], 1)
    assert app._run(["diagnose", "--attach", str(child.pid), "--", "python", "train.py"]) == 2
    assert "exclude each other" in capfd.readouterr().err


SCRIPT = """
import time
from faulty_loaders import Clips, loader

for batch in loader(Clips(0.01), 1):
    time.sleep(0.03)
"""
DIAGNOSED = """
import time
from faulty_loaders import Clips, loader
from myxtts.performance import diagnose

print(diagnose(loader(Clips(0.01), 1), lambda batch: time.sleep(0.03), 60).input_share)
"""


@pytest.mark.soak
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_script_that_was_not_written_for_it_is_seen_to_wait_as_long_as_diagnose_measures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(HERE)
    seen = observe_program([sys.executable, "-c", SCRIPT], 10)
    measured = subprocess.run([sys.executable, "-c", DIAGNOSED], capture_output=True, text=True, check=True)
    assert seen.waiting == pytest.approx(float(measured.stdout.split()[-1]), abs=0.05)
    assert seen.culprit == "too-few-workers"
