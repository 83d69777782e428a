"""Asks for the pages of a store before batches need them.

What the page cache does not hold is read when it is touched, with whatever lies around it, and in a shuffled order
most of that is not wanted soon. But the order is known: a thread asks for exactly the bytes of the next batches
(`benchmarks/bench_cold.py` has what that brings). Where loading stands it reads in the process's own page table:
pages that a batch was gathered from are mapped, pages that were only asked for are not. So the pipeline need not tell
it, and nothing waits for it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from myxtts.data.batching import BatchPlan
from myxtts.data.store import FeatureStore

AHEAD = 32  # batches
IN_MEMORY = 0.98  # a store with this share in the page cache is not asked for
_LOOKED_AT = 4  # clips of a batch
_POLL = 0.005  # seconds
_PAGE_TABLE = Path("/proc/self/pagemap")
_ENTRY = 8  # bytes of a page's entry
_PRESENT = 1 << 63


def ask_ahead(
    reader: object,
    store: FeatureStore,
    plan: BatchPlan,
    *,
    seed: int,
    shuffle: bool,
    epochs: int | None,
    start_epoch: int = 0,
    start_step: int = 0,
    ahead: int = AHEAD,
) -> threading.Thread | None:
    """Starts the thread, if the store is mapped, is not in memory, and the system can be asked.

    Args:
        reader: what reads the batches; the thread ends when it is gone.
        store, plan, seed, shuffle, epochs, start_epoch, start_step: of the batches, as in `pipeline.create_dataset`.
        ahead: how many batches are asked for before the one that is loaded next.
    """
    if not (store.memory_map and hasattr(os, "posix_fadvise") and os.access(_PAGE_TABLE, os.R_OK)):
        return None
    if resident_share(store.mel_data) >= IN_MEMORY:
        return None
    gone = threading.Event()
    weakref.finalize(reader, gone.set)

    def batches() -> Iterator[np.ndarray]:
        epoch = start_epoch
        while epochs is None or epoch < start_epoch + epochs:
            order = plan.epoch(seed, epoch, shuffle=shuffle)
            for number in range(start_step if epoch == start_epoch else 0, len(order)):
                rows = order[number]
                yield rows[rows >= 0]
            if resident_share(store.mel_data) >= IN_MEMORY:
                return
            epoch += 1

    thread = threading.Thread(target=_follow, args=(store, batches(), ahead, gone), name="pages-ahead", daemon=True)
    thread.start()
    return thread


def resident_share(array: np.ndarray) -> float:
    """Share of a mapped array's pages that are in memory, 0 to 1; whose process touched them does not matter."""
    state = np.zeros(-(-array.nbytes // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    address, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
    if libc.mincore(address, size, ctypes.c_void_p(state.ctypes.data)):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return float(np.mean(state & 1))


def _follow(store: FeatureStore, batches: Iterator[np.ndarray], ahead: int, gone: threading.Event) -> None:
    row_bytes = store.mel_data.strides[0]
    asked: deque[np.ndarray] = deque()
    with store.mel_path.open("rb") as data, _PAGE_TABLE.open("rb", buffering=0) as page_table:
        while not gone.is_set():
            while len(asked) < ahead and (rows := next(batches, None)) is not None:
                for row in rows:
                    first, length = int(store.mel_offsets[row]) * row_bytes, int(store.mel_lengths[row]) * row_bytes
                    os.posix_fadvise(data.fileno(), first, length, os.POSIX_FADV_WILLNEED)
                asked.append(rows)
            if not asked:
                return
            if _is_loaded(store, asked[0], page_table.fileno()):
                asked.popleft()
            else:
                gone.wait(_POLL)


def _is_loaded(store: FeatureStore, rows: np.ndarray, page_table: int) -> bool:
    """Whether a batch was gathered. A touched page maps its neighbours too, so several clips are looked at."""
    row_bytes = store.mel_data.strides[0]
    for row in rows[:: max(1, len(rows) // _LOOKED_AT)]:
        middle = int(store.mel_offsets[row]) + int(store.mel_lengths[row]) // 2
        page = (store.mel_data.ctypes.data + middle * row_bytes) // mmap.PAGESIZE
        entry = os.pread(page_table, _ENTRY, page * _ENTRY)
        if len(entry) == _ENTRY and not int.from_bytes(entry, "little") & _PRESENT:
            return False
    return True
