"""Memory as TensorFlow likes it: aligned, and that of used-up batches kept in the process.

A batch is megabytes, and glibc by default gives blocks of that size back to the kernel when they are freed and asks
for them again for the next batch. The kernel hands them out page by page, zeroed, on first touch, which takes as long
as filling the batch does. `benchmarks/bench_allocation.py` shows the difference.
"""

from __future__ import annotations

import ctypes
import functools
import platform

import numpy as np

ALIGNMENT = 64  # bytes; what TensorFlow's kernels expect of a tensor

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGEST_KEPT = 1 << 30  # one block, and the free memory at the end of the heap


@functools.cache
def keep_freed_memory() -> bool:
    """Tells the C library to reuse freed blocks of up to 1 GiB instead of returning them to the kernel.

    Holds for the whole process, once called. What is kept is bounded by the most that was in use at one time.

    Returns:
        Whether it could be set; false where the C library is not glibc.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    # Before version 2.35 glibc refuses a threshold above 32 MiB.
    threshold = any(mallopt(M_MMAP_THRESHOLD, size) for size in (LARGEST_KEPT, 32 << 20))
    return bool(mallopt(M_TRIM_THRESHOLD, LARGEST_KEPT)) and threshold


def aligned_bytes(size: int) -> np.ndarray:
    """uint8 [size], not initialised, at an address that a tensor may have."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size]
