"""The corpus maker: layout, repeatability, refusals, interruption."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import soundfile

from myxtts.child_program import child_command
from myxtts.config.config import DataConfig
from myxtts.corpus import make
from myxtts.corpus.make import make_corpus
from myxtts.corpus.plan import CorpusSettings, plan_corpus
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError, MissingExtraError, MyXTTSError, UsageError

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# Two chunks, breathy voices (f5, Alicia) among them, two languages.
CHUNK_CLIPS = 40
SEVERAL_CLIPS = CHUNK_CLIPS + 30
SEVERAL = CorpusSettings(clips=SEVERAL_CLIPS, speakers=6, languages=("en", "fa"), seed=7)

MAKE_SOME = f"""
import itertools, os, signal, sys
from myxtts.corpus import make
from myxtts.corpus.plan import CorpusSettings
make.CHUNK_CLIPS = {CHUNK_CLIPS}
settings = CorpusSettings(clips={SEVERAL_CLIPS}, speakers=6, languages=("en", "fa"), seed=7)
done = itertools.count(1)
def kill_at_the_twentieth(clips):
    if next(done) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
make.make_corpus(sys.argv[1], settings, workers=1, on_progress=kill_at_the_twentieth)
"""


@pytest.fixture(scope="module", autouse=True)
def short_chunks() -> Iterator[None]:
    """So that a corpus of several chunks is soon spoken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(make, "CHUNK_CLIPS", CHUNK_CLIPS)
        yield


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora") / "several"
    make_corpus(folder, SEVERAL, workers=1)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines(folder: Path) -> list[list[str]]:
    return [line.split("|") for line in (folder / "metadata.csv").read_text("utf-8").splitlines()]


def test_one_speaker_gives_the_layout_of_ljspeech(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "new" / "corpus", CorpusSettings(clips=3))
    folder = Path(corpus.path)
    assert sorted(path.name for path in folder.iterdir()) == ["corpus.json", "metadata.csv", "wavs"]
    assert [row[0] for row in lines(folder)] == ["plain-00001", "plain-00002", "plain-00003"]
    assert all(text == normalised for _, text, normalised in lines(folder))
    info = soundfile.info(folder / "wavs" / "plain-00001.wav")
    assert (info.samplerate, info.channels, info.format, info.subtype) == (22050, 1, "WAV", "PCM_16")


def test_a_corpus_is_a_data_set_without_problems(several: Path) -> None:
    metadata = read_metadata(DataConfig(dataset_path=str(several)))
    headers = probe_audio(metadata.clips)
    assert metadata.problems == headers.problems == []
    assert len(metadata.clips) == SEVERAL_CLIPS
    assert headers.seconds.min() > 0.5
    assert headers.seconds.max() < 15


@pytest.mark.long
def test_the_same_settings_give_the_same_bytes_whatever_the_number_of_workers(several: Path, tmp_path: Path) -> None:
    make_corpus(tmp_path / "again", SEVERAL, workers=3)
    assert contents(tmp_path / "again") == contents(several)


def test_another_seed_gives_other_sentences(several: Path) -> None:
    other = plan_corpus(CorpusSettings(clips=30, seed=8))
    assert not {clip.text for clip in other} & {row[1] for row in lines(several)}


def test_several_speakers_and_languages_are_named_in_columns(several: Path) -> None:
    header, *rows = lines(several)
    assert header == ["id", "text", "speaker", "language"]
    assert all(row[0].startswith(f"{row[2]}-") for row in rows)


def test_speakers_share_the_clips_evenly_and_each_speaks_every_language(several: Path) -> None:
    count = Counter((row[2], row[3]) for row in lines(several)[1:])
    assert len(count) == 12
    assert max(count.values()) - min(count.values()) <= 1


def test_no_sentence_is_said_twice(several: Path) -> None:
    assert len({row[1] for row in lines(several)[1:]}) == SEVERAL_CLIPS


def test_every_speaker_can_say_the_same_sentences() -> None:
    plan = plan_corpus(CorpusSettings(clips=12, speakers=3, same_sentences=True))
    by_speaker = [[clip.text for clip in plan if clip.speaker.name == name] for name in ("plain", "f5", "david")]
    assert by_speaker[0] == by_speaker[1] == by_speaker[2]
    assert len(set(by_speaker[0])) == 4


def test_a_language_other_than_english_is_named_even_alone(tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", CorpusSettings(clips=2, languages=("fa",)))
    assert {clip.language for clip in read_metadata(DataConfig(dataset_path=str(tmp_path / "c"))).clips} == {"fa"}


def test_all_clips_are_about_equally_loud(several: Path) -> None:
    for path in sorted((several / "wavs").iterdir())[::10]:
        audio, _ = soundfile.read(path)
        assert 0.04 < (audio**2).mean() ** 0.5 < 0.075
        assert abs(audio).max() <= 0.951


def test_another_sample_rate_changes_the_rate_and_not_the_length(tmp_path: Path) -> None:
    lengths = []
    for rate in (16000, 22050, 48000):
        folder = make_corpus(tmp_path / str(rate), CorpusSettings(clips=1, sample_rate=rate)).path
        info = soundfile.info(Path(folder) / "wavs" / "plain-00001.wav")
        assert info.samplerate == rate
        lengths.append(info.frames / rate)
    assert max(lengths) - min(lengths) < 1e-3


def test_a_text_file_is_spoken_line_by_line(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b'\xef\xbb\xbfFirst  line.\r\n\r\n...\nSecond "line".\n')
    folder = Path(make_corpus(tmp_path / "c", CorpusSettings(text_file=text)).path)
    assert [row[1] for row in lines(folder)] == ["First line.", 'Second "line".']


def test_a_text_file_starts_again_when_there_are_more_clips(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("One.\nTwo.\n")
    plan = plan_corpus(CorpusSettings(clips=5, text_file=text))
    assert [clip.text for clip in plan] == ["One.", "Two.", "One.", "Two.", "One."]


def test_a_text_file_gives_languages_that_have_no_sentences(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Guten Morgen.\n", encoding="utf-8")
    corpus = make_corpus(tmp_path / "c", CorpusSettings(text_file=text, languages=("de",)))
    assert corpus.seconds > 0.3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Fine.\nThis | that.\n\xff\n", r"(?s)text\.txt:2: has a '\|'.*text\.txt:3: not UTF-8"),
        (b"|\n" * 9, "and 6 more"),
        (b"\n  \n--\n", "has no sentence"),
    ],
)
def test_a_text_file_that_cannot_be_used_is_refused_with_its_lines(
    tmp_path: Path, content: bytes, message: str
) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    with pytest.raises(DataError, match=message):
        make_corpus(tmp_path / "c", CorpusSettings(text_file=text))
    assert not (tmp_path / "c").exists()


def test_a_missing_text_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.txt: cannot be read"):
        make_corpus(tmp_path / "c", CorpusSettings(text_file=tmp_path / "nowhere.txt"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"languages": ("klingon",)}, "klingon"),
        ({"languages": ("de",)}, "no sentences for 'de'"),
        ({"languages": ("en", "en")}, "each named once"),
        ({"languages": ("en", "fa"), "text_file": "x.txt"}, "one language"),
        ({"speakers": 1000}, "voices"),
        ({"clips": 2, "speakers": 3}, "fewer than 3 speakers"),
        ({"sample_rate": 100}, "8000 to 96000"),
    ],
)
def test_settings_that_cannot_be_met_are_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make_corpus(tmp_path / "c", CorpusSettings(**settings))  # type: ignore[arg-type]
    assert not (tmp_path / "c").exists()


def test_without_espeak_ng_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'myxtts\[speech\]'"):
        make_corpus(tmp_path / "c", CorpusSettings(clips=1))


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not empty"):
        make_corpus(tmp_path, CorpusSettings(clips=1))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        make_corpus(tmp_path / "c", CorpusSettings(clips=1))


def test_a_corpus_of_other_settings_is_refused_with_what_differs(tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", CorpusSettings(clips=2))
    with pytest.raises(UsageError, match=r"clips 2 \(now 3\).*choose another folder"):
        make_corpus(tmp_path / "c", CorpusSettings(clips=3))
    with pytest.raises(UsageError, match=r"seed 0 \(now 1\)"):
        make_corpus(tmp_path / "c", CorpusSettings(clips=2, seed=1))


def test_another_text_is_another_corpus(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("One.\n")
    make_corpus(tmp_path / "c", CorpusSettings(text_file=text))
    text.write_text("Two.\n")
    with pytest.raises(UsageError, match="other settings: content"):
        make_corpus(tmp_path / "c", CorpusSettings(text_file=text))


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.json").write_text("[1, 2")
    with pytest.raises(UsageError, match="not the description of a corpus"):
        make_corpus(tmp_path, CorpusSettings(clips=1))


def test_a_complete_corpus_is_left_as_it_is(tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", CorpusSettings(clips=2))
    (tmp_path / "c" / "cached_features").mkdir()
    before = os.stat(tmp_path / "c" / "wavs" / "plain-00001.wav").st_mtime_ns
    steps: list[int] = []
    corpus = make_corpus(tmp_path / "c", CorpusSettings(clips=2), on_progress=steps.append)
    assert (corpus.clips, corpus.spoken, sum(steps)) == (2, 0, 2)
    assert os.stat(tmp_path / "c" / "wavs" / "plain-00001.wav").st_mtime_ns == before


@pytest.mark.long
def test_a_lost_clip_is_spoken_again_with_the_same_bytes(several: Path, tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", SEVERAL)
    lost = sorted((tmp_path / "c" / "wavs").iterdir())[-1]
    lost.unlink()
    assert make_corpus(tmp_path / "c", SEVERAL).spoken < SEVERAL_CLIPS
    assert contents(tmp_path / "c") == contents(several)


def test_progress_adds_up(tmp_path: Path) -> None:
    steps: list[int] = []
    make_corpus(tmp_path / "c", CorpusSettings(clips=5), on_progress=steps.append)
    assert sum(steps) == 5


@pytest.mark.long
def test_a_killed_run_looks_incomplete_and_is_completed_to_the_same_bytes(
    several: Path, tmp_path: Path, python: str
) -> None:
    folder = tmp_path / "c"
    killed = subprocess.run([python, "-c", MAKE_SOME, str(folder)])
    assert killed.returncode == -signal.SIGKILL
    (folder / "wavs" / "plain-00001.wav.12345.part").write_bytes(b"RIFF")
    assert not (folder / "metadata.csv").exists()
    with pytest.raises(DataError, match="no such file"):
        read_metadata(DataConfig(dataset_path=str(folder)))
    assert make_corpus(folder, SEVERAL).clips == SEVERAL_CLIPS
    assert contents(folder) == contents(several)


def test_a_second_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    make_corpus(tmp_path, CorpusSettings(clips=1))
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another make-corpus"):
            make_corpus(tmp_path, CorpusSettings(clips=1))
    finally:
        os.close(handle)


def test_a_clip_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    make_corpus(tmp_path / "c", CorpusSettings(clips=1))
    (tmp_path / "c" / "wavs" / "plain-00001.wav").unlink()
    (tmp_path / "c" / "wavs" / "plain-00001.wav").mkdir()
    with pytest.raises(MyXTTSError, match=r"could not be spoken: .*plain-00001.wav: Is a directory"):
        make_corpus(tmp_path / "c", CorpusSettings(clips=1))
    assert not (tmp_path / "c" / "metadata.csv").exists()


def test_a_text_without_a_sound_is_named(tmp_path: Path) -> None:
    clip = {"path": str(tmp_path / "a.wav"), "text": " ", "voice": "en", "rate_wpm": 175, "pitch": 50}
    task = json.dumps({"sample_rate": 22050, "clips": [clip]})
    command = child_command("myxtts.corpus.worker")
    result = subprocess.run(command, input=task, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (1, "espeak-ng is silent for the text ' '\n")
    assert list(tmp_path.iterdir()) == []


def test_the_command_reports_what_it_made(tmp_path: Path, run_myxtts: Run) -> None:
    arguments = ["make-corpus", tmp_path / "c", "--clips", 4, "--speakers", 2, "--workers", 2]
    result = run_myxtts(*arguments, "--language", "en", "--language", "fa", "--json")
    report = json.loads(result.stdout)
    assert (result.returncode, report["clips"], report["spoken"]) == (0, 4, 4)
    assert (report["speakers"], report["languages"]) == (["plain", "f5"], ["en", "fa"])
    again = run_myxtts(*arguments, "--language", "en", "--language", "fa")
    assert "4 clips" in again.stdout
    assert "existed already" in again.stderr


def test_the_command_ends_with_2_for_settings_that_cannot_be_met(tmp_path: Path, run_myxtts: Run) -> None:
    result = run_myxtts("make-corpus", tmp_path / "c", "--speakers", 1000)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
