"""What there is to do for a store: the clips, the settings, whether a store already has them all.

Nothing here writes. `store_builder` does the work in one place, with the lock held.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.building.build_plan import BuildPlan
from myxtts.data.building.store_target import Target
from myxtts.data.building.store_writer import number_names
from myxtts.data.clips import Problem
from myxtts.data.metadata import Metadata, read_metadata
from myxtts.data.store import FeatureStore, Verify
from myxtts.data.store_folder import StorageError
from myxtts.data.store_format import FailedClip, NewerStoreError
from myxtts.errors import DataError, StoreError
from myxtts.text import TextSettings


class Progress(Protocol):
    """What watches the work."""

    def stage(self, name: str, clips: int) -> None:
        """A part of the work begins that goes over so many clips."""

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        """Some of them are done."""


class Silent:
    """Watches nothing."""

    def stage(self, name: str, clips: int) -> None:
        pass

    def advance(self, clips: int, audio_seconds: float = 0.0) -> None:
        pass


def verification(config: DataConfig) -> Verify:
    """How thoroughly a store is checked when it is opened."""
    return "quick" if config.cache_verification else "none"


class TooManyFailures(DataError):
    """So many clips cannot be read that the data set is probably not complete."""


@dataclass(frozen=True)
class Precomputed:
    """A store that is up to date, and what it took.

    Attributes:
        version: folder of the version.
        clips: in the store.
        failed: clips of the data set that could not be computed.
        problems: lines of the metadata that give no clip.
        mels_computed, mels_reused, tokens_computed, tokens_reused: clips.
        audio_seconds: of the clips whose mel was computed.
        seconds: it took.
        size_bytes: of the store.
        published: a new version was made; otherwise the store was up to date.
    """

    version: Path
    clips: int
    failed: tuple[FailedClip, ...]
    problems: tuple[Problem, ...]
    mels_computed: int
    mels_reused: int
    tokens_computed: int
    tokens_reused: int
    audio_seconds: float
    seconds: float
    size_bytes: int
    published: bool

    @property
    def complete(self) -> bool:
        """Every line of the metadata has its features in the store."""
        return not self.failed and not self.problems


class BuildJob:
    """What is to be done, wherever it will be done."""

    def __init__(
        self,
        config: DataConfig,
        metadata: Metadata | None,
        num_workers: int | None,
        progress: Progress | None,
    ) -> None:
        self.started = time.monotonic()
        self.config = config
        self.workers = num_workers or config.workers
        self.progress = progress or Silent()
        self.metadata = metadata or read_metadata(config)
        if not self.metadata.clips:
            self.metadata.require_usable()
        self.mel = MelSettings.from_config(config)
        self.text = TextSettings.from_config(config)
        self.verify = verification(config)
        self.targets = Target.candidates(config, self.mel, self.text)
        self.plan, self.failed = BuildPlan.of(self.metadata.clips, config.dataset_path, self.workers)

    def hash_sources(self) -> None:
        """Recognises clips by content from now on."""
        self.progress.stage("reading audio", len(self.plan.clips))
        self.plan, failed = self.plan.hashed(self.workers, self.progress.advance)
        self.failed += failed

    def find_up_to_date(self, retry_failed: bool) -> Precomputed | None:
        """The store, if there is nothing to do."""
        for target in self.targets:
            if target.folder.current() is None:
                continue
            try:
                with FeatureStore.open(target.folder.path, self.verify) as store:
                    if self._is_up_to_date(store, retry_failed):
                        return self.result(store, (*store.manifest.failed, *self._new_failures(store)))
            except NewerStoreError:
                raise
            except StoreError:
                continue  # what is left of it is taken over by the build that follows
        return None

    def place_to_build(self) -> Target:
        """The first place that can be written to."""
        for target in self.targets:
            if target.cache.writable():
                return target
        tried = " and ".join(str(target.cache.path) for target in self.targets)
        raise StorageError(f"{tried}: cannot be written; choose another folder with --cache-dir")

    def result(
        self, store: FeatureStore, failed: Sequence[FailedClip], published: bool = False, **counts: Any
    ) -> Precomputed:
        given = {"mels_computed": 0, "tokens_computed": 0, "audio_seconds": 0.0} | counts
        return Precomputed(
            version=store.path,
            clips=len(store),
            failed=tuple(failed),
            problems=tuple(self.metadata.problems),
            mels_reused=len(store) - given["mels_computed"],
            tokens_reused=len(store) - given["tokens_computed"],
            seconds=time.monotonic() - self.started,
            size_bytes=store.size_bytes,
            published=published,
            **given,
        )

    def _is_up_to_date(self, store: FeatureStore, retry_failed: bool) -> bool:
        known = {entry.id: (entry.size, entry.mtime_ns) for entry in store.manifest.failed}
        plan = self.plan
        if known:
            rows = [row for row, clip in enumerate(plan.clips) if clip.id in known]
            unchanged = [row for row in rows if plan.stamp(row) == known[plan.clips[row].id]]
            if rows and (retry_failed or len(unchanged) < len(rows)):
                return False
            plan = plan.without([plan.clips[row].id for row in rows])
        index = store.index
        if len(plan.clips) != len(store) or not np.array_equal(plan.mel["clip"], index["clip_key"]):
            return False
        same = [
            (plan.token["content"], index["text_hash"]),
            (plan.mel["size"], index["source_size"]),
            (plan.mel["mtime"], index["source_mtime_ns"]),
        ]
        if plan.by_content:
            same.append((plan.mel["content"], index["source_hash"]))
        speakers, speaker = number_names(clip.speaker for clip in plan.clips)
        languages, language = number_names(clip.language for clip in plan.clips)
        same += [(speaker, store.speaker_ids), (language, store.language_ids)]
        names = (speakers, languages) == (store.manifest.speakers, store.manifest.languages)
        return names and all(np.array_equal(*pair) for pair in same)

    def _new_failures(self, store: FeatureStore) -> list[FailedClip]:
        known = {entry.id for entry in store.manifest.failed}
        return [entry for entry in self.failed if entry.id not in known]
