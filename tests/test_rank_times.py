"""Which of several processes the others wait for, by the times that a run has written."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from myxtts.cli.app import app
from myxtts.performance.rank_times import RankTimes, find_slow_rank, mean_times
from myxtts.performance.run_timing import RunTiming
from myxtts.training.rank_reports import REPORTED, RankReports, times_of

EVEN = RankTimes(100.0, 1.0, 5.0, 40.0, 2)
WAITING = RankTimes(100.0, 1.0, 45.0, 40.0, 2)  # for others
SLOW = RankTimes(100.0, 1.0, 5.0, 40.0, 2)
STARVED = RankTimes(100.0, 41.0, 5.0, 40.0, 2)


@pytest.mark.parametrize(
    ("times", "rank", "by_data"),
    [
        ([WAITING, SLOW, WAITING], 1, False),
        ([STARVED, WAITING], 0, True),
    ],
)
def test_the_slow_rank_is_the_one_that_waits_least_for_others(
    times: list[RankTimes], rank: int, by_data: bool
) -> None:
    slow = find_slow_rank(times)
    assert slow is not None
    assert (slow.rank, slow.by_data, round(slow.share, 2)) == (rank, by_data, 0.4)
    assert str(slow).startswith(f"rank {rank} is slow: the others wait 40 % of every step for it; it ")


@pytest.mark.parametrize("times", [[], [SLOW], [EVEN, EVEN], [RankTimes(), RankTimes()]])
def test_without_a_difference_no_rank_is_slow(times: list[RankTimes]) -> None:
    assert find_slow_rank(times) is None


def test_readings_from_before_the_first_step_do_not_count() -> None:
    assert mean_times([[RankTimes(), RankTimes()], [EVEN, WAITING]]) == [EVEN, WAITING]
    assert mean_times([]) == []


def write_run(folder: Path, ranks: list[RankTimes]) -> None:
    record = {"batch": 1, "time": 1e9, "step_ms": 100.0, "stall_ms": 1.0, "clips": 8, "compiled": False}
    last = record | {"batch": 2, "ranks": [asdict(one) for one in ranks]}
    (folder / "timing.jsonl").write_text(json.dumps(record) + "\n" + json.dumps(last) + "\n", encoding="utf-8")


def test_a_reading_of_a_run_has_the_times_of_all_ranks(tmp_path: Path) -> None:
    write_run(tmp_path, [WAITING, SLOW])
    reading = RunTiming(tmp_path).read()
    assert reading is not None
    assert (reading.steps, reading.ranks) == (2, (WAITING, SLOW))


def test_diagnose_names_the_slow_rank_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, [WAITING, SLOW])
    app(["diagnose", "--run", str(tmp_path)], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "CULPRIT   rank 1 is slow: the others wait 40 % of every step for it; it computes more slowly" in shown
    app(["diagnose", "--run", str(tmp_path), "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert (found["culprit"], found["slow_rank"]["rank"], len(found["ranks"])) == ("slow-rank", 1, 2)


def test_a_report_is_a_row_of_the_table_and_comes_back_as_times() -> None:
    tables = [RankReports(rank, 2).own(None, times) for rank, times in enumerate([EVEN, WAITING])]
    assert [table.shape for table in tables] == [(2, REPORTED)] * 2
    assert times_of(tables[0] + tables[1]) == [EVEN, WAITING]


def test_all_stop_two_steps_after_the_one_that_told_of_a_signal() -> None:
    reports = RankReports(0, 2)
    reports.completed(4, np.zeros((2, REPORTED), np.float32))
    reports.completed(5, RankReports(1, 2).own(15, EVEN))
    assert [reports.signalled(batch) for batch in (5, 6, 7, 8)] == [False, False, True, True]
