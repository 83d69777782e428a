"""The demonstration: all its stages for real, in small, and what it does when it is interrupted."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_corpus import add_line, make_corpus

from myxtts.cli.demo import called_as
from myxtts.demo import run as running
from myxtts.demo.plan import HELD_OUT, SIZES, DemoSize, Folders, Stage, for_recordings, stages
from myxtts.demo.recordings import Recordings
from myxtts.demo.report import stage_line, summary, write_report
from myxtts.demo.run import StageResult, run_demo
from myxtts.errors import DataError, MyXTTSError, UsageError
from myxtts.text.espeak import available

Run = Callable[..., "subprocess.CompletedProcess[str]"]

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
    folders = Folders(folder, SMALLEST)
    finished = run_demo(folders, SMALLEST, nothing, nothing)
    values = write_report(folders, SMALLEST, finished, {"cpus": 2, "gpus": []}, ".venv/bin/myxtts")
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["size"] == values["size"] == "smallest"
    assert 0 <= report["stall_share"] <= 1
    assert report["real_time_factor"] > 0
    assert report["duration_ratio"] > 0
    for name in ("hello-en.wav", "voice-en.wav"):
        assert (folders.samples / name).stat().st_size > 1000
    assert (folders.samples / "voice-en.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text(encoding="utf-8")
    for link in ("smallest/diagnosis.html", "smallest/evaluation.html"):
        assert (folder / link).is_file()
        assert f'href="{link}"' in page
    # What the shipped voice says, what the new one says, and two sentences in three versions each.
    assert page.count("<audio") == 8
    assert "3 steps, the tallest" in page or "2 steps, the tallest" in page
    assert f".venv/bin/myxtts serve {folders.run} starter" in page

    # As when the demo was interrupted after training's last step, and before it was written down.
    records = folder / "smallest" / running.RECORDS
    written = json.loads(records.read_text(encoding="utf-8"))
    del written["train"]
    records.write_text(json.dumps(written), encoding="utf-8")
    resumed: list[Stage] = []
    finished = run_demo(folders, SMALLEST, resumed.append, nothing)
    assert [stage.name for stage in resumed] == ["train"]
    (trained,) = (done.result for done in finished if done.name == "train")
    assert (trained["reason"], trained["step"], trained["performance"]["steps"]) == ("finished", 3, 0)
    assert "nothing left to do: the run has done 3 of 3 steps" in capfd.readouterr().err
    values = write_report(folders, SMALLEST, finished, {"cpus": 2, "gpus": []})
    assert values["stall_share"] is None
    assert "3 steps, finished in an earlier call" in (folder / "report.html").read_text(encoding="utf-8")

    again: list[Stage] = []
    repeated = run_demo(folders, SMALLEST, again.append, nothing)
    assert again == []
    assert all(done.before and "done before" in stage_line(done) for done in repeated)


class Commands:
    """In place of the stages' processes: remembers what would have run, and fails where told to."""

    def __init__(self, fails: str | None = None) -> None:
        self.names: list[str] = []
        self.commands: dict[str, tuple[str, ...]] = {}
        self.fails = fails

    def __call__(self, stage: Stage) -> StageResult:
        self.names.append(stage.name)
        self.commands[stage.name] = stage.command
        if stage.name == self.fails:
            raise MyXTTSError("it failed")
        return StageResult(stage.name, stage.command, {}, 0.0)


def test_a_demo_that_stopped_goes_on_with_the_stage_that_failed(tmp_path: Path, monkeypatch: Any) -> None:
    first = Commands(fails="train")
    monkeypatch.setattr(running, "_run", first)
    with pytest.raises(MyXTTSError):
        run_demo(Folders(tmp_path, SMALLEST), SMALLEST, nothing, nothing)
    assert first.names == ["hello-en", "reads-fa", "corpus", "check", "precompute", "diagnose", "train"]
    second = Commands()
    monkeypatch.setattr(running, "_run", second)
    run_demo(Folders(tmp_path, SMALLEST), SMALLEST, nothing, nothing)
    assert second.names == ["train", "evaluate", "voice-en"]


def test_a_stage_whose_command_changed_runs_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(running, "_run", Commands())
    run_demo(Folders(tmp_path, SMALLEST), SMALLEST, nothing, nothing)
    changed = Commands()
    monkeypatch.setattr(running, "_run", changed)
    run_demo(Folders(tmp_path, SMALLEST), dataclasses.replace(SMALLEST, sentences=5), nothing, nothing)
    assert changed.names == ["evaluate"]


def test_records_that_cannot_be_read_begin_anew(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "smallest").mkdir()
    (tmp_path / "smallest" / running.RECORDS).write_text("{half")
    commands = Commands()
    monkeypatch.setattr(running, "_run", commands)
    run_demo(Folders(tmp_path, SMALLEST), SMALLEST, nothing, nothing)
    assert len(commands.names) == 9


@pytest.mark.long
def test_a_stage_that_fails_is_named_with_its_command() -> None:
    with pytest.raises(MyXTTSError, match="'check' ended with 1: myxtts check-data nowhere"):
        running._run(Stage("check", ("check-data", "nowhere")))


def test_the_full_size_clones_a_voice_it_was_not_trained_on(tmp_path: Path) -> None:
    size = SIZES["full"]
    folders = Folders(tmp_path, size)
    reference = running._reference(folders, size)
    names = [stage.name for stage in stages(size, folders, reference=reference)]
    assert {"voices", "voices-heard", "cloned-en", "cloned-fa"} < set(names)
    assert reference is not None
    assert reference.stem == "f2-high-00285"


@pytest.mark.skipif(not available(), reason="espeak-ng, which speaks the corpus, is not installed (the speech extra)")
def test_a_vocoder_is_given_to_every_stage_that_makes_sound(tmp_path: Path) -> None:
    folders = Folders(tmp_path, SIZES["full"])
    listed = stages(SIZES["full"], folders, reference=tmp_path / "voice.wav", vocoder="hifigan.onnx")
    taking = {stage.command[0] for stage in listed if "--vocoder=hifigan.onnx" in stage.command}
    assert taking == {"train", "evaluate", "synthesize", "clone-voice"}
    without = stages(SIZES["full"], folders, reference=tmp_path / "voice.wav")
    assert not any("--vocoder" in word for stage in without for word in stage.command)


@pytest.mark.long
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


def test_the_shipped_voice_greets_first_in_the_languages_it_speaks(tmp_path: Path) -> None:
    folders = Folders(tmp_path, SMALLEST)

    def first_three(*greeting: str) -> list[str]:
        return [stage.name for stage in stages(SMALLEST, folders, greeting=greeting)][:3]

    assert first_three("en") == ["hello-en", "reads-fa", "corpus"]
    assert first_three("en", "de") == ["hello-en", "hello-de", "reads-fa"]
    assert first_three("en", "fa") == ["hello-en", "hello-fa", "corpus"]


@pytest.fixture
def recordings(tmp_path: Path) -> Recordings:
    return Recordings.find(make_corpus(tmp_path / "my-voice", clips=40), None, HELD_OUT)


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed (the speech extra)")
@pytest.mark.parametrize(
    ("clips", "message"),
    [
        (None, "recorded: no such folder; --human takes the folder of your recordings"),
        (0, "no such file, and no other layout is recognised"),
        (3, "recorded: 3 clips with text, and the demo needs 20 or more"),
    ],
)
def test_recordings_that_are_not_enough_are_one_line_and_nothing_is_written(
    call_myxtts: Run, tmp_path: Path, clips: int | None, message: str
) -> None:
    if clips is not None:
        make_corpus(tmp_path / "recorded", clips=clips)
    done = call_myxtts("demo", tmp_path / "demo", "--human", tmp_path / "recorded")
    assert done.returncode == 1
    assert message in done.stderr
    assert "--layout" not in done.stderr  # which the demo does not take
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "demo").exists()


def test_a_language_without_recordings_is_refused(call_myxtts: Run) -> None:
    done = call_myxtts("demo", "--language", "de")
    assert done.returncode == 2
    assert "give their folder with --human" in done.stderr


def test_recordings_are_trained_on_from_the_shipped_voice_and_left_as_they_are(
    tmp_path: Path, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands()
    monkeypatch.setattr(running, "_run", commands)
    size = for_recordings(SIZES["standard"], recordings)
    folders = Folders(tmp_path / "demo", size, recordings)
    finished = run_demo(folders, size, nothing, nothing, recordings=recordings)
    assert commands.names == ["hello-en", "check", "precompute", "diagnose", "train", "evaluate", "voice-en"]
    (train,) = (done.command for done in finished if done.name == "train")
    assert "--init-from=starter" in train
    assert sorted(path.name for path in recordings.folder.iterdir()) == ["metadata.csv", "wavs"]
    assert f"cache_dir: {folders.work / 'features'}" in folders.config.read_text("utf-8")


def test_training_on_recordings_continues_with_its_own_weights(
    tmp_path: Path, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = for_recordings(SIZES["quick"], recordings)
    folders = Folders(tmp_path / "demo", size, recordings)
    monkeypatch.setattr(running, "_run", Commands(fails="train"))
    with pytest.raises(MyXTTSError):
        run_demo(folders, size, nothing, nothing, recordings=recordings)
    (folders.run / "step-00000010").mkdir(parents=True)
    second = Commands()
    monkeypatch.setattr(running, "_run", second)
    run_demo(folders, size, nothing, nothing, recordings=recordings)
    train = second.commands["train"]
    assert "--resume" in train
    assert not any(word.startswith("--init-from") for word in train)
    third = Commands()
    monkeypatch.setattr(running, "_run", third)
    run_demo(folders, size, nothing, nothing, recordings=recordings)
    assert third.names == []


def test_few_recordings_are_not_trained_on_for_long(recordings: Recordings) -> None:
    size = for_recordings(SIZES["full"], recordings)
    batches = recordings.training_clips / size.settings["batch_size"]
    assert size.steps / batches <= 33
    many = dataclasses.replace(recordings, training_clips=10_000)
    assert for_recordings(SIZES["full"], many).steps == 1500


def test_other_recordings_need_another_folder(
    tmp_path: Path, recordings: Recordings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_run", Commands())
    size = for_recordings(SIZES["quick"], recordings)
    run_demo(Folders(tmp_path / "demo", size, recordings), size, nothing, nothing, recordings=recordings)
    make_corpus(recordings.folder, clips=1, first=40)
    more = Recordings.find(recordings.folder, None, HELD_OUT)
    with pytest.raises(UsageError, match=r"clips 40 \(now 41\).*choose another folder"):
        run_demo(Folders(tmp_path / "demo", size, more), size, nothing, nothing, recordings=more)


def test_a_clip_that_cannot_be_used_is_named_and_does_not_end_the_demo(
    tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", python)
    folder = make_corpus(tmp_path / "my-voice", clips=20)
    add_line(folder, "gone", "no such file")
    done = running._run(Stage("check", ("check-data", str(folder)), may_find_problems=True))
    assert "20 clips, 1 problem; the first: " in summary(done)
    assert "metadata.csv:21" in summary(done)
    (folder / "metadata.csv").write_text("gone|no such file\n", encoding="utf-8")
    with pytest.raises(DataError, match="training cannot start"):
        running._run(Stage("check", ("check-data", str(folder)), may_find_problems=True))


def test_commands_that_are_shown_begin_as_the_program_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called_as([".venv/bin/myxtts"]) == ".venv/bin/myxtts"
    assert called_as(["/somewhere/myxtts/__main__.py"]) == f"{sys.executable} -m myxtts"
    monkeypatch.setattr(shutil, "which", lambda _: "/opt/bin/myxtts")
    assert called_as(["/opt/bin/myxtts"]) == "myxtts"


@pytest.mark.soak
@pytest.mark.skipif(not available(), reason="espeak-ng is not installed (the speech extra)")
def test_the_whole_journey_with_recordings(tmp_path: Path, run_myxtts: Run) -> None:
    folder = tmp_path / "my-voice"
    assert run_myxtts("make-corpus", folder, "--clips", 40).returncode == 0
    add_line(folder, "gone", "There is no such file.")
    done = run_myxtts("demo", tmp_path / "demo", "--human", folder, "--quick", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stages"]["train"]["result"]["step"] == 20
    assert (tmp_path / "demo" / "report.html").is_file()
