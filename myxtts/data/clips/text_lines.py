"""Text files that strangers wrote: from bytes to numbered lines, whatever program saved them.

UTF-8 with or without a byte order mark, and UTF-16 with one, as some Windows programs save; lines end as on any
system. A file whose name ends in `.gz` is decompressed.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from pathlib import Path

from myxtts.data.clips import Problem
from myxtts.errors import DataError


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
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            data = _as_utf8(path, data[len(mark) :], encoding, cut)
    found = data.removeprefix(codecs.BOM_UTF8).splitlines()
    lines = []
    for number, raw in enumerate(found[:-1] if cut and len(found) > 1 else found, start=1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
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


def _as_utf8(path: str, data: bytes, encoding: str, cut: bool) -> bytes:
    try:
        # Half a character at the end belongs to the cut.
        return codecs.getincrementaldecoder(encoding)().decode(data, final=not cut).encode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not whole UTF-16, wrong at byte {error.start + 3:,}; save it as UTF-8") from None
