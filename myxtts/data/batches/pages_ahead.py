"""Asks for the pages of a store that is larger than the memory before batches need them.

What the page cache does not hold is read when it is touched, with whatever lies around it. A store that fits into
memory is read fastest that way. Of a larger one, in a shuffled order, most of what lies around is gone before it is
wanted. But the order is known: a thread asks for exactly the bytes of the next batches (what that brings is in
`benchmarks/bench_cold.py`). Where loading stands it reads in the process's own page table: pages that a batch was
gathered from are mapped, pages that were only asked for are not. So the pipeline need not tell it, and nothing waits
for it.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil

from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.share import WHOLE, Share
from myxtts.data.batches.window_plan import WindowedPlan
from myxtts.data.store import FeatureStore
from myxtts.data.store.parted_store import PartedStore
from myxtts.hardware import memory_limit_bytes

logger = logging.getLogger(__name__)

AHEAD = 32  # batches
_LOOKED_AT = 4  # clips of a batch
_POLL = 0.005  # seconds
_PAGE_TABLE = Path("/proc/self/pagemap")
_ENTRY = 8  # bytes of a page's entry
_PRESENT = 1 << 63


def ask_ahead(
    reader: object,
    store: FeatureStore,
    plan: BatchPlan | WindowedPlan,
    order: BatchOrder,
    *,
    ahead: int = AHEAD,
    memory: int | None = None,
    share: Share = WHOLE,
) -> threading.Thread | None:
    """Starts the thread, if the store is mapped, does not fit into memory, and the system can be asked.

    Args:
        reader: what reads the batches; the thread ends when it is gone.
        store, plan, order: of the batches.
        ahead: how many batches are asked for before the one that is loaded next.
        memory: bytes that a store may have and fit; none: what is available now.
        share: which places of a batch this process loads.
    """
    if not (store.memory_map and hasattr(os, "posix_fadvise") and os.access(_PAGE_TABLE, os.R_OK)):
        return None
    if memory is None:
        memory = min(memory_limit_bytes(), psutil.virtual_memory().available)
    if store.mel_data.nbytes <= memory:
        return None
    gone = threading.Event()
    weakref.finalize(reader, gone.set)

    batches = (rows[share.rank :: share.ranks] for rows in plan.rows_of_batches(order))

    def follow() -> None:
        try:
            _follow(store, batches, ahead, gone)
        except OSError as error:
            logger.warning("pages are no longer asked for ahead: %s", error)

    thread = threading.Thread(target=follow, name="pages-ahead", daemon=True)
    thread.start()
    return thread


def _follow(store: FeatureStore, batches: Iterator[np.ndarray], ahead: int, gone: threading.Event) -> None:
    asked: deque[np.ndarray] = deque()
    with ExitStack() as files, _PAGE_TABLE.open("rb", buffering=0) as page_table:
        descriptors: dict[Path, int] = {}
        while not gone.is_set():
            while len(asked) < ahead and (rows := next(batches, None)) is not None:
                for path, first, length in (_bytes_of(store, row) for row in rows):
                    if path not in descriptors:
                        descriptors[path] = files.enter_context(path.open("rb")).fileno()
                    os.posix_fadvise(descriptors[path], first, length, os.POSIX_FADV_WILLNEED)
                asked.append(rows)
            if not asked:
                return
            if _is_loaded(store, asked[0], page_table.fileno()):
                asked.popleft()
            else:
                gone.wait(_POLL)


def _bytes_of(store: FeatureStore, row: int) -> tuple[Path, int, int]:
    """The file of a clip's mel, its first byte there, and its bytes."""
    row_bytes = store.mel_data.strides[0]
    path, first, length = (
        store.mel_place(row) if isinstance(store, PartedStore) else (store.mel_path, *_span(store, row))
    )
    return path, first * row_bytes, length * row_bytes


def _span(store: FeatureStore, row: int) -> tuple[int, int]:
    return int(store.mel_offsets[row]), int(store.mel_lengths[row])


def _is_loaded(store: FeatureStore, rows: np.ndarray, page_table: int) -> bool:
    """Whether a batch was gathered. A touched page maps its neighbours too, so several clips are looked at."""
    row_bytes = store.mel_data.strides[0]
    for row in rows[:: max(1, len(rows) // _LOOKED_AT)]:
        first, length = store.mel_span(row) if isinstance(store, PartedStore) else _span(store, row)
        middle = first + length // 2
        page = (store.mel_data.ctypes.data + middle * row_bytes) // mmap.PAGESIZE
        entry = os.pread(page_table, _ENTRY, page * _ENTRY)
        if len(entry) == _ENTRY and not int.from_bytes(entry, "little") & _PRESENT:
            return False
    return True
