"""The data set as users import it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from myxtts.config.config import DataConfig, XTTSConfig
from myxtts.data.batches.position import Position
from myxtts.data.clips import Clip
from myxtts.data.clips.metadata import SPLITS, Metadata, Split, read_metadata
from myxtts.data.modes import PreparedData, prepare
from myxtts.data.parts import stored_metadata
from myxtts.data.precompute import PrecomputeResult, StoreCheck, WorkProgress, check_store, precompute
from myxtts.errors import UsageError

if TYPE_CHECKING:
    import tensorflow as tf

    from myxtts.data.batch_source import BatchSource
    from myxtts.data.segment_source import SegmentSource


# What decides which clips there are, and what changes nothing but how features are loaded.
_CLIP_KEYS = (
    "dataset_path", "data_languages", "data_layout", "metadata_file", "metadata_train_file", "metadata_eval_file",
    "wavs_dir", "wavs_train_dir", "wavs_eval_dir", "train_split", "val_split", "split_seed", "speaker_pattern",
    "language", "extra_languages",
)  # fmt: skip
_LOADING_KEYS = {
    "batch_size", "max_frames_per_batch", "max_mel_frames", "max_tokens", "long_clips", "num_buckets",
    "reference_seconds", "num_workers", "prefetch_buffer_size", "use_tf_native_loading", "prefetch_to_gpu",
    "data_weights", "enhanced_gpu_prefetch", "optimize_cpu_gpu_overlap", "feature_device", "auto_tune_performance",
    "build_beside_minutes", "data_service",
}  # fmt: skip


class LJSpeechDataset:
    """The clips of one split of a data set, in LJSpeech's layout or any other that is recognised (docs/data-sets.md).

    ```python
    train = LJSpeechDataset("./data/ljspeech", XTTSConfig(val_split=0.1))
    val = LJSpeechDataset("./data/ljspeech", XTTSConfig(val_split=0.1), subset="val")
    len(train), train[0].text, train.speakers
    ```

    Attributes:
        config: the data section in use.
        subset: `train`, `val` or `test`.
        metadata: of the whole data set, whichever the split, with what was wrong in it.
    """

    def __init__(
        self,
        data_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        config: DataConfig | XTTSConfig | None = None,
        subset: Split = "train",
    ) -> None:
        """Reads the metadata; audio is looked for and not opened. With `trust_store`, opens the store instead, and
        there are rows, speakers and languages, but no `Clip`.

        Args:
            data_path: the data set's folder, or those of several that are used as one; none: the configuration's
                `dataset_path`.
            config: everything else about it; none: the defaults.
            subset: which split.

        Raises:
            DataError: the data set cannot be read, has no usable clip, or nothing to validate with.
            UsageError: there is no such split.
        """
        if subset not in SPLITS:
            raise UsageError(f"subset is '{subset}'; it should be one of {', '.join(SPLITS)}")
        config = config or DataConfig()
        self.config: DataConfig = config.data if isinstance(config, XTTSConfig) else config
        if data_path is not None:
            given = [data_path] if isinstance(data_path, (str, os.PathLike)) else data_path
            self.config = self.config.of_data_sets([os.fspath(path) for path in given])
        self.subset: Split = subset
        self.metadata: Metadata = (
            stored_metadata(self.config) if self.config.trust_store else read_metadata(self.config)
        )
        self.metadata.require_usable()
        self._prepared: dict[str, PreparedData] = {}

    @cached_property
    def rows(self) -> np.ndarray:
        """Positions in `metadata.clips` of the clips of this split, int64."""
        return self.metadata.rows(self.subset)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Clip:
        return self.metadata.clips[self.rows[index]]

    def __iter__(self) -> Iterator[Clip]:
        return (self.metadata.clips[row] for row in self.rows)

    @property
    def clips(self) -> list[Clip]:
        """The clips of this split."""
        return list(self)

    @property
    def speakers(self) -> list[str]:
        """Names of all speakers of the data set, in the order of their first clip. The numbers in batches are
        those of the store or the loader."""
        return self.metadata.speakers

    @property
    def languages(self) -> list[str]:
        """Codes of all languages of the data set."""
        return self.metadata.languages

    def prepare(
        self,
        progress: WorkProgress | None = None,
        config: DataConfig | XTTSConfig | None = None,
        *,
        beside: bool = False,
    ) -> PreparedData:
        """Makes the data set ready to be loaded, as `preprocessing_mode` says; done once and then remembered.

        Args:
            progress: watches a store being made.
            config: other settings for the same clips; none: the data set's own.
            beside: in mode `auto`, do not wait for a store that takes long (see `modes.prepare`).

        Raises:
            DataError: the data set cannot be used as the mode asks for.
        """
        section = self._section(config)
        key = _features_key(section)
        if key not in self._prepared:
            self._prepared[key] = prepare(section, self.metadata, progress, beside=beside)
        return self._prepared[key]

    def release(self, config: DataConfig | XTTSConfig | None = None) -> None:
        """Forgets what was prepared with these settings, and closes its store."""
        prepared = self._prepared.pop(_features_key(self._section(config)), None)
        if prepared is not None and prepared.store is not None:
            prepared.store.close()
        if prepared is not None and prepared.building is not None:
            prepared.building.close()

    def precompute_mels(
        self, num_workers: int | None = None, overwrite: bool = False, progress: WorkProgress | None = None
    ) -> PrecomputeResult:
        """Brings the store of the whole data set up to date; its tokens are made with it.

        Args:
            num_workers: processes; none: as configured.
            overwrite: compute every mel again, whatever exists.
            progress: watches the work.

        Returns:
            What was computed and reused, and the clips that failed, each with its reason.

        Raises:
            StoreError: the store cannot be made.
            UsageError: `preprocessing_mode` is `runtime`, which writes nothing.
        """
        return self._precompute("mel", num_workers, overwrite, progress)

    def precompute_tokens(
        self, num_workers: int | None = None, overwrite: bool = False, progress: WorkProgress | None = None
    ) -> PrecomputeResult:
        """As `precompute_mels`, with `overwrite` for the tokens."""
        return self._precompute("token", num_workers, overwrite, progress)

    def verify_and_fix_cache(
        self, fix: bool = True, quick: bool = False, progress: WorkProgress | None = None
    ) -> StoreCheck:
        """Checks the store of the whole data set.

        Args:
            fix: compute what is damaged again, into a new version.
            quick: only sizes, index and manifest; otherwise every byte.
            progress: watches the work.

        Raises:
            StoreError: there is no store, or it cannot be repaired.
        """
        checked = check_store(self.config, quick=quick, fix=fix, progress=progress)
        if checked.repair is not None:
            self._prepared.clear()
        return checked

    def get_performance_report(self) -> dict[str, Any]:
        """How the data set is loaded: the mode and why, the store's size, how many clips were reused and rebuilt."""
        return self.prepare().report()

    def batches(
        self,
        split: Split | None = None,
        config: DataConfig | XTTSConfig | None = None,
        progress: WorkProgress | None = None,
    ) -> BatchSource:
        """The batches of a split: their plan, and what loads them.

        Args:
            split: none: the data set's own.
            config: other settings for the same clips; none: the data set's own. Features are not prepared again as
                long as they stay the same.
            progress: watches a store being made.

        Raises:
            DataError: the data set cannot be used, or no clip of the split can.
        """
        from myxtts.data.batch_source import BatchSource

        section = self._section(config)
        return BatchSource.build(self.prepare(progress, section), section, split or self.subset)

    def segments(
        self,
        split: Split | None = None,
        config: DataConfig | XTTSConfig | None = None,
        *,
        frames: int,
        batch_size: int | None = None,
        mels: np.ndarray | None = None,
        progress: WorkProgress | None = None,
    ) -> SegmentSource:
        """Batches of random segments of a split, mel frames with the samples under them, as a vocoder is trained on.

        ```python
        source = LJSpeechDataset("./data/ljspeech", XTTSConfig(store_audio=True)).segments(frames=32, batch_size=16)
        for batch in source.dataset(seed=1).take(100):
            batch["mel"], batch["audio"]  # [16, 32, 80], [16, 8192]
        ```

        Args:
            split: none: the data set's own.
            config: other settings for the same clips; none: the data set's own. A store needs `store_audio`; in mode
                `runtime` the files are read.
            frames: of a segment.
            batch_size: segments per batch; none: as configured.
            mels: frames to use in place of the store's, such as an acoustic model's for the same clips: float16 or
                float32 [rows, n_mels], shaped as `FeatureStore.mel_data` and in its order.
            progress: watches a store being made.

        Raises:
            ConfigError: the store has no audio because `store_audio` is false, or a value is out of range.
            DataError: the data set cannot be used, no clip of the split can, or `mels` are not those of its frames.
        """
        from myxtts.data.segment_source import SegmentSource

        section = self._section(config)
        return SegmentSource.build(
            self.prepare(progress, section),
            section,
            split or self.subset,
            frames=frames,
            batch_size=section.batch_size if batch_size is None else batch_size,
            mels=mels,
        )

    def create_tf_dataset(
        self,
        batch_size: int | None = None,
        *,
        shuffle: bool | None = None,
        repeat: bool = False,
        num_parallel_calls: int | None = None,
        use_cache_files: bool | None = None,
        seed: int = 0,
        start_epoch: int = 0,
        start_step: int = 0,
        position: Position | None = None,
    ) -> tf.data.Dataset:
        """The batches of this split.

        Args:
            batch_size: clips per batch; none: as configured, by size or by frame budget.
            shuffle: a new order in every epoch; none: for the training split.
            repeat: epoch after epoch without end; otherwise one epoch.
            num_parallel_calls: batches loaded at a time; none: `num_workers`.
            use_cache_files: true insists on a store, false on none; none: as `preprocessing_mode` says.
            seed: of the order.
            start_epoch, start_step: begin with this batch of this epoch.
            position: begin where a run stood, in place of `seed`, `start_epoch` and `start_step`.

        Returns:
            Dicts of `tokens` int32 [B, T], `token_lengths` int32 [B], `mel` [B, F, n_mels] in the stored type,
            `mel_lengths` int32 [B], `speaker` int32 [B], `language` int32 [B], `index` int64 [B], and with
            `reference_seconds` above 0 `reference_mel` [B, R, n_mels]. An empty place has index −1 and lengths 0.

        Raises:
            DataError: the data set cannot be used, or `position` was saved with other batches.
        """
        changes: dict[str, Any] = {}
        if batch_size is not None:
            changes |= {"batch_size": batch_size, "max_frames_per_batch": None}
        if num_parallel_calls is not None:
            changes["num_workers"] = num_parallel_calls
        if use_cache_files is not None and self._mode() != (mode := "precompute" if use_cache_files else "runtime"):
            changes["preprocessing_mode"] = mode
        source = self.batches(config=DataConfig.model_validate(self.config.model_dump() | changes))
        shuffle = self.subset == "train" if shuffle is None else shuffle
        epochs = None if repeat else 1
        if position is not None:
            return source.resume(position, shuffle=shuffle, epochs=epochs)
        return source.dataset(
            seed=seed, shuffle=shuffle, epochs=epochs, start_epoch=start_epoch, start_step=start_step
        )

    def _precompute(
        self, column: str, num_workers: int | None, overwrite: bool, progress: WorkProgress | None
    ) -> PrecomputeResult:
        if self.config.preprocessing_mode == "runtime":
            raise UsageError("preprocessing_mode is runtime, which writes nothing; set it to auto or precompute")
        done = precompute(
            self.config,
            self.metadata,
            num_workers=num_workers,
            overwrite=[column] if overwrite else [],
            progress=progress,
        )
        self._prepared.clear()
        return done

    def _mode(self) -> str:
        """As it was prepared, or as it is configured."""
        prepared = self._prepared.get(_features_key(self.config))
        return self.config.preprocessing_mode if prepared is None else prepared.mode

    def _section(self, config: DataConfig | XTTSConfig | None) -> DataConfig:
        section = self.config if config is None else config.data if isinstance(config, XTTSConfig) else config
        changed = [key for key in _CLIP_KEYS if getattr(section, key) != getattr(self.config, key)]
        if changed:
            raise ValueError(f"{', '.join(changed)}: these choose other clips; make a new LJSpeechDataset for them")
        # There is no metadata to bring a store up to date with.
        return section.model_copy(update={"trust_store": True}) if self.config.trust_store else section


def _features_key(config: DataConfig) -> str:
    """The settings that change what is prepared, without those that only change how it is loaded."""
    return config.model_dump_json(exclude=_LOADING_KEYS)
