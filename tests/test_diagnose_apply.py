"""`myxtts diagnose` where something cannot be read or cannot be changed: one line, and what was measured stays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from speech_like import RATE, make_data_set

from myxtts.cli import app
from myxtts.config.config import XTTSConfig

QUICK = [
    "--set=optimization_level=basic",
    "--set=text_symbols=graphemes",
    "--set=num_buckets=1",
    "--set=reference_seconds=0",
    "--set=train_split=0.8",
    "--set=val_split=0.2",
    "--batch-size=4",
    "--num-batches=10",
    "--num-workers=1",
    "--preprocessing-mode=runtime",
    "--simulate-step-ms=0.1",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "data", [1.5 + 0.01 * k for k in range(20)])


def test_an_impossible_change_is_reported_and_the_diagnosis_stays(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    written = tmp_path / "better.yaml"
    # A step that takes no time always waits for its batches, and a store is one of the changes against that.
    arguments = ["diagnose", "--data-path", data, "--cache-dir", tmp_path / "file" / "cache", "--apply", "--json"]
    assert app._run([*map(str, arguments), "--output", str(written), *QUICK]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert "cannot be written" in result["not_changed"]
    assert len(result["not_changed"].splitlines()) == 1
    assert "not changed: " in err.replace("\n", " ")
    assert result["verdict"] == "highly input-bound"
    assert result["after"]["settings"]["mode"] == "runtime"
    assert "data.preprocessing_mode" not in result["applied"]
    assert XTTSConfig.from_yaml(written).data.preprocessing_mode == "runtime"


def test_the_page_for_people_says_why_nothing_was_changed(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    arguments = ["diagnose", "--data-path", data, "--cache-dir", tmp_path / "file" / "cache", "--apply"]
    assert app._run([*map(str, arguments), "--output", str(tmp_path / "better.yaml"), *QUICK]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "VERDICT highly input-bound" in out
    assert "cannot be written" in out.partition("APPLIED")[2]


def test_a_file_that_cannot_be_read_under_way_is_one_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = np.zeros(RATE, np.float32)
    samples[100] = np.nan  # which no header shows
    for path in (data / "wavs").iterdir():
        soundfile.write(path, samples, RATE, subtype="FLOAT")
    # The files that the graph cannot decode are tried once at the start, which this one survives.
    soundfile.write(data / "wavs" / "c000.wav", np.zeros(RATE, np.float32), RATE, subtype="FLOAT")
    assert app._run(["diagnose", "--data-path", str(data), *QUICK]) == 1
    err = capsys.readouterr().err
    assert "a batch cannot be loaded" in err
    assert "Traceback" not in err
