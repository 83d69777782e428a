"""A folder that a command fills over several runs: what it is to hold is written down first, and one run has it at a
time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from myxtts.errors import UsageError


def claim(folder: Path, file: str, description: Mapping[str, Any], what: str) -> None:
    """Makes the folder and writes its description, or finds the same description there.

    Args:
        folder: that is new, empty, or was claimed before.
        file: name of the description.
        description: the settings that decide what is in the folder, as JSON values.
        what: the folder holds then, such as `a corpus`.

    Raises:
        UsageError: the folder holds something else, or was claimed with other settings.
        OSError: it cannot be made or written to.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is a file; name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    if path.exists():
        try:
            existing = json.loads(path.read_text("utf-8"))
        except ValueError:
            existing = None
        if not isinstance(existing, dict):
            raise UsageError(f"{path}: is not the description of {what}; choose another folder")
        keys = [key for key in description if existing.get(key) != description[key]]
        if keys:
            changes = ", ".join(f"{key} {existing.get(key)} (now {description[key]})" for key in keys)
            raise UsageError(f"{folder}: holds {what} made with other settings: {changes}; choose another folder")
    elif any(folder.iterdir()):
        raise UsageError(f"{folder}: is not empty, and does not hold {what}; choose another folder")
    else:
        write_text(path, json.dumps(description, indent=2) + "\n")


@contextmanager
def locked(folder: Path, command: str) -> Iterator[None]:
    """Keeps other runs of the same command out of the folder.

    Raises:
        UsageError: another one is in it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder}: another {command} is writing to it") from None
        yield
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Writes a file in UTF-8 that appears whole, by rename."""
    part = path.with_name(f"{path.name}.part")
    with open(part, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
