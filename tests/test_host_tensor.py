"""Arrays as tensors that are not copied, however large they are and whatever reads them."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.batches.host_tensor import HostTensor
from myxtts.data.store.allocation import ALIGNMENT, aligned_bytes

ROWS = 10_000_000  # of 160 bytes

# In a process of its own: the most memory a process ever had is not forgotten.
LOAD_FROM_A_LARGE_FILE = """
import sys
from pathlib import Path
import numpy as np
import tensorflow as tf
from myxtts.data.batches.host_tensor import HostTensor

def most_memory():
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

held = HostTensor(np.memmap(sys.argv[1], np.float16, "r").view(np.ndarray).reshape(-1, 80))
dataset = tf.data.Dataset.range(8).map(lambda row: tf.gather(held.tensor(), [row, row + 1]), num_parallel_calls=2)
dataset = dataset.prefetch(2)
list(tf.data.Dataset.range(8).map(lambda row: row + 1, num_parallel_calls=2).prefetch(2))
before = most_memory()
for _ in range(2):
    assert len(list(dataset)) == 8
print(most_memory() - before)
"""


def mapped(path: Path, rows: int) -> np.ndarray:
    np.arange(80 * rows, dtype=np.float16).tofile(path)
    return np.memmap(path, np.float16, "r").view(np.ndarray).reshape(-1, 80)


def is_mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_pipeline_reads_the_rows_of_a_mapped_file(tmp_path: Path) -> None:
    array = mapped(tmp_path / "rows.bin", 20)
    held = HostTensor(array)
    dataset = tf.data.Dataset.range(20).map(lambda row: tf.gather(held.tensor(), row), num_parallel_calls=2)
    assert np.array_equal([row.numpy() for row in dataset], array)


def test_a_large_file_costs_no_memory_and_is_not_read_whole(tmp_path: Path, python_with_tensorflow: str) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(160 * ROWS)  # a hole: no disk space
    command = [python_with_tensorflow, "-c", LOAD_FROM_A_LARGE_FILE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 160 * ROWS / 1024 / 10


def test_the_file_is_mapped_for_as_long_as_somebody_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.bin"
    iterator = iter(pipeline(path))
    gc.collect()
    assert is_mapped(path)
    assert next(iterator).numpy()[1] == 1
    del iterator
    gc.collect()
    assert not is_mapped(path)


def pipeline(path: Path) -> tf.data.Dataset:
    held = HostTensor(mapped(path, 20))
    return tf.data.Dataset.range(20).map(lambda row: tf.gather(held.tensor(), row))


@pytest.mark.parametrize("shift", [0, 4])
def test_memory_of_the_process_is_taken_as_it_is_if_it_is_aligned(shift: int) -> None:
    array = aligned_bytes(4096)[shift:].view(np.int32)
    array[:] = 7
    held = HostTensor(array)
    assert (held.tensor().numpy() == 7).all()
    array[0] = 8
    assert (held.tensor().numpy()[0] == 8) == (shift == 0)


@pytest.mark.parametrize("size", [1, 1000])
def test_aligned_bytes_are_aligned(size: int) -> None:
    content = aligned_bytes(size)
    assert content.shape == (size,)
    assert content.ctypes.data % ALIGNMENT == 0
