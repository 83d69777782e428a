"""Every way in which a data set can be wrong, reported with file and line, and nothing else raised."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from myxtts.config.config import DataConfig
from myxtts.data.clips.audio_headers import probe_audio
from myxtts.data.clips.metadata import Metadata, read_metadata
from myxtts.errors import DataError


def make(folder: Path, metadata: str | bytes, audio: tuple[str, ...] = ("a.wav", "b.wav")) -> Path:
    (folder / "metadata.csv").write_bytes(metadata.encode() if isinstance(metadata, str) else metadata)
    (folder / "wavs").mkdir(exist_ok=True)
    for name in audio:
        soundfile.write(folder / "wavs" / name, np.zeros(160, dtype=np.int16), 16000)
    return folder


def read(folder: Path, **keys: object) -> Metadata:
    return read_metadata(DataConfig(dataset_path=str(folder), **keys))


def found(metadata: Metadata) -> list[tuple[str, int]]:
    return [(problem.kind, problem.line) for problem in metadata.problems]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("missing|Hello.", "missing-audio"),
        ("b|", "empty-text"),
        ("b|  \u200c ", "empty-text"),
        ("|Hello.", "empty-id"),
        ("b", "wrong-columns"),
        ("b|either this | or that", "pipe-in-text"),
        ("a|Hello again.", "duplicate-id"),
        ("a.wav|Hello again.", "duplicate-id"),
        ("wavs/a|Hello again.", "duplicate-id"),
        ("../a|Hello.", "escaping-id"),
        ("x/../../a|Hello.", "escaping-id"),
        ("..\\a|Hello.", "escaping-id"),
        ("/etc/passwd|Hello.", "escaping-id"),
        ("C:\\a.wav|Hello.", "escaping-id"),
    ],
)
def test_a_wrong_line_is_reported_and_the_rest_is_read(tmp_path: Path, line: str, kind: str) -> None:
    folder = make(tmp_path, f"a|Hello.\n{line}\nc|Bye.\n", ("a.wav", "b.wav", "c.wav"))
    metadata = read(folder)
    assert found(metadata) == [(kind, 2)]
    assert str(metadata.problems[0]).startswith(f"{folder / 'metadata.csv'}:2: ")
    assert [clip.id for clip in metadata.clips] == ["a", "c"]


def test_a_line_that_is_not_utf_8_is_reported_with_its_byte(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, b"a|Hello.\nb|caf\xe9\n"))
    assert found(metadata) == [("undecodable-text", 2)]
    assert "0xe9 at position 6" in metadata.problems[0].message


def test_a_pipe_in_the_text_under_a_header_is_reported(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "id|text|speaker\na|this | that|ann\nb|No.|bob\n"))
    assert found(metadata) == [("pipe-in-text", 2)]
    assert "4 columns where 3 are expected" in metadata.problems[0].message


def test_an_unknown_language_is_reported(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "id|text|language\na|Hi.|en\nb|Hi.|klingon\n"))
    assert found(metadata) == [("unknown-language", 3)]


def test_an_empty_speaker_is_reported(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "id|text|speaker\na|Hi.|\nb|Hi.|bob\n"))
    assert found(metadata) == [("no-speaker", 2)]


def test_an_id_that_the_speaker_pattern_does_not_match_is_reported(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "a|Hi.\nb|Hi.\n"), speaker_pattern="^(a)")
    assert found(metadata) == [("no-speaker", 2)]


def test_everything_wrong_with_one_line_is_reported(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "id|text|speaker|language\na|Hi.|ann|en\nmissing|||klingon\n"))
    assert {problem.kind for problem in metadata.problems} == {
        "missing-audio",
        "empty-text",
        "no-speaker",
        "unknown-language",
    }


def test_everything_wrong_is_reported_at_once_in_the_order_of_the_lines(tmp_path: Path) -> None:
    lines = b"a|Hello.\n../a|x\nb\nb|\na|again\nz|gone\nb|caf\xe9\nb|x|y|z\n"
    assert found(read(make(tmp_path, lines))) == [
        ("escaping-id", 2),
        ("wrong-columns", 3),
        ("empty-text", 4),
        ("duplicate-id", 5),
        ("missing-audio", 6),
        ("undecodable-text", 7),
        ("pipe-in-text", 8),
    ]


def test_an_id_in_both_separate_sets_is_reported_with_the_other_place(tmp_path: Path) -> None:
    make(tmp_path, "")
    (tmp_path / "train.csv").write_text("a|Hi.\n")
    (tmp_path / "val.csv").write_text("b|No.\na|Hi.\n")
    metadata = read(tmp_path, metadata_train_file="train.csv", metadata_eval_file="val.csv")
    assert found(metadata) == [("duplicate-id", 2)]
    assert f"{tmp_path / 'train.csv'}:1" in metadata.problems[0].message


def test_a_folder_is_no_audio_file(tmp_path: Path) -> None:
    (tmp_path / "wavs" / "d.wav").mkdir(parents=True)
    metadata = read(make(tmp_path, "a|Hi.\nd|Hi.\n"))
    assert found(metadata) == [("missing-audio", 2)]


def test_a_dangling_link_is_no_audio_file(tmp_path: Path) -> None:
    folder = make(tmp_path, "a|Hi.\nd|Hi.\n")
    (folder / "wavs" / "d.wav").symlink_to(folder / "nowhere.wav")
    (folder / "wavs" / "circle.wav").symlink_to(folder / "wavs" / "circle.wav")
    assert found(read(folder)) == [("missing-audio", 2)]


def test_no_usable_clip_is_an_error_that_quotes_the_first_reasons(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "a|\nb|\nc|\nd|\ne|\n"))
    with pytest.raises(DataError) as caught:
        metadata.require_usable()
    assert str(caught.value).splitlines()[0] == "the data set has no usable clip:"
    assert "metadata.csv:1: the text of 'a' is empty" in str(caught.value)
    assert "more; `myxtts check-data` lists them" in str(caught.value)


def test_an_empty_metadata_file_is_no_usable_clip(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no usable clip: its metadata has no lines"):
        read(make(tmp_path, "")).require_usable()


def test_one_clip_cannot_train_and_validate(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="validation split is empty: there is only one usable clip"):
        read(make(tmp_path, "a|Hi.\n")).require_usable()


def test_a_validation_share_of_nothing_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="validation split is empty: val_split is 0"):
        read(make(tmp_path, "a|Hi.\nb|No.\n"), val_split=0).require_usable()


def test_a_separate_validation_set_without_a_usable_clip_is_said(tmp_path: Path) -> None:
    make(tmp_path, "")
    (tmp_path / "train.csv").write_text("a|Hi.\nb|No.\n")
    (tmp_path / "val.csv").write_text("z|Gone.\n")
    metadata = read(tmp_path, metadata_train_file="train.csv", metadata_eval_file="val.csv")
    with pytest.raises(DataError, match=r"validation split is empty: .*val\.csv has no usable clip"):
        metadata.require_usable()


def test_no_clip_to_train_on_is_said(tmp_path: Path) -> None:
    metadata = read(make(tmp_path, "a|Hi.\nb|No.\n"), train_split=1e-12, val_split=0.999999)
    with pytest.raises(DataError, match="training split is empty"):
        metadata.require_usable()


def test_headers_of_every_format_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    audio = rng.normal(0, 0.1, (4800, 2)).clip(-1, 1)
    names = ["a.wav", "b.flac", "c.ogg", "d.mp3"]
    folder = make(tmp_path, "a|Hi.\nb|Hi.\nc|Hi.\nd|Hi.\n", ())
    for name in names:
        soundfile.write(folder / "wavs" / name, audio, 48000)
    headers = probe_audio(read(folder).clips, workers=2)
    assert headers.problems == []
    assert headers.sample_rate.tolist() == [48000] * 4
    assert headers.channels.tolist() == [2] * 4
    assert headers.frames[:3].tolist() == [4800] * 3
    assert headers.seconds[0] == 0.1
    assert headers.size[0] == os.path.getsize(folder / "wavs" / "a.wav")
    assert headers.mtime_ns[0] == os.stat(folder / "wavs" / "a.wav").st_mtime_ns
    assert headers.data_offset.tolist() == [44, 0, 0, 0]
    assert headers.graph_readable(48000).tolist() == [True, False, False, False]
    assert not headers.graph_readable(22050).any()


def test_audio_that_cannot_be_used_is_reported_by_its_header(tmp_path: Path) -> None:
    names = ("whole", "zero", "samples", "noise", "text", "cut", "gone")
    folder = make(tmp_path, "".join(f"{name}|Hi.\n" for name in names), tuple(f"{name}.wav" for name in names))
    wavs = folder / "wavs"
    (wavs / "zero.wav").write_bytes(b"")
    soundfile.write(wavs / "samples.wav", np.zeros(0, dtype=np.int16), 16000)
    (wavs / "noise.wav").write_bytes(bytes(range(256)) * 4)
    (wavs / "text.wav").write_text("this is not audio\n")
    whole = (wavs / "cut.wav").read_bytes()
    (wavs / "cut.wav").write_bytes(whole[: len(whole) - 100])
    metadata = read(folder)
    (wavs / "gone.wav").unlink()
    headers = probe_audio(metadata.clips)
    assert [(problem.clip_id, problem.kind) for problem in headers.problems] == [
        ("zero", "empty-audio"),
        ("samples", "empty-audio"),
        ("noise", "unreadable-audio"),
        ("text", "unreadable-audio"),
        ("cut", "truncated-audio"),
        ("gone", "missing-audio"),
    ]
    assert [problem.line for problem in headers.problems] == [2, 3, 4, 5, 6, 7]
    assert headers.frames.tolist() == [160, 0, 0, 0, 0, 0, 0]
    assert headers.graph_readable(16000).tolist() == [True, *[False] * 6]


def test_progress_of_reading_headers_adds_up(tmp_path: Path) -> None:
    names = [f"c{number:03}" for number in range(150)]
    folder = make(tmp_path, "".join(f"{n}|Hi.\n" for n in names), tuple(f"{n}.wav" for n in names))
    steps: list[int] = []
    probe_audio(read(folder).clips, workers=2, on_progress=steps.append)
    assert sum(steps) == 150


def test_what_the_headers_rule_out_is_left_out(tmp_path: Path) -> None:
    folder = make(tmp_path, "a|Hi.\nb|Hi.\nc|Hi.\n", ("a.wav", "b.wav", "c.wav"))
    (folder / "wavs" / "b.wav").write_bytes(b"")
    metadata = read(folder)
    usable = metadata.leave_out(probe_audio(metadata.clips).problems)
    assert [clip.id for clip in usable.clips] == ["a", "c"]
    assert found(usable) == [("empty-audio", 2)]
    assert len(usable.splits) == 2


METADATA_LIKE = st.lists(
    st.lists(
        st.one_of(
            st.sampled_from(["id", "text", "speaker", "language", "ipa", "audio_file", "a", "a.wav", "en", ""]),
            st.sampled_from(["..", "/", "a/b", "\0", ".", "C:\\x", "\ufeff", "a\u0301", "x" * 5000]),
            st.text(max_size=20),
        ),
        max_size=6,
    ).map("|".join),
    max_size=8,
).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(metadata=st.one_of(st.binary(max_size=300), METADATA_LIKE), pattern=st.sampled_from([None, "^(.)", "x"]))
def test_no_metadata_raises_anything_but_a_data_error(metadata: bytes, pattern: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), metadata, ("a.wav",))
        try:
            result = read(Path(folder), speaker_pattern=pattern)
        except DataError:
            return
        assert all(problem.line > 0 for problem in result.problems)
        for clip in result.clips:
            assert Path(clip.audio_path).resolve().is_relative_to(Path(folder).resolve())
        probe_audio(result.clips, workers=1)
