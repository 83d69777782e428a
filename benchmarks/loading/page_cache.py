"""Fills and empties the page cache for given files, and tells how much of them it holds."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from myxtts.performance.replay_comparison import drop_from_page_cache

_BLOCK = 8 << 20


def files_below(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def warm(paths: Iterable[Path]) -> None:
    """Reads the files, so that they are in the page cache."""
    block = bytearray(_BLOCK)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(block):
                pass


def drop(paths: Sequence[Path]) -> None:
    """Takes the files out of the page cache, every one of them; what some process has mapped and touched stays."""
    if drop_from_page_cache(paths) != len(paths):
        raise OSError(f"not all of {len(paths):,} files could be taken out of the page cache")


def resident_share(paths: Iterable[Path]) -> float:
    """Share of the files' pages that the page cache holds, 0 to 1."""
    resident = total = 0
    for path in paths:
        size = path.stat().st_size
        if not size:
            continue
        with open(path, "rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as mapping:
            pages = -(-size // mmap.PAGESIZE)
            state = np.zeros(pages, np.uint8)
            view = np.frombuffer(mapping, np.uint8)
            mincore(view.ctypes.data, size, state)
            del view
            resident += int((state & 1).sum())
            total += pages
    return resident / total if total else 0.0


def mincore(address: int, size: int, state: np.ndarray) -> None:
    """mincore(2): one byte per page, its lowest bit tells whether the page is in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_void_p(state.ctypes.data)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
