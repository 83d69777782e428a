"""Our own rows: from the store, and in runtime mode on the host and with device features."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from loading.data import NUM_BUCKETS, SEED, BenchData
from loading.source import Source
from myxtts.audio.mel import MelSettings
from myxtts.audio.mel_tf import LogMel
from myxtts.config.config import DataConfig
from myxtts.data.batches import pipeline
from myxtts.data.batches.audio_loader import add_device_features
from myxtts.data.batches.clip_table import ClipTable
from myxtts.data.batches.pages_ahead import ask_ahead
from myxtts.data.batches.pipeline import PipelineSettings, create_dataset
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.clips.metadata import read_metadata
from myxtts.data.store import FeatureStore
from myxtts.data.tf_native_loader import TFNativeDataLoader
from myxtts.text import TextSettings

STEPS_PER_SHAPE = 5


def from_store(
    data: BenchData,
    dtype: str,
    num_buckets: int = NUM_BUCKETS,
    batch_size: int | None = None,
    keep_memory: bool = True,
) -> Source:
    """The pipeline that training uses, with its default settings; every column of a batch, no reference crops.

    Args:
        keep_memory: false leaves the C library as it is, to see what keeping freed memory brings.
    """
    if not keep_memory:
        pipeline.keep_freed_memory = functools.cache(lambda: False)
    store, plan = data.store(dtype), data.plan(num_buckets, batch_size)
    loader = TFNativeDataLoader(clips=store, table=ClipTable.build(store, None, ()))
    return Source(_endless(loader, plan, store), plan.clips / len(plan), plan.padding_share)


def runtime(data: BenchData, device: str) -> Source:
    """Runtime mode; with device features also what the mels cost inside a compiled step on this machine."""
    config = data.runtime_config()
    settings = MelSettings.from_config(config)
    clips, _ = RuntimeClips.build(read_metadata(config), settings, TextSettings.from_config(config), config.workers)
    plan = BatchPlan(
        clips.mel_lengths, clips.token_lengths, batch_size=data.runtime_batch_size, num_buckets=NUM_BUCKETS
    )
    loader = TFNativeDataLoader(
        settings,
        clips,
        ClipTable.build(clips, None, ()),
        mel_dtype="float32",
        on_device=device == "accelerator",
    )
    batches = _endless(loader, plan)
    clips_per_batch = plan.clips / len(plan)
    if device == "host":
        return Source(batches, clips_per_batch, plan.padding_share, warmup_batches=len(plan))

    def mel_in_step() -> dict[str, float]:
        log_mel = LogMel(settings)

        @tf.function(jit_compile=True)
        def step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
            return tf.reduce_sum(add_device_features(batch, log_mel, settings)["mel"])

        seconds = []
        for batch in [next(batches) for _ in range(len(plan))]:
            sound = {name: batch[name] for name in ("audio", "audio_lengths", "mel_lengths")}
            step(sound).numpy()
            for _ in range(STEPS_PER_SHAPE):
                start = time.perf_counter()
                step(sound).numpy()
                seconds.append(time.perf_counter() - start)
        return {"mel_in_step_ms_per_clip": 1e3 * float(np.mean(seconds)) / clips_per_batch}

    return Source(batches, clips_per_batch, plan.padding_share, after=mel_in_step)


def _endless(
    loader: TFNativeDataLoader, plan: BatchPlan, store: FeatureStore | None = None
) -> Iterator[dict[str, tf.Tensor]]:
    settings = PipelineSettings.from_config(DataConfig())
    order = BatchOrder(SEED)
    dataset = create_dataset(loader, plan, settings, order)
    if store is not None:
        ask_ahead(dataset, store, plan, order)
    return iter(dataset)
