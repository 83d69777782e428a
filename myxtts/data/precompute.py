"""Keeps the store of a configuration: brings it up to date, checks it, repairs it.

Only what is new, changed or damaged is computed, in parallel. What is there afterwards is either the version that was
there before or a complete new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import Metadata
from myxtts.data.store import FeatureStore
from myxtts.data.store.builder import StoreBuilder
from myxtts.data.store.feature_store import POINTER_FILE
from myxtts.data.store.folder import SALVAGE, disk_errors
from myxtts.data.store.job import BuildJob, NoProgress, PrecomputeResult, TooManyFailuresError, WorkProgress
from myxtts.data.store.shards import Shard, ShardBuilder, ShardResult
from myxtts.data.store.target import PartNumber, ReusableColumns, Target
from myxtts.data.store.verify import Damage, Examination, examine, quick_check
from myxtts.errors import StoreError

__all__ = [
    "NoProgress",
    "PrecomputeResult",
    "Shard",
    "ShardResult",
    "StoreCheck",
    "TooManyFailuresError",
    "WorkProgress",
    "check_store",
    "open_up_to_date",
    "precompute",
    "precompute_shard",
]


@dataclass(frozen=True)
class StoreCheck:
    """The state of a store.

    Attributes:
        folder: where it is.
        examination: what was found.
        repair: the new version that was made, or None.
    """

    folder: Path
    examination: Examination
    repair: PrecomputeResult | None = None


def precompute(config: DataConfig, metadata: Metadata | None = None, **options: Any) -> PrecomputeResult:
    """Brings the store of a configuration up to date; takes and raises what `open_up_to_date` does."""
    # Nobody reads the features here, so mapping them is enough.
    mapped = config.model_copy(update={"enable_memory_mapping": True})
    store, result = open_up_to_date(mapped, metadata, **options)
    store.close()
    return result


def open_up_to_date(
    config: DataConfig,
    metadata: Metadata | None = None,
    *,
    part: PartNumber | None = None,
    num_workers: int | None = None,
    overwrite: Collection[str] = (),
    verify_source: bool = False,
    wait: bool = True,
    retry_failed: bool = True,
    spare: float = 0.0,
    most_failed: float = 1.0,
    progress: WorkProgress | None = None,
    job: BuildJob | None = None,
) -> tuple[FeatureStore, PrecomputeResult]:
    """Brings the store of a configuration up to date and opens it.

    Args:
        config: the data set, its audio and text settings, where the store is.
        metadata: of the data set, if it was read already.
        part: which part of the data set `metadata` is; none: the whole.
        num_workers: processes; none: as configured.
        overwrite: names of columns to compute from scratch, whatever exists.
        verify_source: recognise audio files by their content, not by size and time.
        wait: wait for another process that builds the same store.
        retry_failed: compute again clips that failed before, though their audio file has not changed since.
        spare: room to leave on the disk, as a share of the store's size.
        most_failed: share of clips that may be unreadable.
        progress: watches the work.
        job: what there is to do, if that was looked at already.

    Raises:
        DataError: the data set has no usable clip.
        TooManyFailuresError: more than `most_failed` of the clips cannot be read.
        StorageError: the disk has no room, or cannot be written.
        StoreError: another process builds it, or the configuration forbids to rebuild it.
    """
    if config.in_parts:
        from myxtts.data.parts import open_parts_up_to_date

        return open_parts_up_to_date(
            config,
            metadata,
            num_workers=num_workers,
            overwrite=overwrite,
            verify_source=verify_source,
            wait=wait,
            retry_failed=retry_failed,
            spare=spare,
            most_failed=most_failed,
            progress=progress,
        )
    job = job or BuildJob(config, metadata, num_workers, progress, part)
    columns = {entry.name for entry in job.targets[0].entries}
    if set(overwrite) - columns:
        raise ValueError(f"overwrite should be among {sorted(columns)}, not {sorted(set(overwrite) - columns)}")
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
        with closing(ReusableColumns.of_target(target, config, job.workers)) as reusable:
            for column in overwrite:
                reusable.by_column[column].clear()
                with disk_errors(target.folder.path):
                    _forget(target, column)
            return StoreBuilder(
                job, target, reusable, lock, spare, most_failed=most_failed, publish_always=bool(overwrite)
            ).run()


def precompute_shard(
    config: DataConfig,
    shard: Shard,
    metadata: Metadata | None = None,
    *,
    num_workers: int | None = None,
    wait: bool = True,
    progress: WorkProgress | None = None,
) -> ShardResult:
    """Computes a block of clips beside the store; the next `precompute` puts all blocks into it. Of a store in parts,
    computes some of the parts instead.

    Args:
        config: the data set, its audio and text settings, where the store is: the same for all shards and for the
            `precompute` that follows.
        shard: which block of how many.
        metadata: of the data set, if it was read already.
        num_workers: processes; none: as configured.
        wait: wait for another process that builds the store or this shard.
        progress: watches the work.

    Raises:
        DataError: the data set has no usable clip.
        StorageError: the disk has no room, or cannot be written.
        StoreError: another process builds it, or the configuration forbids to rebuild it.
    """
    if config.in_parts:
        from myxtts.data.parts import compute_parts_of_shard

        return compute_parts_of_shard(config, shard, metadata, num_workers=num_workers, wait=wait, progress=progress)
    job = BuildJob(config, metadata, num_workers, progress)

    def nothing_to_do() -> ShardResult | None:
        done = job.find_up_to_date(retry_failed=False)
        if done is None:
            return None
        done[0].close()
        return ShardResult(str(shard), None, 0, {}, (), 0.0, done[1].seconds)

    if (done := nothing_to_do()) is not None:
        return done
    target = job.place_to_build()
    folder = shard.folder(target.folder)
    with target.folder.lock_shard(folder, wait) as lock:
        if (done := nothing_to_do()) is not None:  # the store was made while this process waited
            shutil.rmtree(folder, ignore_errors=True)
            return done
        with closing(ReusableColumns.of_target(target, config, job.workers)) as reusable:
            return ShardBuilder(job, target, reusable, lock).run(shard)


def check_store(
    config: DataConfig,
    metadata: Metadata | None = None,
    *,
    part: PartNumber | None = None,
    quick: bool = False,
    fix: bool = False,
    progress: WorkProgress | None = None,
) -> StoreCheck:
    """Checks the store that a configuration asks for.

    Args:
        config: the data set, its audio and text settings, where the store is.
        metadata: of the data set, if it was read already.
        part: which part of the data set `metadata` is; none: the whole.
        quick: only sizes, index and manifest; otherwise every byte.
        fix: make a new version if anything is damaged, computing only what is.
        progress: watches both.

    Raises:
        StoreError: there is no store, or it cannot be repaired.
    """
    if config.in_parts:
        from myxtts.data.parts import check_parts

        return check_parts(config, metadata, quick=quick, fix=fix, progress=progress)
    watcher = progress or NoProgress()
    target = _find(config, part)
    versions = target.folder.versions()
    current = target.folder.current()
    version = current or versions[0]
    examination = quick_check(version)
    if current is None:
        path = target.folder.path / POINTER_FILE
        examination.damage.append(Damage(POINTER_FILE, f"{path}: names no version of the store"))
    if not quick or (fix and not examination.sound):
        watcher.stage("checking", len(target.columns) * examination.clips)
        found = examine(version, target.columns, config.workers, watcher.advance)
        pointer = [damage for damage in examination.damage if damage.file == POINTER_FILE]
        examination = replace(found, damage=pointer + found.damage)
    if not fix or examination.sound:
        return StoreCheck(target.folder.path, examination)
    job = BuildJob(config, metadata, None, progress, part)
    return StoreCheck(target.folder.path, examination, _repair(job, target, examination))


def _repair(job: BuildJob, target: Target, examination: Examination) -> PrecomputeResult:
    """Makes a new version of what is intact in one that was examined; computes the rest again."""
    with target.folder.lock() as lock:
        # Other stores may share the damaged file under another name, so nothing else is reused.
        reusable = ReusableColumns.of_examination(examination, target)
        store, result = StoreBuilder(job, target, reusable, lock, publish_always=True).run()
    store.close()
    return result


def _find(config: DataConfig, part: PartNumber | None) -> Target:
    targets = Target.candidates(config, part)
    for target in targets:
        if target.folder.versions():
            return target
    places = " or ".join(str(target.cache) for target in targets)
    raise StoreError(f"{places}: no store with these settings; `myxtts precompute` makes one")


def _forget(target: Target, name: str) -> None:
    """Throws away what an interrupted build and shards have of a column."""
    column = next(column for column in target.columns if column.name == name)
    shards = target.folder.shards()
    for folder in (target.folder.building, *shards):
        for file in (column.file, column.journal):
            (folder / file).unlink(missing_ok=True)
    for salvage in (target.folder.salvage, *(shard / SALVAGE for shard in shards)):
        for folder in salvage.glob(f"{name}-*"):
            shutil.rmtree(folder, ignore_errors=True)
