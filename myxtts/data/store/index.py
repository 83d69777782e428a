"""The index of a version, byte by byte: where each clip lies in each column, its checksums, what it was made from.

`index.bin` has the clips' ids and both columns that every store has. An optional column has an index file of its own,
of the same form. `format` describes the other files of a version.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from myxtts.data.store.format import FIRST_FORMAT_VERSION, Manifest
from myxtts.errors import StoreError

_MAGIC = b"MYXINDEX"
_HEADER = struct.Struct(
    "<"
    "8s"  # magic
    "I"  # format version, 1
    "I"  # bytes of this header
    "q"  # clips
    "q"  # bytes of the ids
    "32x"  # zero
)

# The columns of the index, one after another behind the header, `clips` entries each; the ids follow the
# last.
INDEX_COLUMNS: dict[str, np.dtype[Any]] = {
    "clip_key": np.dtype("<u8"),  # xxh3-64 of the id, a zero byte, the audio file's path in the data set
    "mel_offset": np.dtype("<i8"),  # first row of the clip in mel.bin
    "mel_checksum": np.dtype("<u8"),  # xxh3-64 of its bytes there
    "token_offset": np.dtype("<i8"),  # first entry of the clip in tokens.bin
    "token_checksum": np.dtype("<u8"),  # xxh3-64 of its bytes there
    "source_size": np.dtype("<i8"),  # bytes of the audio file
    "source_mtime_ns": np.dtype("<i8"),  # when the audio file was last changed, in ns
    "source_hash": np.dtype("<u8"),  # xxh3-64 of the audio file
    "text_hash": np.dtype("<u8"),  # xxh3-64 of text, language and IPA, a zero byte between them
    "id_end": np.dtype("<i8"),  # where the clip's id ends in the ids; it begins where the one before ends
    "mel_length": np.dtype("<i4"),  # rows of the clip in mel.bin
    "token_length": np.dtype("<i4"),  # entries of the clip in tokens.bin
    "speaker": np.dtype("<i4"),  # position in the manifest's speakers
    "language": np.dtype("<i4"),  # position in the manifest's languages
}
# The columns of an optional column's index. In memory they are called `NAME_offset` and so on.
COLUMN_INDEX: dict[str, np.dtype[Any]] = {
    "offset": np.dtype("<i8"),  # first row of the clip in NAME.bin
    "checksum": np.dtype("<u8"),  # xxh3-64 of its bytes there
    "length": np.dtype("<i4"),  # rows of the clip
}


@dataclass(frozen=True)
class Index:
    """The index as arrays, and the ids as one piece of UTF-8.

    Attributes:
        columns: an array per entry of `INDEX_COLUMNS`.
        id_bytes: uint8, the ids one after another.
    """

    columns: Mapping[str, np.ndarray]
    id_bytes: np.ndarray

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def clips(self) -> int:
        return len(self.columns["clip_key"])

    def write(self, file: BinaryIO) -> str:
        """Writes index.bin; returns its xxh3-128 in hexadecimal, as the manifest has it."""
        return _write_index(file, self.columns, INDEX_COLUMNS, self.id_bytes)

    @classmethod
    def parse(cls, data: np.ndarray, path: Path) -> Index:
        """Splits the bytes of index.bin into its columns without copying them.

        Args:
            data: uint8, the whole file.
            path: for messages.

        Raises:
            StoreError: it is not an index, or its size is not what its header announces.
        """
        return cls(*_parse_index(data, INDEX_COLUMNS, path))

    def with_column(self, name: str, data: np.ndarray, path: Path) -> Index:
        """The index with that of an optional column, whose file holds `data`.

        Raises:
            StoreError: that file is not an index.
        """
        found, _ = _parse_index(data, COLUMN_INDEX, path)
        return Index({**self.columns, **{f"{name}_{field}": array for field, array in found.items()}}, self.id_bytes)

    def check(self, manifest: Manifest, path: Path) -> None:
        """Makes sure that every clip lies inside the data files, where nothing else lies.

        Raises:
            StoreError: it does not, or the index is not the one of this manifest.
        """
        expected = {
            "clips": (self.clips, manifest.clips),
            "bytes of ids": (int(self["id_end"][-1]) if self.clips else 0, len(self.id_bytes)),
        }
        for column in manifest.columns:
            expected[f"rows of {column.file}"] = (self._end(column.name) + 1, manifest.rows[column.name])
            expected[f"clips of {column.file}"] = (len(self[f"{column.name}_offset"]), manifest.clips)
        for what, (found, stated) in expected.items():
            if found != stated:
                raise StoreError(f"{path}: the index has {found:,} {what} where the store has {stated:,}")
        consistent = (
            all(_contiguous(self[f"{one.name}_offset"], self[f"{one.name}_length"]) for one in manifest.columns)
            and bool(np.all(self["id_end"][1:] >= self["id_end"][:-1]))
            and _within(self["speaker"], len(manifest.speakers))
            and _within(self["language"], len(manifest.languages))
        )
        if not consistent:
            raise _damaged_index(path)

    def _end(self, column: str) -> int:
        """Where the last clip of a column ends; computed in Python's integers, which do not overflow."""
        offsets, lengths = self[f"{column}_offset"], self[f"{column}_length"]
        return int(offsets[-1]) + int(lengths[-1]) if len(offsets) else 0


class Ids(Sequence[str]):
    """The ids of a store, decoded one by one when they are asked for."""

    def __init__(self, index: Index) -> None:
        self._ends = index["id_end"]
        self._bytes = index.id_bytes

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[row] for row in range(*key.indices(len(self)))]
        row = key.__index__()
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(f"clip {key} of {len(self)}")
        start = int(self._ends[row - 1]) if row else 0
        return self._bytes[start : int(self._ends[row])].tobytes().decode("utf-8", "replace")


def pack_ids(ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The ids as `(id_end, id_bytes)` of an index."""
    encoded = [one.encode("utf-8") for one in ids]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
    return ends, np.frombuffer(b"".join(encoded), np.uint8)


def index_bytes(clips: int, id_size: int, dtypes: Mapping[str, np.dtype[Any]] = INDEX_COLUMNS) -> int:
    """The size of an index file, by default of index.bin."""
    return _HEADER.size + clips * sum(dtype.itemsize for dtype in dtypes.values()) + id_size


def write_column_index(file: BinaryIO, records: np.ndarray) -> str:
    """Writes the index of an optional column, whose clips lie where `records` says; returns its xxh3-128 in
    hexadecimal, as the manifest has it."""
    columns = {name: records[name] for name in COLUMN_INDEX}
    return _write_index(file, columns, COLUMN_INDEX, np.zeros(0, np.uint8))


def _write_index(
    file: BinaryIO, columns: Mapping[str, np.ndarray], dtypes: Mapping[str, np.dtype[Any]], id_bytes: np.ndarray
) -> str:
    checksum = xxhash.xxh3_128()
    clips = len(columns[next(iter(dtypes))])
    header = _HEADER.pack(_MAGIC, FIRST_FORMAT_VERSION, _HEADER.size, clips, len(id_bytes))
    arrays = (np.ascontiguousarray(columns[name], dtype) for name, dtype in dtypes.items())
    for part in itertools.chain([np.frombuffer(header, np.uint8)], arrays, [id_bytes]):
        data = part.data.cast("B") if len(part) else b""
        checksum.update(data)
        file.write(data)
    return checksum.hexdigest()


def _parse_index(
    data: np.ndarray, dtypes: Mapping[str, np.dtype[Any]], path: Path
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    if len(data) < _HEADER.size:
        raise _damaged_index(path)
    *kind, clips, id_size = _HEADER.unpack_from(data.data)
    if kind != [_MAGIC, FIRST_FORMAT_VERSION, _HEADER.size]:
        raise _damaged_index(path)
    if clips < 0 or id_size < 0 or len(data) != index_bytes(clips, id_size, dtypes):
        raise _damaged_index(path)
    columns, start = {}, _HEADER.size
    for name, dtype in dtypes.items():
        stop = start + clips * dtype.itemsize
        columns[name] = data[start:stop].view(dtype)
        start = stop
    return columns, data[start:]


def _damaged_index(path: Path) -> StoreError:
    return StoreError(f"{path}: the index is damaged; `myxtts verify-cache --fix` rebuilds it")


def _contiguous(offsets: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether each clip begins where the one before ends, the first at 0. With the end known to lie inside the file,
    this puts every clip inside it."""
    if not len(offsets):
        return True
    if int(offsets[0]) != 0 or int(lengths.min()) < 0 or int(offsets.min()) < 0:
        return False
    return bool(np.array_equal(offsets[1:], offsets[:-1] + lengths[:-1]))


def _within(positions: np.ndarray, count: int) -> bool:
    return not len(positions) or (int(positions.min()) >= 0 and int(positions.max()) < count)
