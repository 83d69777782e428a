"""Whether a store will fit on its disk, asked before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

from myxtts.data.store_folder import StorageError


def free_bytes(path: Path) -> int:
    """What this user may still write to the disk on which `path` is or would be."""
    while not path.exists() and path != path.parent:
        path = path.parent
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize


def require_space(path: Path, needed: int, spare: int = 0) -> None:
    """Makes sure that there is room.

    Args:
        path: where the store will be.
        needed: bytes it will take.
        spare: bytes that should be left over.

    Raises:
        StorageError: there is not; both numbers are in the message.
    """
    free = free_bytes(path)
    if needed + spare > free:
        left = f" and {readable_bytes(spare)} to spare" if spare else ""
        raise StorageError(
            f"{path}: the features need {readable_bytes(needed)}{left}, and the disk has "
            f"{readable_bytes(free)} free; make room, or choose another folder with --cache-dir"
        )


def readable_bytes(count: float) -> str:
    """A size as people read it: 1.2 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
