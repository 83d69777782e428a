"""Computes a data set's features into its store: only what is new or changed, in parallel, and never half.

`precompute` brings the store of a configuration up to date; `repair` does so after every byte of it was checked. Both
leave either the version that was there or a complete new one.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from contextlib import closing

from myxtts.config.config import DataConfig
from myxtts.data.building.build_job import BuildJob, Precomputed, Progress, Silent, TooManyFailures
from myxtts.data.building.store_builder import CHUNK, StoreBuilder
from myxtts.data.building.store_target import Sources, Target
from myxtts.data.metadata import Metadata
from myxtts.data.store_folder import disk_errors
from myxtts.data.verify import Examination

__all__ = ["Precomputed", "Progress", "Silent", "TooManyFailures", "precompute", "repair"]


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
    unknown = set(overwrite) - set(CHUNK)
    if unknown:
        raise ValueError(f"overwrite should be among {sorted(CHUNK)}, not {sorted(unknown)}")
    job = BuildJob(config, metadata, num_workers, progress)
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
            return StoreBuilder(job, target, sources, lock, spare, most_failed, bool(overwrite)).run()


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
    job = BuildJob(config, None, num_workers, progress)
    with target.folder.lock() as lock:
        # Other stores may share the damaged file under another name, so nothing else is taken over.
        sources = Sources.of_examination(examination, target.layout)
        return StoreBuilder(job, target, sources, lock, publish_always=True).run()


def _forget(target: Target, column: str) -> None:
    """Throws away what an interrupted build has of a column."""
    name = getattr(target.layout, column)
    for file in (name.file, name.journal):
        (target.folder.building / file).unlink(missing_ok=True)
    for folder in target.folder.salvage.glob(f"{column}-*"):
        shutil.rmtree(folder, ignore_errors=True)
