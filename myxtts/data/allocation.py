"""Keeps the memory of used-up batches in the process.

A batch is megabytes, and glibc by default gives blocks of that size back to the kernel when they are freed and asks
for them again for the next batch. The kernel hands them out page by page, zeroed, on first touch, which takes as long
as filling the batch does. `benchmarks/bench_allocation.py` shows the difference.
"""

from __future__ import annotations

import ctypes
import functools
import platform

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
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST_KEPT))
