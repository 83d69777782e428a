"""`myxtts diagnose` on our own pipelines: bad configurations fixed, and what it prints and writes.

How much a fix gains is measured by `make soak`; here the command does the same work, and what it says has to agree
with what it writes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from speech_like import make_data_set
from training_samples import configure, data_folder

from myxtts.cli import app
from myxtts.config.config import XTTSConfig
from myxtts.performance.culprits import CULPRITS
from myxtts.performance.diagnosis import Diagnosis, Fix, NodeTime, Pattern, StallSplit, StepSeries
from myxtts.performance.diagnosis_page import diagnosis_page
from myxtts.training.diagnose_training import changed, diagnose_training, next_changes

QUICK = [
    "--set=optimization_level=basic",
    "--set=text_symbols=graphemes",
    "--set=num_buckets=1",
    "--set=reference_seconds=0",
    "--set=train_split=0.9",
    "--set=val_split=0.1",
    "--batch-size=8",
    "--num-batches=25",
]
STEP_MS = 15
BAD = ("--disable-tf-native-loading", "--disable-cpu-gpu-overlap", "--preprocessing-mode=runtime")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips long enough that computing their mels for every batch takes far longer than a step."""
    return make_data_set(tmp_path_factory.mktemp("diagnose") / "data", [8.0 + 0.01 * k for k in range(20)])


def example(**changes: Any) -> Diagnosis:
    random = np.random.default_rng(0)
    stalls = np.maximum(0, random.normal(40, 25, 120))
    values: dict[str, Any] = {
        "verdict": "highly input-bound",
        "input_share": 0.66,
        "uncertainty": 0.03,
        "steps": 120,
        "step_ms": 60.0,
        "ceiling_ms": 20.0,
        "split": StallSplit(0.5, 0.16, 0.0),
        "culprit": "python-function",
        "culprit_text": "ParallelMap <load & mel>: 71 % of the pipeline's blocking time, a Python function",
        "lost_share": 0.66,
        "evidence": ("the interpreter lock is held 80 % of the time that batches are made",),
        "pattern": Pattern(0.4, "moderate", 7, "with a new batch shape"),
        "fixes": (Fix("python-function", "take the work out of Python", 0.6, ("dataset = dataset.map(load)",)),),
        "nodes": (NodeTime("Prefetch", 0.1, 1, 1), NodeTime("ParallelMap load", 80.0, 2, 8, 0.9)),
        "series": StepSeries(20 + stalls, stalls),
    }
    return Diagnosis(**(values | changes))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """In this process: starting TensorFlow takes longer than a diagnosis."""
    code = app._run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def fix_bad_configuration(
    data: Path, folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[dict[str, Any], XTTSConfig]:
    """Applies fixes to a bad configuration; what the command says, and the configuration that it wrote."""
    better = folder / "better.yaml"
    out = run(
        capsys,
        *("diagnose", "--data-path", data, "--cache-dir", folder / "store", *QUICK, *BAD),
        *("--simulate-step-ms", STEP_MS, "--apply", "--output", better, "--json", *more),
    )
    return json.loads(out), XTTSConfig.from_yaml(better)


def test_what_was_applied_is_what_the_new_configuration_has(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    result, config = fix_bad_configuration(data, tmp_path, capsys, f"--html={page}")
    assert result["simulated"]
    assert result["after"]["simulated"]
    assert {key: _value(config, key) for key in result["applied"]} == result["applied"]
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.soak
def test_a_bad_configuration_is_fixed_and_most_of_the_waiting_is_gone(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, _ = fix_bad_configuration(data, tmp_path, capsys)
    assert result["verdict"] == "highly input-bound"
    assert result["applied"]
    assert result["after"]["stall_ms"] <= 0.2 * result["stall_ms"], result["applied"]


def test_a_configuration_with_nothing_to_change_is_written_as_it_is(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a busy machine lets this input keep up or not, the configuration has no better setting."""
    same = tmp_path / "same.yaml"
    out = run(
        capsys,
        *("diagnose", "--data-path", data, "--cache-dir", tmp_path / "store", *QUICK, "--language=fa"),
        *("--preprocessing-mode=precompute", "--simulate-step-ms", 60, "--apply", "--output", same),
    ).replace("\n", "")
    assert re.search(
        rf"APPLIED   nothing: [^;]+; the configuration is written unchanged to {re.escape(str(same))}", out
    )
    assert XTTSConfig.from_yaml(same).data.language == "fa"


def _value(config: XTTSConfig, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def test_the_real_step_of_a_configuration_is_diagnosed(tmp_path: Path) -> None:
    config = configure(data_folder(tmp_path), tmp_path / "run", cache_dir=str(tmp_path / "store"))
    reported: list[str] = []
    result = diagnose_training(config, 12, report=reported.append)
    shapes = [what for what in reported if what.startswith("compiling the step, shape ")]
    assert shapes == [f"compiling the step, shape {number} of {len(shapes)}" for number in range(1, len(shapes) + 1)]
    assert shapes
    assert not result.simulated
    assert 0 < result.steps <= 12
    assert result.settings["mode"] == "precompute"
    assert not (tmp_path / "run").exists()


def test_the_settings_of_a_culprit_are_changed_one_after_the_other_until_all_are_set(tmp_path: Path) -> None:
    config = configure(
        tmp_path, tmp_path, use_tf_native_loading=False, preprocessing_mode="runtime", optimize_cpu_gpu_overlap=False
    )
    changes = []
    while change := next_changes(config, "python-function"):
        changes.append(change)
        config = changed(config, change)
    assert changes[0] == {"data.use_tf_native_loading": True}
    assert {"data.preprocessing_mode": "precompute"} in changes
    assert config.data.optimize_cpu_gpu_overlap
    assert len(changes) <= 4


@pytest.mark.parametrize("culprit", CULPRITS)
def test_every_setting_of_a_culprit_is_one_of_the_configuration(culprit: str, tmp_path: Path) -> None:
    config = XTTSConfig(data_path=str(tmp_path))
    for change in CULPRITS[culprit].settings:
        config = changed(config, change.values)
    XTTSConfig.model_validate(config.model_dump())


def test_a_configuration_without_fault_has_nothing_to_change(tmp_path: Path) -> None:
    assert next_changes(XTTSConfig(data_path=str(tmp_path)), "per-clip-work") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--num-batches=3",), "at least 10"),
        (("--simulate-step-ms=-1",), "should be above 0"),
        (("--output=x.yaml",), "it has no effect without it"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app._run(["diagnose", "--data-path", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_page_is_one_file_that_says_the_verdict_first() -> None:
    page = diagnosis_page(example())
    assert page.index("highly input-bound") < page.index("<svg")
    assert "&lt;load &amp; mel&gt;" in page
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<svg") == 2
    assert "ParallelMap load" in page


def test_a_browser_shows_the_page_without_complaint(tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium on this machine")
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(diagnosis_page(example()))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--log-level=0"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=390,1400", f"--screenshot={picture}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=300)
    assert picture.stat().st_size > 10_000, done.stderr
    assert "CONSOLE" not in done.stderr
    assert "Refused to" not in done.stderr
