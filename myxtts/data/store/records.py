"""The records of a column while it is built: its data file, its journal, and what can be taken from elsewhere.

A column is a data file in which the clips lie one after another, in the order of the data set, and a
record per clip that says where it lies, what it was made from, and the checksum of its bytes. While a column is
built, the records are appended to a journal, each after its bytes were written. A record is believed only if its
bytes still have its checksum, so no order of writes reaching the disk, and no moment of a kill or a power cut, can
make a wrong store.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import xxhash

from myxtts.data.store.columns import ClipSource
from myxtts.data.store.format import Column
from myxtts.data.store.index import Index

RECORD = np.dtype(
    [
        ("clip", "<u8"),  # clip_key of the index
        ("size", "<i8"),  # bytes of the audio file; 0 for what is made from text
        ("mtime", "<i8"),  # when the audio file was last changed, in ns; 0 for what is made from text
        ("content", "<u8"),  # hash of the audio file, or of the text
        ("offset", "<i8"),  # first row of the clip in the data file
        ("length", "<i8"),  # its rows; FAILED if it could not be computed
        ("checksum", "<u8"),  # xxh3-64 of its bytes
        ("check", "<u8"),  # of the fields above, so that a torn record is seen
    ]
)
FAILED = -1
_WORDS = RECORD.itemsize // 8
_CHECK = 0x9E3779B97F4A7C15
_BLOCK = 8 << 20  # bytes read at a time
_RUN = 64 << 20  # bytes copied at a time


@dataclass(frozen=True)
class ReusableClips:
    """Clips of a data file that exists.

    Attributes:
        path: the data file.
        records: RECORD [M], those of its clips that can be used.
        whole: the records are all that the file holds, in order, so that the file itself can be linked.
    """

    path: Path
    records: np.ndarray
    whole: bool = False

    @classmethod
    def from_journal(cls, column: Column, folder: Path, checked: bool) -> ReusableClips | None:
        """The clips that an interrupted build left in `folder`; `checked`, only those whose bytes are intact."""
        path = folder / column.file
        records = read_journal(folder / column.journal)
        if not len(records) or not path.is_file():
            return None
        records = records[records["length"] != FAILED]
        return cls(path, records[intact(path, records, column.row_bytes)] if checked else records)


@dataclass(frozen=True)
class Run:
    """Consecutive clips of the plan whose bytes lie consecutively in another file."""

    first: int
    records: np.ndarray  # as they are in that file
    path: Path


@dataclass(frozen=True)
class Work:
    """Consecutive clips of the plan that have to be computed."""

    first: int
    count: int


def index_records(name: str, source: ClipSource | None, index: Index) -> np.ndarray:
    """A column of a published version as records, RECORD [N]; without a source, only where its clips lie."""
    records = np.zeros(index.clips, RECORD)
    records["clip"] = index["clip_key"]
    for field in ("offset", "length", "checksum"):
        records[field] = index[f"{name}_{field}"]
    for field, entry in ({} if source is None else source.index_entries).items():
        records[field] = index[entry]
    return records


def same_source(plan: np.ndarray, records: np.ndarray, by_content: bool) -> np.ndarray:
    """Where records describe the clip and the source that the plan has in the same place, bool."""
    same = plan["clip"] == records["clip"]
    if by_content:
        return same & (plan["content"] == records["content"])
    return same & (plan["size"] == records["size"]) & (plan["mtime"] == records["mtime"])


def find_reusable(
    plan: np.ndarray, sources: Sequence[ReusableClips], by_content: bool
) -> tuple[np.ndarray, np.ndarray]:
    """For each clip of the plan, which source has its bytes (int32, -1: none), and which record there (int64)."""
    which = np.full(len(plan), -1, np.int32)
    rows = np.zeros(len(plan), np.int64)
    for number, source in enumerate(sources):
        if not len(source.records):
            continue
        order = np.argsort(source.records["clip"], kind="stable")
        keys = source.records["clip"][order]
        place = np.minimum(np.searchsorted(keys, plan["clip"]), len(keys) - 1)
        found = order[place]
        usable = same_source(plan, source.records[found], by_content) & (which < 0)
        which[usable] = number
        rows[usable] = found[usable]
    return which, rows


def find_whole(plan: np.ndarray, sources: Sequence[ReusableClips], by_content: bool) -> ReusableClips | None:
    """A source whose file holds exactly the clips of the plan, so that the file itself can be reused."""
    for source in sources:
        if not source.whole or len(source.records) != len(plan):
            continue
        if same_source(plan, source.records, by_content).all():
            return source
    return None


def runs_and_work(
    first: int, which: np.ndarray, rows: np.ndarray, sources: Sequence[ReusableClips], row_bytes: int, chunk: int
) -> Iterator[Run | Work]:
    """The plan from row `first` on, in order, as runs to copy and chunks to compute."""
    count = len(which)
    if first >= count:
        return
    joined = np.zeros(count, bool)  # whether a clip's bytes directly follow those of the clip before
    for number, source in enumerate(sources):
        mine = np.flatnonzero(which == number)
        if len(mine) < 2:
            continue
        records = source.records[rows[mine]]
        follows = records["offset"][1:] == records["offset"][:-1] + records["length"][:-1]
        joined[mine[1:]] = follows & (mine[1:] == mine[:-1] + 1)
    missing = which < 0
    joined[1:] |= missing[1:] & missing[:-1]
    joined[first] = False
    starts = np.flatnonzero(~joined)
    starts = starts[starts >= first]
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), count], strict=True):
        if missing[start]:
            for begin in range(start, stop, chunk):
                yield Work(begin, min(chunk, stop - begin))
            continue
        source = sources[which[start]]
        records = source.records[rows[start:stop]]
        piece = np.cumsum(records["length"]) * row_bytes // _RUN
        cuts = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(records)]
        for begin, end in itertools.pairwise(cuts):
            yield Run(start + begin, records[begin:end], source.path)


def restamp(records: np.ndarray, plan: np.ndarray) -> np.ndarray:
    """Size and time as the sources have them now: a source known by its content may have been copied or touched."""
    records["size"], records["mtime"] = plan["size"], plan["mtime"]
    return records


def pack_records(records: np.ndarray) -> bytes:
    """Records as the journal has them."""
    sealed = np.array(records, RECORD)
    words = sealed.view("<u8").reshape(-1, _WORDS)
    words[:, -1] = np.bitwise_xor.reduce(words[:, :-1], axis=1) ^ np.uint64(_CHECK)
    return sealed.tobytes()


def read_journal(path: Path) -> np.ndarray:
    """The records of a journal up to the first that is torn, RECORD [M]; none if there is no journal."""
    try:
        raw = path.read_bytes()
    except OSError:
        return np.zeros(0, RECORD)
    words = np.frombuffer(raw, "<u8", len(raw) // RECORD.itemsize * _WORDS).reshape(-1, _WORDS)
    torn = np.bitwise_xor.reduce(words, axis=1) != np.uint64(_CHECK)
    count = int(torn.argmax()) if torn.any() else len(words)
    return np.frombuffer(raw, RECORD, count).copy()


def intact(path: Path, records: np.ndarray, row_bytes: int) -> np.ndarray:
    """Which records' bytes are in the file and have their checksum, bool. A clip that failed has none, and is
    intact.

    The file is read, not mapped: a sector that cannot be read is then an error to report and not a dead process.
    """
    good = np.zeros(len(records), bool)
    with open(path, "rb") as file:
        available = os.fstat(file.fileno()).st_size // row_bytes
        offset, length = records["offset"], records["length"]
        inside = (offset >= 0) & (length >= 0) & (length <= available) & (offset <= available - length)
        rows = np.flatnonzero(inside)
        offsets, lengths = offset[rows] * row_bytes, length[rows] * row_bytes
        for start, stop in _blocks(offsets, lengths):
            found = _checksums(file, offsets[start:stop].tolist(), lengths[start:stop].tolist())
            good[rows[start:stop]] = found == records["checksum"][rows[start:stop]]
        good[length == FAILED] = True
    return good


def copy_range(source: int, target: int, source_offset: int, target_offset: int, count: int) -> None:
    """Copies bytes between files, in the kernel where it can."""
    while count:
        try:
            done = os.copy_file_range(source, target, count, source_offset, target_offset)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM):
                raise
            data = os.pread(source, min(count, _BLOCK), source_offset)
            write_all(target, data, target_offset)
            done = len(data)
        if not done:
            raise OSError(errno.EIO, "the file to copy from ends early")
        source_offset += done
        target_offset += done
        count -= done


def write_all(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Writes bytes at an offset, however many calls that takes."""
    view = memoryview(data).cast("B")
    while view:
        done = os.pwrite(descriptor, view, offset)
        view = view[done:]
        offset += done


def _blocks(offsets: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of clips that lie one after another, each of the size of one read."""
    ends = (offsets + lengths).tolist()
    begins = offsets.tolist()
    first = 0
    for number in range(1, len(begins) + 1):
        last = number == len(begins)
        if last or begins[number] != ends[number - 1] or ends[number] - begins[first] > _BLOCK:
            yield first, number
            first = number


def _checksums(file: BinaryIO, offsets: list[int], lengths: list[int]) -> np.ndarray:
    """The checksums of clips that lie one after another; 0 for one that cannot be read."""
    start, count = offsets[0], offsets[-1] + lengths[-1] - offsets[0]
    try:
        file.seek(start)
        data = memoryview(file.read(count))
        if len(data) < count:
            raise OSError(errno.EIO, "the file ends early")
    except OSError:
        if len(offsets) == 1:
            return np.zeros(1, np.uint64)
        single = [_checksums(file, [at], [size]) for at, size in zip(offsets, lengths, strict=True)]
        return np.concatenate(single)
    found = [
        xxhash.xxh3_64_intdigest(data[at - start : at - start + size])
        for at, size in zip(offsets, lengths, strict=True)
    ]
    return np.array(found, np.uint64)
