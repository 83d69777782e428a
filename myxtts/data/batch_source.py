"""The batches of one split of a prepared data set: its clips, its plan, its loader, put together in one place."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.batches.clip_table import ClipTable
from myxtts.data.batches.pages_ahead import ask_ahead
from myxtts.data.batches.pipeline import BatchLoader, PipelineSettings, create_dataset, gpu_device
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.position import Position
from myxtts.data.batches.python_loader import PythonLoader
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.batches.store_windows import StoreWindows
from myxtts.data.batches.window_plan import WINDOW_CLIPS, WindowedPlan
from myxtts.data.clips.metadata import Split
from myxtts.data.modes import PreparedData
from myxtts.data.store import FeatureStore
from myxtts.data.store.parted_store import PartedStore
from myxtts.data.tf_native_loader import TFNativeDataLoader
from myxtts.errors import DataError
from myxtts.text import TextSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchSource:
    """What the batches of a split are made from.

    Attributes:
        clips: the store, or the clips of runtime mode; row numbers in batches are positions in it.
        plan: which clips make which batch.
        config: the data section in use.
        table: where the clips' features lie; None where the plan is in windows, which have a table each.
        share: which places of every batch are loaded, where several processes train together.
        exact: in runtime mode, compute every feature as the store would have it, bit for bit: through Python.
    """

    clips: FeatureStore | RuntimeClips
    plan: BatchPlan | WindowedPlan
    config: DataConfig
    table: ClipTable | None
    share: Share = WHOLE
    exact: bool = False

    @classmethod
    def build(cls, prepared: PreparedData, config: DataConfig, split: Split) -> BatchSource:
        """Plans the batches of a split.

        Raises:
            DataError: no clip of the split can be used.
        """
        clips: FeatureStore | RuntimeClips
        if prepared.store is not None:
            clips, metadata = prepared.store, prepared.metadata
        else:
            clips, metadata = prepared.runtime_clips
        planning: dict[str, Any] = {
            "batch_size": None if config.max_frames_per_batch else config.batch_size,
            "max_frames_per_batch": config.max_frames_per_batch,
            "num_buckets": config.num_buckets,
            "max_mel_frames": config.max_mel_frames,
            "max_tokens": config.max_tokens,
            "long_clips": config.long_clips,
            "source": prepared.plan_source,
        }
        weights = config.data_weights if split == "train" else []
        extra_languages = TextSettings.from_config(config).extra_languages
        plan: BatchPlan | WindowedPlan
        table: ClipTable | None
        if isinstance(clips, PartedStore) and len(clips.parts) > 1 and len(clips) > WINDOW_CLIPS:
            windows = StoreWindows(clips, split, weights, extra_languages)
            summary = windows.summary(config.max_mel_frames, config.max_tokens, config.long_clips)
            plan, table = WindowedPlan(windows, summary, **planning), None
            found = plan.clips + sum(plan.skipped_because.values())
        else:
            rows = metadata.rows(split)
            repeats = np.array(weights)[metadata.data_sets()[rows]] if weights else None
            plan = BatchPlan(clips.mel_lengths[rows], clips.token_lengths[rows], rows, repeats=repeats, **planning)
            table = ClipTable.build(clips, rows, extra_languages)
            found = len(rows)
        if not found:
            raise DataError(f"the {split} split has no usable clip")
        for reason, count in plan.skipped_because.items():
            logger.warning("%s clips of the %s split are left out: over %s", f"{count:,}", split, reason)
        return cls(clips, plan, config, table, exact=prepared.stands_for is not None)

    def dataset(self, order: BatchOrder | None = None, **changes: Any) -> tf.data.Dataset:
        """The split's batches, as `pipeline.create_dataset` gives them, under the configuration's switches.

        Args:
            order: which of them; none: all, shuffled, without end.
            changes: attributes of `BatchOrder` to change, such as `seed`.
        """
        settings = PipelineSettings.from_config(self.config, gpu_device())
        order = replace(order or BatchOrder(), **changes)

        def through(loader: BatchLoader) -> tf.data.Dataset:
            dataset = create_dataset(loader, self.plan, settings, order)
            if settings.overlap and isinstance(self.clips, FeatureStore):
                ask_ahead(dataset, self.clips, self.plan, order, share=self.share)
            return dataset

        if self.exact or not self.config.use_tf_native_loading:
            return through(self.python_loader())
        try:
            return through(self.native_loader())
        except DataError:
            raise
        except Exception as error:
            # TensorFlow puts its own call chain before the cause.
            cause = ([line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"])[-1]
            logger.warning(
                "batches are loaded through Python, because the graph cannot be built: %s: %s",
                type(error).__name__,
                cause,
            )
            return through(self.python_loader())

    def resume(self, position: Position, *, shuffle: bool = True, epochs: int | None = None) -> tf.data.Dataset:
        """The batches from a saved position on.

        Raises:
            DataError: it was saved with another plan; the message says what changed.
        """
        position.require(self.plan)
        return self.dataset(BatchOrder(position.seed, shuffle, epochs, position.epoch, position.step))

    def native_loader(self) -> TFNativeDataLoader:
        """Loads in graph."""
        return TFNativeDataLoader(
            MelSettings.from_config(self.config),
            self.clips,
            self.table,
            mel_dtype=self.config.mel_dtype,
            on_device=self.config.feature_device == "accelerator",
            reference_frames=self.reference_frames,
            share=self.share,
        )

    def python_loader(self) -> PythonLoader:
        """Loads through Python, a batch per call."""
        settings = MelSettings.from_config(self.config)
        return PythonLoader(
            self.clips,
            self.table,
            settings,
            self.config.mel_dtype,
            self.reference_frames,
            self.share,
            self.exact,
        )

    @property
    def reference_frames(self) -> int:
        """Frames of the reference crop in each batch."""
        return round(self.config.reference_seconds * self.config.sample_rate / self.config.hop_length)


class AllShapesSeen:
    """Says when a source has delivered a batch of every shape: loading compiles for each shape when it first comes.

    An epoch has them all, so it is never later than that.
    """

    def __init__(self, plan: BatchPlan | WindowedPlan) -> None:
        self._shapes = len(plan.buckets)
        self._batches_left = len(plan)
        self._seen: set[tuple[int, ...]] = set()

    def __call__(self, batch: Mapping[str, tf.Tensor]) -> bool:
        frames = batch["mel"] if "mel" in batch else batch["audio"]
        self._seen.add((*frames.shape, *batch["tokens"].shape))
        self._batches_left -= 1
        return len(self._seen) >= self._shapes or self._batches_left <= 0


def clips_in(batch: Mapping[str, tf.Tensor]) -> int:
    """Clips of a batch, empty places not counted."""
    return int(np.count_nonzero(batch["index"].numpy() >= 0))
