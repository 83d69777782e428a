"""Keeps what XLA has compiled, so that a run that is resumed, or another with the same model, need not compile again.

TensorFlow writes and reads the programs itself; where, has to be said before it is imported. A program belongs to the
processor, the GPUs and the version of TensorFlow that it was compiled with, so each of these has a folder of its own:
a home folder may be shared by machines. What makes a program another one (its graph, its shapes) is in the names of
TensorFlow's files. A file that breaks off, as after a power cut, would end every run that reads it, and its error is
the one of data that end; such files are deleted at the start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from importlib import metadata
from pathlib import Path
from typing import BinaryIO

import xxhash

from myxtts import hardware
from myxtts.data.store.target import user_cache_folder

PROGRAMS = "*.pb"
FLAGS = "TF_XLA_FLAGS"
OPTION = "--tf_xla_persistent_cache_directory"
MOST_BYTES = 2 << 30  # some 200 models with six shapes each
LEAST_FREE_BYTES = 1 << 30  # a program that cannot be written would end the run
_BYTES_OF_KIND = {1: 8, 5: 4}  # of fields of a fixed size


def use_compilation_cache(folder: Path | None = None) -> Path | None:
    """Has TensorFlow keep what it compiles, if it has not been imported yet.

    Files that are not whole are deleted, and where there are too many, the oldest.

    Args:
        folder: for the programs of all machines; by default `compiled` in the user's cache.

    Returns:
        The folder for this machine; None if nothing is kept: the user has set a folder of TensorFlow's, the place
        cannot be written, or the disk is nearly full.
    """
    flags = os.environ.get(FLAGS, "")
    if OPTION in flags:
        return None
    here = (folder or user_cache_folder("compiled")) / _machine()
    try:
        here.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(here, os.W_OK) or shutil.disk_usage(here).free < LEAST_FREE_BYTES:
            return None
    except OSError:
        return None
    for path in here.glob(PROGRAMS):
        with contextlib.suppress(OSError):
            if not is_whole(path):
                path.unlink()
    delete_oldest(here.parent, MOST_BYTES)
    os.environ[FLAGS] = f"{flags} {OPTION}={here}".strip()
    return here


def delete_oldest(folder: Path, most_bytes: int) -> None:
    """Deletes the oldest files below a folder until the others take at most so many bytes."""
    files = []
    for path in folder.glob(f"*/{PROGRAMS}"):
        with contextlib.suppress(OSError):  # another process may be deleting too
            found = path.stat()
            files.append((found.st_mtime, found.st_size, path))
    taken = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if taken <= most_bytes:
            break
        path.unlink(missing_ok=True)
        taken -= size


def is_whole(path: Path) -> bool:
    """Whether the fields of a serialised protocol buffer end where the file ends."""
    size = path.stat().st_size
    with open(path, "rb") as file, contextlib.suppress(EOFError):
        while file.tell() < size:
            kind = _varint(file) & 7
            if kind == 0:
                _varint(file)
            elif kind in _BYTES_OF_KIND:
                file.seek(_BYTES_OF_KIND[kind], os.SEEK_CUR)
            elif kind == 2:
                file.seek(_varint(file), os.SEEK_CUR)
            else:
                return False
        return file.tell() == size > 0
    return False


def _varint(file: BinaryIO) -> int:
    """A number of seven bits a byte, the lowest first; the last byte is below 128."""
    value = 0
    for position, byte in enumerate(iter(lambda: file.read(1), b"")):
        value |= (byte[0] & 127) << 7 * position
        if byte[0] < 128:
            return value
    raise EOFError


def _machine() -> str:
    """A name for all that a compiled program depends on beside itself."""
    processors = [hardware.cpu_features(), *(gpu.name for gpu in hardware.gpus())]
    # A program is divided among as many threads as there are when it is compiled.
    threads = [hardware.usable_cpus(), os.environ.get("TF_NUM_INTRAOP_THREADS")]
    compiler = [_version_of_tensorflow(), os.environ.get("XLA_FLAGS")]
    return xxhash.xxh3_64_hexdigest(repr((processors, threads, compiler)).encode())


def _version_of_tensorflow() -> str:
    """Without importing it."""
    return next((one.version for one in metadata.distributions(name="tensorflow")), "")
