"""The files of one version of a feature store, byte by byte: the index and the manifest.

A version is a folder of four files, written once and never changed:

    mel.bin        rows of `n_mels` little-endian float16 or float32, clip after clip; the last row is the padding
                   row, the logarithm of the floor
    tokens.bin     little-endian int32, clip after clip; the last entry is 0, the padding id
    index.bin      where each clip lies in both, its checksums, what it was made from, its id
    manifest.json  counts, data types, the settings everything was made with, the checksum of the index

This module reads and writes the last two and says how large the first two must be. What the bytes of a clip mean is
decided elsewhere: `myxtts.audio` and `myxtts.text` make them, `myxtts.data.precompute` computes and places them.
There is no pickle here and no code is ever read from a file. `docs/store-format.md` describes the same for other
readers.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from myxtts.errors import StoreError

FORMAT_VERSION = 1

MEL_FILE = "mel.bin"
TOKENS_FILE = "tokens.bin"
INDEX_FILE = "index.bin"
MANIFEST_FILE = "manifest.json"
VERSION_FILES = (MEL_FILE, TOKENS_FILE, INDEX_FILE, MANIFEST_FILE)

MEL_DTYPES: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
TOKEN_DTYPE = np.dtype("<i4")
PAD_TOKEN = 0

_MAGIC = b"MYXINDEX"
_HEADER = struct.Struct(
    "<"
    "8s"  # magic
    "I"  # format version
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
_BYTES_PER_CLIP = sum(dtype.itemsize for dtype in INDEX_COLUMNS.values())


class NewerStoreError(StoreError):
    """A store of a format that this MyXTTS does not know. It is left alone."""


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

    def __post_init__(self) -> None:
        _require(self.mel_dtype in MEL_DTYPES, f"mel_dtype '{self.mel_dtype}'")
        for name, least in (("clips", 0), ("n_mels", 1), ("mel_rows", 1), ("token_count", 1)):
            value = getattr(self, name)
            _require(type(value) is int and least <= value < 2**62, f"{name} {value!r}")
        _require(isinstance(self.mel_padding, float), f"mel_padding {self.mel_padding!r}")
        for name in ("speakers", "languages"):
            _require(all(isinstance(entry, str) for entry in getattr(self, name)), name)

    @property
    def mel_row_bytes(self) -> int:
        return self.n_mels * MEL_DTYPES[self.mel_dtype].itemsize

    @property
    def mel_bytes(self) -> int:
        return self.mel_rows * self.mel_row_bytes

    @property
    def token_bytes(self) -> int:
        return self.token_count * TOKEN_DTYPE.itemsize

    def to_bytes(self) -> bytes:
        """The file: JSON with sorted keys whose `checksum` is the xxh3-128 of the rest, so written."""
        content = {"format": "myxtts-store", "format_version": FORMAT_VERSION, **asdict(self)}
        return _canonical_json(content | {"checksum": _manifest_checksum(content)})

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
        if version > FORMAT_VERSION:
            raise NewerStoreError(
                f"{path}: the store has format {version}, and this MyXTTS reads up to {FORMAT_VERSION}: "
                "upgrade MyXTTS, or build another store with --cache-dir"
            )
        try:
            stated = content.pop("checksum")
            # Comparing the bytes as well finds what parsing forgives, such as 1e-05 turned into 1E-05.
            if stated != _manifest_checksum(content) or _canonical_json(content | {"checksum": stated}) != raw:
                raise damaged
            del content["format"], content["format_version"]
            failed = tuple(FailedClip(**entry) for entry in content.pop("failed"))
            speakers, languages = tuple(content.pop("speakers")), tuple(content.pop("languages"))
            return cls(**content, speakers=speakers, languages=languages, failed=failed)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise damaged from None


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
        checksum = xxhash.xxh3_128()
        header = _HEADER.pack(_MAGIC, FORMAT_VERSION, _HEADER.size, self.clips, len(self.id_bytes))
        columns = (np.ascontiguousarray(self[name], dtype) for name, dtype in INDEX_COLUMNS.items())
        parts = itertools.chain([np.frombuffer(header, np.uint8)], columns, [self.id_bytes])
        for part in parts:
            data = part.data.cast("B") if len(part) else b""
            checksum.update(data)
            file.write(data)
        return checksum.hexdigest()

    @classmethod
    def parse(cls, data: np.ndarray, path: Path) -> Index:
        """Splits the bytes of index.bin into its columns without copying them.

        Args:
            data: uint8, the whole file.
            path: for messages.

        Raises:
            StoreError: it is not an index, or its size is not what its header announces.
        """
        damaged = StoreError(f"{path}: the index is damaged; `myxtts verify-cache --fix` rebuilds it")
        if len(data) < _HEADER.size:
            raise damaged
        magic, version, header_bytes, clips, id_size = _HEADER.unpack_from(data.data)
        if magic != _MAGIC or version != FORMAT_VERSION or header_bytes != _HEADER.size:
            raise damaged
        if clips < 0 or id_size < 0 or len(data) != index_bytes(clips, id_size):
            raise damaged
        columns, start = {}, _HEADER.size
        for name, dtype in INDEX_COLUMNS.items():
            stop = start + clips * dtype.itemsize
            columns[name] = data[start:stop].view(dtype)
            start = stop
        return cls(columns, data[start:])

    def check(self, manifest: Manifest, path: Path) -> None:
        """Makes sure that every clip lies inside the data files, where nothing else lies.

        Raises:
            StoreError: it does not, or the index is not the one of this manifest.
        """
        expected = {
            "clips": (self.clips, manifest.clips),
            "rows of mel.bin": (_end(self, "mel_offset", "mel_length") + 1, manifest.mel_rows),
            "entries of tokens.bin": (_end(self, "token_offset", "token_length") + 1, manifest.token_count),
            "bytes of ids": (int(self["id_end"][-1]) if self.clips else 0, len(self.id_bytes)),
        }
        for what, (found, stated) in expected.items():
            if found != stated:
                raise StoreError(f"{path}: the index has {found:,} {what} where the store has {stated:,}")
        consistent = (
            _contiguous(self["mel_offset"], self["mel_length"])
            and _contiguous(self["token_offset"], self["token_length"])
            and bool(np.all(self["id_end"][1:] >= self["id_end"][:-1]))
            and _within(self["speaker"], len(manifest.speakers))
            and _within(self["language"], len(manifest.languages))
        )
        if not consistent:
            raise StoreError(f"{path}: the index is damaged; `myxtts verify-cache --fix` rebuilds it")


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


def index_bytes(clips: int, id_size: int) -> int:
    """The size of an index.bin."""
    return _HEADER.size + clips * _BYTES_PER_CLIP + id_size


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compares the files with what the manifest says, which has to come before anything is mapped.

    Raises:
        StoreError: a file is missing, or not as long as it should be.
    """
    for name, expected in ((MEL_FILE, manifest.mel_bytes), (TOKENS_FILE, manifest.token_bytes)):
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


def _canonical_json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, sort_keys=True, indent=1) + "\n").encode("utf-8")


def _manifest_checksum(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_128_hexdigest(_canonical_json(content))


def _end(index: Index, offset: str, length: str) -> int:
    """Where the last clip ends; computed in Python's integers, which do not overflow."""
    return int(index[offset][-1]) + int(index[length][-1]) if index.clips else 0


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


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"not a valid {what}")
