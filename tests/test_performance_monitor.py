"""The performance monitor: what it counts, from which threads, in how much memory."""

import doctest
import json
import subprocess
import threading
import tracemalloc

import pytest

from myxtts.performance import monitor as monitor_module
from myxtts.performance.monitor import MAX_OPERATIONS, PerformanceMonitor
from myxtts.utils.performance import (
    get_performance_monitor,
    print_performance_report,
    start_performance_monitoring,
)


class HandClock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def monitor(clock):
    return PerformanceMonitor(clock=clock)


def test_a_block_is_timed(monitor, clock):
    with monitor.time_operation("save"):
        clock.time += 2.5
    times = monitor.get_summary().operations["save"]
    assert (times.count, times.total) == (1, 2.5)


def test_every_call_of_a_decorated_function_is_timed_and_its_result_passed_on(monitor, clock):
    @monitor.time_operation("load")
    def load(seconds, scale=1):
        """Loads."""
        clock.time += seconds * scale
        return seconds

    assert [load(1.0), load(2.0, scale=2)] == [1.0, 2.0]
    times = monitor.get_summary().operations["load"]
    assert (times.count, times.total, times.maximum) == (2, 5.0, 4.0)
    assert (load.__name__, load.__doc__) == ("load", "Loads.")


def test_a_decorated_function_may_call_itself(monitor, clock):
    @monitor.time_operation("descend")
    def descend(depth):
        clock.time += 1.0
        if depth:
            descend(depth - 1)

    descend(2)
    times = monitor.get_summary().operations["descend"]
    assert (times.count, times.minimum, times.maximum) == (3, 1.0, 3.0)


def test_operations_inside_operations_are_timed_by_themselves(monitor, clock):
    with monitor.time_operation("outer"):
        clock.time += 1.0
        with monitor.time_operation("inner"):
            clock.time += 2.0
    operations = monitor.get_summary().operations
    assert (operations["outer"].total, operations["inner"].total) == (3.0, 2.0)


def test_a_failing_block_is_timed_and_its_error_passed_on(monitor, clock):
    @monitor.time_operation("save")
    def save():
        clock.time += 1.0
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        save()
    assert monitor.get_summary().operations["save"].total == 1.0


def test_steps_give_throughput_and_the_share_of_waiting(monitor):
    monitor.log_step_timing(0.01, 0.04, 32)
    monitor.log_step_timing(0.03, 0.02, 16)
    summary = monitor.get_summary()
    assert summary.step.count == 2
    assert summary.clips == 48
    assert summary.clips_per_second == pytest.approx(480)
    assert summary.stall_share == pytest.approx(0.4)
    assert summary.step.mean == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [-0.001, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused_and_leaves_no_trace(monitor, wrong):
    with pytest.raises(ValueError, match="data_loading_time"):
        monitor.log_step_timing(wrong, 0.1, 1)
    with pytest.raises(ValueError, match="compute_time"):
        monitor.log_step_timing(0.1, wrong, 1)
    with pytest.raises(ValueError, match="save took"):
        monitor.log_operation("save", wrong)
    assert monitor.get_summary().step.count == 0
    assert monitor.get_summary().operations == {}


def test_several_threads_lose_nothing():
    monitor = PerformanceMonitor()

    @monitor.time_operation("work")
    def work():
        monitor.log_step_timing(0.001, 0.003, 2)

    threads = [threading.Thread(target=lambda: [work() for _ in range(2_000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary = monitor.get_summary()
    assert summary.step.count == 16_000
    assert summary.clips == 32_000
    assert summary.stall_share == pytest.approx(0.25)
    assert summary.operations["work"].count == 16_000


def test_memory_does_not_grow_with_steps():
    monitor = PerformanceMonitor(window=256)
    for _ in range(300):
        monitor.log_step_timing(0.001, 0.003, 2)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            with monitor.time_operation("load"):
                monitor.log_step_timing(0.001, 0.003, 2)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 10_000


def test_operations_beyond_the_limit_of_names_are_counted_together(monitor):
    for number in range(MAX_OPERATIONS + 10):
        monitor.log_operation(f"batch {number}", 1.0)
    monitor.log_operation("batch 0", 1.0)
    operations = monitor.get_summary().operations
    assert len(operations) == MAX_OPERATIONS + 1
    assert operations["other"].count == 10
    assert operations["batch 0"].count == 2


def test_reset_forgets_everything(monitor):
    monitor.log_step_timing(0.01, 0.04, 32)
    monitor.log_operation("save", 1.0)
    monitor.reset()
    assert monitor.get_summary() == PerformanceMonitor().get_summary()


def test_the_summary_is_ready_for_json(monitor):
    monitor.log_step_timing(0.02, 0.03, 32)
    monitor.log_operation("save", 1.0)
    summary = json.loads(json.dumps(monitor.get_summary().to_dict()))
    assert summary["steps"] == 1
    assert summary["verdict"] == "highly input-bound"
    assert summary["operations"]["save"]["total"] == 1.0


def test_the_report_names_throughput_verdict_and_operations(monitor):
    for _ in range(1_000):
        monitor.log_step_timing(0.0002, 0.0498, 16)
    monitor.log_operation("checkpoint", 1.25)
    lines = monitor.get_summary_report().splitlines()
    assert lines[0] == "steps: 1,000, clips: 16,000 (320.0 clips/s)"
    assert lines[1] == "input: 0.4 % of step time (not input-bound)"
    (row,) = [line for line in lines if line.startswith("checkpoint")]
    assert row.split() == ["checkpoint", "1", "1,250.000", "0.000", *["1,250.000"] * 4]


def test_the_report_of_nothing_says_so(monitor):
    assert monitor.get_summary_report() == "no steps yet"


def test_the_process_shares_one_monitor_and_starting_resets_it(capsys):
    shared = get_performance_monitor()
    shared.log_step_timing(0.01, 0.04, 32)
    assert start_performance_monitoring() is shared
    assert shared.get_summary().step.count == 0
    shared.log_step_timing(0.0, 0.05, 8)
    print_performance_report()
    assert "steps: 1, clips: 8" in capsys.readouterr().out
    written: list[str] = []
    print_performance_report(written.append)
    assert written[0].startswith("steps: 1, clips: 8")
    shared.stop_sampling()
    shared.reset()


def test_measuring_tools_need_no_tensorflow(python):
    modules = "myxtts.utils.performance, myxtts.performance.culprits, myxtts.performance.simulated_accelerator"
    program = f"import sys, {modules}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([python, "-c", program]).returncode == 0


def test_the_example_in_the_docstring_holds():
    results = doctest.testmod(monitor_module)
    assert results.attempted > 0
    assert results.failed == 0
