"""The times of a run: at most two steps in flight, completions seen elsewhere, stalls as they are defined."""

from __future__ import annotations

import os
import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.errors import TrainingError
from myxtts.performance.gpu_metrics import GpuReading
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.training.losses import loss_names
from myxtts.training.progress import TrainingProgress, time_text
from myxtts.training.record_file import RecordFile, read_records
from myxtts.training.run_log import RunLog
from myxtts.training.step_times import COMPILING, Rates, StepTimes
from myxtts.training.steps_in_flight import CompletedStep, DispatchedStep, watch_steps

FRAME = 256 / 22050


class OnDevice:
    """A result of a device that works asynchronously: it can be read once the device says so."""

    def __init__(self, *values: float) -> None:
        self.values = np.array(values, np.float32)
        self.done = threading.Event()
        self.error: Exception | None = None

    def numpy(self) -> np.ndarray:
        assert self.done.wait(600)
        if self.error is not None:
            raise self.error
        return self.values


def dispatched(batch: int, completion: object, ready: float = 0.0, **changes: object) -> DispatchedStep:
    values = {"asked": ready - 0.001, "returned": ready, "shape": (4, 100, 20), "compiled": False}
    return DispatchedStep(batch, completion, ready=ready, **(values | changes))  # type: ignore[arg-type]


# Steps in flight


def test_the_loop_goes_on_with_two_steps_in_flight_and_waits_with_a_third() -> None:
    seen: list[int] = []
    watcher = watch_steps(lambda done: seen.append(done.step.batch), synchronous=False)
    results = [OnDevice(0, 4, 400) for _ in range(3)]
    for number in (0, 1):
        watcher.wait_for_slot()
        watcher.dispatched(dispatched(number + 1, results[number]))
    third = threading.Event()

    def loop() -> None:
        watcher.wait_for_slot()
        third.set()
        watcher.dispatched(dispatched(3, results[2]))

    thread = threading.Thread(target=loop)
    thread.start()
    assert not third.wait(0.2)
    results[0].done.set()
    assert third.wait(600)
    for result in results:
        result.done.set()
    thread.join()
    watcher.close()
    assert seen == [1, 2, 3]


def test_draining_means_that_every_completion_has_been_looked_at() -> None:
    looked: list[int] = []

    def look(done: CompletedStep) -> None:
        time.sleep(0.05)
        looked.append(done.clips)

    watcher = watch_steps(look, synchronous=False)
    for number in range(2):
        result = OnDevice(0, 4 + number, 400)
        result.done.set()
        watcher.wait_for_slot()
        watcher.dispatched(dispatched(number + 1, result))
    watcher.drain()
    assert looked == [4, 5]
    watcher.close()


def test_on_a_device_that_answers_later_the_completion_is_when_it_answers() -> None:
    completed: list[CompletedStep] = []
    watcher = watch_steps(completed.append, synchronous=False)
    result = OnDevice(0, 4, 400)
    watcher.wait_for_slot()
    watcher.dispatched(dispatched(1, result, ready=time.perf_counter()))
    before = time.perf_counter()
    result.done.set()
    watcher.drain()
    assert before <= completed[0].at <= time.perf_counter()
    watcher.close()


def test_where_the_call_waits_for_the_step_the_completion_is_its_return() -> None:
    completed: list[CompletedStep] = []
    watcher = watch_steps(completed.append, synchronous=True)
    result = OnDevice(2, 4, 400)
    result.done.set()
    watcher.wait_for_slot()
    watcher.dispatched(dispatched(1, result, ready=5.0, returned=6.5))
    watcher.drain()
    assert (completed[0].at, completed[0].skipped_in_a_row) == (6.5, 2)
    watcher.close()


def test_what_the_device_raises_reaches_the_loop_with_the_shape() -> None:
    watcher = watch_steps(lambda done: None, synchronous=False)
    result = OnDevice(0, 0, 0)
    result.error = RuntimeError("no room")
    result.done.set()
    watcher.wait_for_slot()
    watcher.dispatched(dispatched(1, result, shape=(9, 8, 7)))
    with pytest.raises(RuntimeError, match="no room"):
        watcher.drain()
    with pytest.raises(RuntimeError, match="no room"):
        watcher.wait_for_slot()
    assert watcher.failed is not None
    assert watcher.failed.shape == (9, 8, 7)
    watcher.close()


# What a step took and how long it waited


def run_of(times: StepTimes, steps: list[tuple[float, float]], origin: float, compiled: tuple[int, ...] = ()) -> None:
    """Steps with (ready, completed) after `origin`."""
    for number, (ready, at) in enumerate(steps):
        step = dispatched(number + 1, None, origin + ready, compiled=number in compiled)
        times.completed(CompletedStep(step, origin + at, 0, 4, 400))


@pytest.fixture
def monitor() -> PerformanceMonitor:
    return PerformanceMonitor()


def begun(monitor: PerformanceMonitor, file: RecordFile | None = None) -> tuple[StepTimes, float]:
    times = StepTimes(monitor, file, FRAME)
    times.begin()
    return times, times._origin


def test_a_batch_that_is_ready_before_the_device_is_costs_no_stall(monitor: PerformanceMonitor) -> None:
    times, origin = begun(monitor)
    run_of(times, [(0.0, 1.0), (0.5, 2.0), (1.0, 3.0)], origin)
    rates = times.take_rates()
    assert (rates.steps, rates.stall_share) == (3, 0.0)
    assert rates.step_ms == pytest.approx(1000)


def test_a_late_batch_costs_the_time_since_the_device_was_free(monitor: PerformanceMonitor) -> None:
    times, origin = begun(monitor)
    run_of(times, [(0.0, 1.0), (1.25, 2.25), (3.0, 4.0)], origin)
    rates = times.take_rates()
    assert rates.stall_ms == pytest.approx(1000 * (0.25 + 0.75) / 3)
    assert rates.stall_share == pytest.approx(1.0 / 4.0)
    assert monitor.get_summary().stall_share == pytest.approx(0.25)


def test_stalls_are_the_same_whether_worked_up_at_once_or_in_pieces(monitor: PerformanceMonitor) -> None:
    steps = [(0.3 * k, 0.25 + 0.31 * k) for k in range(150)]
    times, origin = begun(monitor)
    run_of(times, steps, origin)
    piecewise, other_origin = begun(PerformanceMonitor())
    for number, (ready, at) in enumerate(steps):
        step = dispatched(number + 1, None, other_origin + ready)
        piecewise.completed(CompletedStep(step, other_origin + at, 0, 4, 400))
        piecewise.flush()
    assert times.take_rates().stall_ms == pytest.approx(piecewise.take_rates().stall_ms)


def test_what_happens_between_two_stretches_belongs_to_no_step(monitor: PerformanceMonitor) -> None:
    times, origin = begun(monitor)
    run_of(times, [(0.0, 0.001)], origin)
    times.begin()
    again = times._origin
    assert again > origin
    run_of(times, [(0.0, 1.0)], again)
    times.flush()
    summary = monitor.get_summary()
    assert summary.step.total == pytest.approx(1.001)
    assert summary.stall_share == 0.0


def test_a_compilation_is_an_operation_and_not_a_step(monitor: PerformanceMonitor) -> None:
    times, origin = begun(monitor)
    run_of(times, [(0.0, 20.0), (0.1, 21.0)], origin, compiled=(0,))
    times.flush()
    summary = monitor.get_summary()
    assert summary.step.count == 1
    assert summary.operations[COMPILING].total == pytest.approx(20.0)
    assert times.take_rates().step_ms == pytest.approx(1000)


def test_rates_count_clips_and_audio(monitor: PerformanceMonitor) -> None:
    times, origin = begun(monitor)
    run_of(times, [(0.0, 0.5), (0.0, 1.0)], origin)
    rates = times.take_rates()
    assert rates.clips_per_second == pytest.approx(8)
    assert rates.audio_seconds_per_second == pytest.approx(800 * FRAME)
    assert rates.data_ms == pytest.approx(1.0)
    assert times.take_rates() == Rates()


def test_every_step_has_a_line_in_the_timing_file(tmp_path: Path, monitor: PerformanceMonitor) -> None:
    file = RecordFile(tmp_path / "timing.jsonl")
    times, origin = begun(monitor, file)
    run_of(times, [(0.0, 1.0), (1.5, 2.5)], origin, compiled=(0,))
    times.flush()
    first, second = read_records(file.path)
    assert first["compiled"] is True
    assert second | {"time": 0} == {
        "batch": 2,
        "time": 0,
        "data_ms": 1.0,
        "stall_ms": 500.0,
        "step_ms": 1500.0,
        "clips": 4,
        "audio_seconds": round(400 * FRAME, 3),
        "shape": [4, 100, 20],
        "compiled": False,
    }


# Files of lines


def test_records_are_read_back_in_order(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "log.jsonl")
    for batch in range(5):
        file.write({"batch": batch, "total": 0.1 * batch})
    file.close()
    assert [record["total"] for record in read_records(file.path)] == [0.1 * batch for batch in range(5)]


def test_a_resumed_run_tells_every_batch_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"batch":1}\n{"batch":2}\n{"batch":3}\n{"bat')
    file = RecordFile(path, keep_until=2)
    file.write({"batch": 3, "again": True})
    file.close()
    assert list(read_records(path)) == [{"batch": 1}, {"batch": 2}, {"batch": 3, "again": True}]


def test_a_new_run_begins_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"batch":1}\n')
    RecordFile(path).close()
    assert path.read_text() == ""


def test_a_line_that_is_not_whole_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"batch":1}\n{"batch":\xff2\n[3]\n{"batch":4}\n')
    assert list(read_records(path)) == [{"batch": 1}, {"batch": 4}]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_a_full_disk_costs_lines_and_not_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = RecordFile(tmp_path / "log.jsonl")
    os.close(file._descriptor)
    file._descriptor = os.open("/dev/full", os.O_WRONLY)
    for batch in range(3):
        file.write({"batch": batch})
        file.flush()
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text
    file.close()


def test_a_file_that_cannot_be_begun_again_ends_in_one_line_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "timing.jsonl"
    lines = "".join(f'{{"batch":{batch}}}\n' for batch in range(10_000))
    path.write_text(lines)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(TrainingError, match=r"timing\.jsonl: cannot be written"):
            RecordFile(path, keep_until=9_999)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == lines
    assert [entry.name for entry in tmp_path.iterdir()] == ["timing.jsonl"]


def test_what_a_run_had_to_draw_when_it_ended_is_drawn(tmp_path: Path, monitor: PerformanceMonitor) -> None:
    log = RunLog(RecordFile(tmp_path / "log.jsonl"), tmp_path / "tensorboard", monitor, 22050)
    log.losses(1, 1, tf.ones([len(loss_names()) + 3]), loss_names(), Rates(), lambda losses: None)
    log.close()
    events = tmp_path.glob("tensorboard/*")
    tags = {
        value.tag
        for file in events
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }
    assert "loss/total" in tags


def test_a_drawing_that_fails_does_not_keep_the_run_from_ending(
    tmp_path: Path, monitor: PerformanceMonitor, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tensorboard").write_text("a file in the folder's place")
    log = RunLog(RecordFile(tmp_path / "log.jsonl"), tmp_path / "tensorboard", monitor, 22050)
    log.losses(1, 1, tf.ones([len(loss_names()) + 3]), loss_names(), Rates(), lambda losses: None)
    log.close()
    assert "training goes on" in caplog.text


# What people see


def test_the_progress_line_names_everything_that_is_known() -> None:
    rates = Rates(10, 1.0, 41.24, 250.0, 0.21, 0.1, 100.0)
    gpu = GpuReading(0, "a GPU", 0.97, 10 << 30, 24 << 30, None, None, None, None, None, ())
    progress = TrainingProgress(1200, 10_000, 3, 1.23456, 9.8e-4, rates, 7265.0, gpu)
    assert str(progress) == (
        "step 1,200/10,000  epoch 3  loss 1.2346  lr 9.80e-04  41.2 clips/s  data 0.2 ms  stall 0.1 %  "
        "GPU 97 %  10.0 of 24.0 GiB  2:01:05 left"
    )


def test_before_the_first_reading_the_progress_line_is_short() -> None:
    assert str(TrainingProgress(0, 10, 1)) == "step 0/10  epoch 1"


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (3600, "1:00:00"), (93_784, "1 d 02:03:04")])
def test_times_are_short(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_what_a_gpu_does_not_tell_is_left_out_of_the_progress_line() -> None:
    gpu = GpuReading(0, "a GPU", None, None, None, None, None, None, None, None, ())
    assert str(TrainingProgress(0, 10, 1, gpu=gpu)) == "step 0/10  epoch 1"
