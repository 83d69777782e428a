"""The mels that an acoustic model makes of the clips of a store, in the clips' own timing.

A vocoder that is trained on these hears in training what it will hear later: mels that are smoother than recorded
ones. They are computed once, and kept in the folder of the vocoder's run, so that a resumed run hears the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.store import FeatureStore
from myxtts.models.checkpoint import Checkpoint, load_model
from myxtts.training.failures import batches_of

FILE = "aligned-mels.npy"


def aligned_mels(
    checkpoint: Checkpoint,
    dataset: LJSpeechDataset,
    config: XTTSConfig,
    folder: Path,
    say: Callable[[str], None],
) -> Callable[[FeatureStore], np.ndarray]:
    """What `VocoderTrainer.prepare_datasets` takes as `mels`.

    Args:
        checkpoint: of the acoustic model.
        dataset: the vocoder's.
        config: of the vocoder's run; mels are as the checkpoint's.
        folder: of the vocoder's run, where the mels are kept.
        say: is told what is being done.
    """

    def compute(store: FeatureStore) -> np.ndarray:
        path = folder / FILE
        if path.is_file():
            return np.load(path, mmap_mode="r")
        model = load_model(checkpoint)
        speak = tf.function(
            lambda batch: model.speak_in_time(batch, steps=checkpoint.config.model.flow_steps),
            autograph=False,
            reduce_retracing=True,
        )
        # Clips of no split keep their own.
        mels = np.array(store.mel_data)
        sources = [dataset.batches(split, config) for split in ("train", "val")]
        clips = sum(source.plan.description.clips for source in sources)
        say(f"computing the mels that {checkpoint.path} makes of {clips:,} clips")
        for source in sources:
            for batch in batches_of(source.dataset(shuffle=False, epochs=1)):
                made = speak(batch).numpy()
                for row, mel, length in zip(batch["index"].numpy(), made, batch["mel_lengths"].numpy(), strict=True):
                    if row >= 0:
                        first = int(store.mel_offsets[row])
                        mels[first : first + length] = mel[:length]
        temporary = path.with_name(f".{FILE}.{os.getpid()}")
        with open(temporary, "wb") as file:
            np.save(file, mels)
        os.replace(temporary, path)
        return np.load(path, mmap_mode="r")

    return compute
