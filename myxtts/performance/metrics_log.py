"""A file of readings: a line each, as CSV or as JSON, by the file's suffix."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts.errors import UsageError

logger = logging.getLogger(__name__)

CSV = ".csv"
JSON_LINES = (".jsonl", ".ndjson")
_DIGITS = 3


class MetricsLog:
    """Appends readings, each written at once. An existing file is continued.

    Args:
        path: ends in .csv, .jsonl or .ndjson.
        columns: the names that every reading has, in order.

    Raises:
        UsageError: another suffix, a file that cannot be written, or a CSV file with other columns.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self._columns = list(columns)
        self._failed = False
        require_log_suffix(path)
        self._csv = path.suffix.lower() == CSV
        header = _csv_line(self._columns)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+", encoding="utf-8", newline="")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path}: cannot be written ({error.strerror})") from None
        self._file.seek(0)
        first = self._file.readline()
        if self._csv and first and first != header:
            self._file.close()
            raise UsageError(f"{path}: has other columns than this machine and run; choose another file")
        if self._csv and not first:
            self._write(header)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, values: Mapping[str, float | None], more: Mapping[str, Any] | None = None) -> None:
        """Adds a reading: a number or None for each column, and what only JSON has room for, such as lists."""
        given = ((name, values[name]) for name in self._columns)
        rounded = {name: None if value is None else round(value, _DIGITS) for name, value in given}
        if self._csv:
            self._write(_csv_line(["" if value is None else value for value in rounded.values()]))
        else:
            self._write(json.dumps(rounded | dict(more or {}), ensure_ascii=False) + "\n")

    def _write(self, line: str) -> None:
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            if not self._failed:
                logger.warning("%s: cannot be written (%s); monitoring goes on", self.path, error.strerror)
            self._failed = True


def require_log_suffix(path: Path) -> None:
    """Refuses a file name that does not say which format is meant."""
    if path.suffix.lower() not in (CSV, *JSON_LINES):
        raise UsageError(f"{path}: should end in .csv or .jsonl, which says how it is written")


def _csv_line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
