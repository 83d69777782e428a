"""Runs training steps of growing size until one does not fit, and reports each. A program of its own.

The request on standard input holds `config`, `shapes` (clips, frames and tokens of each trial, growing) and
`limit_bytes` (of this process's memory, for trials on a CPU; null: none). For each step that fitted a line of JSON
comes back. A step that does not fit may end this process, and ends nothing else.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.models.create import create_model
from myxtts.training.device import precision_policy, prepare_device
from myxtts.training.failures import is_out_of_memory
from myxtts.training.measured_steps import measured_step
from myxtts.training.step import TrainingStep

# The first call compiles; the better of the others is what a step takes.
_TIMED_CALLS = 2


def trial_batch(config: XTTSConfig, shape: Sequence[int]) -> dict[str, tf.Tensor]:
    """A batch of this shape, all zeros, every clip as long as it can be."""
    clips, frames, tokens = shape
    data = config.data
    reference = round(data.reference_seconds * data.sample_rate / data.hop_length)
    batch = {
        "tokens": tf.ones([clips, tokens], tf.int32),
        "token_lengths": tf.fill([clips], tokens),
        "mel": tf.zeros([clips, frames, data.n_mels], data.mel_dtype),
        "mel_lengths": tf.fill([clips], frames),
        "speaker": tf.zeros([clips], tf.int32),
        "language": tf.zeros([clips], tf.int32),
        "index": tf.range(clips, dtype=tf.int64),
    }
    if reference:
        batch["reference_mel"] = tf.zeros([clips, reference, data.n_mels], data.mel_dtype)
    if data.preprocessing_mode == "runtime" and data.feature_device == "accelerator":
        samples = frames * data.hop_length + data.n_fft
        del batch["mel"]
        batch |= {"audio": tf.zeros([clips, samples], tf.int16), "audio_lengths": tf.fill([clips], samples)}
        if batch.pop("reference_mel", None) is not None:
            batch["reference_audio"] = tf.zeros([clips, reference * data.hop_length], tf.int16)
    return batch


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    config = XTTSConfig(**request["config"])
    device = prepare_device(config.training)
    with tf.device(device.name):
        model = create_model(config, precision_policy(config.training, device))
        step = None
        base, used = peak_bytes(device.is_gpu), 0
        last_shape: Sequence[int] | None = None
        for shape in request["shapes"]:
            if last_shape is not None and request["limit_bytes"] is not None:
                growth = (shape[0] * shape[1]) / (last_shape[0] * last_shape[1])
                if base + growth * (used - base) > request["limit_bytes"]:
                    return
            batch = trial_batch(config, shape)
            step = step or measured_step(model, config, batch)
            try:
                seconds = _time(step, batch)
            except Exception as error:
                if is_out_of_memory(error):
                    return
                raise
            used, last_shape = peak_bytes(device.is_gpu), shape
            print(json.dumps({"shape": shape, "seconds": seconds, "peak_bytes": used}), flush=True)


def peak_bytes(gpu: bool) -> int:
    """The most memory in use so far: the GPU's, or this process's."""
    if gpu:
        return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _time(step: TrainingStep, batch: dict[str, tf.Tensor]) -> float:
    step(batch).completion.numpy()
    best = float("inf")
    for _ in range(_TIMED_CALLS):
        began = time.perf_counter()
        step(batch).completion.numpy()
        best = min(best, time.perf_counter() - began)
    return best
