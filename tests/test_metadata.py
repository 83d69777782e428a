"""Which clips a metadata file gives, in every form that is accepted."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig
from myxtts.data.clips import Clip
from myxtts.data.clips.metadata import DEFAULT_SPEAKER, Metadata, read_metadata
from myxtts.errors import ConfigError, DataError

MakeData = Callable[..., Path]
COMPOSED = unicodedata.normalize("NFC", "café")
DECOMPOSED = unicodedata.normalize("NFD", "café")


@pytest.fixture
def make_data(tmp_path: Path) -> MakeData:
    """Writes metadata, and short audio files with these names into `wavs`."""

    def make(
        metadata: str | bytes,
        audio: tuple[str, ...] = ("a.wav", "b.wav"),
        file: str = "metadata.csv",
        wavs: str = "wavs",
    ) -> Path:
        data = metadata.encode() if isinstance(metadata, str) else metadata
        (tmp_path / file).write_bytes(data)
        for name in audio:
            path = tmp_path / wavs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.zeros(160, dtype=np.int16), 16000)
        return tmp_path

    return make


def read(folder: Path, **keys: object) -> Metadata:
    return read_metadata(DataConfig(dataset_path=str(folder), **keys))


def clips(folder: Path, **keys: object) -> list[Clip]:
    metadata = read(folder, **keys)
    assert metadata.problems == []
    return metadata.clips


def test_two_columns_are_id_and_text(make_data: MakeData) -> None:
    folder = make_data("a|Hello there.\nb|Good night.\n")
    first, second = clips(folder)
    assert (first.id, first.text) == ("a", "Hello there.")
    assert first.audio_path == str(folder / "wavs" / "a.wav")
    assert (first.speaker, first.language, first.ipa) == (DEFAULT_SPEAKER, "en", None)
    assert (second.source, second.line) == (str(folder / "metadata.csv"), 2)


def test_of_three_columns_the_normalised_text_is_used(make_data: MakeData) -> None:
    folder = make_data("a|in 1999|in nineteen ninety nine\nb|No. 5|number five\n")
    assert [clip.text for clip in clips(folder)] == ["in nineteen ninety nine", "number five"]


def test_a_normalised_text_that_is_missing_or_empty_is_the_text_itself(make_data: MakeData) -> None:
    folder = make_data("a|one\nb|two|\nc|3|three\n", ("a.wav", "b.wav", "c.wav"))
    assert [clip.text for clip in clips(folder)] == ["one", "two", "three"]


def test_a_header_row_names_the_columns_in_any_order(make_data: MakeData) -> None:
    folder = make_data("speaker|Text|language|AUDIO_FILE\nann|Hello.|en|a.wav\nbob|سلام|fa|b\n")
    first, second = clips(folder)
    assert (first.id, first.text, first.speaker, first.language) == ("a", "Hello.", "ann", "en")
    assert (second.id, second.text, second.speaker, second.language) == ("b", "سلام", "bob", "fa")


def test_a_header_row_may_have_both_texts(make_data: MakeData) -> None:
    folder = make_data("id|text|normalized_text\na|3|three\nb|four|\n")
    assert [clip.text for clip in clips(folder)] == ["three", "four"]


@pytest.mark.parametrize("name", ["ipa", "phonemes"])
def test_a_column_may_hold_the_text_in_ipa(make_data: MakeData, name: str) -> None:
    folder = make_data(f"id|text|{name}\na|Hello.|həlˈoʊ\nb||ɡʊd nˈaɪt\n")
    assert [clip.ipa for clip in clips(folder)] == ["həlˈoʊ", "ɡʊd nˈaɪt"]


def test_a_column_that_nothing_reads_is_noted_and_not_a_problem(make_data: MakeData) -> None:
    metadata = read(make_data("id|text|mood\na|Hello.|glad\nb|No.|sad\n"))
    assert len(metadata.clips) == 2
    assert "'mood'" in metadata.notes[0]


def test_an_empty_language_is_the_configured_one(make_data: MakeData) -> None:
    folder = make_data("id|text|language\na|سلام|\nb|Hi.|en\n")
    assert [clip.language for clip in clips(folder, language="fa")] == ["fa", "en"]


def test_a_language_with_a_region_is_its_language(make_data: MakeData) -> None:
    folder = make_data("id|text|language\na|Hi.|en_GB\nb|你好|zh-CN\n")
    assert [clip.language for clip in clips(folder)] == ["en", "zh"]


def test_extra_languages_are_known(make_data: MakeData) -> None:
    folder = make_data("id|text|language\na|Hej.|sv\nb|Hi.|en\n")
    assert clips(folder, extra_languages=["sv"])[0].language == "sv"


def test_the_speaker_may_come_from_a_pattern_on_the_id(make_data: MakeData) -> None:
    folder = make_data("p225_001|Hi.\np226_001|No.\n", ("p225_001.wav", "p226_001.wav"))
    metadata = read(folder, speaker_pattern="^(p[0-9]+)_")
    assert metadata.speakers == ["p225", "p226"]


def test_a_pattern_without_a_group_is_the_speaker_where_it_matches(make_data: MakeData) -> None:
    folder = make_data("p225_001|Hi.\n", ("p225_001.wav",))
    assert clips(folder, speaker_pattern="p[0-9]+")[0].speaker == "p225"


def test_the_speaker_column_goes_before_the_pattern(make_data: MakeData) -> None:
    folder = make_data("id|text|speaker\na|Hi.|ann\nb|No.|\n")
    assert [clip.speaker for clip in clips(folder, speaker_pattern="^.")] == ["ann", "b"]


def test_appending_clips_renumbers_no_speaker(make_data: MakeData) -> None:
    lines = "id|text|speaker\na|Hi.|zoe\nb|No.|ann\n"
    before = read(make_data(lines)).speakers
    after = read(make_data(lines + "c|Yes.|bob\n", ("c.wav",))).speakers
    assert (before, after) == (["zoe", "ann"], ["zoe", "ann", "bob"])


@pytest.mark.parametrize("name", ["a.wav", "a.flac", "a.ogg", "a.mp3", "a.WAV", "a.aiff"])
def test_an_id_without_suffix_finds_its_file(make_data: MakeData, name: str) -> None:
    folder = make_data("a|Hello.\n", (name,))
    assert clips(folder)[0].audio_path.endswith(name)


def test_an_id_without_suffix_takes_the_wav_of_several_files(make_data: MakeData) -> None:
    folder = make_data("a|Hello.\n", ("a.flac", "a.wav"))
    assert clips(folder)[0].audio_path.endswith("a.wav")


def test_an_id_with_suffix_takes_that_file_and_is_the_same_id(make_data: MakeData) -> None:
    folder = make_data("a.flac|Hello.\n", ("a.flac", "a.wav"))
    (clip,) = clips(folder)
    assert (clip.id, Path(clip.audio_path).name) == ("a", "a.flac")


def test_an_id_may_contain_dots(make_data: MakeData) -> None:
    folder = make_data("take.1|Hello.\n", ("take.1.wav",))
    assert clips(folder)[0].id == "take.1"


def test_an_id_may_name_a_folder_in_the_wavs_or_in_the_data_folder(make_data: MakeData) -> None:
    folder = make_data("ann/a|Hello.\n./wavs/b.wav|No.\n", ("ann/a.wav", "b.wav"))
    assert [clip.id for clip in clips(folder)] == ["ann/a", "wavs/b"]


@pytest.mark.parametrize(("written", "on_disk"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_an_id_and_its_file_may_differ_in_unicode_normalisation(
    make_data: MakeData, written: str, on_disk: str
) -> None:
    folder = make_data(f"{written}/{written}|Hello.\n", (f"{on_disk}/{on_disk}.wav",))
    (clip,) = clips(folder)
    assert os.path.exists(clip.audio_path)
    assert clip.id == f"{COMPOSED}/{COMPOSED}"


def test_a_byte_order_mark_is_no_part_of_the_first_id(make_data: MakeData) -> None:
    assert clips(make_data(b"\xef\xbb\xbfa|Hello.\nb|No.\n"))[0].id == "a"


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n"])
def test_every_line_ending_is_read(make_data: MakeData, ending: str) -> None:
    found = clips(make_data(f"a|Hello.{ending}b|No.{ending}"))
    assert [(clip.text, clip.line) for clip in found] == [("Hello.", 1), ("No.", 2)]


def test_a_line_separator_of_unicode_is_no_line_ending(make_data: MakeData) -> None:
    found = clips(make_data("a|one\u2028two\x0bthree\nb|No.\n"))
    assert found[0].text == "one\u2028two\x0bthree"


def test_quotes_are_text(make_data: MakeData) -> None:
    found = clips(make_data('a|"Yes," he said.\nb|the "forty-two line Bible\n'))
    assert [clip.text for clip in found] == ['"Yes," he said.', 'the "forty-two line Bible']


def test_blank_lines_are_skipped_and_counted(make_data: MakeData) -> None:
    assert [clip.line for clip in clips(make_data("\na|Hi.\n  \n\nb|No.\n"))] == [2, 5]


def test_symbolic_links_inside_the_data_folder_are_followed(make_data: MakeData, tmp_path: Path) -> None:
    folder = make_data("a|Hello.\n", ("a.wav",), wavs="elsewhere")
    (folder / "wavs").symlink_to(tmp_path / "elsewhere")
    assert clips(folder)[0].audio_path == str(folder / "wavs" / "a.wav")


def test_metadata_and_audio_may_have_other_names(make_data: MakeData) -> None:
    folder = make_data("a|Hello.\n", ("a.wav",), file="lines.txt", wavs="audio/clips")
    assert len(clips(folder, metadata_file="lines.txt", wavs_dir="audio/clips")) == 1


def test_separate_sets_are_train_and_validation(make_data: MakeData) -> None:
    make_data("a|Hello.\nb|No.\n", ("a.wav", "b.wav"), file="train.csv", wavs="train")
    folder = make_data("c|Yes.\n", ("c.wav",), file="val.csv", wavs="val")
    metadata = read(
        folder,
        metadata_train_file="train.csv",
        wavs_train_dir="train",
        metadata_eval_file="val.csv",
        wavs_eval_dir="val",
    )
    assert metadata.splits == ["train", "train", "val"]
    assert metadata.clips[2].audio_path == str(folder / "val" / "c.wav")
    metadata.require_usable()


def test_separate_sets_share_the_audio_folder_unless_told_otherwise(make_data: MakeData) -> None:
    make_data("a|Hello.\n", ("a.wav",), file="train.csv")
    folder = make_data("b|Yes.\n", ("b.wav",), file="val.csv")
    assert read(folder, metadata_train_file="train.csv", metadata_eval_file="val.csv").problems == []


SEPARATE = {
    "metadata_train_file": "train.csv",
    "wavs_train_dir": "train",
    "metadata_eval_file": "val.csv",
    "wavs_eval_dir": "val",
}


def test_an_id_that_separate_sets_have_for_two_recordings_is_two_clips(make_data: MakeData) -> None:
    make_data("0001|Hello.\n0002|No.\n", ("0001.wav", "0002.wav"), file="train.csv", wavs="train")
    folder = make_data("0002|Yes.\n0003|Good.\n", ("0002.wav", "0003.wav"), file="val.csv", wavs="val")
    metadata = read(folder, **SEPARATE)
    assert metadata.problems == []
    assert [clip.id for clip in metadata.clips] == ["0001", "0002", "val/0002", "0003"]
    assert metadata.splits == ["train", "train", "val", "val"]
    assert metadata.clips[2].audio_path == str(folder / "val" / "0002.wav")


def test_a_separate_set_in_a_folder_of_its_own_gives_that_folders_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "wavs").mkdir(parents=True)
        (tmp_path / name / "metadata.csv").write_text("ann_1|Hello.\n")
        soundfile.write(tmp_path / name / "wavs" / "ann_1.wav", np.zeros(160, dtype=np.int16), 16000)
    metadata = read(
        tmp_path / "a",
        metadata_train_file="metadata.csv",
        metadata_eval_file=str(tmp_path / "b" / "metadata.csv"),
        wavs_eval_dir=str(tmp_path / "b" / "wavs"),
        speaker_pattern="^([a-z]+)_",
    )
    assert [(clip.id, clip.speaker) for clip in metadata.clips] == [("ann_1", "ann"), ("b/ann_1", "ann")]


def test_two_links_to_one_recording_are_not_two_clips(make_data: MakeData) -> None:
    make_data("0001|Hello.\n", ("0001.wav",), file="train.csv", wavs="train")
    folder = make_data("0001|Hello.\n", (), file="val.csv")
    (folder / "val").mkdir()
    (folder / "val" / "0001.wav").symlink_to(folder / "train" / "0001.wav")
    metadata = read(folder, **SEPARATE)
    assert [problem.kind for problem in metadata.problems] == ["duplicate-id"]
    with pytest.raises(DataError, match="validation split is empty") as caught:
        metadata.require_usable()
    assert "val.csv has no usable clip; the first problem: " in str(caught.value)
    assert f"{folder / 'train.csv'}:1" in str(caught.value)


def test_an_id_twice_in_the_second_set_is_reported_with_its_own_line(make_data: MakeData) -> None:
    make_data("0001|Hello.\n", ("0001.wav",), file="train.csv", wavs="train")
    folder = make_data("0001|Yes.\n0001|No.\n", ("0001.wav",), file="val.csv", wavs="val")
    metadata = read(folder, **SEPARATE)
    (problem,) = metadata.problems
    assert (problem.kind, problem.line, problem.clip_id) == ("duplicate-id", 2, "val/0001")
    assert "already that of line 1" in problem.message


def test_missing_audio_of_the_second_set_is_all_that_is_reported(make_data: MakeData) -> None:
    make_data("0001|Hello.\n", ("0001.wav",), file="train.csv", wavs="train")
    folder = make_data("0001|Yes.\n0002|No.\n", ("0002.wav",), file="val.csv", wavs="val")
    (problem,) = read(folder, **SEPARATE).problems
    assert problem.kind == "missing-audio"
    assert "no audio file for '0001'" in problem.message


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such folder"):
        read(tmp_path / "nowhere")


def test_missing_metadata_files_are_named_together(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.csv and .*val\.csv: no such file"):
        read(tmp_path, metadata_train_file="train.csv", metadata_eval_file="val.csv")


def test_one_file_cannot_be_training_and_validation(make_data: MakeData) -> None:
    folder = make_data("a|Hi.\nb|No.\n")
    with pytest.raises(DataError, match="both the training and the validation"):
        read(folder, metadata_train_file="metadata.csv", metadata_eval_file="./metadata.csv")


def test_a_missing_audio_folder_is_one_error_and_not_one_per_clip(make_data: MakeData) -> None:
    folder = make_data("a|Hi.\nb|No.\n", ())
    with pytest.raises(DataError, match=r"wavs: no such folder, and none of the 2 ids"):
        read(folder)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_with_its_mark_is_read(make_data: MakeData, encoding: str) -> None:
    found = clips(make_data("\ufeffa|سلام\r\nb|No.\r\n".encode(encoding)[0 if encoding == "utf-16-be" else 2 :]))
    assert [(clip.id, clip.text) for clip in found] == [("a", "سلام"), ("b", "No.")]


def test_utf_16_that_is_not_whole_is_named_as_such(make_data: MakeData) -> None:
    with pytest.raises(DataError, match="not whole UTF-16"):
        read(make_data("a|Hello.\n".encode("utf-16")[:-1]))


def test_a_file_without_pipes_is_refused_as_a_whole(make_data: MakeData) -> None:
    with pytest.raises(DataError, match=r"metadata\.csv:1: no line has a '\|'"):
        read(make_data("a,Hello.\nb,No.\n"))


def test_more_than_three_columns_need_a_header(make_data: MakeData) -> None:
    with pytest.raises(DataError, match="4 columns; more than 3 need a header row"):
        read(make_data("a|Hello.|ann|en\nb|No.|bob|en\n"))


def test_a_header_without_text_is_refused(make_data: MakeData) -> None:
    with pytest.raises(DataError, match=r":1: the header has no column 'text'"):
        read(make_data("id|speaker\na|ann\n"))


def test_a_header_with_a_column_twice_is_refused(make_data: MakeData) -> None:
    with pytest.raises(DataError, match="'id' more than once"):
        read(make_data("id|audio_file|text\na|a.wav|Hi.\n"))


def test_a_pattern_that_is_no_regular_expression_is_a_configuration_error(make_data: MakeData) -> None:
    with pytest.raises(ConfigError, match="speaker_pattern"):
        read(make_data("a|Hi.\n"), speaker_pattern="(")


def test_an_unknown_default_language_is_a_configuration_error(make_data: MakeData) -> None:
    with pytest.raises(ConfigError, match=r"data\.language: 'xx'"):
        read(make_data("a|Hi.\n"), language="xx")


def test_the_real_clips_are_read(ljspeech_mini: Path) -> None:
    metadata = read(ljspeech_mini)
    assert len(metadata.clips) == 16
    assert metadata.problems == []
    metadata.require_usable()
