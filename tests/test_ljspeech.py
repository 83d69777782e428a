"""The data set as users import it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.errors import DataError, UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wavs").mkdir()
    lines = ["id|text|speaker|language"]
    for number in range(40):
        soundfile.write(tmp_path / "wavs" / f"c{number:02}.wav", np.zeros(160, dtype=np.int16), 16000)
        lines.append(f"c{number:02}|Number {number}.|{'ann' if number % 2 else 'bob'}|{'fa' if number % 4 else 'en'}")
    (tmp_path / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_the_subsets_share_out_the_clips(folder: Path) -> None:
    config = DataConfig(train_split=0.5, val_split=0.25)
    subsets = [LJSpeechDataset(folder, config, subset=name) for name in ("train", "val", "test")]
    ids = [clip.id for subset in subsets for clip in subset.clips]
    assert sorted(ids) == [f"c{number:02}" for number in range(40)]
    assert all(len(subset) == len(subset.clips) > 0 for subset in subsets)


def test_a_clip_is_found_by_its_place_in_the_subset(folder: Path) -> None:
    val = LJSpeechDataset(folder, DataConfig(val_split=0.3, train_split=0.7), subset="val")
    assert [val[index] for index in range(len(val))] == list(val) == val.clips
    assert val[-1] == val.clips[-1]
    with pytest.raises(IndexError):
        val[len(val)]


def test_rows_are_places_in_the_whole_data_set(folder: Path) -> None:
    train = LJSpeechDataset(folder)
    assert [train.metadata.clips[row] for row in train.rows] == train.clips
    assert train.rows.dtype == np.int64


def test_speakers_and_languages_are_those_of_the_whole_data_set(folder: Path) -> None:
    val = LJSpeechDataset(folder, subset="val")
    assert (val.speakers, val.languages) == (["bob", "ann"], ["en", "fa"])


def test_a_whole_configuration_will_do(folder: Path) -> None:
    config = XTTSConfig(data_path=str(folder), val_split=0.5, train_split=0.5)
    assert len(LJSpeechDataset(config=config)) + len(LJSpeechDataset(config=config, subset="val")) == 40


def test_the_path_given_goes_before_that_of_the_configuration(folder: Path) -> None:
    config = DataConfig(dataset_path="elsewhere")
    assert LJSpeechDataset(folder, config).config.dataset_path == str(folder)
    assert config.dataset_path == "elsewhere"


def test_an_unknown_subset_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="train, val, test"):
        LJSpeechDataset(folder, subset="dev")  # type: ignore[arg-type]


def test_a_data_set_that_cannot_be_trained_on_is_refused_before_any_work(folder: Path) -> None:
    (folder / "metadata.csv").write_text("c01|Only one.\n")
    with pytest.raises(DataError, match="validation split is empty"):
        LJSpeechDataset(folder)
