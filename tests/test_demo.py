"""The demonstration: all its stages for real, in small, and what it does when it is interrupted."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from myxtts.demo import run as running
from myxtts.demo.plan import SIZES, DemoSize, Folders, Stage, stages
from myxtts.demo.report import stage_line, write_report
from myxtts.demo.run import StageResult, run_demo
from myxtts.errors import MyXTTSError
from myxtts.text.espeak import available

SMALLEST = DemoSize(
    "smallest", "a minute", clips=60, steps=3, sentences=4, batches=10, longest_sentence=40,
    settings={"num_buckets": 1, "train_split": 0.7, "val_split": 0.3, "batch_size": 4,
              "optimization_level": "basic", "enable_tensorboard": False},
)  # fmt: skip


def nothing(_: Any) -> None:
    pass


@pytest.mark.skipif(not available(), reason="espeak-ng, which speaks the corpus, is not installed (the speech extra)")
def test_all_stages_run_and_leave_speech_pictures_and_a_report(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    python_with_tensorflow: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", python_with_tensorflow)
    folder = tmp_path / "demo"
    finished = run_demo(folder, SMALLEST, nothing, nothing)
    values = write_report(Folders(folder, folder / "smallest"), SMALLEST, finished, {"cpus": 2, "gpus": []})
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["size"] == values["size"] == "smallest"
    assert 0 <= report["stall_share"] <= 1
    assert report["real_time_factor"] > 0
    assert report["duration_ratio"] > 0
    assert (folder / "samples" / "voice-en.wav").stat().st_size > 1000
    assert (folder / "samples" / "voice-en.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text(encoding="utf-8")
    for link in ("diagnosis.html", "evaluation.html"):
        assert (folder / link).is_file()
        assert link in page

    # As when the demo was interrupted after training's last step, and before it was written down.
    records = folder / "smallest" / running.RECORDS
    written = json.loads(records.read_text(encoding="utf-8"))
    del written["train"]
    records.write_text(json.dumps(written), encoding="utf-8")
    resumed: list[Stage] = []
    finished = run_demo(folder, SMALLEST, resumed.append, nothing)
    assert [stage.name for stage in resumed] == ["train"]
    (trained,) = (done.result for done in finished if done.name == "train")
    assert (trained["reason"], trained["step"], trained["performance"]["steps"]) == ("finished", 3, 0)
    assert "nothing left to do: the run has done 3 of 3 steps" in capfd.readouterr().err
    values = write_report(Folders(folder, folder / "smallest"), SMALLEST, finished, {"cpus": 2, "gpus": []})
    assert values["stall_share"] is None
    assert "3 steps, finished in an earlier call" in (folder / "report.html").read_text(encoding="utf-8")

    again: list[Stage] = []
    repeated = run_demo(folder, SMALLEST, again.append, nothing)
    assert again == []
    assert all(done.before and "done before" in stage_line(done) for done in repeated)


class Commands:
    """In place of the stages' processes: remembers what would have run, and fails where told to."""

    def __init__(self, fails: str | None = None) -> None:
        self.names: list[str] = []
        self.fails = fails

    def __call__(self, stage: Stage) -> StageResult:
        self.names.append(stage.name)
        if stage.name == self.fails:
            raise MyXTTSError("it failed")
        return StageResult(stage.name, stage.command, {}, 0.0)


def test_a_demo_that_stopped_goes_on_with_the_stage_that_failed(tmp_path: Path, monkeypatch: Any) -> None:
    first = Commands(fails="train")
    monkeypatch.setattr(running, "_run", first)
    with pytest.raises(MyXTTSError):
        run_demo(tmp_path, SMALLEST, nothing, nothing)
    assert first.names == ["corpus", "check", "precompute", "diagnose", "train"]
    second = Commands()
    monkeypatch.setattr(running, "_run", second)
    run_demo(tmp_path, SMALLEST, nothing, nothing)
    assert second.names == ["train", "evaluate", "voice-en"]


def test_a_stage_whose_command_changed_runs_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(running, "_run", Commands())
    run_demo(tmp_path, SMALLEST, nothing, nothing)
    changed = Commands()
    monkeypatch.setattr(running, "_run", changed)
    run_demo(tmp_path, dataclasses.replace(SMALLEST, sentences=5), nothing, nothing)
    assert changed.names == ["evaluate"]


def test_records_that_cannot_be_read_begin_anew(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "smallest").mkdir()
    (tmp_path / "smallest" / running.RECORDS).write_text("{half")
    commands = Commands()
    monkeypatch.setattr(running, "_run", commands)
    run_demo(tmp_path, SMALLEST, nothing, nothing)
    assert len(commands.names) == 7


@pytest.mark.long
def test_a_stage_that_fails_is_named_with_its_command() -> None:
    with pytest.raises(MyXTTSError, match="'check' ended with 1: myxtts check-data nowhere"):
        running._run(Stage("check", ("check-data", "nowhere")))


def test_the_full_size_clones_a_voice_it_was_not_trained_on(tmp_path: Path) -> None:
    size = SIZES["full"]
    folders = Folders(tmp_path, tmp_path / "full")
    reference = running._reference(folders, size)
    names = [stage.name for stage in stages(size, folders, reference)]
    assert {"voices", "voices-heard", "cloned-en", "cloned-fa"} < set(names)
    assert reference is not None
    assert reference.stem == "f2-high-00285"


@pytest.mark.skipif(not available(), reason="espeak-ng, which speaks the corpus, is not installed (the speech extra)")
def test_a_vocoder_is_given_to_every_stage_that_makes_sound(tmp_path: Path) -> None:
    folders = Folders(tmp_path, tmp_path / "full")
    listed = stages(SIZES["full"], folders, tmp_path / "voice.wav", "hifigan.onnx")
    taking = {stage.command[0] for stage in listed if "--vocoder=hifigan.onnx" in stage.command}
    assert taking == {"train", "evaluate", "synthesize", "clone-voice"}
    without = stages(SIZES["full"], folders, tmp_path / "voice.wav")
    assert not any("--vocoder" in word for stage in without for word in stage.command)


def test_a_folder_that_cannot_be_used_is_named(
    tmp_path: Path, run_myxtts: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    done = run_myxtts("demo", tmp_path / "file", "--quiet")
    assert done.returncode == 2
    assert "cannot be used for the demo (Not a directory)" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_quick_and_full_together_are_refused(run_myxtts: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run_myxtts("demo", "--quick", "--full")
    assert done.returncode == 2
    assert "either --quick or --full" in done.stderr
