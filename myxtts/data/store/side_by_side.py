"""Files mapped one behind the other, so that what is in all of them is one array.

A range of addresses as long as all files together is reserved, which takes no memory, and each file is mapped into
it. Mappings begin with a page, so there is a gap of less than `ROWS` rows behind each file; nobody asks for what is
there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.data.store.allocation import aligned_bytes
from myxtts.errors import StoreError

# A file begins at a multiple of so many rows, which is a page's beginning whatever the bytes of a row.
ROWS = mmap.PAGESIZE

_MAP_FIXED = 0x10
_MAP_FAILED = ctypes.c_void_p(-1).value


def first_rows(rows: Sequence[int]) -> list[int]:
    """Where files with so many rows each begin, and behind them where the last one ends."""
    begins, end = [], 0
    for count in rows:
        begin = -(-end // ROWS) * ROWS
        begins.append(begin)
        end = begin + count
    return [*begins, end]


def map_side_by_side(paths: Sequence[Path], begins: Sequence[int], size: int, memory_map: bool = True) -> np.ndarray:
    """The bytes of files as one array, uint8 [size], read-only.

    Args:
        paths: the files.
        begins: the byte at which each begins, a multiple of the page size.
        size: bytes in all, that is, where the last file ends.
        memory_map: false reads the files into memory.

    Raises:
        StoreError: a file cannot be mapped, or is longer than the room it has.
    """
    ends = [*begins[1:], size]
    lengths = [_size(path) for path in paths]
    for path, begin, end, length in zip(paths, begins, ends, lengths, strict=True):
        if length > end - begin:
            raise StoreError(f"{path}: has {length:,} bytes and should have at most {end - begin:,}")
    if not memory_map:
        content = aligned_bytes(size)
        for path, begin, length in zip(paths, begins, lengths, strict=True):
            with path.open("rb") as file:
                if file.readinto(content[begin : begin + length].data) != length:
                    raise StoreError(f"{path}: shorter than {length:,} bytes")
        content.flags.writeable = False
        return content
    mapping = _Mapping(size)
    for path, begin, length in zip(paths, begins, lengths, strict=True):
        mapping.add(path, begin, length)
    return np.asarray(mapping)


class _Mapping:
    """A range of addresses; it is given back when no array uses it any more."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._address = 0
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self._address = _mmap(None, size, flags, -1)
        self.__array_interface__: dict[str, Any] = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self._address, True),
            "version": 3,
        }

    def add(self, path: Path, begin: int, length: int) -> None:
        if not length:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _mmap(self._address + begin, length, mmap.MAP_SHARED | _MAP_FIXED, descriptor)
        except OSError as error:
            raise StoreError(f"{path}: cannot be mapped: {error.strerror}") from None
        finally:
            os.close(descriptor)

    def __del__(self) -> None:
        if self._address:
            _libc().munmap(ctypes.c_void_p(self._address), ctypes.c_size_t(self._size))


def _mmap(address: int | None, size: int, flags: int, descriptor: int) -> int:
    found = _libc().mmap(address, size, mmap.PROT_READ, flags, descriptor, 0)
    if found in (None, _MAP_FAILED):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(found)


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
    ]  # fmt: skip
    return libc


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; `myxtts verify-cache --fix` rebuilds the store") from None
