"""`check-data`: what it reports, what it ends with, what it costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import wave
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.clips import text_inspection
from myxtts.data.clips.inspection import DataReport, inspect_data
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.clips.text_inspection import inspect_texts
from myxtts.text.espeak import available

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HEADER = "id|text|speaker|language\n"

CHECK_AND_MEASURE = """
import resource, sys
from myxtts.cli.app import _run
code = _run(["check-data", sys.argv[1], "--json", "--num-workers", "2"])
loaded = {"tensorflow", "keras"} & sys.modules.keys()
# Not getrusage: it still counts the memory of whoever started this process.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(own + 2 * child, file=sys.stderr)
sys.exit(f"loaded {loaded}" if loaded else code)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty clips of 0.5 to 4.4 s at two rates: two speakers, two languages."""
    (tmp_path / "wavs").mkdir()
    rows = []
    for number in range(40):
        rate = 22050 if number % 4 else 16000
        samples = np.zeros(round((0.5 + number / 10) * rate), dtype=np.int16)
        soundfile.write(tmp_path / "wavs" / f"c{number:02}.wav", samples, rate)
        language, text = ("fa", "سلام دنیا") if number % 2 else ("en", "Hello there.")
        rows.append(f"c{number:02}|{text}|{'ann' if number < 10 else 'bob'}|{language}\n")
    (tmp_path / "metadata.csv").write_text(HEADER + "".join(rows), encoding="utf-8")
    return tmp_path


def inspect(folder: Path, **keys: object) -> DataReport:
    config = DataConfig(dataset_path=str(folder), **keys)
    return inspect_data(read_metadata(config), config)


def test_amounts_are_added_up(data: Path) -> None:
    report = inspect(data)
    seconds = sum(0.5 + number / 10 for number in range(40))
    assert report.clips == sum(report.splits.values()) == 40
    assert report.seconds == pytest.approx(seconds, abs=1e-3)
    assert report.speakers["ann"].clips == 10
    assert report.speakers["ann"].seconds == pytest.approx(sum(0.5 + n / 10 for n in range(10)), abs=1e-2)
    assert {code: share.clips for code, share in report.languages.items()} == {"en": 20, "fa": 20}
    assert report.sample_rates == {16000: 10, 22050: 30}
    assert report.channels == {1: 40}
    assert report.ok


def test_characters_are_counted_composed(data: Path) -> None:
    (data / "metadata.csv").write_text("c00|cafe\u0301\nc01|caf\u00e9\n", encoding="utf-8")
    assert inspect(data).characters == Counter("cafécafé")


def test_symbols_that_are_not_in_the_table_are_counted(data: Path) -> None:
    (data / "metadata.csv").write_text("c00|one ⚗ two ⚗\nc01|three\n", encoding="utf-8")
    report = inspect(data, text_symbols="graphemes")
    assert report.text_symbols == "graphemes"
    assert sum(report.unknown_symbols.values()) == 2
    assert report.ok


def test_texts_that_cannot_be_tokenized_are_problems(data: Path) -> None:
    (data / "metadata.csv").write_text(HEADER + "c00|Hi.|ann|en\nc01|你好|ann|zh\nc02|No.|ann|en\n", encoding="utf-8")
    report = inspect(data, text_symbols="graphemes")
    assert [(problem.line, problem.kind) for problem in report.problems] == [(3, "unusable-text")]
    assert report.clips == 2


def test_several_processes_find_in_texts_what_one_finds(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"c{n:02}|one ⚗ {n}|ann|{'zh' if n % 7 == 0 else 'en'}\n" for n in range(40)]
    (data / "metadata.csv").write_text(HEADER + "".join(lines), encoding="utf-8")
    config = DataConfig(dataset_path=str(data), text_symbols="graphemes")
    clips = read_metadata(config).clips
    alone = inspect_texts(clips, config, workers=1)
    monkeypatch.setattr(text_inspection, "_TEXTS_WORTH_A_PROCESS", 10)
    assert inspect_texts(clips, config, workers=3) == alone
    assert len(alone.failures) == 6
    assert alone.unknown == {"⚗": 34}


@pytest.mark.skipif(not available(), reason="espeak-ng is not installed")
def test_persian_words_that_a_lexicon_should_have_are_counted(
    data: Path, run_myxtts: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"c{n:02}|{'غژمبلستان بزرگ است' if n % 2 else 'کرم'}|ann|fa\n" for n in range(40)]
    (data / "metadata.csv").write_text(HEADER + "".join(lines), encoding="utf-8")
    config = DataConfig(dataset_path=str(data), text_symbols="phonemes")
    clips = read_metadata(config).clips
    alone = inspect_texts(clips, config, workers=1)
    assert alone.unknown_words == {"غژمبلستان": 20}
    assert alone.ambiguous_words == {"کرم": 20}
    monkeypatch.setattr(text_inspection, "_TEXTS_WORTH_A_PROCESS", 10)
    assert inspect_texts(clips, config, workers=3) == alone
    shown = run_myxtts("check-data", str(data)).stdout
    assert "unknown       1 Persian word, 20 times: غژمبلستان (20)" in shown
    assert "ambiguous     1 Persian word, 20 times: کرم (20)" in shown


def test_clips_over_the_limits_are_counted(data: Path) -> None:
    frames = 22050 // 256
    assert inspect(data, max_mel_frames=frames).too_long == sum(0.5 + number / 10 > 1 for number in range(40))
    assert inspect(data, max_tokens=1).too_long == 40


def test_a_histogram_has_round_bins_from_zero_to_the_longest_clip(data: Path) -> None:
    rows = inspect(data).histogram()
    assert rows[0][0] == 0
    assert all(high - low == 0.5 for low, high, _ in rows)
    assert rows[-1][0] <= 4.4 < rows[-1][1]
    assert sum(count for *_, count in rows) == 40


def test_lines_and_headers_that_are_wrong_are_reported_together(data: Path) -> None:
    (data / "wavs" / "c01.wav").write_bytes(b"")
    (data / "wavs" / "c02.wav").write_bytes(b"not audio at all, no")
    (data / "metadata.csv").write_text(
        HEADER + "c00|Hi.|ann|en\nc01|Hi.|ann|en\nc02|Hi.|ann|en\nc03||ann|en\nc04|Hi.|ann|en\n"
    )
    report = inspect(data)
    assert [(problem.line, problem.kind) for problem in report.problems] == [
        (3, "empty-audio"),
        (4, "unreadable-audio"),
        (5, "empty-text"),
    ]
    assert (report.clips, report.obstacles, report.ok) == (2, [], False)


def test_the_command_shows_it_all_and_ends_with_0(data: Path, run_myxtts: Run) -> None:
    result = run_myxtts("check-data", data)
    assert result.returncode == 0
    for text in ("40 (train", "98.0 s", "ann", "bob", "16,000 Hz (10 of 40)", "س", "0.5 to 1", "█", "no problems"):
        assert text in result.stdout


def test_json_is_alone_on_standard_output(data: Path, run_myxtts: Run) -> None:
    result = run_myxtts("check-data", data, "--json")
    report = json.loads(result.stdout)
    assert (report["ok"], report["clips"], report["problems"]) == (True, 40, [])
    assert report["seconds"] == pytest.approx(98.0, abs=0.01)
    assert report["speakers"]["bob"]["clips"] == 30
    assert report["sample_rates"] == {"16000": 10, "22050": 30}
    assert sum(row["clips"] for row in report["length"]["histogram"]) == 40


def test_every_problem_is_shown_with_file_and_line_and_ends_with_1(data: Path, run_myxtts: Run) -> None:
    path = data / "metadata.csv"
    path.write_bytes(
        HEADER.encode() + b"c00|Hi.|ann|en\n../x|Hi.|ann|en\nc02|a|b|ann|en\nc03|Hi.|ann|en\nz|Hi.|ann|en\n"
    )
    result = run_myxtts("check-data", data)
    assert result.returncode == 1
    assert f"{path}:3: the id '../x' leaves the data folder" in result.stdout
    assert f"{path}:4: 5 columns where 4 are expected" in result.stdout
    assert f"{path}:6: no audio file for 'z'" in result.stdout
    assert "3 problems" in result.stdout
    report = json.loads(run_myxtts("check-data", data, "--json").stdout)
    assert [problem["line"] for problem in report["problems"]] == [3, 4, 6]
    assert not report["ok"]


def test_nothing_in_the_metadata_steers_the_terminal(data: Path, run_myxtts: Run) -> None:
    lines = "c00|Hi.|\x1b[31mann|en\nc01|No.|ann|en\n\x1b[2Jgone|Hi.|ann|en\nc02|Hi.|ann|\x1b[1m\n"
    (data / "metadata.csv").write_text(HEADER + lines)
    result = run_myxtts("check-data", data)
    assert "\x1b" not in result.stdout
    assert "no audio file for '\\x1b[2Jgone'" in result.stdout


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("c00|Hi.\n", "the validation split is empty: there is only one usable clip"),
        ("c00|\nc01|\n", "the data set has no usable clip"),
        ("", "the data set has no usable clip: its metadata has no lines"),
    ],
)
def test_what_keeps_training_from_starting_ends_with_1(
    data: Path, run_myxtts: Run, metadata: str, message: str
) -> None:
    (data / "metadata.csv").write_text(metadata)
    result = run_myxtts("check-data", data)
    assert result.returncode == 1
    assert f"training cannot start: {message}" in result.stdout
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "message"), [("metadata.csv", "metadata.csv: no such file"), (None, "no such folder")]
)
def test_what_is_not_there_is_one_line_and_ends_with_1(
    data: Path, run_myxtts: Run, name: str | None, message: str
) -> None:
    if name:
        (data / name).unlink()
    result = run_myxtts("check-data", data if name else data / "nowhere")
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


def test_a_configuration_describes_the_layout(data: Path, run_myxtts: Run) -> None:
    (data / "metadata.csv").rename(data / "lines.txt")
    (data / "wavs").rename(data / "audio")
    config = data / "my.yaml"
    config.write_text(f"data:\n  dataset_path: {data}\n  metadata_file: lines.txt\n  wavs_dir: audio\n")
    assert json.loads(run_myxtts("check-data", "--config", config, "--json").stdout)["clips"] == 40


def test_any_key_can_be_set(data: Path, run_myxtts: Run) -> None:
    (data / "metadata.csv").write_text("".join(f"c{n:02}|سلام\n" for n in range(40)), encoding="utf-8")
    arguments = ("--language", "fa", "--set", "speaker_pattern=^(c.)", "--json")
    report = json.loads(run_myxtts("check-data", data, *arguments).stdout)
    assert sorted(report["speakers"]) == ["c0", "c1", "c2", "c3"]
    assert list(report["languages"]) == ["fa"]


def test_the_real_clips_have_no_problems(ljspeech_mini: Path, run_myxtts: Run) -> None:
    result = run_myxtts("check-data", ljspeech_mini, "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 0
    assert (report["clips"], report["problems"], report["unknown_symbols"]) == (16, [], {})
    assert report["seconds"] == pytest.approx(2347984 / 22050, abs=1e-3)


@pytest.mark.long
def test_thirteen_thousand_clips_stay_under_300_mb_and_without_tensorflow(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    first = tmp_path / "wavs" / "c00000.wav"
    with wave.open(str(first), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(22050)
        file.writeframes(bytes(2 * 22050))
    rows = ["c00000|Soon.\n"]  # soon spoken: what a text costs is not the subject
    for number in range(1, 13100):
        os.link(first, tmp_path / "wavs" / f"c{number:05}.wav")
        rows.append(f"c{number:05}|Soon.\n")
    (tmp_path / "metadata.csv").write_text("".join(rows))
    result = subprocess.run([sys.executable, "-c", CHECK_AND_MEASURE, str(tmp_path)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["seconds"] == 13100
    assert float(result.stderr.splitlines()[-1]) < 300
