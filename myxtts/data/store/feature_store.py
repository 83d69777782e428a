"""Opens a feature store: the packed features of a data set under one fingerprint, memory-mapped.

A store's folder holds versions (`v000001`, ...) and the pointer `CURRENT`, a line of text with the name of the one
to use. `format` describes the files of a version; this module finds them, makes sure that they fit together
before anything is mapped, and hands out arrays. It never writes: `folder` publishes versions, `builder` fills them,
`verify` reads every byte. A version that was opened stays as it was for as long as it is open, whatever
is published beside it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import xxhash

from myxtts.data.store.allocation import aligned_bytes
from myxtts.data.store.format import INDEX_FILE, MANIFEST_FILE, MEL_FILE, Column, Manifest, check_sizes
from myxtts.data.store.index import Ids, Index
from myxtts.data.store.parts import is_parts_manifest
from myxtts.errors import StoreError

POINTER_FILE = "CURRENT"
VERSION_NAME = re.compile(r"v\d{6,}")

Verify = Literal["quick", "none"]
_TRIES = 10  # how often a version may be replaced and removed between reading the pointer and opening it


class ColumnData(NamedTuple):
    """One column of an open store.

    Attributes:
        data: [rows, *row shape] in the stored type, read-only; the last row is the padding row.
        offsets: int64 [N], the first row of each clip.
        lengths: int32 [N], its rows.
    """

    data: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


class FeatureStore:
    """The features of a data set's usable clips; row `i` everywhere is the same clip.

    Attributes:
        path: the folder of the version that is open.
        manifest: what the version holds and the settings it was made with.
        ids: the clips' ids, a lazy sequence.
        mel_offsets: int64 [N], the first row of each clip in mel.bin.
        mel_lengths: int32 [N], its rows (frames).
        token_offsets: int64 [N], the first entry of each clip in tokens.bin.
        token_lengths: int32 [N], its entries.
        speaker_ids: int32 [N], positions in `speakers`.
        language_ids: int32 [N], positions in `languages`.
        mel_data: [mel_rows, n_mels] in the stored type, read-only; the last row is the padding row.
        token_data: int32 [token_count], read-only; the last entry is the padding id.

    Example:
        ```python
        with FeatureStore.open("data/ljspeech/cached_features") as store:
            print(len(store), store.ids[0], store.mel(0).shape, store.tokens(0))
        ```
    """

    def __init__(self, path: Path, index: Index, manifest: Manifest, hold: IO[bytes], memory_map: bool) -> None:
        self.path = path
        self.index = index
        self.manifest = manifest
        self.memory_map = memory_map
        self._hold: IO[bytes] | None = hold
        self._data: dict[str, np.ndarray] = {}
        for name in ("mel", "token"):
            self.data(name)

    @classmethod
    def open(cls, path: str | os.PathLike[str], verify: Verify = "quick", memory_map: bool = True) -> FeatureStore:
        """Opens a store.

        Args:
            path: a store's folder, one of its versions, or a cache folder with a single store in it.
            verify: `quick` also compares the index with its checksum; `none` only makes sure that every clip
                lies inside the files, which no mapping can do without.
            memory_map: false reads everything into memory (small data sets, network file systems).

        Raises:
            StoreError: there is no store, it is damaged, or a newer MyXTTS made it.
        """
        if verify not in ("quick", "none"):
            raise ValueError(f"verify should be 'quick' or 'none', not {verify!r}")
        given = Path(path)
        for _ in range(_TRIES):
            version = resolve_version(given)
            try:
                hold = hold_version(version)
            except FileNotFoundError:
                if version == given:
                    break
                continue  # removed after the pointer was read: a newer one is current now
            except OSError as error:
                raise StoreError(f"{version / MANIFEST_FILE}: cannot be opened: {error.strerror}") from None
            try:
                return cls._open_version(version, hold, verify, memory_map)
            except BaseException:
                hold.close()
                raise
        raise StoreError(f"{given}: the store has no manifest; `myxtts verify-cache --fix` rebuilds it")

    @classmethod
    def _open_version(cls, version: Path, hold: IO[bytes], verify: Verify, memory_map: bool) -> FeatureStore:
        try:
            raw = hold.read()
            if is_parts_manifest(raw):
                from myxtts.data.store.parted_store import open_parts

                return open_parts(version, raw, hold, verify, memory_map)
            manifest = Manifest.from_bytes(raw, version / MANIFEST_FILE)
            check_sizes(version, manifest)
            return cls(version, read_index(version, manifest, verify, memory_map), manifest, hold, memory_map)
        except OSError as error:
            raise StoreError(f"{error.filename or version}: cannot be read: {error.strerror}") from None

    def __len__(self) -> int:
        return self.manifest.clips

    def column(self, name: str) -> ColumnData:
        """All rows of a column, and where each clip's are.

        Raises:
            StoreError: the store was made without this column.
        """
        return ColumnData(self.data(name), self.index[f"{name}_offset"], self.index[f"{name}_length"])

    def data(self, name: str) -> np.ndarray:
        """All rows of a column, as in `ColumnData`, mapped when they are first asked for.

        Raises:
            StoreError: the store was made without this column.
        """
        if name not in self._data:
            column = next((one for one in self.manifest.columns if one.name == name), None)
            if column is None:
                raise StoreError(f"{self.path}: this store has no column '{name}'")
            self._data[name] = self._map(column).reshape(-1, *column.row_shape)
        return self._data[name]

    def _map(self, column: Column) -> np.ndarray:
        return _load(self.path / column.file, column.numpy_dtype, self.memory_map)

    @cached_property
    def ids(self) -> Sequence[str]:
        return Ids(self.index)

    @property
    def mel_data(self) -> np.ndarray:
        return self.data("mel")

    @property
    def mel_offsets(self) -> np.ndarray:
        return self.index["mel_offset"]

    @property
    def mel_lengths(self) -> np.ndarray:
        return self.index["mel_length"]

    @property
    def token_data(self) -> np.ndarray:
        return self.data("token")

    @property
    def token_offsets(self) -> np.ndarray:
        return self.index["token_offset"]

    @property
    def token_lengths(self) -> np.ndarray:
        return self.index["token_length"]

    @property
    def speaker_ids(self) -> np.ndarray:
        return self.index["speaker"]

    @property
    def language_ids(self) -> np.ndarray:
        return self.index["language"]

    def rows(self, name: str, clip: int) -> np.ndarray:
        """The rows of a clip in a column, read-only."""
        if not 0 <= clip < len(self):
            raise IndexError(f"clip {clip} of {len(self)}")
        data, offsets, lengths = self.column(name)
        start = int(offsets[clip])
        return data[start : start + int(lengths[clip])]

    def mel(self, row: int) -> np.ndarray:
        """The mel of a clip, [F, n_mels] in the stored type, read-only."""
        return self.rows("mel", row)

    def tokens(self, row: int) -> np.ndarray:
        """The ids of a clip's text, int32 [T], read-only."""
        return self.rows("token", row)

    @property
    def mel_path(self) -> Path:
        return self.path / MEL_FILE

    @property
    def mel_rows(self) -> int:
        """Rows of mel.bin; the last is the padding row."""
        return self.manifest.mel_rows

    @property
    def fingerprint(self) -> str:
        return self.manifest.fingerprint

    @property
    def speakers(self) -> list[str]:
        return list(self.manifest.speakers)

    @property
    def languages(self) -> list[str]:
        return list(self.manifest.languages)

    @property
    def size_bytes(self) -> int:
        """What the version's data and index take on disk."""
        indexes = [INDEX_FILE, *(one.column.index_file for one in self.manifest.optional_columns)]
        return sum(self.manifest.data_bytes.values()) + sum(os.stat(self.path / name).st_size for name in indexes)

    def close(self) -> None:
        """Releases the version: it may be removed once a newer one is published. Arrays already handed out stay
        valid, because a mapping outlives the file's name."""
        if self._hold is not None:
            self._hold.close()
            self._hold = None

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FeatureStore({str(self.path)!r}, clips={len(self)}, mel_dtype={self.manifest.mel_dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the same version for itself instead of receiving its bytes.
        return FeatureStore.open, (self.path, "none", self.memory_map)


def read_index(version: Path, manifest: Manifest, verify: Verify, memory_map: bool) -> Index:
    """The indexes of a version, checked as `FeatureStore.open` says.

    Raises:
        StoreError: one is damaged, or does not fit the manifest.
    """
    index_path = version / INDEX_FILE
    raw = _load(index_path, np.dtype(np.uint8), memory_map)
    index = Index.parse(raw, index_path)
    checksums = [(index_path, raw, manifest.index_checksum)]
    for one in manifest.optional_columns:
        path = version / one.column.index_file
        raw = _load(path, np.dtype(np.uint8), memory_map)
        index = index.with_column(one.name, raw, path)
        checksums.append((path, raw, one.index_checksum))
    index.check(manifest, index_path)
    for path, raw, checksum in checksums if verify == "quick" else ():
        if xxhash.xxh3_128_hexdigest(raw.data) != checksum:
            raise StoreError(
                f"{path}: the index does not match its checksum; `myxtts verify-cache --fix` rebuilds it"
            )
    return index


def resolve_version(path: Path) -> Path:
    """The folder of the version that a path stands for: a version, a store's folder, or a cache folder with a single
    store in it.

    Raises:
        StoreError: there is none, or more than one.
    """
    if VERSION_NAME.fullmatch(path.name) or (path / MANIFEST_FILE).is_file():
        return path
    if (path / POINTER_FILE).is_file():
        last, name = None, read_pointer(path)
        while name not in (None, last) and not (path / str(name)).is_dir():
            # Another version may have been published, and this one removed, since the pointer was read.
            last, name = name, read_pointer(path)
        if name in (None, last):
            raise StoreError(
                f"{path / POINTER_FILE}: names no version of the store; `myxtts verify-cache --fix` repairs it"
            )
        return path / str(name)
    try:
        stores = sorted(child for child in path.iterdir() if (child / POINTER_FILE).is_file())
    except OSError as error:
        raise StoreError(f"{path}: no feature store: {error.strerror}; `myxtts precompute` makes one") from None
    if not stores:
        raise StoreError(f"{path}: no feature store; `myxtts precompute` makes one")
    if len(stores) > 1:
        names = ", ".join(store.name for store in stores)
        raise StoreError(f"{path}: has {len(stores)} feature stores ({names}); name one of them")
    return resolve_version(stores[0])


def read_pointer(store: Path) -> str | None:
    """The name of the current version, or None if the pointer is missing or does not name a version."""
    try:
        name = (store / POINTER_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return name if VERSION_NAME.fullmatch(name) else None


def hold_version(version: Path) -> IO[bytes]:
    """Opens a version's manifest and marks the version as in use, so that no builder removes it.

    Raises:
        FileNotFoundError: it is gone, or a builder is removing it.
    """
    manifest = version / MANIFEST_FILE
    file = open(manifest, "rb")  # noqa: SIM115 - held until the store is closed
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.stat(manifest)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.ENOENT):
            file.close()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(manifest)) from None
        # Without locks on this file system the version may be removed while it is open, which a mapping
        # survives.
    return file


def _load(path: Path, dtype: np.dtype[Any], memory_map: bool) -> np.ndarray:
    """A file's content as a read-only array of plain `ndarray` type."""
    if memory_map and os.stat(path).st_size:
        return np.memmap(path, dtype, "r").view(np.ndarray)
    content = aligned_bytes(os.stat(path).st_size)
    with path.open("rb") as file:
        if file.readinto(content.data) != content.size:
            raise StoreError(f"{path}: shorter than {content.size:,} bytes")
    content.flags.writeable = False
    return content.view(dtype)
