"""Checkpoints: whole or not there, and every way one can be wrong."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from model_samples import SMALL, VOCABULARY, random_batch

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.checkpoint import (
    differences,
    load_model,
    new_checkpoint,
    read_checkpoint,
    save_checkpoint,
    write_model,
    write_weights,
)
from myxtts.models.xtts import XTTS
from myxtts.text import TextSettings

FILES = {"model.npz", "config.yaml", "checkpoint.json", "checksums.json"}


SETTINGS = {"text_symbols": "graphemes", "n_mels": 20, "batch_size": 5}


@pytest.fixture
def config():
    return XTTSConfig(**SETTINGS)


@pytest.fixture(scope="module")
def model():
    model = XTTS(SMALL, VOCABULARY, 3, 20)
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(size=weight.shape) for weight in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("saved") / "step-7"
    save_checkpoint(folder, model, XTTSConfig(**SETTINGS), {"step": 7})
    return folder


@pytest.fixture
def path(tmp_path, saved):
    """A checkpoint that a test may damage."""
    return shutil.copytree(saved, tmp_path / "step-7")


def test_a_model_comes_back_as_it_was_saved(path, model):
    batch = random_batch()
    again = load_model(read_checkpoint(path))
    np.testing.assert_array_equal(again(batch).prediction, model(batch).prediction)


def test_a_checkpoint_tells_its_configuration_and_details(path, config):
    checkpoint = read_checkpoint(path)
    assert checkpoint.config == config
    assert checkpoint.details == {"step": 7}


def test_a_checkpoint_can_be_loaded_in_mixed_precision(path):
    model = load_model(read_checkpoint(path), policy="mixed_bfloat16")
    assert model.compute_dtype == "bfloat16"
    assert {weight.dtype for weight in model.weights} == {"float32"}


def test_auto_is_written_as_what_it_was_decided_to_be(tmp_path, model):
    config = XTTSConfig(text_symbols="auto", n_mels=20)
    save_checkpoint(tmp_path / "auto", model, config)
    assert read_checkpoint(tmp_path / "auto").config.data.text_symbols in ("graphemes", "phonemes")


def test_there_is_nothing_else_in_the_folder_and_nothing_beside_it(path):
    assert {file.name for file in path.iterdir()} == FILES
    assert [entry.name for entry in path.parent.iterdir()] == ["step-7"]


def test_others_may_read_it(path):
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o777 & ~mask


def test_a_checkpoint_is_replaced_as_a_whole(path, model, config):
    save_checkpoint(path, model, config, {"step": 8})
    assert read_checkpoint(path).details == {"step": 8}
    assert [entry.name for entry in path.parent.iterdir()] == ["step-7"]


def test_what_fails_midway_leaves_the_old_one_and_no_rubbish(path, model, config):
    def save():
        with new_checkpoint(path) as folder:
            write_model(folder, model, config)
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk"):
        save()
    assert read_checkpoint(path).details == {"step": 7}
    assert [entry.name for entry in path.parent.iterdir()] == ["step-7"]


def test_files_of_a_trainer_are_kept_and_checked_too(tmp_path, model, config):
    with new_checkpoint(tmp_path / "full") as folder:
        write_model(folder, model, config)
        (folder / "optimizer").mkdir()
        (folder / "optimizer" / "state.bin").write_bytes(b"123")
    read_checkpoint(tmp_path / "full")
    (tmp_path / "full" / "optimizer" / "state.bin").write_bytes(b"124")
    with pytest.raises(CheckpointError, match=r"state\.bin: not what was saved"):
        read_checkpoint(tmp_path / "full")


@pytest.mark.parametrize("name", sorted(FILES - {"checksums.json"}))
def test_a_flipped_bit_is_found_in_every_file(path, name):
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    (path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged|format"):
        read_checkpoint(path)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_truncated_file_is_found(path, name):
    with open(path / name, "r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) // 2)
    with pytest.raises(CheckpointError, match="damaged"):
        read_checkpoint(path)


@pytest.mark.parametrize("name", sorted(FILES - {"checkpoint.json"}))
def test_a_missing_file_is_named(path, name):
    (path / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        read_checkpoint(path)


def test_the_folder_of_a_run_means_its_best(path, tmp_path):
    (tmp_path / "best").symlink_to(path)
    assert read_checkpoint(tmp_path).path == tmp_path / "best"


def test_the_folder_of_a_run_may_name_its_best_in_a_file(path, tmp_path):
    (tmp_path / "best").write_text("step-7\n")
    assert read_checkpoint(tmp_path).path == path
    assert read_checkpoint(tmp_path / "best").path == path


def test_before_the_first_validation_the_folder_of_a_run_means_its_newest(tmp_path, model, config):
    for step in (99_999_999, 100_000_000, 8):
        save_checkpoint(tmp_path / f"step-{step:08d}", model, config, {"step": step})
    assert read_checkpoint(tmp_path).details == {"step": 100_000_000}


def test_a_best_that_is_gone_is_no_checkpoint(path, tmp_path):
    (tmp_path / "best").symlink_to("step-3")
    assert read_checkpoint(tmp_path).path == path


def test_a_checkpoint_takes_its_lexicons_with_it(tmp_path, model, monkeypatch):
    training, elsewhere = tmp_path / "training", tmp_path / "elsewhere"
    training.mkdir()
    (training / "names.tsv").write_text("سعدی\tsaʔdiː\n", encoding="utf-8")
    monkeypatch.chdir(training)
    config = XTTSConfig(text_symbols="graphemes", n_mels=20, lexicons={"fa": "names.tsv"})
    save_checkpoint(training / "run", model, config)
    assert differences(read_checkpoint("run"), config) == []
    expected = TextSettings.from_config(config.data).fingerprint()

    (training / "run").rename(elsewhere)
    (training / "names.tsv").unlink()
    monkeypatch.chdir(tmp_path)
    for given in (elsewhere, "elsewhere"):
        checkpoint = read_checkpoint(given)
        monkeypatch.chdir(training)
        assert checkpoint.config.data.lexicons == {"fa": str(elsewhere / "lexicon-fa.tsv")}
        assert TextSettings.from_config(checkpoint.config.data).fingerprint() == expected
        assert checkpoint.settings["lexicon_fa"] == expected["lexicon_fa"]
        monkeypatch.chdir(tmp_path)


def test_a_lexicon_that_is_not_in_the_checkpoint_is_where_the_configuration_says(tmp_path, model, config):
    with new_checkpoint(tmp_path / "old") as folder:
        write_model(folder, model, config)
        config.data.lexicons = {"fa": "names.tsv"}
        config.to_yaml(folder / "config.yaml")
    assert read_checkpoint(tmp_path / "old").config.data.lexicons == {"fa": "names.tsv"}


def test_no_folder_is_said_so(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        read_checkpoint(tmp_path / "gone")


def test_a_folder_that_is_no_checkpoint_is_said_so(tmp_path):
    with pytest.raises(CheckpointError, match=r"not a checkpoint \(it has no checkpoint\.json\)"):
        read_checkpoint(tmp_path)


def test_a_newer_format_is_said_so(path):
    description = json.loads((path / "checkpoint.json").read_text())
    (path / "checkpoint.json").write_text(json.dumps({**description, "format": 99, "myxtts": "9.9"}))
    with pytest.raises(CheckpointError, match=r"format 99, this version reads 1; it was made by myxtts 9\.9"):
        read_checkpoint(path)


def test_weights_of_another_architecture_are_refused(tmp_path, model, config):
    with new_checkpoint(tmp_path / "mixed") as folder:
        write_model(folder, model, config)
        write_weights(folder / "model.npz", XTTS(SMALL, VOCABULARY + 1, 3, 20))
    with pytest.raises(CheckpointError, match=r"model\.npz: cannot be loaded"):
        load_model(read_checkpoint(tmp_path / "mixed"))


def test_the_same_configuration_has_no_differences(path, config):
    assert differences(read_checkpoint(path), config) == []


def test_every_difference_is_named(path):
    config = XTTSConfig(text_symbols="graphemes", n_mels=24, sample_rate=24000, decoder="flow")
    found = differences(read_checkpoint(path), config)
    assert [text.partition(" ")[0] for text in found] == ["decoder", "sample_rate", "n_mels"]
