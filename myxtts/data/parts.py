"""Keeps a store in parts: brings every part up to date, and publishes the manifest that names them.

Several data sets are a part each. With `max_clips_per_part`, a data set is as many parts as it needs, block after
block of its clips; clips that are appended change the last part only. A part is an ordinary store and is built,
checked and repaired like one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xxhash

from myxtts.config.config import DataConfig
from myxtts.data.clips.joined import JoinedMetadata
from myxtts.data.clips.metadata import Metadata, Split, SplitRule, read_metadata
from myxtts.data.precompute import StoreCheck, check_store, open_up_to_date
from myxtts.data.store import FeatureStore
from myxtts.data.store.feature_store import Verify
from myxtts.data.store.folder import StorageError, StoreFolder, disk_errors, existing_parent, synced_file
from myxtts.data.store.format import MANIFEST_FILE, FailedClip
from myxtts.data.store.job import ColumnCounts, PrecomputeResult, TooManyFailuresError
from myxtts.data.store.parted_store import PartedStore
from myxtts.data.store.parts import SPLIT_CODES, SPLITS_FILE, Part, PartsManifest
from myxtts.data.store.shards import Shard, ShardResult
from myxtts.data.store.target import PartNumber, fingerprint, parts_candidates, store_folders
from myxtts.data.store.verify import Damage, Examination
from myxtts.errors import DataError, StoreError


class _Block(NamedTuple):
    """The clips of a part."""

    config: DataConfig  # of its data set alone, as one store
    metadata: Metadata
    part: PartNumber | None
    data_set: int
    name: str  # of its data set; empty where there is one only

    def in_whole(self, clip_id: str) -> str:
        return f"{self.name}/{clip_id}" if self.name else clip_id


def open_parts_up_to_date(
    config: DataConfig, metadata: Metadata | None = None, *, most_failed: float = 1.0, **options: Any
) -> tuple[FeatureStore, PrecomputeResult]:
    """Brings the store in parts of a configuration up to date and opens it; takes and raises what
    `precompute.open_up_to_date` does."""
    started = time.monotonic()
    metadata = metadata or read_metadata(config)
    if not metadata.clips:
        metadata.require_usable()
    failed: list[FailedClip] = []
    results: list[PrecomputeResult] = []
    parts: list[tuple[Path, Part]] = []
    for block in _blocks(config, metadata):
        store, result = open_up_to_date(
            block.config, block.metadata, part=block.part, most_failed=most_failed, **options
        )
        store.close()
        results.append(result)
        failed += (replace(entry, id=block.in_whole(entry.id)) for entry in result.failed)
        checksum = xxhash.xxh3_128_hexdigest((store.path / MANIFEST_FILE).read_bytes())
        parts.append((store.path.parent, Part("", checksum, result.clips, block.data_set)))
    _require_readable(metadata, failed, most_failed)
    usable = metadata.leave_out_failed({entry.id: entry.reason for entry in failed})
    folder, published = _publish(config, usable, parts, options.get("wait", True))
    whole = _open(config, folder)
    return whole, PrecomputeResult(
        version=whole.path,
        clips=len(whole),
        failed=tuple(failed),
        problems=tuple(metadata.problems),
        columns={
            name: ColumnCounts(*(sum(counts) for counts in zip(*(one.columns[name] for one in results), strict=True)))
            for name in results[0].columns
        },
        audio_seconds=sum(result.audio_seconds for result in results),
        seconds=time.monotonic() - started,
        size_bytes=whole.size_bytes,
        published=published or any(result.published for result in results),
    )


def compute_parts_of_shard(
    config: DataConfig, shard: Shard, metadata: Metadata | None = None, **options: Any
) -> ShardResult:
    """Computes every `shard.count`-th part; when all shards are done, `precompute` finds the parts and publishes the
    whole. Takes and raises what `precompute.open_up_to_date` does."""
    started = time.monotonic()
    failed: list[FailedClip] = []
    results: list[PrecomputeResult] = []
    for number, block in enumerate(_blocks(config, metadata or read_metadata(config))):
        if number % shard.count == shard.number - 1:
            store, result = open_up_to_date(block.config, block.metadata, part=block.part, **options)
            store.close()
            results.append(result)
            failed += (replace(entry, id=block.in_whole(entry.id)) for entry in result.failed)
    made = [result for result in results if result.published]
    return ShardResult(
        shard=str(shard),
        folder=made[0].version.parent.parent if made else None,
        clips=sum(result.clips for result in results),
        columns={name: sum(one.columns[name].computed for one in made) for name in (made[0].columns if made else ())},
        failed=tuple(failed),
        audio_seconds=sum(result.audio_seconds for result in results),
        seconds=time.monotonic() - started,
    )


def open_trusted(config: DataConfig) -> PartedStore:
    """The store in parts of a configuration as it is, whatever the data set is by now.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    for folder in store_folders(config):
        if folder.current() is not None:
            return _open(config, folder)
    places = " or ".join(str(folder.path) for folder in store_folders(config))
    raise StoreError(f"{places}: no store in parts, and trust_store is true; `myxtts precompute` makes one")


def stored_metadata(config: DataConfig) -> StoredMetadata:
    """What the store in parts of a configuration knows of its clips.

    Raises:
        StoreError: there is none, or it is damaged.
    """
    with open_trusted(config) as store:
        return StoredMetadata.of(store)


@dataclass(frozen=True)
class StoredMetadata(Metadata):
    """What a store in parts knows of its clips, where the metadata of the data set is not read: row numbers, splits
    and speakers, and no `Clip`.

    Attributes:
        store: the store; it need not stay open.
    """

    store: PartedStore | None = None

    @classmethod
    def of(cls, store: PartedStore) -> StoredMetadata:
        return cls([], [], SplitRule(1, 0, 0), layout=f"a store in {len(store.parts)} parts", store=store)

    @property
    def _store(self) -> PartedStore:
        assert self.store is not None
        return self.store

    def rows(self, split: Split) -> np.ndarray:
        return np.flatnonzero(self._store.split_codes() == SPLIT_CODES[split])

    def data_sets(self) -> np.ndarray:
        return self._store.data_sets()

    @property
    def speakers(self) -> list[str]:
        return self._store.speakers

    @property
    def languages(self) -> list[str]:
        return self._store.languages

    def origin(self) -> dict[str, Any]:
        return dict(self._store.parts_manifest.origin)

    def require_usable(self) -> None:
        for split in ("train", "val"):
            if not self._store.has_split(SPLIT_CODES[split]):
                raise DataError(f"{self._store.path}: the {split} split is empty")


def check_parts(config: DataConfig, metadata: Metadata | None = None, *, fix: bool, **options: Any) -> StoreCheck:
    """Checks every part and the manifest; takes and raises what `precompute.check_store` does."""
    folder = next((one for one in store_folders(config) if one.versions()), None)
    if folder is None:
        places = " or ".join(str(one.path) for one in store_folders(config))
        raise StoreError(f"{places}: no store with these settings; `myxtts precompute` makes one")
    metadata = metadata or read_metadata(config)
    checks = [
        check_store(block.config, block.metadata, part=block.part, fix=fix, **options)
        for block in _blocks(config, metadata)
    ]
    damage = [found for check in checks for found in check.examination.damage]
    try:
        _open(config, folder).close()
    except StoreError as error:
        damage.append(Damage(MANIFEST_FILE, str(error)))
    examination = Examination(
        folder.current() or folder.path, damage, sum(check.examination.clips for check in checks), not damage
    )
    if examination.sound or not fix:
        return StoreCheck(folder.path, examination)
    store, done = open_up_to_date(config, metadata)
    store.close()
    repairs = [check.repair for check in checks if check.repair is not None]
    columns = {
        name: ColumnCounts(
            computed := sum(repair.columns[name].computed for repair in repairs), counts.reused - computed
        )
        for name, counts in done.columns.items()
    }
    return StoreCheck(folder.path, examination, replace(done, columns=columns))


def _blocks(config: DataConfig, metadata: Metadata) -> Iterator[_Block]:
    """The parts of a store, in order."""
    members: Sequence[Metadata] = metadata.members if isinstance(metadata, JoinedMetadata) else [metadata]
    names: Sequence[str] = metadata.names if isinstance(metadata, JoinedMetadata) else [""]
    # Parts are mapped together later, or read into memory together.
    as_one_store = {"max_clips_per_part": None, "trust_store": False, "enable_memory_mapping": True}
    for data_set, (section, member, name) in enumerate(zip(config.for_each_data_set(), members, names, strict=True)):
        section = section.model_copy(update=as_one_store)
        most = config.max_clips_per_part
        if most is None:
            yield _Block(section, replace(member, problems=[]), None, data_set, name)
            continue
        for number, first in enumerate(range(0, len(member.clips), most)):
            block = replace(member, clips=member.clips[first : first + most], problems=[])
            yield _Block(section, block, (number, most), data_set, name)


def _publish(
    config: DataConfig, usable: Metadata, parts: Sequence[tuple[Path, Part]], wait: bool
) -> tuple[StoreFolder, bool]:
    """The folder of the store in parts, and whether it got a new version."""
    names = usable.names if isinstance(usable, JoinedMetadata) else ()
    splits = np.array([SPLIT_CODES[split] for split in usable.splits], np.uint8).tobytes()
    writable = None
    for cache, settings in parts_candidates(config):
        folder = StoreFolder(cache / fingerprint(settings))
        manifest = PartsManifest(
            fingerprint=fingerprint(settings),
            settings=settings,
            data_sets=names,
            parts=tuple(replace(part, store=_written(path, folder.path)) for path, part in parts),
            splits_checksum=xxhash.xxh3_128_hexdigest(splits),
            origin=usable.origin(),
        ).to_bytes()
        if _has(folder, manifest):
            return folder, False
        if writable is None and _is_writable(cache):
            writable = folder, manifest
    if writable is None:
        tried = " and ".join(str(cache) for cache, _ in parts_candidates(config))
        raise StorageError(f"{tried}: cannot be written; choose another folder with --cache-dir")
    folder, manifest = writable
    with folder.lock(wait), disk_errors(folder.path):
        if _has(folder, manifest):  # another process may have done it while this one waited
            return folder, False
        folder.building.mkdir(exist_ok=True)
        for name, content in ((SPLITS_FILE, splits), (MANIFEST_FILE, manifest)):
            with synced_file(folder.building / name) as file:
                file.write(content)
        folder.publish()
        folder.remove_unneeded()
    return folder, True


def _has(folder: StoreFolder, manifest: bytes) -> bool:
    """Whether the current version is this one, and can be opened."""
    current = folder.current()
    try:
        if current is None or (current / MANIFEST_FILE).read_bytes() != manifest:
            return False
        FeatureStore.open(current).close()
        return True
    except (OSError, StoreError):
        return False


def _written(store: Path, whole: Path) -> str:
    """A part's folder as the manifest has it: what moves together is relative."""
    return os.path.relpath(store, whole) if store.parent == whole.parent else str(store)


def _is_writable(cache: Path) -> bool:
    return os.access(existing_parent(cache), os.W_OK | os.X_OK, effective_ids=True)


def _open(config: DataConfig, folder: StoreFolder) -> PartedStore:
    verify: Verify = "quick" if config.cache_verification else "none"
    store = FeatureStore.open(folder.path, verify, config.enable_memory_mapping)
    if not isinstance(store, PartedStore):
        store.close()
        raise StoreError(f"{folder.path}: is not a store in parts; `myxtts precompute` makes one")
    return store


def _require_readable(metadata: Metadata, failed: Sequence[FailedClip], most_failed: float) -> None:
    absent = metadata.without_audio()
    count = len(metadata.clips) + len(absent)
    reasons = [entry.reason for entry in failed] + [problem.message for problem in absent]
    if len(reasons) > most_failed * count:
        raise TooManyFailuresError(f"{len(reasons):,} of {count:,} clips cannot be read, the first: {reasons[0]}")
