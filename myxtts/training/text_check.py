"""A warning at the end of a run, if texts of the validation clips are not what is said in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import XTTSConfig
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.models.text_fit import LEARNT, WRONG, text_misfit
from myxtts.models.xtts import XTTS
from myxtts.training.failures import batches_of
from myxtts.training.step import any_length

# Sooner no model can tell which text is said.
STEPS_TO_TELL = 100


def warning_of_wrong_texts(model: XTTS, config: XTTSConfig, dataset: tf.data.Dataset) -> str | None:
    """What to tell the user about the texts of validation clips; None if they fit, or the model cannot tell.

    Args:
        model: with the weights to speak with.
        config: defines a mel, and whether to run eagerly.
        dataset: one pass over the validation clips.

    Raises:
        DataError: a batch cannot be loaded.
    """
    settings = MelSettings.from_config(config.data)
    log_mel = LogMel(settings)

    def measure(batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        features = add_device_features(batch, log_mel, settings)
        return tf.where(features["mel_lengths"] > 0, text_misfit(model, features), 0.0)

    if config.training.enable_graph_mode and not config.training.enable_eager_debug:
        spec = {name: any_length(one) for name, one in dataset.element_spec.items()}
        measure = tf.function(measure, input_signature=[spec], autograph=False)
    found = [measure(batch).numpy() for batch in batches_of(dataset)]
    misfits = np.concatenate([np.zeros(0, np.float32), *found])
    misfits = misfits[misfits > 0]  # empty places, and clips without another text to compare with
    wrong = int((misfits >= WRONG).sum())
    if not wrong or float(np.median(misfits)) > LEARNT:
        return None
    return (
        f"warning: the text of {wrong:,} of {len(misfits):,} validation clips is probably not what is said\n"
        "`myxtts check-data --checkpoint` with this run ranks all clips"
    )
