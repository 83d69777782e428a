"""Files of JSON lines in the run's folder: losses and step times.

Lines are buffered and written by `flush`. A run that was killed leaves at most its last line half written. A resumed
run first removes that line and everything after the batch it resumes from, so that each step is there once. If the
disk is full, lines are lost and the run goes on.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from myxtts.errors import TrainingError

logger = logging.getLogger(__name__)


class RecordFile:
    """Appends records to a file of JSON lines. Safe to use from several threads.

    Args:
        path: of the file; created if it does not exist.
        keep_until: for a resumed run, the last batch to keep: records with a larger `batch` are removed. None starts
            with an empty file.

    Raises:
        TrainingError: the file cannot be written.
    """

    def __init__(self, path: Path, keep_until: int | None = None) -> None:
        self.path = path
        kept = [] if keep_until is None else [one for one in read_records(path) if one.get("batch", 0) <= keep_until]
        temporary = path.with_name(path.name + ".new")
        try:
            temporary.write_text("".join(map(_line, kept)), encoding="utf-8")
            os.replace(temporary, path)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise TrainingError(f"{path}: cannot be written ({error.strerror})") from None
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._failed = False

    def write(self, record: Mapping[str, Any]) -> None:
        """Adds a record; its `batch` is the number of batches done."""
        with self._lock:
            self._lines.append(_line(record))

    def flush(self) -> None:
        """Writes the buffered lines. Lines that do not fit on the disk are lost, with one warning."""
        with self._lock:
            data = "".join(self._lines).encode()
            self._lines.clear()
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                if not self._failed:
                    logger.warning("%s: cannot be written (%s); training goes on", self.path, error.strerror)
                self._failed = True

    def close(self) -> None:
        self.flush()
        os.close(self._descriptor)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, without incomplete lines; none if there is no file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield record


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
