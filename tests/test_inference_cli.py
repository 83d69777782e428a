"""`myxtts synthesize` and `myxtts clone-voice`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import soundfile
from speech_like import RATE, sound
from watched_work import opened_files


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    from exported_voices import small_voice  # which needs TensorFlow

    return small_voice(tmp_path_factory.mktemp("runs") / "best", "regression")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    path = tmp_path_factory.mktemp("voice") / "me.flac"
    soundfile.write(path, np.stack([sound(5, 2.5, 48000)] * 2, axis=1), 48000)
    return path


def test_a_text_becomes_a_wav_file(call_myxtts, checkpoint, tmp_path):
    output = tmp_path / "out.wav"
    plot = tmp_path / "speech.png"
    result = call_myxtts(
        "synthesize", "--checkpoint", checkpoint, "--text", "Hello. Again.", "--output", output,
        "--plot", plot, "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    audio, rate = soundfile.read(output)
    assert soundfile.info(output).subtype == "PCM_16"
    assert (rate, len(audio) / rate) == (RATE, pytest.approx(report["seconds"], abs=0.001))
    assert report["sentences"] == ["Hello.", "Again."]
    factor = report["compute_seconds"] / report["seconds"]
    assert report["real_time_factor"] == pytest.approx(factor, rel=0.01, abs=0.01)
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_a_voice_is_cloned_and_the_real_time_factor_reported(
    call_myxtts, checkpoint, reference, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\ufeffFrom a file.\n\nIn two paragraphs.", encoding="utf-8")
    result = call_myxtts(
        "clone-voice", "--checkpoint", checkpoint, "--reference", reference, "--text-file", "text.txt",
        "--output", "[bold]me.wav",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "[bold]me.wav: " in result.stdout
    assert "real-time factor" in result.stdout
    assert "From a file." in result.stderr
    assert (tmp_path / "[bold]me.wav").is_file()


def test_times_of_words_are_written(call_myxtts, checkpoint, reference, tmp_path):
    path = tmp_path / "words.json"
    text = '<speak>Hello <voice name="me">AT&amp;T</voice>.</speak>'
    result = call_myxtts(
        "synthesize", "--checkpoint", checkpoint, "--text", text, "--voice", f"me={reference}",
        "--output", tmp_path / "out.wav", "--timestamps", path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "words.json: times of the words" in result.stdout.replace("\n", "")
    assert [word["text"] for word in json.loads(path.read_text(encoding="utf-8"))["words"]] == ["Hello", "AT&T"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "either --text or --text-file"),
        (["--text", "a", "--text-file", "b"], 2, "either --text or --text-file"),
        (["--text", "  "], 1, "no text to speak"),
        (["--text-file", "gone.txt"], 1, "gone.txt: cannot be read"),
        (["--text-file", "binary.txt"], 1, "binary.txt: not text"),
        (["--text-file", "empty.txt"], 1, "empty.txt: no text in it"),
        (["--text", "a", "--output", "out.mp3"], 2, "name it .wav"),
        (["--text", "a", "--output", "no/such/out.wav"], 2, "does not exist"),
        (["--text", "a", "--reference", "gone.wav"], 1, "gone.wav: there is no such file"),
        (["--text", "a", "--seed", "5000000000"], 2, "Invalid value for '--seed'"),
        (["--text", "a", "--seed", "-1"], 2, "Invalid value for '--seed'"),
        (["--text", "a"], 1, "nowhere: no such folder"),
        (["--text", "a", "--timestamps", "words.txt"], 2, "name it .json, .srt, .vtt"),
        (["--text", "a", "--voice", "me"], 2, "should be NAME=FILE"),
        (["--text", "a", "--voice", "me=gone.wav"], 1, "gone.wav: there is no such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run_myxtts, tmp_path, arguments, code, message):
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.txt").write_text("\n")
    result = run_myxtts("synthesize", "--checkpoint", "nowhere", *arguments, cwd=tmp_path)
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out.wav").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "<speak>a"], "SSML, line 1: no element found"),
        (["--text", "a < b", "--ssml"], "SSML, line 1"),
        (["--text", "a [pause:99]"], "write seconds from 0 to 10"),
    ],
)
def test_wrong_markup_is_said_before_tensorflow_is_loaded(run_myxtts, checkpoint, tmp_path, arguments, message):
    result = run_myxtts("synthesize", "--checkpoint", checkpoint, *arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_a_voice_is_not_cloned_without_a_reference(run_myxtts, checkpoint):
    result = run_myxtts("clone-voice", "--checkpoint", checkpoint, "--text", "a")
    assert result.returncode == 2
    assert "--reference" in result.stderr


def test_the_checksums_of_the_checkpoint_are_computed_once(call_myxtts, checkpoint, tmp_path):
    with opened_files() as times:
        done = call_myxtts("synthesize", "--checkpoint", checkpoint, "--text", "Hi.", "--output", tmp_path / "o.wav")
    assert done.returncode == 0, done.stderr
    assert times(checkpoint / "model.npz") == 2  # for its checksum, and to load the weights
