"""Reads every byte of a version and says what is damaged.

The quick check is what opening a store does: sizes, manifest, index. The full one compares every clip with its
checksum in the index, and the padding. Together the checksums cover every byte of every file: those of the clips the
data files, that in the manifest the index, and the manifest its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import xxhash

from myxtts.data.store.columns import ClipSource
from myxtts.data.store.feature_store import FeatureStore, hold_version
from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, Column, Manifest, NewerStoreError, check_sizes
from myxtts.data.store.index import Ids, Index
from myxtts.data.store.records import ReusableClips, index_records, intact
from myxtts.errors import StoreError

_CHUNK = 512  # clips checked at a time


@dataclass(frozen=True)
class Damage:
    """Something in a store that is not as it was written.

    Attributes:
        file: name of the file.
        reason: one line.
        clip: the clip's id, if it is a clip's bytes.
    """

    file: str
    reason: str
    clip: str | None = None

    def __str__(self) -> str:
        return self.reason if self.clip is None else f"{self.clip}: {self.reason}"


@dataclass(frozen=True)
class Examination:
    """What was found in a version.

    Attributes:
        version: its folder.
        damage: everything that is wrong with it.
        clips: how many clips were looked at.
        trusted: manifest and index are as they were written; only clips can be damaged.
        index: the index, as far as it can be read.
        intact: by column, bool [N], whose bytes have their checksum.
        whole: by column, whether its file as such is as it was written.
    """

    version: Path
    damage: list[Damage]
    clips: int = 0
    trusted: bool = False
    index: Index | None = None
    intact: dict[str, np.ndarray] = field(default_factory=dict)
    whole: dict[str, bool] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        return not self.damage

    def reusable(self, column: Column, source: ClipSource) -> ReusableClips | None:
        """What can be reused of a column of the version, which is made from `source`."""
        if self.index is None or column.name not in self.intact:
            return None
        good = self.intact[column.name]
        whole = self.trusted and self.whole[column.name]
        records = index_records(column.name, source, self.index)
        return ReusableClips(self.version / column.file, records[good], whole)


def quick_check(version: Path) -> Examination:
    """Sizes, manifest and index.

    Raises:
        NewerStoreError: a newer MyXTTS made it.
    """
    try:
        with FeatureStore.open(version) as store:
            return Examination(version, [], len(store), trusted=True)
    except NewerStoreError:
        raise
    except StoreError as error:
        return Examination(version, [Damage(version.name, str(error))])


def examine(
    version: Path,
    columns: Sequence[Column] = (),
    workers: int = 1,
    on_progress: Callable[[int], None] = lambda clips: None,
) -> Examination:
    """Checks every byte of a version, or as many as can still be made sense of.

    Args:
        version: its folder.
        columns: how to read the data files if the manifest cannot tell.
        workers: threads.
        on_progress: called with the clips checked since the last call, once for each column.

    Raises:
        NewerStoreError: a newer MyXTTS made it.
    """
    with ExitStack() as keep:
        with suppress(OSError):
            keep.enter_context(hold_version(version))
        return _examine(version, columns, workers, on_progress)


def _examine(
    version: Path, columns: Sequence[Column], workers: int, on_progress: Callable[[int], None]
) -> Examination:
    damage: list[Damage] = []
    manifest = _read_manifest(version, damage)
    if manifest is not None:
        columns = manifest.columns
    checksums = {} if manifest is None else {one.name: one.index_checksum for one in manifest.optional_columns}
    index_checksum = None if manifest is None else manifest.index_checksum
    index = _read_index(version / INDEX_FILE, Index.parse, index_checksum, damage)
    for column in columns:
        if column.optional and index is not None:
            parse = partial(_with_column, index, column.name)
            index = _read_index(version / column.index_file, parse, checksums.get(column.name), damage) or index
    trusted = not damage
    if manifest is not None:
        try:
            check_sizes(version, manifest)
        except StoreError as error:
            damage.append(Damage(version.name, str(error)))
    if index is None or not columns:
        return Examination(version, damage)
    good, whole = {}, {}
    for column in columns:
        if f"{column.name}_offset" not in index.columns:
            continue  # its index is damaged
        records = index_records(column.name, None, index)
        path = version / column.file
        good[column.name] = _intact(path, records, column.row_bytes, workers, on_progress)
        padded = _padding_is(path, records, column)
        if not padded and path.is_file():
            damage.append(Damage(column.file, f"{path}: the padding at the end of the file is damaged"))
        whole[column.name] = padded and bool(good[column.name].all())
    damage += _damaged_clips(index, [column for column in columns if column.name in good], good)
    return Examination(version, damage, index.clips, trusted, index, good, whole)


def _read_manifest(version: Path, damage: list[Damage]) -> Manifest | None:
    path = version / MANIFEST_FILE
    try:
        return Manifest.from_bytes(path.read_bytes(), path)
    except OSError as error:
        damage.append(Damage(MANIFEST_FILE, f"{path}: {error.strerror}"))
    except NewerStoreError:
        raise
    except StoreError as error:
        damage.append(Damage(MANIFEST_FILE, str(error)))
    return None


def _read_index(
    path: Path, parse: Callable[[np.ndarray, Path], Index], checksum: str | None, damage: list[Damage]
) -> Index | None:
    try:
        raw = np.fromfile(path, np.uint8)
        index = parse(raw, path)
    except OSError as error:
        damage.append(Damage(path.name, f"{path}: {error.strerror}"))
        return None
    except StoreError as error:
        damage.append(Damage(path.name, str(error)))
        return None
    if checksum is not None and xxhash.xxh3_128_hexdigest(raw.data) != checksum:
        damage.append(Damage(path.name, f"{path}: the index does not match its checksum"))
    return index


def _with_column(index: Index, name: str, data: np.ndarray, path: Path) -> Index:
    found = index.with_column(name, data, path)
    if len(found[f"{name}_offset"]) != index.clips:
        raise StoreError(f"{path}: the index is of another number of clips")
    return found


def _intact(
    path: Path, records: np.ndarray, row_bytes: int, workers: int, on_progress: Callable[[int], None]
) -> np.ndarray:
    """As `records.intact`, with several reads at a time. A length below zero is damage here: no clip of a version
    failed."""
    chunks = [records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK)]
    good: list[np.ndarray] = []
    if not path.is_file():
        on_progress(len(records))
        return np.zeros(len(records), bool)
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for part in pool.map(lambda chunk: intact(path, chunk, row_bytes) & (chunk["length"] >= 0), chunks):
            good.append(part)
            on_progress(len(part))
    return np.concatenate(good) if good else np.zeros(0, bool)


def _padding_is(path: Path, records: np.ndarray, column: Column) -> bool:
    """Whether the file ends in its padding, directly behind the last clip."""
    end = int(records["offset"][-1]) + int(records["length"][-1]) if len(records) else 0
    padding = column.padding_row
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != end * column.row_bytes + len(padding):
                return False
            file.seek(-len(padding), os.SEEK_END)
            return file.read() == padding
    except OSError:
        return False


def _damaged_clips(index: Index, columns: Sequence[Column], good: Mapping[str, np.ndarray]) -> list[Damage]:
    ids = Ids(index)
    found = []
    for row in np.flatnonzero(~np.logical_and.reduce([good[column.name] for column in columns])).tolist():
        for column in columns:
            if not good[column.name][row]:
                reason = f"its bytes in {column.file} do not match their checksum"
                found.append(Damage(column.file, reason, ids[row]))
    return found
