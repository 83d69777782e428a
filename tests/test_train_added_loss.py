"""A loss that is added to the mapping, and to nothing else, is trained on and shown everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from training_samples import configure, data_folder, small_model

from myxtts.models.masking import masked_mean
from myxtts.training.losses import LOSSES, Loss
from myxtts.training.progress import LoggingObserver
from myxtts.training.record_file import read_records
from myxtts.training.trainer import XTTSTrainer


def tags_in(folder: Path) -> set[str]:
    return {
        value.tag
        for file in folder.iterdir()
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    }


def test_an_added_loss_is_trained_logged_drawn_and_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def loudness(outputs: Any, batch: Any, decoder: Any) -> tf.Tensor:
        difference = tf.reduce_mean(outputs.mean - outputs.mel, axis=2, keepdims=True)
        return masked_mean(tf.abs(difference), outputs.frame_mask, outputs.frames)

    monkeypatch.setitem(LOSSES, "loudness", Loss(loudness, weight=0.25))
    caplog.set_level("INFO")
    config = configure(
        data_folder(tmp_path), tmp_path / "run", max_steps=4, validate_every=2, save_every=2, enable_tensorboard=True
    )
    trainer = XTTSTrainer(config, small_model(), observer=LoggingObserver())
    trainer.train(*trainer.prepare_datasets())

    records = list(read_records(tmp_path / "run" / "log.jsonl"))
    trained = [record for record in records if "validation" not in record]
    validated = [record["validation"] for record in records if "validation" in record]
    assert (len(trained), len(validated)) == (4, 2)
    for losses in (*trained, *validated):
        parts = [losses[name] for name in ("prior", "decoder", "duration", "loudness")]
        assert losses["total"] == pytest.approx(sum(parts), rel=1e-5)
        assert losses["loudness"] > 0
    assert tags_in(tmp_path / "run" / "tensorboard") >= {"loss/loudness", "validation/loudness"}
    assert f"loudness {validated[-1]['loudness']:.4f}" in caplog.text

    resumed = configure(tmp_path / "data", tmp_path / "run", max_steps=5)
    trainer = XTTSTrainer(resumed, small_model(), resume=True)
    assert trainer.train(*trainer.prepare_datasets()).step == 5
