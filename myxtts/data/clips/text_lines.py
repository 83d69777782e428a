"""Text files that strangers wrote: from bytes to numbered lines, whatever program saved them.

UTF-8 with or without a byte order mark, and UTF-16 with one, as some Windows programs save; lines end as on any
system. A file whose name ends in `.gz` is decompressed.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from myxtts.data.clips import Problem
from myxtts.errors import DataError
from myxtts.text.encoding import as_utf8


def read_lines(path: str, problems: list[Problem], first_bytes: int | None = None) -> list[tuple[int, str]]:
    """The lines that are not blank, each with its number from 1.

    Args:
        path: of the file.
        problems: gets one for each line that cannot be decoded.
        first_bytes: look only at the beginning of the file, to see what it is; the last line may then be cut off, and
            is left out.

    Raises:
        DataError: the file cannot be read, or is UTF-16 and damaged.
    """
    data = _read(path, -1 if first_bytes is None else first_bytes)
    cut = first_bytes is not None and len(data) == first_bytes
    try:
        found = as_utf8(data, cut).splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not whole UTF-16, wrong at byte {error.start + 1:,}; save it as UTF-8") from None
    lines = []
    for number, raw in enumerate(found[:-1] if cut and len(found) > 1 else found, start=1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
            message = f"not UTF-8: {where}; save the file as UTF-8"
            problems.append(Problem("undecodable-text", message, path, number))
            continue
        if text.strip():
            lines.append((number, text))
    return lines


def _read(path: str, size: int) -> bytes:
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else Path(path).open("rb") as file:
            return file.read(size)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise DataError(f"{path}: is not a whole gzip file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
