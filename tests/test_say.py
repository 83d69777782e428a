"""`myxtts say`, and the voice that comes with MyXTTS."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.errors import CheckpointError
from myxtts.inference.xtts_inference import XTTSInference, read_voice
from myxtts.models.checkpoint import WEIGHTS, read_checkpoint
from myxtts.models.shipped import SHIPPED_VOCODER, STARTER_BUNDLE, STARTER_VOICE
from myxtts.runtime.bundle import Bundle
from myxtts.text.espeak import available

Run = Callable[..., "subprocess.CompletedProcess[str]"]

needs_espeak = pytest.mark.skipif(not available(), reason="espeak-ng is not installed")


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_the_starter_is_small_and_its_weights_are_halves() -> None:
    assert size_of(STARTER_VOICE) + size_of(SHIPPED_VOCODER) < 12e6
    with np.load(STARTER_VOICE / WEIGHTS, allow_pickle=False) as weights:
        assert {weights[name].dtype for name in weights.files} == {np.dtype(np.float16)}


def test_the_starter_says_nothing_about_the_machine_it_was_trained_on() -> None:
    for folder in (STARTER_VOICE, STARTER_BUNDLE, SHIPPED_VOCODER):
        for file in folder.iterdir():
            if file.suffix in (".json", ".yaml", ".md"):
                assert "/work" not in file.read_text(encoding="utf-8")


@needs_espeak
def test_the_starter_is_found_by_its_name_and_a_folder_of_that_name_comes_first(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(read_voice("starter"), Bundle)
    assert read_checkpoint("starter").path == STARTER_VOICE
    (tmp_path / "starter").mkdir()
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_voice("starter")


@needs_espeak
@pytest.mark.long
def test_the_starter_speaks_at_a_usual_pace_and_level() -> None:
    speaker = XTTSInference("starter")
    assert speaker.languages == ("en",)
    speech = speaker.synthesize("The morning train was late again, so we walked along the river instead.")
    assert 2.5 < speech.seconds < 6
    assert 0.1 < np.abs(speech.audio).max() <= 1
    assert len(speech.words) == 13


@needs_espeak
@pytest.mark.long
def test_a_text_is_spoken_to_a_file_without_tensorflow(run_myxtts: Run, tmp_path) -> None:
    output = tmp_path / "hello.wav"
    here = Path(__file__).parent
    without = {**os.environ, "PYTHONPATH": f"{here / 'without_tensorflow'}{os.pathsep}{here.parent}"}
    result = run_myxtts("say", "Hello there.", "--output", output, "--json", env=without)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["output"], report["player"]) == (str(output), None)
    assert soundfile.info(output).duration == pytest.approx(report["seconds"], abs=0.01)


@needs_espeak
def test_a_text_is_played_by_the_first_program_that_can(call_myxtts: Run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path / "bin" / "paplay", "exit 1")  # as where there is no sound server
    program(tmp_path / "bin" / "aplay", f'cp "$2" {tmp_path / "heard.wav"}')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    result = call_myxtts("say", "Hello.", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "seconds": pytest.approx(soundfile.info(tmp_path / "heard.wav").duration, abs=0.01),
        "language": "en",
        "output": None,
        "player": "aplay",
    }
    assert not (tmp_path / "said.wav").exists()


@needs_espeak
def test_where_nothing_plays_it_is_written_and_said(call_myxtts: Run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = call_myxtts("say", "Hello.")
    assert result.returncode == 0, result.stderr
    assert "said.wav: " in result.stdout
    assert "no sound device here" in " ".join(result.stdout.split())
    assert soundfile.info(tmp_path / "said.wav").duration > 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["say", " "], "there is no text to speak"),
        (["say", "Hello.", "--output", "hello.mp3"], "the file written is WAV"),
        (["say", "Hello.", "--output", "nowhere/hello.wav"], "the folder nowhere does not exist"),
        (["say", "Hello.", "--checkpoint", "nowhere"], "nowhere: no such folder"),
        pytest.param(["say", "سلام", "--language", "fa"], "this voice speaks en", marks=needs_espeak),
        pytest.param(["say", "Hello.", "--speed", "9"], "speed", marks=needs_espeak),
    ],
)
def test_a_mistake_is_one_line(call_myxtts: Run, tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    result = call_myxtts(*arguments)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def program(path: Path, does: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@needs_espeak
def test_speech_that_cannot_be_written_is_one_line(call_myxtts: Run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "said.wav").mkdir()
    result = call_myxtts("say", "Hello.")
    assert result.returncode == 2
    assert "said.wav: cannot be written" in result.stderr
    assert "Traceback" not in result.stderr
