"""Clips whose text is not what is said in them are found by a voice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from training_samples import BANDS, configure, data_folder, small_model

from myxtts.data.clips.metadata import read_metadata
from myxtts.errors import DataError
from myxtts.evaluation.transcripts import rank_transcripts
from myxtts.evaluation.transcripts_page import transcripts_page
from myxtts.models.checkpoint import save_checkpoint
from myxtts.models.text_fit import WRONG, text_misfit
from myxtts.models.xtts import XTTS
from myxtts.training.text_check import warning_of_wrong_texts

MyXTTS = Callable[..., "subprocess.CompletedProcess[str]"]
CLIPS, TOKENS, FRAMES_OF_A_TOKEN = 12, 10, 4


def spelt_clips() -> dict[str, tf.Tensor]:
    """A batch in which every token always has the same sound, for a model to learn within seconds."""
    random = np.random.default_rng(0)
    sounds = random.normal(-5.5, 2.2, (40, BANDS))
    tokens = random.integers(1, 40, (CLIPS, TOKENS)).astype(np.int32)
    mel = np.repeat(sounds[tokens], FRAMES_OF_A_TOKEN, axis=1) + random.normal(0, 0.3, (CLIPS, TOKENS * 4, BANDS))
    return {
        "tokens": tf.constant(tokens),
        "token_lengths": tf.fill([CLIPS], TOKENS),
        "mel": tf.constant(mel, tf.float32),
        "mel_lengths": tf.fill([CLIPS], TOKENS * FRAMES_OF_A_TOKEN),
        "language": tf.zeros([CLIPS], tf.int32),
    }


@pytest.fixture(scope="module")
def learnt() -> tuple[XTTS, dict[str, tf.Tensor]]:
    """A model that knows the sounds of its tokens, and the batch that it was trained on."""
    model, batch = small_model(), spelt_clips()
    optimizer = tf.keras.optimizers.Adam(0.03)

    @tf.function(autograph=False)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model.text_error(batch))
        weights = [*model.encoder.trainable_variables, *model.mean_head.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    for _ in range(120):
        step()
    return model, batch


def with_swapped_texts(batch: dict[str, tf.Tensor], one: int, other: int) -> dict[str, tf.Tensor]:
    order = np.arange(CLIPS)
    order[[one, other]] = other, one
    return batch | {"tokens": tf.gather(batch["tokens"], order)}


def test_texts_that_are_said_fit_and_swapped_ones_do_not(learnt: tuple[XTTS, dict[str, tf.Tensor]]) -> None:
    model, batch = learnt
    right = text_misfit(model, batch).numpy()
    assert right.max() < 0.7
    swapped = text_misfit(model, with_swapped_texts(batch, 2, 7)).numpy()
    assert set(np.argsort(-swapped)[:2]) == {2, 7}
    assert swapped[[2, 7]].min() >= WRONG > np.delete(swapped, [2, 7]).max()


def test_a_clip_without_another_text_to_compare_with_is_not_accused(
    learnt: tuple[XTTS, dict[str, tf.Tensor]],
) -> None:
    model, batch = learnt
    alone = {name: value[:1] for name, value in batch.items()}
    assert text_misfit(model, alone).numpy().tolist() == [0]
    same = {name: tf.repeat(value, 3, axis=0) for name, value in alone.items()}
    assert text_misfit(model, same).numpy().tolist() == [0, 0, 0]


def test_a_run_warns_of_wrong_texts_among_its_validation_clips(
    learnt: tuple[XTTS, dict[str, tf.Tensor]], tmp_path: Path
) -> None:
    model, batch = learnt
    config = configure(tmp_path, tmp_path)
    wrong = tf.data.Dataset.from_tensors(with_swapped_texts(batch, 0, 1))
    warning = warning_of_wrong_texts(model, config, wrong)
    assert warning is not None
    assert f"the text of 2 of {CLIPS} validation clips" in warning
    assert warning_of_wrong_texts(model, config, tf.data.Dataset.from_tensors(batch)) is None
    assert warning_of_wrong_texts(small_model(), config, wrong) is None  # it has learnt nothing, and cannot tell


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def checkpoint(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that has learnt nothing: for what does not depend on it."""
    folder = tmp_path_factory.mktemp("checkpoint") / "untrained"
    config = configure(data, folder.parent / "run")
    save_checkpoint(folder, small_model(), config, read_metadata(config.data).origin())
    return folder


def test_all_clips_are_ranked_the_least_fitting_first(checkpoint: Path, data: Path) -> None:
    fits = rank_transcripts(checkpoint, data)
    assert len(fits) == len((data / "metadata.csv").read_text().splitlines()) - 1
    misfits = [fit.misfit for fit in fits]
    assert misfits == sorted(misfits, reverse=True)
    assert len({fit.clip.id for fit in fits}) == len(fits)
    page = transcripts_page(fits)
    assert fits[0].clip.text in page
    assert page.count("<audio") == min(30, len(fits))


def test_one_clip_has_nothing_to_be_compared_with(checkpoint: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "wavs").symlink_to(data / "wavs")
    (tmp_path / "metadata.csv").write_text("c000|Alone.\n")
    with pytest.raises(DataError, match="two are needed"):
        rank_transcripts(checkpoint, tmp_path)


def test_the_command_shows_the_ranking(call_myxtts: MyXTTS, checkpoint: Path, data: Path, tmp_path: Path) -> None:
    page = tmp_path / "texts.html"
    done = call_myxtts("check-data", data, "--checkpoint", checkpoint, "--html", page, "--json")
    ranked = json.loads(done.stdout)["transcripts"]
    assert ranked[0]["misfit"] >= ranked[-1]["misfit"]
    assert ranked[0]["text"] in page.read_text("utf-8")
    shown = call_myxtts("check-data", data, "--checkpoint", checkpoint)
    assert "probably not what is said; those that fit least" in shown.stdout


def test_wrong_options_of_the_command_are_named(call_myxtts: MyXTTS, data: Path, tmp_path: Path) -> None:
    alone = call_myxtts("check-data", data, "--html", tmp_path / "page.html")
    assert (alone.returncode, "--checkpoint" in alone.stderr) == (2, True)
    missing = call_myxtts("check-data", data, "--checkpoint", tmp_path / "none")
    assert missing.returncode == 1
    assert "none" in missing.stderr
