"""Every layout of a data set: recognised by looking, read without copying or renaming, and its mistakes with file and
line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from myxtts.audio.mel import MelSettings, log_mel
from myxtts.audio.reading import read_audio
from myxtts.cli import train
from myxtts.cli.options import ConfigOptions
from myxtts.config.config import DataConfig
from myxtts.config.sections import DataLayout
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.clips import Clip
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.inspection import inspect_data
from myxtts.data.clips.layouts.recognition import LAYOUTS
from myxtts.data.clips.metadata import Metadata, read_metadata
from myxtts.data.precompute import open_up_to_date
from myxtts.data.store.target import Target
from myxtts.errors import ConfigError, DataError
from myxtts.text import TextSettings

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SHARED_VOICES = Path(__file__).parent.parent.parent / "shared" / "voices"
RATE = 16000


def audio(path: Path, seconds: float = 0.1) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = (8000 * np.sin(np.arange(round(seconds * RATE)) / 7)).astype(np.int16)
    soundfile.write(path, samples, RATE)


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def remove(folder: Path, pattern: str) -> None:
    for path in folder.glob(pattern):
        path.unlink()


def write_json_lines(path: Path, entries: Sequence[Mapping[str, object]]) -> None:
    lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()
    write(path, gzip.compress(lines) if path.suffix == ".gz" else lines)


def read(folder: Path, **keys: object) -> Metadata:
    return read_metadata(DataConfig(dataset_path=str(folder), **keys))


def clips(folder: Path, **keys: object) -> list[Clip]:
    metadata = read(folder, **keys)
    assert metadata.problems == []
    assert all(os.path.isfile(clip.audio_path) for clip in metadata.clips)
    return metadata.clips


def make_ljspeech(folder: Path) -> None:
    write(folder / "metadata.csv", "a|No. 5|number five\nb|No. 6|number six\n")
    for name in "ab":
        audio(folder / "wavs" / f"{name}.wav")


def make_piper(folder: Path) -> None:
    write(
        folder / "metadata.csv",
        "a.wav|ann|Good morning.\nb.wav|ann|Good night.\nc|bob|Who is there?\nd|bob|No one.\n",
    )
    for name in "abcd":
        audio(folder / "wav" / f"{name}.wav")


def make_festvox(folder: Path) -> None:
    write(
        folder / "etc" / "txt.done.data", '( arctic_1 "Author of the \\"danger trail\\"." )\n(arctic_2 "For the." )\n'
    )
    audio(folder / "wav" / "arctic_1.wav")
    audio(folder / "wav" / "arctic_2.wav")


def make_vctk(folder: Path) -> None:
    write(folder / "speaker-info.txt", "ID  AGE  GENDER\np225  23  F\n")
    for speaker in ("p225", "p226"):
        for number in ("001", "002"):
            write(folder / "txt" / speaker / f"{speaker}_{number}.txt", f"Please call {number}.\n")
            for mic in ("mic1", "mic2"):
                audio(folder / "wav48_silence_trimmed" / speaker / f"{speaker}_{number}_{mic}.flac")


def make_libritts(folder: Path) -> None:
    write(folder / "SPEAKERS.txt", "; about the speakers\n103 | F | train-clean-100 | 30 | Karen Savage\n")
    for subset, speaker in (("train-clean-100", "103"), ("dev-clean", "84")):
        for number in range(2):
            stem = folder / subset / speaker / "1241" / f"{speaker}_1241_00000{number}_000001"
            audio(stem.with_suffix(".wav"))
            write(Path(f"{stem}.normalized.txt"), f"matthew cuthbert is surprised {number}")
            write(Path(f"{stem}.original.txt"), f"Matthew Cuthbert is surprised {number}")


def make_common_voice(folder: Path) -> None:
    header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment\n"
    lines = [f"{'ab'[n % 2] * 128}\tcommon_voice_fa_{n}.mp3\tسلام، دنیا {n}\t2\t0\t\t\t\tfa\t\n" for n in range(4)]
    write(folder / "validated.tsv", header + "".join(lines))
    write(folder / "train.tsv", header + "".join(lines[:2]))
    write(folder / "invalidated.tsv", header)
    write(folder / "reported.tsv", "sentence\tsentence_id\tlocale\treason\n")
    for number in range(4):
        audio(folder / "clips" / f"common_voice_fa_{number}.mp3", 0.3)


def make_m_ailabs(folder: Path) -> None:
    for locale, gender, speaker in (("en_US", "female", "mary_ann"), ("de_DE", "male", "karlsson")):
        book = folder / locale / "by_book" / gender / speaker / "book"
        write(book / "metadata.csv", "book_01_f01|Chapter 1.|Chapter one.\nbook_01_f02|The end.|The end.\n")
        audio(book / "wavs" / "book_01_f01.wav")
        audio(book / "wavs" / "book_01_f02.wav")


def make_nemo(folder: Path) -> None:
    audio(folder / "audio" / "a.wav")
    audio(folder / "audio" / "talk.wav", 1.0)
    write_json_lines(
        folder / "manifest.json",
        [
            {"audio_filepath": "audio/a.wav", "text": "Hello.", "duration": 0.1, "speaker": 3},
            {"audio_filepath": "audio/talk.wav", "text": "One.", "offset": 0.0, "duration": 0.4, "lang": "de"},
            {"audio_filepath": "audio/talk.wav", "text": "Two.", "offset": 0.5, "duration": 0.25, "lang": "de"},
        ],
    )


def recording(name: str, path: str) -> dict[str, object]:
    source = {"type": "file", "channels": [0], "source": path}
    return {"id": name, "sources": [source], "sampling_rate": RATE, "num_samples": RATE, "duration": 1.0}


def supervision(name: str, of: str, start: float, duration: float) -> dict[str, object]:
    words = {
        "text": "No. 5",
        "language": "English",
        "speaker": "ann",
        "custom": {"normalized_text": f"number {name}"},
    }
    return {"id": name, "recording_id": of, "start": start, "duration": duration, "channel": 0, **words}


def make_lhotse(folder: Path) -> None:
    audio(folder / "corpus" / "talk.wav", 1.0)
    recordings = [recording("talk", "/home/somebody/data/corpus/talk.wav")]
    write_json_lines(folder / "x_recordings_all.jsonl.gz", recordings)
    supervisions = [supervision("s1", "talk", 0.0, 0.5), supervision("s2", "talk", 0.5, 0.5)]
    write_json_lines(folder / "x_supervisions_all.jsonl.gz", supervisions)


def make_text_files(folder: Path) -> None:
    write(folder / "README.txt", "About these recordings.")
    for name in ("a", "day 2/b", "day 2/c"):
        audio(folder / f"{name}.ogg", 0.3)
        write(folder / f"{name}.txt", f"\ufeffThis is {name[-1]}.\r\nIt goes on.\r\n")


@dataclass(frozen=True)
class Expected:
    """What a layout's small data set should give: of each clip id, text, speaker and language."""

    make: Callable[[Path], None]
    clips: list[tuple[str, str, str, str]]


EXPECTED = {
    "ljspeech": Expected(
        make_ljspeech, [("a", "number five", "default", "en"), ("b", "number six", "default", "en")]
    ),
    "piper": Expected(
        make_piper,
        [
            ("a", "Good morning.", "ann", "en"),
            ("b", "Good night.", "ann", "en"),
            ("c", "Who is there?", "bob", "en"),
            ("d", "No one.", "bob", "en"),
        ],
    ),
    "festvox": Expected(
        make_festvox,
        [("arctic_1", 'Author of the "danger trail".', "default", "en"), ("arctic_2", "For the.", "default", "en")],
    ),
    "vctk": Expected(
        make_vctk,
        [(f"{s}/{s}_{n}", f"Please call {n}.", s, "en") for s in ("p225", "p226") for n in ("001", "002")],
    ),
    "libritts": Expected(
        make_libritts,
        [
            (f"{subset}/{s}/1241/{s}_1241_00000{n}_000001", f"matthew cuthbert is surprised {n}", s, "en")
            for subset, s in (("dev-clean", "84"), ("train-clean-100", "103"))
            for n in range(2)
        ],
    ),
    "common-voice": Expected(
        make_common_voice,
        [(f"common_voice_fa_{n}", f"سلام، دنیا {n}", "ab"[n % 2] * 128, "fa") for n in range(4)],
    ),
    "m-ailabs": Expected(
        make_m_ailabs,
        [
            (f"{place}/book_01_f0{n}", text, speaker, language)
            for place, speaker, language in (
                ("de_DE/by_book/male/karlsson/book", "karlsson", "de"),
                ("en_US/by_book/female/mary_ann/book", "mary_ann", "en"),
            )
            for n, text in ((1, "Chapter one."), (2, "The end."))
        ],
    ),
    "nemo": Expected(
        make_nemo,
        [
            ("audio/a", "Hello.", "3", "en"),
            ("audio/talk", "One.", "default", "de"),
            ("audio/talk@0.500", "Two.", "default", "de"),
        ],
    ),
    "lhotse": Expected(make_lhotse, [("s1", "number s1", "ann", "en"), ("s2", "number s2", "ann", "en")]),
    "text-files": Expected(
        make_text_files,
        [
            ("a", "This is a. It goes on.", "default", "en"),
            ("day 2/b", "This is b. It goes on.", "default", "en"),
            ("day 2/c", "This is c. It goes on.", "default", "en"),
        ],
    ),
}
each_layout = pytest.mark.parametrize("name", EXPECTED)


def as_expected(found: list[Clip]) -> list[tuple[str, str, str, str]]:
    return [(clip.id, clip.text, clip.speaker, clip.language) for clip in found]


def test_every_layout_has_a_test_and_a_name_in_the_configuration() -> None:
    assert EXPECTED.keys() == LAYOUTS.keys() == set(get_args(DataLayout)) - {"auto"}


@each_layout
def test_a_layout_is_recognised_and_its_clips_are_right(tmp_path: Path, name: str) -> None:
    EXPECTED[name].make(tmp_path)
    assert as_expected(clips(tmp_path)) == EXPECTED[name].clips
    assert read(tmp_path).layout.startswith(f"{name} (")


@each_layout
def test_a_layout_that_is_named_is_read_the_same(tmp_path: Path, name: str) -> None:
    EXPECTED[name].make(tmp_path)
    assert clips(tmp_path, data_layout=name) == clips(tmp_path)


@each_layout
def test_a_layout_may_lie_one_folder_down(tmp_path: Path, name: str) -> None:
    EXPECTED[name].make(tmp_path / "corpus")
    found = clips(tmp_path)
    assert [(clip.id, clip.text) for clip in found] == [(f"corpus/{e[0]}", e[1]) for e in EXPECTED[name].clips]
    assert [clip.speaker for clip in found] == [expected[2] for expected in EXPECTED[name].clips]


@each_layout
def test_check_data_counts_every_layout(tmp_path: Path, name: str) -> None:
    EXPECTED[name].make(tmp_path)
    config = DataConfig(dataset_path=str(tmp_path))
    report = inspect_data(read_metadata(config), config)
    assert report.ok
    assert report.clips == len(EXPECTED[name].clips)
    assert report.speakers.keys() == {expected[2] for expected in EXPECTED[name].clips}


def test_check_data_says_which_layout_it_took(tmp_path: Path, run_myxtts: Run) -> None:
    make_common_voice(tmp_path)
    shown = run_myxtts("check-data", tmp_path, "--layout", "common-voice").stdout
    assert "layout        common-voice (validated.tsv)" in shown
    assert "clips         4 (train 3, val 1)" in shown


def test_precompute_says_which_layout_it_took(tmp_path: Path, run_myxtts: Run) -> None:
    make_nemo(tmp_path)
    result = run_myxtts("precompute", "--data-path", tmp_path, "--num-workers", "1", "--json")
    assert result.returncode == 0
    assert "layout nemo (manifest.json)" in result.stderr
    assert json.loads(result.stdout)["clips"] == 3


# One thing wrong with each: what is done to the small data set, and the problem, with its file and line.
WRONG: dict[str, tuple[str, Callable[[Path], object], str, str, int]] = {
    "ljspeech: audio is missing": (
        "ljspeech",
        lambda folder: (folder / "wavs/b.wav").unlink(),
        "missing-audio",
        "metadata.csv",
        2,
    ),
    "piper: a line without speaker": (
        "piper",
        lambda folder: write(
            folder / "metadata.csv",
            "".join(f"{n}|{'ab'[n % 2]}|Sentence {n} of many.\n" for n in range(12)) + "x|No speaker.\n",
        ),
        "wrong-columns",
        "metadata.csv",
        13,
    ),
    "festvox: a broken line": (
        "festvox",
        lambda folder: write(folder / "etc/txt.done.data", '( arctic_1 "One." )\n( arctic_2 Two. )\n'),
        "wrong-columns",
        "etc/txt.done.data",
        2,
    ),
    "festvox: an id twice": (
        "festvox",
        lambda folder: write(folder / "etc/txt.done.data", '( arctic_1 "One." )\n\n( arctic_1 "Two." )\n'),
        "duplicate-id",
        "etc/txt.done.data",
        3,
    ),
    "vctk: audio is missing": (
        "vctk",
        lambda folder: remove(folder, "wav48_silence_trimmed/p226/p226_002*"),
        "missing-audio",
        "txt/p226/p226_002.txt",
        1,
    ),
    "vctk: an empty text": (
        "vctk",
        lambda folder: write(folder / "txt/p225/p225_001.txt", " \n"),
        "empty-text",
        "txt/p225/p225_001.txt",
        1,
    ),
    "libritts: a text is missing": (
        "libritts",
        lambda folder: (folder / "dev-clean/84/1241/84_1241_000001_000001.normalized.txt").unlink(),
        "empty-text",
        "dev-clean/84/1241/84_1241_000001_000001.wav",
        1,
    ),
    "libritts: audio is missing": (
        "libritts",
        lambda folder: (folder / "dev-clean/84/1241/84_1241_000001_000001.wav").unlink(),
        "missing-audio",
        "dev-clean/84/1241/84_1241_000001_000001.normalized.txt",
        1,
    ),
    "common-voice: audio is missing": (
        "common-voice",
        lambda folder: (folder / "clips/common_voice_fa_2.mp3").unlink(),
        "missing-audio",
        "validated.tsv",
        4,
    ),
    "common-voice: a path twice": (
        "common-voice",
        lambda folder: write(
            folder / "validated.tsv", (folder / "validated.tsv").read_bytes().replace(b"fa_3", b"fa_1")
        ),
        "duplicate-id",
        "validated.tsv",
        5,
    ),
    "m-ailabs: audio is missing": (
        "m-ailabs",
        lambda folder: (folder / "de_DE/by_book/male/karlsson/book/wavs/book_01_f02.wav").unlink(),
        "missing-audio",
        "de_DE/by_book/male/karlsson/book/metadata.csv",
        2,
    ),
    "nemo: not JSON": (
        "nemo",
        lambda folder: write(
            folder / "manifest.json", (folder / "manifest.json").read_bytes() + b'{"audio_filepath":\n'
        ),
        "wrong-columns",
        "manifest.json",
        4,
    ),
    "nemo: audio is missing": (
        "nemo",
        lambda folder: (folder / "audio/a.wav").unlink(),
        "missing-audio",
        "manifest.json",
        1,
    ),
    "lhotse: no such recording": (
        "lhotse",
        lambda folder: write_json_lines(
            folder / "x_supervisions_all.jsonl.gz",
            [supervision("s1", "talk", 0.0, 0.5), supervision("s2", "speech", 0.5, 0.5)],
        ),
        "wrong-columns",
        "x_supervisions_all.jsonl.gz",
        2,
    ),
    "lhotse: an id twice": (
        "lhotse",
        lambda folder: write_json_lines(
            folder / "x_supervisions_all.jsonl.gz",
            [supervision("s1", "talk", 0.0, 0.5), supervision("s1", "talk", 0.5, 0.5)],
        ),
        "duplicate-id",
        "x_supervisions_all.jsonl.gz",
        2,
    ),
    "text-files: not UTF-8": (
        "text-files",
        lambda folder: write(folder / "day 2/b.txt", b"caf\xe9"),
        "undecodable-text",
        "day 2/b.txt",
        1,
    ),
    "text-files: audio is missing": (
        "text-files",
        lambda folder: (folder / "day 2/b.ogg").unlink(),
        "missing-audio",
        "day 2/b.txt",
        1,
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_reported_with_file_and_line(tmp_path: Path, case: str) -> None:
    name, damage, kind, file, line = WRONG[case]
    EXPECTED[name].make(tmp_path)
    if name == "piper":
        for number in range(12):
            audio(tmp_path / "wav" / f"{number}.wav")
    damage(tmp_path)
    metadata = read(tmp_path)
    assert metadata.layout.startswith(name)
    assert [(problem.kind, problem.file, problem.line) for problem in metadata.problems] == [
        (kind, str(tmp_path / file), line)
    ]


def test_a_part_that_the_file_does_not_have_is_reported_with_its_line(tmp_path: Path) -> None:
    make_nemo(tmp_path)
    entry = {"audio_filepath": "audio/talk.wav", "text": "Late.", "offset": 0.9, "duration": 0.5}
    with (tmp_path / "manifest.json").open("a") as file:
        file.write(json.dumps(entry) + "\n")
    config = DataConfig(dataset_path=str(tmp_path))
    (problem,) = inspect_data(read_metadata(config), config).problems
    assert (problem.kind, problem.line) == ("wrong-part", 4)
    assert "from 0.900 s to 1.400 s is not in the file, which has 1.000 s" in problem.message


# Parts of a file


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_a_part_of_a_file_has_the_samples_of_that_part(tmp_path: Path, suffix: str) -> None:
    samples = np.random.default_rng(0).normal(0, 0.1, (3 * RATE, 2)).clip(-1, 1)
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, samples, RATE)
    whole, part = read_audio(path, RATE), read_audio(path, RATE, 1.25, 0.5)
    assert len(part) == RATE // 2
    # A decoder that begins in the middle of an MP3 file lacks what the frames before left over.
    skipped = 2000 if suffix == "mp3" else 0
    np.testing.assert_allclose(part[skipped:], whole[RATE * 5 // 4 :][skipped : RATE // 2], atol=1e-4)


def test_a_rounded_duration_means_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(16123, np.int16), RATE)
    assert [len(read_audio(path, RATE, 0.0, duration)) for duration in (1.0, 1.01, 1.05)] == [16123] * 3


def test_a_store_and_runtime_mode_read_the_same_part(tmp_path: Path) -> None:
    make_nemo(tmp_path)
    write_json_lines(
        tmp_path / "manifest.json",
        [
            {"audio_filepath": "audio/talk.wav", "text": "Whole."},
            {"audio_filepath": "audio/talk.wav", "text": "Two.", "offset": 0.5, "duration": 0.25},
        ],
    )
    config = DataConfig(dataset_path=str(tmp_path), sample_rate=RATE, num_workers=1, mel_dtype="float32")
    mel = MelSettings.from_config(config)
    metadata = read_metadata(config)
    runtime, _ = RuntimeClips.build(metadata, mel, TextSettings.from_config(config), 1)
    store, result = open_up_to_date(config, metadata)
    assert result.complete
    expected = [log_mel(read_audio(tmp_path / "audio/talk.wav", RATE, *part), mel) for part in ((), (0.5, 0.25))]
    for row in range(2):
        np.testing.assert_array_equal(store.mel(row), expected[row])
        np.testing.assert_array_equal(log_mel(runtime.read_samples(row, mel, np.float32), mel), expected[row])
    assert runtime.mel_lengths.tolist() == [len(one) for one in expected]
    assert runtime.graph_readable.tolist() == [True, False]
    store.close()


def test_a_part_that_moves_is_computed_again(tmp_path: Path) -> None:
    make_nemo(tmp_path)
    config = DataConfig(dataset_path=str(tmp_path), num_workers=1)
    open_up_to_date(config)[0].close()
    lines = (tmp_path / "manifest.json").read_text().replace('"duration": 0.25', '"duration": 0.3')
    (tmp_path / "manifest.json").write_text(lines)
    store, result = open_up_to_date(config)
    store.close()
    assert (result.columns["mel"].computed, result.columns["mel"].reused) == (1, 2)


# Paths of other machines


@pytest.mark.parametrize(
    "written",
    [
        "wavs/{}.wav",
        "./wavs/{}.wav",
        "/home/somebody/corpus/wavs/{}.wav",
        "corpus/wavs/{}.wav",
        "../corpus/wavs/{}.wav",
        "C:\\data\\corpus\\wavs\\{}.wav",
        "{here}/wavs/{}.wav",
    ],
)
def test_the_paths_of_a_manifest_may_come_from_anywhere(tmp_path: Path, written: str) -> None:
    names = ("a", "b")
    paths = [written.replace("{here}", str(tmp_path)).replace("{}", name) for name in names]
    write_json_lines(tmp_path / "m.jsonl", [{"audio_filepath": path, "text": "Hi."} for path in paths])
    for name in names:
        audio(tmp_path / "wavs" / f"{name}.wav")
    assert [clip.audio_path for clip in clips(tmp_path)] == [str(tmp_path / f"wavs/{name}.wav") for name in names]


def test_a_file_that_is_missing_is_not_taken_for_one_of_the_same_name_elsewhere(tmp_path: Path) -> None:
    for name in ("ann/1.wav", "1.wav", "2.wav"):
        audio(tmp_path / "wavs" / name)
    entries = [
        {"audio_filepath": f"/x/wavs/{path}", "text": "Hi."} for path in ("ann/1.wav", "bob/1.wav", "ann/2.wav")
    ]
    write_json_lines(tmp_path / "m.jsonl", entries)
    metadata = read(tmp_path)
    assert [clip.id for clip in metadata.clips] == ["wavs/ann/1"]
    assert [(problem.kind, problem.line) for problem in metadata.problems] == [
        ("missing-audio", 2),
        ("missing-audio", 3),
    ]


def test_backslashes_in_ids_are_folders(tmp_path: Path) -> None:
    write(tmp_path / "metadata.csv", "ann\\a.wav|Hi.\r\nann\\b|No.\r\n")
    audio(tmp_path / "wavs/ann/a.wav")
    audio(tmp_path / "wavs/ann/b.wav")
    assert [clip.id for clip in clips(tmp_path)] == ["ann/a", "ann/b"]


# Lists and their audio


@pytest.mark.parametrize("place", ["wav", "audio", "clips", ".", "data/recordings", "a/deep/folder"])
def test_audio_may_be_in_any_folder(tmp_path: Path, place: str) -> None:
    write(tmp_path / "metadata.csv", "a|Hi.\nb.wav|No.\n")
    audio(tmp_path / place / "a.flac")
    audio(tmp_path / place / "b.wav")
    assert [clip.id for clip in clips(tmp_path)] == ["a", "b"]


def test_audio_of_the_same_name_in_two_folders_is_not_guessed(tmp_path: Path) -> None:
    write(tmp_path / "metadata.csv", "a|Hi.\nb|No.\n")
    for name in ("22k/a.wav", "48k/a.wav", "22k/b.wav"):
        audio(tmp_path / name)
    (problem,) = read(tmp_path).problems
    assert (problem.kind, problem.line) == ("missing-audio", 1)
    assert "several audio files for 'a'" in problem.message
    assert "set wavs_dir" in problem.message


def test_where_there_is_a_wavs_folder_audio_elsewhere_is_not_taken(tmp_path: Path) -> None:
    write(tmp_path / "metadata.csv", "a|Hi.\nb|No.\n")
    audio(tmp_path / "wavs/a.wav")
    audio(tmp_path / "backup/b.wav")
    assert [(problem.kind, problem.line) for problem in read(tmp_path).problems] == [("missing-audio", 2)]


@pytest.mark.parametrize("name", ["transcripts.txt", "metadata.tsv", "list.csv", "lines.psv"])
def test_a_list_by_another_name_is_recognised_by_the_audio_it_names(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "a|Hi.\nb|No.\n")
    write(tmp_path / "notes.txt", "speaker|Ann\nstudio|A\n")
    audio(tmp_path / "wavs/a.wav")
    audio(tmp_path / "wavs/b.wav")
    assert len(clips(tmp_path)) == 2
    assert read(tmp_path).layout == f"ljspeech ({name})"


@pytest.mark.parametrize(
    "content",
    [
        "a\tHi, you.\nb\tNo; not now.\n",
        "id\ttext\na\tHi, you.\nb\tNo; not now.\n",
        'id,text\na,"Hi, you."\nb,No; not now.\n',
        'id;text\na;Hi, you.\nb;"No; not now."\n',
        'file_name,transcription\na.wav,"Hi, you."\nb.wav,No; not now.\n',
        "path|sentence\nwavs/a.wav|Hi, you.\nwavs/b.wav|No; not now.\n",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_columns_may_be_separated_otherwise(tmp_path: Path, content: str, encoding: str) -> None:
    write(tmp_path / "metadata.csv", content.replace("\n", "\r\n").encode(encoding))
    audio(tmp_path / "wavs/a.wav")
    audio(tmp_path / "wavs/b.wav")
    assert [clip.text for clip in clips(tmp_path)] == ["Hi, you.", "No; not now."]


def test_a_separator_inside_a_text_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "metadata.csv", "id,text\na,Hi, you.\nb,No.\n")
    audio(tmp_path / "wavs/b.wav")
    (problem,) = read(tmp_path).problems
    assert (problem.kind, problem.line) == ("pipe-in-text", 2)
    assert "a ',' inside the text?" in problem.message


def test_a_column_of_names_with_one_form_each_is_not_one_of_speakers(tmp_path: Path) -> None:
    lines = [(n, word, form) for n, (word, form) in enumerate([("21", "twenty one"), ("22", "twenty two")] * 3)]
    write(tmp_path / "metadata.csv", "".join(f"{n}|{word}|{form}\n" for n, word, form in lines))
    for number in range(6):
        audio(tmp_path / "wavs" / f"{number}.wav")
    assert [clip.text for clip in clips(tmp_path)] == [form for _, _, form in lines]
    assert {clip.speaker for clip in clips(tmp_path)} == {"default"}
    assert {clip.speaker for clip in clips(tmp_path, data_layout="piper")} == {"21", "22"}


# Several sets


def test_folders_with_metadata_each_are_a_speaker_each(tmp_path: Path) -> None:
    for name in ("ann", "bob"):
        make_ljspeech(tmp_path / name)
    assert [(clip.id, clip.speaker) for clip in clips(tmp_path)] == [
        ("ann/a", "ann"),
        ("ann/b", "ann"),
        ("bob/a", "bob"),
        ("bob/b", "bob"),
    ]


def test_a_folder_may_be_called_after_its_language(tmp_path: Path) -> None:
    make_ljspeech(tmp_path / "de_DE")
    make_ljspeech(tmp_path / "fa")
    assert [clip.language for clip in clips(tmp_path)] == ["de", "de", "fa", "fa"]


def test_folders_called_train_and_val_are_that(tmp_path: Path) -> None:
    for name in ("train", "val", "test"):
        make_ljspeech(tmp_path / name)
    metadata = read(tmp_path)
    assert [clip.id for clip in metadata.clips] == ["train/a", "train/b", "val/a", "val/b"]
    assert metadata.splits == ["train", "train", "val", "val"]
    assert metadata.speakers == ["default"]
    assert metadata.notes == ["left out as a test set: test"]


def test_manifests_called_train_and_dev_are_training_and_validation(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        audio(tmp_path / "wavs" / f"{name}.wav")
    for name, listed in (("dev_manifest.json", "c"), ("train_manifest.json", "ab"), ("test_manifest.json", "c")):
        entries = [{"audio_filepath": f"wavs/{one}.wav", "text": "Hi."} for one in listed]
        write_json_lines(tmp_path / name, entries)
    metadata = read(tmp_path)
    assert metadata.splits == ["train", "train", "val"]
    assert metadata.layout == ("nemo (train_manifest.json to train on, dev_manifest.json to validate with)")


def test_lists_whose_names_do_not_tell_are_named_in_one_line(tmp_path: Path) -> None:
    make_nemo(tmp_path)
    (tmp_path / "other.json").write_bytes((tmp_path / "manifest.json").read_bytes())
    with pytest.raises(DataError, match=r"manifest\.json, other\.json all list clips; .*metadata_file"):
        read(tmp_path)
    assert len(clips(tmp_path, metadata_file="other.json")) == 3


@each_layout
def test_separate_training_and_validation_sets_may_be_of_any_layout(tmp_path: Path, name: str) -> None:
    EXPECTED[name].make(tmp_path / "one")
    EXPECTED["ljspeech"].make(tmp_path / "other")
    for first, second in (("one", "other"), ("other", "one")):
        keys = train._separate_sets(None, tmp_path / first, tmp_path / second)
        metadata = read_metadata(ConfigOptions().load(**keys).config.data)
        metadata.require_usable()
        assert metadata.problems == []
        counts = {"one": len(EXPECTED[name].clips), "other": 2}
        assert (len(metadata.rows("train")), len(metadata.rows("val"))) == (counts[first], counts[second])


def test_the_cuts_of_lhotse_are_clips(tmp_path: Path) -> None:
    audio(tmp_path / "talk.wav", 1.0)
    own = [supervision("s1", "talk", 0.0, 0.25), supervision("s2", "talk", 0.25, 0.25)]
    cut = {"id": "cut", "start": 0.5, "duration": 0.5, "channel": 0, "type": "MonoCut", "supervisions": own}
    write_json_lines(tmp_path / "cuts.jsonl.gz", [{**cut, "recording": recording("talk", "talk.wav")}])
    assert [(clip.id, clip.start, clip.duration) for clip in clips(tmp_path)] == [
        ("s1", 0.5, 0.25),
        ("s2", 0.75, 0.25),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sources": [{"type": "url", "channels": [0], "source": "http://x"}]}, "of type 'url', not 'file'"),
        ({"sources": []}, "not exactly one source"),
        (
            {"sources": [{"type": "file", "channels": [0, 1], "source": "talk.wav"}]},
            "one channel of a recording with 2",
        ),
        ({"transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}, "save its audio first"),
    ],
)
def test_a_recording_that_is_not_simply_a_file_is_said_in_one_line(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    make_lhotse(tmp_path)
    write_json_lines(tmp_path / "x_recordings_all.jsonl.gz", [recording("talk", "corpus/talk.wav") | change])
    problems = read(tmp_path).problems
    assert [problem.line for problem in problems] == [1, 2]
    assert all(message in problem.message for problem in problems)


# When nothing fits


def test_a_folder_of_no_layout_is_one_line_that_names_what_was_looked_for_and_found(
    tmp_path: Path, run_myxtts: Run
) -> None:
    audio(tmp_path / "takes" / "a.wav")
    write(tmp_path / "script.pdf", b"%PDF")
    result = run_myxtts("check-data", tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    for words in ("takes/", "1 file with .pdf", "etc/txt.done.data", "validated.tsv", "by_book", "(data_layout)"):
        assert words in result.stderr


def test_a_layout_that_is_named_and_not_there_says_what_it_looks_for(tmp_path: Path) -> None:
    make_ljspeech(tmp_path)
    with pytest.raises(DataError, match=r"the layout is not vctk\. There: wavs/, .*txt/SPEAKER"):
        read(tmp_path, data_layout="vctk")


def test_a_layout_without_a_metadata_file_takes_none(tmp_path: Path) -> None:
    make_ljspeech(tmp_path)
    with pytest.raises(ConfigError, match="data_layout is vctk, which has no metadata file"):
        read(tmp_path, data_layout="vctk", metadata_file="metadata.csv")


def test_a_layout_that_is_recognised_changes_no_name_of_a_store(tmp_path: Path) -> None:
    make_ljspeech(tmp_path)

    def stores(**keys: object) -> list[object]:
        config = DataConfig(dataset_path=str(tmp_path), **keys)
        return [target.settings["data"] for target in Target.candidates(config)]

    assert stores()[0] == {"root": None, "sets": [["metadata.csv", "wavs"]]}
    assert stores(data_layout="piper") != stores()


KEYS = (
    "audio_filepath", "text", "offset", "duration", "supervisions", "recording", "sources", "id", "recording_id",
    "source", "type", "channels", "channel", "custom", "language", "speaker",
)  # fmt: skip
FILES = (
    "metadata.csv", "etc/txt.done.data", "validated.tsv", "m.jsonl", "m.jsonl.gz", "cuts.jsonl", "supervisions.jsonl",
    "a.txt", "a.normalized.txt", "txt/p/a.txt", "l.tsv",
)  # fmt: skip
ALMOST = ("a|ann|Hi you.", '( a "Hi." )', "client_id\tpath\tsentence", "x\ta.wav\tHi.", "path,text", "{")
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=12,
)
LINES = st.lists(st.one_of(st.text(max_size=40), st.sampled_from(ALMOST), JSON.map(json.dumps)), max_size=6).map(
    lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")
)


@pytest.mark.long
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.one_of(st.binary(max_size=200), LINES), file=st.sampled_from(FILES))
def test_whatever_a_file_holds_nothing_but_a_data_error_is_raised(content: bytes, file: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audio(folder / "a.wav")
        audio(folder / "wav" / "p" / "a.wav")
        write(folder / file, content)
        try:
            metadata = read(folder)
        except DataError:
            return
        metadata.origin()
        for clip in metadata.clips:
            assert Path(clip.audio_path).resolve().is_relative_to(folder.resolve())
        for problem in [*metadata.problems, *probe_audio(metadata.clips, workers=1).problems]:
            str(problem).encode()


@pytest.mark.skipif(not SHARED_VOICES.is_dir(), reason="the real voices are not on this machine")
@pytest.mark.parametrize(("name", "count"), [("kathleen-en", 1142), ("flemishguy-nl", 760), ("kerstin-de", 560)])
def test_the_real_voices_are_read(name: str, count: int) -> None:
    assert len(clips(SHARED_VOICES / name)) == count
