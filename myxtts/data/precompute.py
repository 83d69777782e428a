"""Computes a data set's features into its store: only what is new or changed, in parallel, and never half.

`precompute` brings the store of a configuration up to date; `repair` does so after every byte of it was
checked. Both leave either the version that was there or a complete new one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.audio.mel import MelSettings
from myxtts.config.config import DataConfig
from myxtts.data.build_plan import BuildPlan, Estimate, estimate
from myxtts.data.clips import Problem
from myxtts.data.column import FAILED, Column, Reusable
from myxtts.data.column_builder import BuiltColumn, ColumnBuilder
from myxtts.data.features import settings_to_json
from myxtts.data.free_space import require_space
from myxtts.data.metadata import Metadata, read_metadata
from myxtts.data.store import FeatureStore
from myxtts.data.store_folder import StorageError, disk_errors
from myxtts.data.store_format import MANIFEST_FILE, FailedClip, index_bytes
from myxtts.data.store_target import Sources, Target
from myxtts.data.store_writer import number_names, write_version
from myxtts.data.verify import Examination, quick_check
from myxtts.data.worker_pool import WorkerPool
from myxtts.errors import DataError, StoreError
from myxtts.text import TextSettings

# A mel takes milliseconds and goes to a worker by itself, so that little is lost when it is killed; texts go
# in numbers that are worth calling the phonemiser for.
_CHUNK = {"mel": 1, "token": 64}
_BYTES_PER_LETTER = 10  # of tokens: blanks between symbols, four bytes each, numbers written out


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


def precompute(
    config: DataConfig,
    metadata: Metadata | None = None,
    *,
    num_workers: int | None = None,
    overwrite: Collection[str] = (),
    verify_source: bool = False,
    wait: bool = True,
    retry_failed: bool = True,
    spare: float = 0.0,
    most_failed: float = 1.0,
    progress: Progress | None = None,
) -> Precomputed:
    """Brings the store of a configuration up to date.

    Args:
        config: the data set, its audio and text settings, where the store is.
        metadata: of the data set, if it was read already.
        num_workers: processes; none: as configured.
        overwrite: columns (`mel`, `token`) to compute from scratch, whatever exists.
        verify_source: recognise audio files by their content, not by size and time.
        wait: wait for another process that builds the same store.
        retry_failed: compute again clips that failed before, though their audio file has not changed since.
        spare: room to leave on the disk, as a share of the store's size.
        most_failed: share of clips that may be unreadable.
        progress: watches the work.

    Raises:
        DataError: the data set has no usable clip.
        TooManyFailures: more than `most_failed` of the clips cannot be read.
        StorageError: the disk has no room, or cannot be written.
        StoreError: another process builds it, or the configuration forbids to rebuild it.
    """
    unknown = set(overwrite) - set(_CHUNK)
    if unknown:
        raise ValueError(f"overwrite should be among {sorted(_CHUNK)}, not {sorted(unknown)}")
    job = _Job(config, metadata, num_workers, progress)
    if verify_source:
        job.hash_sources()
    if not overwrite:
        done = job.find_up_to_date(retry_failed)
        if done is not None:
            return done
    target = job.place_to_build()
    with target.folder.lock(wait) as lock:
        if not overwrite:  # another process may have built it while this one waited
            done = job.find_up_to_date(retry_failed)
            if done is not None:
                return done
        with closing(Sources.of_target(target, config, job.workers)) as sources:
            for column in overwrite:
                getattr(sources, column).clear()
                with disk_errors(target.folder.path):
                    _forget(target, column)
            return _Build(job, target, sources, lock, spare, most_failed, bool(overwrite)).run()


def repair(
    config: DataConfig,
    target: Target,
    examination: Examination,
    *,
    num_workers: int | None = None,
    progress: Progress | None = None,
) -> Precomputed:
    """Makes a new version of what is intact in one that was examined; computes the rest again.

    Raises:
        As `precompute`.
    """
    job = _Job(config, None, num_workers, progress)
    with target.folder.lock() as lock:
        # Other stores may share the damaged file under another name, so nothing else is taken over.
        sources = Sources.of_examination(examination, target.layout)
        return _Build(job, target, sources, lock, publish_always=True).run()


class _Job:
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
                with FeatureStore.open(target.folder.path) as store:
                    if self._is_up_to_date(store, retry_failed):
                        return self.result(store, (*store.manifest.failed, *self._new_failures(store)))
            except StoreError:
                continue
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
        same = [(plan.token["content"], index["text_hash"])]
        if plan.by_content:
            same.append((plan.mel["content"], index["source_hash"]))
        else:
            same += [(plan.mel["size"], index["source_size"]), (plan.mel["mtime"], index["source_mtime_ns"])]
        speakers, speaker = number_names(clip.speaker for clip in plan.clips)
        languages, language = number_names(clip.language for clip in plan.clips)
        same += [(speaker, store.speaker_ids), (language, store.language_ids)]
        names = (speakers, languages) == (store.manifest.speakers, store.manifest.languages)
        return names and all(np.array_equal(*pair) for pair in same)

    def _new_failures(self, store: FeatureStore) -> list[FailedClip]:
        known = {entry.id for entry in store.manifest.failed}
        return [entry for entry in self.failed if entry.id not in known]


@dataclass
class _Build:
    """One build in one place, with the lock held."""

    job: _Job
    target: Target
    sources: Sources
    lock: int
    spare: float = 0.0
    most_failed: float = 1.0
    publish_always: bool = False
    failed: list[FailedClip] = field(default_factory=list)

    def run(self) -> Precomputed:
        job, folder, layout = self.job, self.target.folder, self.target.layout
        with disk_errors(folder.path):
            folder.building.mkdir(exist_ok=True)
        if not self.sources.trusted:
            job.hash_sources()
        plan = job.plan
        self.failed += job.failed
        expected = self._estimate(plan)
        plan = self._leave_out(plan, expected.failed)
        self._require_readable(plan)
        settings = settings_to_json(job.mel, job.config.mel_dtype, job.text)
        with WorkerPool(job.workers, settings, self.lock) as pool:
            tokens = self._column(layout.token, plan, "text").build(pool)
            plan = self._leave_out(plan, self._failures(plan, tokens))
            mels = self._column(layout.mel, plan, "mels").build(pool)
            without_mel = self._failures(plan, mels)
            if without_mel:
                plan = self._leave_out(plan, without_mel)
                tokens_computed = tokens.computed
                tokens = self._column(layout.token, plan, "text").build(pool)
            else:
                tokens_computed = tokens.computed
        self._require_readable(plan)
        failed = self._in_order()
        with disk_errors(folder.path):
            manifest = write_version(
                folder.building,
                plan.clips,
                _usable(mels.records),
                _usable(tokens.records),
                self.target.settings,
                job.mel.padding_value,
                failed,
            )
            published = self.publish_always or not self._is_current(manifest.to_bytes())
            if published:
                folder.publish()
            self.sources.close()
            folder.remove_unneeded()
        with FeatureStore.open(folder.path) as store:
            return job.result(
                store,
                failed,
                published,
                mels_computed=mels.computed - len(without_mel),
                tokens_computed=tokens_computed,
                audio_seconds=expected.seconds,
            )

    def _column(self, column: Column, plan: BuildPlan, stage: str | None = None) -> ColumnBuilder:
        is_mel = column.name == "mel"
        clips = plan.clips
        hop_seconds = self.job.mel.hop_length / self.job.mel.sample_rate if is_mel else 0.0
        if stage is not None:
            self.job.progress.stage(stage, len(clips))

        def item(row: int) -> Any:
            clip = clips[row]
            return clip.audio_path if is_mel else (clip.text, clip.language, clip.ipa)

        sources: list[Reusable] = self.sources.mel if is_mel else self.sources.token
        return ColumnBuilder(
            column=column,
            folder=self.target.folder.building,
            salvage=self.target.folder.salvage,
            plan=plan.mel if is_mel else plan.token,
            by_content=plan.by_content or not is_mel,
            sources=sources,
            item=item,
            chunk=_CHUNK[column.name],
            padding=self.target.layout.padding[column.name],
            on_progress=lambda done, rows: self.job.progress.advance(done, rows * hop_seconds),
        )

    def _estimate(self, plan: BuildPlan) -> Estimate:
        """Looks at what has to be computed, and makes sure that the disk has room for it."""
        layout = self.target.layout
        with disk_errors(self.target.folder.path):
            mels = self._column(layout.mel, plan).survey()
            tokens = self._column(layout.token, plan).survey()
        expected = estimate(plan, mels.missing, self.job.mel, self.job.workers)
        mel_rows = mels.known_rows - mels.done_rows + int(expected.mel_rows.sum())
        letters = sum(len(plan.clips[row].text) for row in tokens.missing)
        ids = sum(len(clip.id) * 2 for clip in plan.clips)
        needed = (
            mel_rows * layout.mel.row_bytes
            + (tokens.known_rows - tokens.done_rows) * layout.token.row_bytes
            + letters * _BYTES_PER_LETTER
            + index_bytes(len(plan.clips), ids)
        )
        require_space(self.target.folder.path, needed, int(needed * self.spare))
        return expected

    def _leave_out(self, plan: BuildPlan, failed: Sequence[FailedClip]) -> BuildPlan:
        self.failed += failed
        return plan.without([entry.id for entry in failed])

    def _failures(self, plan: BuildPlan, built: BuiltColumn) -> list[FailedClip]:
        return [FailedClip(plan.clips[row].id, reason, *plan.stamp(row)) for row, reason in built.reasons.items()]

    def _require_readable(self, plan: BuildPlan) -> None:
        count = len(self.job.metadata.clips)
        if not plan.clips:
            raise DataError(f"none of the {count:,} clips can be computed; the first: {self.failed[0].reason}")
        if len(self.failed) > self.most_failed * count:
            raise TooManyFailures(
                f"{len(self.failed):,} of {count:,} clips cannot be read, the first: {self.failed[0].reason}"
            )

    def _in_order(self) -> list[FailedClip]:
        """The failures in the order of the data set, one per clip."""
        by_id = {entry.id: entry for entry in self.failed}
        return [by_id[clip.id] for clip in self.job.metadata.clips if clip.id in by_id]

    def _is_current(self, manifest: bytes) -> bool:
        """Whether the current version can be opened and has this manifest, and with its checksums this content."""
        current = self.target.folder.current()
        if current is None or not quick_check(current).sound:
            return False
        return (current / MANIFEST_FILE).read_bytes() == manifest


def _usable(records: np.ndarray) -> np.ndarray:
    return records[records["length"] != FAILED]


def _forget(target: Target, column: str) -> None:
    """Throws away what an interrupted build has of a column."""
    name = getattr(target.layout, column)
    for file in (name.file, name.journal):
        (target.folder.building / file).unlink(missing_ok=True)
    for folder in target.folder.salvage.glob(f"{column}-*"):
        shutil.rmtree(folder, ignore_errors=True)
