"""Every command and every program in docs/performance-tools.md runs, on small data."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from training_samples import BANDS, data_folder

from myxtts.cli import app
from myxtts.utils.performance import get_performance_monitor

pytestmark = pytest.mark.usefixtures("smallest_model")

DOCUMENT = (Path(__file__).parents[1] / "docs" / "performance-tools.md").read_text(encoding="utf-8")
COMMANDS = [line for line in DOCUMENT.splitlines() if line.startswith("myxtts ")]

# Beside what the document says: less of everything, so that a command takes seconds. The last one given wins.
LESS = {
    "monitor": "--duration 0.3 --interval 0.1",
    "profile": "--num-batches 3 --calls 1 --batch-size 4",
    "benchmark": "--num-batches 3 --no-training --clips 20 --batch-size 4",
    "tune": "--time-budget 1 --steps 1 --batch-size 4",
}
SMALL = (
    f"--set optimization_level=basic --set enable_graph_mode=false --set text_symbols=graphemes --set n_mels={BANDS} "
    "--set num_buckets=1 --set reference_seconds=0.2 --set num_workers=1"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document")
    data_folder(path / "made").rename(path / "ljspeech")
    (path / "data").mkdir()
    (path / "ljspeech").rename(path / "data" / "ljspeech")
    (path / "runs" / "voice").mkdir(parents=True)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_the_document_run(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    arguments = shlex.split(re.sub(r"(--simulate-step-ms) \d+", r"\1 2", command))[1:]
    less = shlex.split(LESS[arguments[0]]) + ([] if arguments[0] == "monitor" else shlex.split(SMALL))
    assert app._run([*arguments, *less]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out


def test_all_four_commands_are_shown() -> None:
    assert {shlex.split(command)[1] for command in COMMANDS} == LESS.keys()


def test_the_program_in_the_document_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)
    try:
        exec(program, {})
    finally:
        get_performance_monitor().stop_sampling()
        get_performance_monitor().reset()
    assert "not input-bound 1.0%" in capsys.readouterr().out
