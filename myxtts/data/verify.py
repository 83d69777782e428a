"""Reads every byte of a version and says what is damaged.

The quick check is what opening a store does: sizes, manifest, index. The full one compares every clip with its
checksum in the index, and the padding. Together the checksums cover every byte of every file: those of the clips the
data files, that in the manifest the index, and the manifest its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xxhash

from myxtts.data.building.column import Column, Reusable, index_records, intact
from myxtts.data.store import FeatureStore, hold_version
from myxtts.data.store_format import (
    INDEX_FILE,
    MANIFEST_FILE,
    MEL_DTYPES,
    PAD_TOKEN,
    TOKEN_DTYPE,
    Ids,
    Index,
    Manifest,
    NewerStoreError,
    check_sizes,
)
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
class Layout:
    """How the rows of a version are to be read, and what its padding is."""

    mel: Column
    token: Column
    padding: Mapping[str, bytes]

    @classmethod
    def of(cls, n_mels: int, mel_dtype: str, mel_padding: float) -> Layout:
        row = np.full(n_mels, mel_padding, MEL_DTYPES[mel_dtype]).tobytes()
        pad = np.array(PAD_TOKEN, TOKEN_DTYPE).tobytes()
        return cls(Column.mel(n_mels, mel_dtype), Column.token(), {"mel": row, "token": pad})

    @classmethod
    def of_manifest(cls, manifest: Manifest) -> Layout:
        return cls.of(manifest.n_mels, manifest.mel_dtype, manifest.mel_padding)

    @property
    def columns(self) -> tuple[Column, Column]:
        return self.mel, self.token


@dataclass(frozen=True)
class Examination:
    """What a version is worth.

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

    def reusable(self, column: Column) -> Reusable | None:
        """What can be taken over from the version."""
        if self.index is None or column.name not in self.intact:
            return None
        good = self.intact[column.name]
        whole = self.trusted and self.whole[column.name]
        return Reusable(self.version / column.file, index_records(column, self.index)[good], whole)


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
    layout: Layout | None = None,
    workers: int = 1,
    on_progress: Callable[[int], None] = lambda clips: None,
) -> Examination:
    """Checks every byte of a version, or as many as can still be made sense of.

    Args:
        version: its folder.
        layout: how to read the data files if the manifest cannot tell.
        workers: threads.
        on_progress: called with the clips checked since the last call, once for each of the two columns.

    Raises:
        NewerStoreError: a newer MyXTTS made it.
    """
    with ExitStack() as keep:
        with suppress(OSError):
            keep.enter_context(hold_version(version))
        return _examine(version, layout, workers, on_progress)


def _examine(version: Path, layout: Layout | None, workers: int, on_progress: Callable[[int], None]) -> Examination:
    damage: list[Damage] = []
    manifest = _read_manifest(version, damage)
    index = _read_index(version, manifest, damage)
    trusted = not damage
    if manifest is not None:
        layout = Layout.of_manifest(manifest)
        try:
            check_sizes(version, manifest)
        except StoreError as error:
            damage.append(Damage(version.name, str(error)))
    if index is None or layout is None:
        return Examination(version, damage)
    good, whole = {}, {}
    for column in layout.columns:
        records = index_records(column, index)
        path = version / column.file
        good[column.name] = _intact(path, records, column.row_bytes, workers, on_progress)
        padded = _padding_is(path, records, column, layout.padding[column.name])
        if not padded and path.is_file():
            damage.append(Damage(column.file, f"{path}: the padding at the end of the file is damaged"))
        whole[column.name] = padded and bool(good[column.name].all())
    damage += _damaged_clips(version, index, layout, good)
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


def _read_index(version: Path, manifest: Manifest | None, damage: list[Damage]) -> Index | None:
    path = version / INDEX_FILE
    try:
        raw = np.fromfile(path, np.uint8)
        index = Index.parse(raw, path)
    except OSError as error:
        damage.append(Damage(INDEX_FILE, f"{path}: {error.strerror}"))
        return None
    except StoreError as error:
        damage.append(Damage(INDEX_FILE, str(error)))
        return None
    if manifest is not None and xxhash.xxh3_128_hexdigest(raw.data) != manifest.index_checksum:
        damage.append(Damage(INDEX_FILE, f"{path}: the index does not match its checksum"))
    return index


def _intact(
    path: Path, records: np.ndarray, row_bytes: int, workers: int, on_progress: Callable[[int], None]
) -> np.ndarray:
    """As `column.intact`, with several reads at a time. A length below zero is damage here: no clip of a version
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


def _padding_is(path: Path, records: np.ndarray, column: Column, padding: bytes) -> bool:
    """Whether the file ends in its padding, directly behind the last clip."""
    end = int(records["offset"][-1]) + int(records["length"][-1]) if len(records) else 0
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size != end * column.row_bytes + len(padding):
                return False
            file.seek(-len(padding), os.SEEK_END)
            return file.read() == padding
    except OSError:
        return False


def _damaged_clips(version: Path, index: Index, layout: Layout, good: Mapping[str, np.ndarray]) -> list[Damage]:
    ids = Ids(index)
    found = []
    for row in np.flatnonzero(~(good["mel"] & good["token"])).tolist():
        for column in layout.columns:
            if not good[column.name][row]:
                reason = f"its bytes in {column.file} do not match their checksum"
                found.append(Damage(column.file, reason, ids[row]))
    return found
