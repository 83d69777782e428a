"""`myxtts monitor`: what it shows and writes, how it ends, and the run it reads beside it."""

from __future__ import annotations

import csv
import io
import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from test_monitor_metrics import machine_with_gpu

from myxtts.cli import app
from myxtts.cli.monitor_display import live_view, plain_line
from myxtts.errors import UsageError
from myxtts.performance.metrics_log import MetricsLog
from myxtts.performance.run_timing import TIMING_FILE, RunReading, RunTiming
from myxtts.training import run_folder
from myxtts.training.record_file import RecordFile

MyXTTS = Callable[..., subprocess.CompletedProcess[str]]

NO_DRIVER = not Path("/proc/driver/nvidia/version").exists()


def step(batch: int, *, time: float | None = None, stall_ms: float = 10.0, compiled: bool = False) -> dict:
    return {
        "batch": batch,
        "time": 1000.0 + batch if time is None else time,
        "data_ms": 1.0,
        "stall_ms": stall_ms,
        "step_ms": 100.0,
        "clips": 16,
        "audio_seconds": 90.0,
        "shape": [16, 600, 120],
        "compiled": compiled,
    }


def write_steps(folder: Path, *steps: dict) -> RecordFile:
    file = RecordFile(folder / TIMING_FILE)
    for one in steps:
        file.write(one)
    file.flush()
    return file


# The timing file of a run


def latest(timing: RunTiming) -> RunReading:
    """Of a run that has made steps."""
    reading = timing.read()
    assert reading is not None
    return reading


def test_the_timing_file_is_the_trainers() -> None:
    assert TIMING_FILE == run_folder.TIMING


def test_a_run_without_steps_has_nothing_to_read(tmp_path: Path) -> None:
    assert RunTiming(tmp_path).read() is None


def test_a_timing_file_that_cannot_be_opened_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / TIMING_FILE).mkdir()
    assert RunTiming(tmp_path).read() is None


def test_steps_are_read_as_they_are_written_and_compiled_ones_not_counted(tmp_path: Path) -> None:
    file = write_steps(tmp_path, step(1, compiled=True, stall_ms=0))
    timing = RunTiming(tmp_path)
    first = timing.read()
    assert first is not None
    assert (first.batch, first.steps, first.values()["run_stall_percent"]) == (1, 0, None)
    file.write(step(2))
    file.write(step(3, stall_ms=30))
    file.flush()
    second = timing.read()
    assert second is not None
    assert (second.batch, second.steps) == (3, 2)
    assert second.stall_share == pytest.approx(0.2)
    assert second.verdict == "highly input-bound"
    assert second.clips_per_second == pytest.approx(160)
    file.close()


def test_only_the_last_seconds_count(tmp_path: Path) -> None:
    write_steps(tmp_path, step(1, stall_ms=100), step(2, time=1060.0, stall_ms=0), step(3, time=1061.0, stall_ms=0))
    reading = RunTiming(tmp_path, window=10).read()
    assert reading is not None
    assert (reading.steps, reading.stall_share) == (2, 0.0)


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    line = json.dumps(step(1)) + "\n"
    path = tmp_path / TIMING_FILE
    path.write_text(line + line[:20])
    timing = RunTiming(tmp_path)
    assert latest(timing).steps == 1
    with path.open("a") as file:
        file.write(line[20:])
    assert latest(timing).steps == 2


def test_a_resumed_run_replaces_its_file_and_is_followed(tmp_path: Path) -> None:
    write_steps(tmp_path, step(1), step(2), step(3)).close()
    timing = RunTiming(tmp_path)
    assert latest(timing).batch == 3
    resumed = RecordFile(tmp_path / TIMING_FILE, keep_until=1)
    resumed.write(step(2, stall_ms=0))
    resumed.close()
    reading = latest(timing)
    assert (reading.batch, reading.steps) == (2, 2)


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / TIMING_FILE).write_text('{"batch": 1}\nnonsense\n[]\n' + json.dumps(step(7)) + "\n")
    assert latest(RunTiming(tmp_path)).batch == 7


# The log


@pytest.mark.parametrize("name", ["load.csv", "load.jsonl"])
def test_a_log_that_exists_is_continued(tmp_path: Path, name: str) -> None:
    for value in (1.0, None):
        with MetricsLog(tmp_path / name, ["time", "cpu_percent"]) as log:
            log.write({"time": 5.0, "cpu_percent": value})
    text = (tmp_path / name).read_text()
    if name.endswith("csv"):
        assert list(csv.DictReader(io.StringIO(text))) == [
            {"time": "5.0", "cpu_percent": "1.0"},
            {"time": "5.0", "cpu_percent": ""},
        ]
    else:
        assert [json.loads(line)["cpu_percent"] for line in text.splitlines()] == [1.0, None]


def test_a_csv_with_other_columns_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("name,age\n")
    with pytest.raises(UsageError, match="other columns"):
        MetricsLog(path, ["time"])
    assert path.read_text() == "name,age\n"


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        MetricsLog(tmp_path / "file" / "load.csv", ["time"])


# The view


def test_a_gpu_and_a_run_stand_side_by_side() -> None:
    reading = machine_with_gpu().read()
    run = RunReading(
        batch=1200, time=reading.time - 60, steps=9, stall_share=0.25, step_ms=210.0, clips_per_second=76
    )
    line = plain_line(reading, run, with_run=True)
    assert "GPU0 3 %  19.3 of 24.0 GiB  55 °C  162 of 450 W  2520 / 10251 MHz" in line
    assert "batch 1,200  stall 25.0 % (highly input-bound)  step 210 ms  76.0 clips/s  no step for 60 s" in line
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(live_view(reading, run, with_run=True))
    screen = console.file.getvalue()  # type: ignore[attr-defined]
    for part in ("NVIDIA GeForce RTX 4090", "stall 25.0 %", "55 °C", "CPU", "memory", "disk", "network"):
        assert part in screen


# The command


def test_it_prints_a_line_per_reading_and_means_at_the_end(tmp_path: Path, run_myxtts: MyXTTS) -> None:
    write_steps(tmp_path, step(1), step(2))
    log = tmp_path / "load.csv"
    result = run_myxtts("monitor", "--duration", 0.5, "--interval", 0.2, "--run", tmp_path, "--log-file", log)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if "memory" in line and "batch 2" in line]
    rows = list(csv.DictReader(log.open()))
    assert len(lines) == len(rows) >= 1
    assert rows[0]["run_stall_percent"] == "10.0"
    assert "memory_percent" in result.stdout
    if NO_DRIVER:
        assert result.stderr.count("no NVIDIA GPU to show") == 1


def test_json_is_the_summary_alone(run_myxtts: MyXTTS) -> None:
    result = run_myxtts("monitor", "--duration", 0.3, "--interval", 0.1, "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["numbers"]["memory_percent"]["count"] >= 1
    if NO_DRIVER:
        assert summary["gpu_unavailable"] in ("NVML Shared Library Not Found", "Driver Not Loaded")


def test_ctrl_c_ends_it_with_the_means(tmp_path: Path, python: str) -> None:
    log = tmp_path / "load.jsonl"
    command = [python, "-m", "myxtts", "monitor", "--interval", "0.1", "--log-file", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "memory" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "cpu_percent" in rest
    assert "Traceback" not in errors
    assert json.loads(log.read_text().splitlines()[-1])["time"] <= time.time()


def test_it_needs_no_tensorflow(python: str) -> None:
    program = (
        "import sys; from myxtts.cli.app import app; "
        "app(['monitor', '--duration', '0.2', '--interval', '0.1'], standalone_mode=False); "
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([python, "-c", program], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log-file", "load.txt"], "should end in .csv or .jsonl"),
        (["--interval", "0"], "should be at least 0.1 seconds"),
        (["--duration", "-1"], "should be more than 0 seconds"),
        (["--run", "/nowhere/run"], "no such folder"),
    ],
)
def test_a_mistake_ends_in_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert app._run(["monitor", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
