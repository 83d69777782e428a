"""The files of one version of a feature store: what there is, how columns lie in them, and the manifest.

A version is a folder of files, written once and never changed:

    mel.bin        rows of `n_mels` little-endian float16 or float32, clip after clip; the last row is the padding
                   row, the logarithm of the floor
    tokens.bin     little-endian int32, clip after clip; the last entry is 0, the padding id
    index.bin      where each clip lies in both, its checksums, what it was made from, its id
    manifest.json  counts, data types, the settings everything was made with, the checksum of the index

    NAME.bin       an optional column: rows of one shape and type, clip after clip; the last row is the padding row
    NAME.index     where each clip lies in it, and its checksums

This module reads and writes the manifest and says how large the data files must be; `index` reads and writes indexes.
What the bytes of a clip mean is decided elsewhere: `columns` lists what can be stored and computes it, `builder`
places it. There is no pickle here and no code is ever read from a file. `docs/store-format.md` describes the same for
other readers.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from myxtts.errors import StoreError

# A store without optional columns has the first version, and so the bytes that it always had.
FIRST_FORMAT_VERSION = 1
FORMAT_VERSION = 2
# The manifest of a store in parts (`parts`), which has no features of its own.
PARTS_FORMAT_VERSION = 3

MEL_FILE = "mel.bin"
TOKENS_FILE = "tokens.bin"
INDEX_FILE = "index.bin"
MANIFEST_FILE = "manifest.json"
DATA_SUFFIX, INDEX_SUFFIX = ".bin", ".index"

MEL_DTYPES: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
TOKEN_DTYPE = np.dtype("<i4")
PAD_TOKEN = 0
_DTYPES = MEL_DTYPES | {name: np.dtype(name).newbyteorder("<") for name in ("uint8", "int16", "int32", "int64")}
_COLUMN_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class NewerStoreError(StoreError):
    """A store of a format that this MyXTTS does not know. It is left alone."""


@dataclass(frozen=True)
class Column:
    """How one column lies in its data file: rows of one shape, clip after clip, and the padding row last.

    Attributes:
        name: as in the index's `NAME_offset`.
        file: name of the data file.
        dtype: type of the values, such as `float16`.
        row_shape: of one row; empty for single values.
        padding: every value of the padding row.
        optional: it has an index file of its own.
    """

    name: str
    file: str
    dtype: str
    row_shape: tuple[int, ...]
    padding: float
    optional: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.name, str) and bool(_COLUMN_NAME.fullmatch(self.name)), f"column {self.name!r}")
        require(self.dtype in _DTYPES, f"type of {self.name}: {self.dtype!r}")
        require(all(type(size) is int and 0 < size < 2**31 for size in self.row_shape), f"row of {self.name}")
        require(isinstance(self.padding, float), f"padding of {self.name}: {self.padding!r}")

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return _DTYPES[self.dtype]

    @property
    def row_bytes(self) -> int:
        return self.numpy_dtype.itemsize * math.prod(self.row_shape)

    @property
    def padding_row(self) -> bytes:
        return np.full(self.row_shape, self.padding, self.numpy_dtype).tobytes()

    @property
    def index_file(self) -> str:
        """Of an optional column."""
        return self.name + INDEX_SUFFIX

    @property
    def journal(self) -> str:
        """The file that grows with the data file while the column is built."""
        return f"{self.name}.journal"


def mel_column(n_mels: int, dtype: str, padding: float) -> Column:
    return Column("mel", MEL_FILE, dtype, (n_mels,), padding)


def token_column() -> Column:
    return Column("token", TOKENS_FILE, "int32", (), float(PAD_TOKEN))


def optional_column(name: str, dtype: str, row_shape: Sequence[int], padding: float) -> Column:
    return Column(name, name + DATA_SUFFIX, dtype, tuple(row_shape), padding, optional=True)


@dataclass(frozen=True)
class OptionalColumn:
    """What a manifest says of an optional column.

    Attributes:
        name, dtype, row_shape, padding: as in `Column`.
        rows: of its data file, the padding row included.
        index_checksum: xxh3-128 of its index file, hexadecimal.
    """

    name: str
    dtype: str
    row_shape: tuple[int, ...]
    padding: float
    rows: int
    index_checksum: str

    @property
    def column(self) -> Column:
        return optional_column(self.name, self.dtype, self.row_shape, self.padding)


@dataclass(frozen=True)
class FailedClip:
    """A clip of the data set that is not in the store.

    Attributes:
        id: the clip's id.
        reason: what went wrong, one line.
        size: bytes of its audio file when that happened, -1 if unknown.
        mtime_ns: when the audio file was last changed, -1 if unknown.
    """

    id: str
    reason: str
    size: int = -1
    mtime_ns: int = -1


@dataclass(frozen=True)
class Manifest:
    """What a version holds and what it was made with. It has no time and no version number, so the same data and
    settings give the same bytes.

    Attributes:
        fingerprint: hash of `settings`, the name of the store's folder.
        settings: everything that changes the stored bytes, by section: `mel`, `text`, `data`.
        clips: how many.
        mel_dtype: `float16` or `float32`.
        n_mels: mel bands, the columns of a row.
        mel_rows: rows of mel.bin, the padding row included.
        mel_padding: every value of the padding row.
        token_count: entries of tokens.bin, the padding entry included.
        index_checksum: xxh3-128 of index.bin, hexadecimal.
        speakers: names, in the order of their first clip.
        languages: codes, in the order of their first clip.
        failed: clips of the data set that could not be computed.
        optional_columns: what is stored beside mels and tokens; not in the file if there are none.
    """

    fingerprint: str
    settings: Mapping[str, Mapping[str, Any]]
    clips: int
    mel_dtype: str
    n_mels: int
    mel_rows: int
    mel_padding: float
    token_count: int
    index_checksum: str
    speakers: tuple[str, ...]
    languages: tuple[str, ...]
    failed: tuple[FailedClip, ...] = field(default=())
    optional_columns: tuple[OptionalColumn, ...] = field(default=())

    def __post_init__(self) -> None:
        require(self.mel_dtype in MEL_DTYPES, f"mel_dtype '{self.mel_dtype}'")
        for name, least in (("clips", 0), ("n_mels", 1), ("mel_rows", 1), ("token_count", 1)):
            value = getattr(self, name)
            require(_is_count(value, least), f"{name} {value!r}")
        require(isinstance(self.mel_padding, float), f"mel_padding {self.mel_padding!r}")
        for name in ("speakers", "languages"):
            require(all(isinstance(entry, str) for entry in getattr(self, name)), name)

        for one in self.optional_columns:
            require(_is_count(one.rows, 1), f"rows of {one.name}")
        files = [INDEX_FILE, *(column.file for column in self.columns)]
        require(len(set(files)) == len(files), f"set of files: {files}")

    @classmethod
    def of(
        cls, columns: Sequence[Column], rows: Mapping[str, int], index_checksums: Mapping[str, str], **others: Any
    ) -> Manifest:
        """The manifest of a store with these columns.

        Args:
            columns: how each lies in its file.
            rows: of each column's data file, by name, the padding row included.
            index_checksums: of the index file of each optional column, by name.
            others: the remaining attributes.
        """
        mel = next(column for column in columns if column.name == "mel")
        optional = (
            OptionalColumn(one.name, one.dtype, one.row_shape, one.padding, rows[one.name], index_checksums[one.name])
            for one in columns
            if one.optional
        )
        return cls(
            mel_dtype=mel.dtype,
            n_mels=mel.row_shape[0],
            mel_rows=rows["mel"],
            mel_padding=mel.padding,
            token_count=rows["token"],
            optional_columns=tuple(optional),
            **others,
        )

    @property
    def format_version(self) -> int:
        return FORMAT_VERSION if self.optional_columns else FIRST_FORMAT_VERSION

    @property
    def columns(self) -> tuple[Column, ...]:
        """How each column lies in its file."""
        always = mel_column(self.n_mels, self.mel_dtype, self.mel_padding), token_column()
        return always + tuple(one.column for one in self.optional_columns)

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each column's data file, the padding row included."""
        always = {"mel": self.mel_rows, "token": self.token_count}
        return always | {one.name: one.rows for one in self.optional_columns}

    @property
    def data_bytes(self) -> dict[str, int]:
        """The size of each data file, by its name."""
        return {column.file: self.rows[column.name] * column.row_bytes for column in self.columns}

    def to_bytes(self) -> bytes:
        """The file: JSON with sorted keys whose `checksum` is the xxh3-128 of the rest, so written."""
        content = {"format": "myxtts-store", "format_version": self.format_version, **asdict(self)}
        if not self.optional_columns:
            del content["optional_columns"]
        return canonical_json(content | {"checksum": _manifest_checksum(content)})

    @classmethod
    def from_bytes(cls, raw: bytes, path: Path) -> Manifest:
        """Reads a manifest; a single changed bit is found.

        Raises:
            StoreError: it is damaged, or made by a newer MyXTTS.
        """
        damaged = StoreError(f"{path}: the manifest is damaged; `myxtts verify-cache --fix` rebuilds it")
        try:
            content = json.loads(raw)
            version = content["format_version"]
            if content["format"] != "myxtts-store" or type(version) is not int:
                raise damaged
        except (ValueError, KeyError, TypeError, RecursionError):
            raise damaged from None
        if version == PARTS_FORMAT_VERSION:
            raise StoreError(f"{path}: this is a store in parts, and not a part of one")
        if version > FORMAT_VERSION:
            raise NewerStoreError(
                f"{path}: the store has format {version}, and this MyXTTS reads up to {PARTS_FORMAT_VERSION}: "
                "upgrade MyXTTS, or build another store with --cache-dir"
            )
        try:
            stated = content.pop("checksum")
            # Comparing the bytes as well finds what parsing forgives, such as 1e-05 turned into 1E-05.
            if stated != _manifest_checksum(content) or canonical_json(content | {"checksum": stated}) != raw:
                raise damaged
            del content["format"], content["format_version"]
            failed = tuple(FailedClip(**entry) for entry in content.pop("failed"))
            speakers, languages = tuple(content.pop("speakers")), tuple(content.pop("languages"))
            more = tuple(
                OptionalColumn(**entry | {"row_shape": tuple(entry["row_shape"])})
                for entry in content.pop("optional_columns", ())
            )
            manifest = cls(**content, speakers=speakers, languages=languages, failed=failed, optional_columns=more)
            require(manifest.format_version == version, f"format {version}")
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged from None


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compares the files with what the manifest says, which has to come before anything is mapped.

    Raises:
        StoreError: a file is missing, or not as long as it should be.
    """
    for name, expected in manifest.data_bytes.items():
        path = folder / name
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}; `myxtts verify-cache --fix` rebuilds the store") from None
        if size != expected:
            raise StoreError(
                f"{path}: has {size:,} bytes and should have {expected:,}; "
                "`myxtts verify-cache --fix` rebuilds what is missing"
            )


def canonical_json(content: Mapping[str, Any]) -> bytes:
    """JSON as manifests are written: the same content gives the same bytes."""
    return (json.dumps(content, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode("utf-8")


def _manifest_checksum(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(canonical_json(content))


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and least <= value < 2**62


def require(condition: bool, what: str) -> None:
    """Raises a ValueError unless a value of a file is what it should be."""
    if not condition:
        raise ValueError(f"not a valid {what}")
