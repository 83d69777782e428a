"""One metadata file: from bytes to rows of named cells.

The file is text with one clip a line and `|` between columns: `id|text`, `id|text|normalised`, or any columns named
by a header row. It is not CSV: a quote is a quote, and a `|` cannot be part of a text.

Where the first line has no `|`, tabs may separate the columns instead, or, under a header row, commas or semicolons
as in CSV, where quotes enclose a cell. A cell that goes on in the next line is not read.

Nothing in a file raises anything but `DataError`, and that only where all its lines are meaningless. A line
that cannot be used by itself becomes a `Problem`. What the cells mean is for `metadata` to say.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from myxtts.data.clips import Problem
from myxtts.data.clips.text_lines import read_lines
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
# Names in a header row without `id` and `audio_file`: those of Common Voice, and what tables of audio are made with.
OTHER_COLUMN_NAMES = {name: column for name, column in COLUMN_NAMES.items() if column != "id"} | {
    "path": "audio",
    "audio": "audio",
    "audio_path": "audio",
    "audio_filepath": "audio",
    "file": "audio",
    "filename": "audio",
    "file_name": "audio",
    "wav": "audio",
    "wav_path": "audio",
    "sentence": "text",
    "transcript": "text",
    "transcription": "text",
    "speaker_id": "speaker",
    "client_id": "speaker",
    "locale": "language",
    "lang": "language",
}
COLUMNS_WITHOUT_HEADER = ("id", "text", "normalized_text")
TEXT_COLUMNS = {"text", "normalized_text", "ipa"}


@dataclass(frozen=True)
class MetadataFile:
    """What a metadata file says.

    Attributes:
        rows: line number (from 1) and cells by column, without the white space around them.
        problems: one for each line that is not a row.
        notes: what a person may want to know about the file.
        has_header: its first line names the columns.
    """

    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    has_header: bool = False


def read_metadata_file(path: str, first_bytes: int | None = None) -> MetadataFile:
    """Reads one file.

    Args:
        path: of the file.
        first_bytes: look only at the beginning of the file.

    Raises:
        DataError: the file cannot be read, has no separator, or has a header that cannot be used.
    """
    content = MetadataFile()
    separator, lines = _split_lines(path, content.problems, first_bytes)
    if not lines:
        return content
    if not any(len(cells) > 1 for _, cells in lines):
        raise DataError(
            f"{path}:{lines[0][0]}: no line has a '|', which separates the columns of metadata, as in id|text"
        )
    first_line, first_cells = lines[0]
    names = header_names(first_cells)
    if names:
        columns: Sequence[str] = _read_header(path, first_line, first_cells, names, content.notes)
        content = replace(content, has_header=True)
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
            content.problems.append(_wrong_width(path, line, len(cells), widths, separator))
    return content


def header_names(cells: Sequence[str]) -> Mapping[str, str]:
    """What the names in a header row mean; nothing if these are the cells of a clip."""
    written = {cell.casefold() for cell in cells}
    if {"id", "audio_file"} & written:
        return COLUMN_NAMES
    columns = {OTHER_COLUMN_NAMES.get(name) for name in written}
    return OTHER_COLUMN_NAMES if "audio" in columns and columns & TEXT_COLUMNS else {}


def _split_lines(
    path: str, problems: list[Problem], first_bytes: int | None
) -> tuple[str, list[tuple[int, list[str]]]]:
    """What separates the columns, and the cells of the lines; a line that cannot be decoded is a problem."""
    lines = read_lines(path, problems, first_bytes)
    separator = _separator([line for _, line in lines])
    return separator, [(number, [cell.strip() for cell in _cells(line, separator)]) for number, line in lines]


def _separator(lines: Sequence[str]) -> str:
    if not lines or "|" in lines[0]:
        return "|"
    for separator in "\t,;":
        if header_names([cell.strip() for cell in _cells(lines[0], separator)]):
            return separator
    # A text has commas, too; without a header row there is no telling.
    return "\t" if "\t" in lines[0] and not any("|" in line for line in lines) else "|"


def _cells(line: str, separator: str) -> list[str]:
    if separator in "|\t":
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [""])
    except csv.Error:
        return [line]


def _read_header(
    path: str, line: int, header: Sequence[str], names: Mapping[str, str], notes: list[str]
) -> list[str]:
    columns = [names.get(name.casefold(), "") for name in header]
    unused = [name for name, column in zip(header, columns, strict=True) if not column]
    if unused:
        notes.append(f"{path}:{line}: nothing reads the column {', '.join(map(repr, unused))}")
    twice = sorted(name for name, times in Counter(columns).items() if name and times > 1)
    if twice:
        raise DataError(f"{path}:{line}: the header names the column '{twice[0]}' more than once")
    if not TEXT_COLUMNS & set(columns):
        raise DataError(f"{path}:{line}: the header has no column 'text'; it names {', '.join(map(repr, header))}")
    return columns


def _wrong_width(path: str, line: int, cells: int, widths: set[int], separator: str) -> Problem:
    counted = f"{cells} column{'s' * (cells != 1)} where {' or '.join(map(str, sorted(widths)))} are expected"
    if cells > max(widths):
        cannot = "cannot be part of one" if separator in "|\t" else "is part of one only inside quotes"
        name = "tab" if separator == "\t" else f"'{separator}'"
        message = f"{counted}: a {name} inside the text? It separates columns and {cannot}"
        return Problem("pipe-in-text", message, path, line)
    return Problem("wrong-columns", counted, path, line)
