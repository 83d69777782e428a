"""One metadata file: from bytes to rows of named cells.

The file is text in UTF-8 with one clip a line and `|` between columns: `id|text`, `id|text|normalised`, or
any columns named by a header row. It is not CSV: a quote is a quote, and a `|` cannot be part of a text.

Nothing in a file raises anything but `DataError`, and that only where all its lines are meaningless. A line
that cannot be used by itself becomes a `Problem`. What the cells mean is for `metadata` to say.
"""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.data.clips import Problem
from myxtts.errors import DataError

# Names a header row may use, and the column each one means.
COLUMN_NAMES = {
    "id": "id",
    "audio_file": "id",
    "text": "text",
    "normalized_text": "normalized_text",
    "normalised_text": "normalized_text",
    "speaker": "speaker",
    "speaker_name": "speaker",
    "language": "language",
    "ipa": "ipa",
    "phonemes": "ipa",
}
COLUMNS_WITHOUT_HEADER = ["id", "text", "normalized_text"]


@dataclass(frozen=True)
class MetadataFile:
    """What a metadata file says.

    Attributes:
        rows: line number (from 1) and cells by column, without the white space around them.
        problems: one for each line that is not a row.
        notes: what a person may want to know about the file.
    """

    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_metadata_file(path: str) -> MetadataFile:
    """Reads one file.

    Raises:
        DataError: the file cannot be read, is UTF-16, has no `|`, or has a header that cannot be used.
    """
    content = MetadataFile()
    lines = _split_lines(path, content.problems)
    if not lines:
        return content
    if not any(len(cells) > 1 for _, cells in lines):
        raise DataError(
            f"{path}:{lines[0][0]}: no line has a '|', which separates the columns of metadata, as in id|text"
        )
    first_line, first_cells = lines[0]
    if {"id", "audio_file"} & {cell.casefold() for cell in first_cells}:
        columns = _read_header(path, first_line, first_cells, content.notes)
        widths = {len(columns)}
        lines = lines[1:]
    else:
        columns = COLUMNS_WITHOUT_HEADER
        # A file is of one form. A third cell among lines of `id|text` is a pipe in the text and not a
        # normalised text; where a normalised text is missing here and there, the text itself is meant.
        count = Counter(len(cells) for _, cells in lines)
        width = count.most_common(1)[0][0]
        if width > len(columns):
            raise DataError(
                f"{path}:{first_line}: most lines have {width} columns; more than {len(columns)} need a "
                "header row that names them, such as id|text|speaker|language"
            )
        widths = {2} if count[2] > count[3] else {2, 3}
    for line, cells in lines:
        if len(cells) in widths:
            content.rows.append((line, dict(zip(columns, cells, strict=False))))
        else:
            content.problems.append(_wrong_width(path, line, len(cells), widths))
    return content


def _split_lines(path: str, problems: list[Problem]) -> list[tuple[int, list[str]]]:
    """The cells of the lines that are not blank; a line that is not UTF-8 is a problem."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{path}: is UTF-16; save it as UTF-8")
    lines = []
    for number, raw in enumerate(data.removeprefix(codecs.BOM_UTF8).splitlines(), start=1):
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"not UTF-8: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line"
            problems.append(Problem("undecodable-text", message, path, number))
            continue
        if text.strip():
            lines.append((number, [cell.strip() for cell in text.split("|")]))
    return lines


def _read_header(path: str, line: int, header: Sequence[str], notes: list[str]) -> list[str]:
    columns = [COLUMN_NAMES.get(name.casefold(), "") for name in header]
    unused = [name for name, column in zip(header, columns, strict=True) if not column]
    if unused:
        notes.append(f"{path}:{line}: nothing reads the column {', '.join(map(repr, unused))}")
    twice = sorted(name for name, times in Counter(columns).items() if name and times > 1)
    if twice:
        raise DataError(f"{path}:{line}: the header names the column '{twice[0]}' more than once")
    if not {"text", "normalized_text", "ipa"} & set(columns):
        raise DataError(f"{path}:{line}: the header has no column 'text'; it names {', '.join(map(repr, header))}")
    return columns


def _wrong_width(path: str, line: int, cells: int, widths: set[int]) -> Problem:
    counted = f"{cells} column{'s' * (cells != 1)} where {' or '.join(map(str, sorted(widths)))} are expected"
    if cells > max(widths):
        message = f"{counted}: a '|' inside the text? It separates columns and cannot be part of one"
        return Problem("pipe-in-text", message, path, line)
    return Problem("wrong-columns", counted, path, line)
