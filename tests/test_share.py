"""One process's share of every batch: together the shares are the batch, and what they compute is what one would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from training_samples import configure, data_folder, small_model

from myxtts.config.config import XTTSConfig
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.plan import EMPTY
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.models.sizes import ModelSizes
from myxtts.training.losses import compute_losses

WHOLE_BATCH = {"place", "all_index", "all_mel_lengths", "all_token_lengths"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("share"))


def source(data: Path, **changes: Any) -> BatchSource:
    config: XTTSConfig = configure(data, data / "run", **changes)
    return LJSpeechDataset(None, config).batches("train", config)


def read(source: BatchSource, share: Share = WHOLE, batches: int = 4) -> list[dict[str, np.ndarray]]:
    dataset = replace(source, share=share).dataset(seed=3).take(batches)
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(
    "changes",
    [{}, {"preprocessing_mode": "runtime"}, {"use_tf_native_loading": False}],
    ids=["store", "audio files", "through Python"],
)
def test_the_shares_of_a_batch_are_the_batch_and_know_its_lengths(
    data: Path, changes: dict[str, Any], ranks: int
) -> None:
    one = source(data, **changes)
    shares = [read(one, Share(rank, ranks)) for rank in range(ranks)]
    for number, whole in enumerate(read(one)):
        size = len(whole["index"])
        for rank in range(ranks):
            part = shares[rank][number]
            assert part.keys() == whole.keys() | WHOLE_BATCH
            assert len(part["index"]) == -(-size // ranks)
            np.testing.assert_array_equal(part["all_index"], whole["index"])
            np.testing.assert_array_equal(part["all_mel_lengths"], whole["mel_lengths"])
            np.testing.assert_array_equal(part["all_token_lengths"], whole["token_lengths"])
            inside = part["place"] < size
            assert set(part["index"][~inside]) <= {EMPTY}
            for name in whole:
                np.testing.assert_array_equal(part[name][inside], whole[name][part["place"][inside]], err_msg=name)


def test_a_share_of_a_batch_that_is_smaller_than_the_processes_is_empty() -> None:
    assert Share(2, 3).take(np.array([7, 8])).tolist() == [EMPTY]
    assert Share(1, 3).take(np.array([7, 8])).tolist() == [8]
    assert Share(1, 2).places(3).tolist() == [1, 3]


@pytest.mark.parametrize("decoder", ["regression", "flow"])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["graph", "XLA"])
def test_losses_and_gradients_of_the_shares_add_up_to_those_of_the_batch(
    data: Path, decoder: str, compiled: bool
) -> None:
    model = small_model(decoder=decoder)
    # Every kind of randomness there is: dropout, and voices that are left out.
    model = type(model).from_config(
        {**model.get_config(), "sizes": {**model.get_config()["sizes"], "dropout": 0.3}, "voice_dropout": 0.5}
    )
    assert isinstance(model.sizes, ModelSizes)
    for weight in model.trainable_variables:  # those that begin with zeros as well
        weight.assign(tf.random.stateless_normal(weight.shape, [1, len(weight.path)], stddev=0.2))

    def compute(batch: dict[str, tf.Tensor]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            losses = compute_losses(model(batch, training=True, seed=[5, 6]), batch, decoder)
        return list(losses.values()), tape.gradient(losses["total"], model.trainable_variables)

    compute = tf.function(compute, jit_compile=compiled, autograph=False)
    one = source(data)
    losses, gradients = compute(read(one, batches=1)[0])
    parts = [compute(read(one, Share(rank, 3), batches=1)[0]) for rank in range(3)]
    for whole, *shares in zip(losses, *(part[0] for part in parts), strict=True):
        np.testing.assert_allclose(sum(share.numpy() for share in shares), whole.numpy(), rtol=1e-5)
    for whole, *shares in zip(gradients, *(part[1] for part in parts), strict=True):
        summed = sum(tf.convert_to_tensor(share).numpy() for share in shares)
        np.testing.assert_allclose(summed, tf.convert_to_tensor(whole).numpy(), rtol=1e-3, atol=1e-5)
