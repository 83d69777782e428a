"""Pages of the next batches are asked for before anybody touches them, and not those of later ones."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from myxtts.data.batches.pages_ahead import ask_ahead
from myxtts.data.batches.plan import BatchOrder, BatchPlan

PATIENCE = 1800.0  # seconds; a busy host may need long, and only a hang needs longer

CLIPS, FRAMES, N_MELS = 60, 16_384, 80  # far more bytes per clip than any kernel reads around a page
BATCH = 2
AHEAD = 5


class Reader:
    """What reads batches, as far as the thread knows it."""


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """A mapped file of holes, which take no disk space and are read like any other bytes."""
    path = tmp_path / "mel.bin"
    with path.open("wb") as file:
        file.truncate(CLIPS * FRAMES * N_MELS * 2)
    data = np.memmap(path, np.float16, "r").view(np.ndarray).reshape(-1, N_MELS)
    mapped = SimpleNamespace(
        memory_map=True,
        mel_path=path,
        mel_data=data,
        mel_offsets=np.arange(CLIPS, dtype=np.int64) * FRAMES,
        mel_lengths=np.full(CLIPS, FRAMES, np.int32),
    )
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 1 << 20, os.POSIX_FADV_WILLNEED)
    if not eventually(lambda: resident_share(data[:1024]) > 0, 5):
        pytest.skip("this file system does not read ahead on request")
    drop(path)
    if resident_share(data) > 0:
        pytest.skip("this file system keeps what was read in memory")
    return mapped


def resident_share(array: np.ndarray) -> float:
    """Share of a mapped array's pages that are in memory, 0 to 1."""
    state = np.zeros(-(-array.nbytes // mmap.PAGESIZE), np.uint8)
    address, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
    assert ctypes.CDLL(None).mincore(address, size, ctypes.c_void_p(state.ctypes.data)) == 0
    return float(np.mean(state & 1))


def drop(path: Path) -> None:
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def eventually(holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def share(store: Any, rows: np.ndarray) -> float:
    """Of the bytes of these clips, in memory."""
    return float(np.mean([resident_share(store.mel_data[row * FRAMES : (row + 1) * FRAMES]) for row in rows]))


def in_memory(store: Any, rows: np.ndarray) -> bool:
    return share(store, rows) == 1


def touch(store: Any, rows: np.ndarray) -> None:
    for row in rows:
        store.mel_data[row * FRAMES : (row + 1) * FRAMES].sum()


def start(store: Any, reader: Reader, **changes: Any) -> tuple[threading.Thread | None, Any]:
    plan = BatchPlan(store.mel_lengths, np.full(CLIPS, 5, np.int32), batch_size=BATCH, num_buckets=1)
    limits = {"ahead": AHEAD, "memory": changes.pop("memory", 0)}
    order = replace(BatchOrder(seed=3, epochs=1), **changes)
    return ask_ahead(reader, store, plan, order, **limits), plan.epoch(3, order.start_epoch)


def test_the_next_batches_are_asked_for_and_not_the_ones_after(store: Any) -> None:
    reader = Reader()
    thread, order = start(store, reader)
    assert thread is not None
    for number in range(AHEAD):
        assert eventually(partial(in_memory, store, order[number])), number
    assert share(store, order[AHEAD]) == 0
    touch(store, order[0])
    assert eventually(partial(in_memory, store, order[AHEAD]))
    assert share(store, order[AHEAD + 2]) == 0
    assert thread.is_alive()
    for rows in order:
        touch(store, rows)
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_pipeline_that_begins_in_the_middle_is_asked_for_from_there(store: Any) -> None:
    reader = Reader()
    _, order = start(store, reader, start_epoch=4, epochs=None, start_step=7)
    assert eventually(lambda: share(store, order[7]) == 1)
    assert share(store, order[6]) == 0


def test_when_the_reader_is_gone_nothing_more_is_asked_for(store: Any) -> None:
    reader = Reader()
    thread, _ = start(store, reader)
    assert thread is not None
    del reader
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_store_that_fits_into_memory_is_not_asked_for(store: Any) -> None:
    assert start(store, Reader(), memory=store.mel_data.nbytes)[0] is None
    assert start(store, Reader(), memory=store.mel_data.nbytes - 1)[0] is not None
    assert start(store, Reader(), memory=None)[0] is None


def test_a_store_that_was_read_into_memory_is_not_asked_for(store: Any) -> None:
    store.memory_map = False
    assert start(store, Reader())[0] is None


def test_a_file_that_cannot_be_asked_for_ends_in_one_line(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    store.mel_path.unlink()
    reader = Reader()
    thread, _ = start(store, reader)
    assert thread is not None
    thread.join(PATIENCE)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "pages are no longer asked for ahead"
    ]
