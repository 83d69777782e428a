"""What docs/from-tensorflowtts.md promises to those who have folders of TensorFlowTTS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import soundfile
from documents import ROOT, Document

from myxtts.config.config import DataConfig, section_of
from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError

PAGE = Document(ROOT / "docs" / "from-tensorflowtts.md")
TEXTS = {"a": "one, two.", "b": "three?", "c": "it's four."}
RATE = 22050


def make_dump(folder: Path, symbols: str = "ljspeech") -> None:
    """What its preprocessing leaves, as tensorflow_tts/bin/preprocess.py writes it."""
    numbers = {
        symbol: number for number, symbol in enumerate(["pad", *"-!'(),.:;? abcdefghijklmnopqrstuvwxyz", "eos"])
    }
    for name, text in TEXTS.items():
        part = folder / ("valid" if name == "c" else "train")
        arrays: Mapping[str, np.ndarray] = {
            "ids/{}-ids": np.array([*(numbers[letter] for letter in text), numbers["eos"]], np.int32),
            "wavs/{}-wave": np.linspace(-0.5, 0.5, 4 * 256, dtype=np.float32),
            "raw-feats/{}-raw-feats": np.zeros((4, 80), np.float32),
        }
        for path, values in arrays.items():
            file = part / f"{path.format(name)}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, values)
    np.save(folder / "train_utt_ids.npy", ["a", "b"])
    np.save(folder / "valid_utt_ids.npy", ["c"])
    mapper = {"symbol_to_id": numbers, "speakers_map": {"ljspeech": 0}, "processor_name": "LJSpeechProcessor"}
    (folder / f"{symbols}_mapper.json").write_text(json.dumps(mapper))


@pytest.mark.parametrize("part", [".", "train", "valid"])
def test_a_dump_is_told_from_a_data_set_in_one_line(tmp_path: Path, part: str) -> None:
    make_dump(tmp_path)
    with pytest.raises(DataError, match="TensorFlowTTS has computed, not a data set; give the folder") as caught:
        read_metadata(DataConfig(dataset_path=str(tmp_path / part)))
    assert len(str(caught.value).splitlines()) == 1


def test_the_clips_that_were_validated_with_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_dump(tmp_path / "dump_ljspeech")
    data = tmp_path / "ljspeech"
    (data / "wavs").mkdir(parents=True)
    for name in TEXTS:
        soundfile.write(data / "wavs" / f"{name}.wav", np.zeros(RATE // 4), RATE)
    (data / "metadata.csv").write_text("".join(f"{name}|{text}\n" for name, text in TEXTS.items()))
    run("valid_utt_ids", tmp_path, monkeypatch)
    config = DataConfig(dataset_path=str(data), metadata_train_file="train.csv", metadata_eval_file="val.csv")
    found = read_metadata(config)
    assert {clip.id: split for clip, split in zip(found.clips, found.splits, strict=True)} == {
        "a": "train",
        "b": "train",
        "c": "val",
    }


def test_a_data_set_can_be_made_of_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_dump(tmp_path / "dump_ljspeech")
    run("_mapper.json", tmp_path, monkeypatch)
    found = read_metadata(DataConfig(dataset_path=str(tmp_path / "ljspeech-again")))
    assert not found.problems
    assert {clip.id: clip.text for clip in found.clips} == TEXTS
    samples, rate = soundfile.read(tmp_path / "ljspeech-again" / "wavs" / "a.wav")
    assert (len(samples), rate) == (4 * 256, RATE)
    np.testing.assert_allclose(samples, np.linspace(-0.5, 0.5, 4 * 256), atol=1e-4)


def test_a_dump_of_sounds_is_not_made_into_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_dump(tmp_path / "dump_ljspeech", symbols="baker")
    with pytest.raises(ValueError, match="unpack"):
        run("_mapper.json", tmp_path, monkeypatch)


def test_every_setting_that_has_a_name_here_exists() -> None:
    table = PAGE.text.partition("## Names of settings")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("| `")]
    names = [name.strip("` ") for row in rows for name in row.split(",") if name.strip()]
    assert len(names) > 20
    assert [name for name in names if section_of(name) is None] == []


def run(mark: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the page's block of Python that has `mark` in it."""
    (block,) = (block for _, block in PAGE.blocks("python") if mark in block)
    monkeypatch.chdir(folder)
    exec(compile(block, PAGE.path.name, "exec"), {})
