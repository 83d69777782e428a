"""The segments of one split of a prepared data set: its clips, its plan, its loader, put together in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.batches.pipeline import BatchLoader, PipelineSettings, create_dataset, gpu_device
from myxtts.data.batches.plan import BatchOrder
from myxtts.data.batches.position import Position
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.batches.segments import AudioSegmentLoader, StoreSegmentLoader
from myxtts.data.clips.metadata import Split
from myxtts.data.modes import PreparedData
from myxtts.data.store import FeatureStore
from myxtts.data.store.columns import AUDIO_COLUMN
from myxtts.data.store.target import fingerprint
from myxtts.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class SegmentSource:
    """What the segments of a split are made from.

    A batch is a dict of `mel` [B, S, n_mels] in the stored type, `audio` int16 [B, S · hop_length], `mel_lengths`
    int32 [B], `first_frame` int32 [B], and `index` int64 [B], the clips' rows. `mel_lengths` are S, or fewer for a
    clip that is shorter; then the mel ends with the padding value, and the audio with zeros.

    Attributes:
        clips: the store, or the clips of runtime mode; row numbers in batches are positions in it.
        plan: which segments make which batch.
        config: the data section in use.
        split: which one.
        mels: frames in place of the store's, or None.
    """

    clips: FeatureStore | RuntimeClips
    plan: SegmentPlan
    config: DataConfig
    split: Split
    mels: np.ndarray | None = None

    @classmethod
    def build(
        cls,
        prepared: PreparedData,
        config: DataConfig,
        split: Split,
        *,
        frames: int,
        batch_size: int,
        mels: np.ndarray | None = None,
    ) -> SegmentSource:
        """Plans the segments of a split; takes and raises what `LJSpeechDataset.segments` does."""
        clips: FeatureStore | RuntimeClips
        if prepared.store is not None:
            clips, metadata, source = prepared.store, prepared.metadata, _source(prepared.store)
        else:
            clips, metadata = prepared.runtime_clips
            source = "runtime"
        if mels is not None:
            _require_same_rows(mels, clips)
        rows = metadata.rows(split)
        if not len(rows):
            raise DataError(f"the {split} split has no usable clip")
        weights = config.data_weights if split == "train" else []
        plan = SegmentPlan(
            clips.mel_lengths[rows],
            rows,
            frames=frames,
            batch_size=batch_size,
            source=source,
            repeats=np.array(weights)[metadata.data_sets()[rows]] if weights else None,
        )
        return cls(clips, plan, config, split, mels)

    def dataset(self, order: BatchOrder | None = None, **changes: Any) -> tf.data.Dataset:
        """The split's batches of segments, under the configuration's switches.

        Args:
            order: which of them; none: of the training split all that there are, drawn anew in every epoch, without
                end; of another split one epoch of segments that are the same every time.
            changes: attributes of `BatchOrder` to change, such as `seed`.
        """
        always = BatchOrder() if self.split == "train" else BatchOrder(shuffle=False, epochs=1)
        settings = PipelineSettings.from_config(self.config, gpu_device())
        return create_dataset(self.loader(), self.plan, settings, replace(order or always, **changes))

    def resume(self, position: Position, *, shuffle: bool = True, epochs: int | None = None) -> tf.data.Dataset:
        """The batches from a saved position on.

        Raises:
            DataError: it was saved with another plan; the message says what changed.
        """
        position.require(self.plan)
        return self.dataset(BatchOrder(position.seed, shuffle, epochs, position.epoch, position.step))

    def loader(self) -> BatchLoader:
        """Loads in graph, whatever `use_tf_native_loading` says: there is no other loader of segments."""
        settings = MelSettings.from_config(self.config)
        with tf.device("/CPU:0"):  # where batches are loaded, whatever other devices there are
            if isinstance(self.clips, FeatureStore):
                return StoreSegmentLoader(self.clips, self.plan, settings.hop_length, self.mels)
            return AudioSegmentLoader(self.clips, self.plan, settings, self.config.mel_dtype)


def _source(store: FeatureStore) -> str:
    """A hash of what segments depend on; the text does not matter to them."""
    settings = store.manifest.settings
    if AUDIO_COLUMN not in settings:
        raise ConfigError(
            "segments need the audio of the clips, which this store does not have: set store_audio to true "
            "(--set store_audio=true), and it is added to what is stored"
        )
    return fingerprint({section: settings[section] for section in ("mel", AUDIO_COLUMN, "data")})


def _require_same_rows(mels: np.ndarray, clips: FeatureStore | RuntimeClips) -> None:
    if not isinstance(clips, FeatureStore):
        raise ConfigError("other mels take the rows of a store's: set preprocessing_mode to precompute")
    if mels.shape != clips.mel_data.shape or mels.dtype not in (np.float16, np.float32):
        raise DataError(
            f"the mels for the segments are {mels.dtype} of shape {mels.shape}, and should be float16 or float32 of "
            f"shape {clips.mel_data.shape}, as the store's are: compute them again"
        )
