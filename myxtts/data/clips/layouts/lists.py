"""Layouts whose clips are the lines of a table: LJSpeech and its relatives, piper, Common Voice, M-AILABS.

`metadata_file` reads all of them. What differs is where the table is, where the audio is, and, in piper's, what three
columns without a header row mean.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from myxtts.data.clips import Problem
from myxtts.data.clips.audio_files import AudioFolder, AudioTree, EscapingIdError, WrittenPaths, split_id
from myxtts.data.clips.layouts.layout import ClipRow, ClipSet, Folder, Layout, SetContent, choose_file
from myxtts.data.clips.metadata_file import MetadataFile, read_metadata_file
from myxtts.errors import DataError

DEFAULT_METADATA_FILE = "metadata.csv"
_LIST_SUFFIXES = (".csv", ".tsv", ".txt", ".psv", ".list", ".lst")
_MOST_LISTS = 32  # files that are looked at in a folder
_FIRST_BYTES = 1 << 16
_FIRST_ROWS = 20
_ROWS_FOR_SPEAKERS = 1000

_SPEAKER_COLUMNS = ("id", "speaker", "text")
# The one that holds the others comes first.
_COMMON_VOICE = ("validated.tsv", "train.tsv", "dev.tsv", "test.tsv", "other.tsv")
_BOOKS = "by_book"
_MOST_LANGUAGES = 32  # folders that are looked at
_LOCALE = re.compile(r"[a-z]{2,3}_[A-Z]{2}")


def _find_ljspeech(folder: Folder) -> Sequence[ClipSet]:
    if DEFAULT_METADATA_FILE in folder.files:
        return [open_list(folder, folder.join(DEFAULT_METADATA_FILE))]
    lists = [name for name in folder.files if name.casefold().endswith(_LIST_SUFFIXES)][:_MOST_LISTS]
    found = [open_list(folder, folder.join(name)) for name in lists if _names_audio(folder, folder.join(name))]
    return choose_file(folder, found)


def _find_piper(folder: Folder) -> Sequence[ClipSet]:
    path = folder.join(DEFAULT_METADATA_FILE)
    return [_open_piper(folder, path)] if os.path.isfile(path) else []


def open_list(folder: Folder, path: str) -> ClipSet:
    """A list in LJSpeech's columns, in those of its header row, or in piper's if the second column names speakers."""
    content = read_metadata_file(path)
    if _has_speakers(content):
        return folder.listed_set("piper", path, partial(_with_speakers, path, content))
    return folder.listed_set("ljspeech", path, partial(_as_rows, path, content))


def _open_piper(folder: Folder, path: str) -> ClipSet:
    return folder.listed_set("piper", path, lambda: _with_speakers(path, read_metadata_file(path)))


def _find_common_voice(folder: Folder) -> Sequence[ClipSet]:
    present = [name for name in _COMMON_VOICE if name in folder.files]
    for name in present:
        if _is_common_voice(folder.join(name)):
            return [_open_common_voice(folder, folder.join(name))]
    return []


def _open_common_voice(folder: Folder, path: str) -> ClipSet:
    return folder.listed_set("common-voice", path, partial(_read_list, path))


def _find_m_ailabs(folder: Folder, levels: int = 2) -> Sequence[ClipSet]:
    if _BOOKS in folder.folders:
        return _books(folder.folder(_BOOKS))
    below = [folder.folder(name) for name in folder.folders[:_MOST_LANGUAGES]] if levels else []
    return [book for one in below for book in _find_m_ailabs(one, levels - 1)]


def _books(books: Folder) -> list[ClipSet]:
    """The books below `by_book`: GENDER/SPEAKER/BOOK, or `mix`/BOOK where several people read."""
    found = []
    for gender in books.folders:
        for name in books.folder(gender).folders:
            place = books.folder(gender).folder(name)
            if DEFAULT_METADATA_FILE in place.files:
                found.append(_book(place, gender))
            else:
                found += [_book(place.folder(book), name) for book in place.folders if _is_book(place.folder(book))]
    return found


def _is_book(folder: Folder) -> bool:
    return DEFAULT_METADATA_FILE in folder.files


def _book(folder: Folder, speaker: str) -> ClipSet:
    path = folder.join(DEFAULT_METADATA_FILE)
    locales = [part for part in os.path.abspath(path).split(os.sep) if _LOCALE.fullmatch(part)]
    prefix = os.path.relpath(folder.path, folder.root).replace(os.sep, "/") + "/"
    found = folder.listed_set("m-ailabs", path, partial(_read_list, path))
    return replace(found, id_prefix=prefix, speaker=speaker, language=locales[-1] if locales else None)


def _read_list(path: str) -> SetContent:
    return _as_rows(path, read_metadata_file(path))


def _as_rows(path: str, content: MetadataFile) -> SetContent:
    rows = [ClipRow(path, line, cells) for line, cells in content.rows]
    return SetContent(rows, content.problems, content.notes)


def _with_speakers(path: str, content: MetadataFile) -> SetContent:
    """Lines of `id|speaker|text`, where they have three columns that no header row names."""
    if content.has_header or not any(len(cells) == len(_SPEAKER_COLUMNS) for _, cells in content.rows):
        return _as_rows(path, content)
    found = SetContent([], content.problems, content.notes)
    for line, cells in content.rows:
        if len(cells) == len(_SPEAKER_COLUMNS):
            named = dict(zip(_SPEAKER_COLUMNS, cells.values(), strict=True))
            found.rows.append(ClipRow(path, line, named))
        else:
            message = f"{len(cells)} columns where {len(_SPEAKER_COLUMNS)} are expected"
            found.problems.append(Problem("wrong-columns", message, path, line))
    return found


def _has_speakers(content: MetadataFile) -> bool:
    """Whether the second of three columns names speakers: single words, each with several texts of several words.

    `text|normalised text` does not look like this: a text has one normalised form, a speaker has many texts.
    """
    rows = [tuple(cells.values()) for _, cells in content.rows[:_ROWS_FOR_SPEAKERS]]
    pairs = {row[1:] for row in rows if len(row) == len(_SPEAKER_COLUMNS)}
    if content.has_header or not pairs or 10 * sum(len(row) != len(_SPEAKER_COLUMNS) for row in rows) > len(rows):
        return False
    names, texts = {name for name, _ in pairs}, {text for _, text in pairs}
    one_word = all(len(name.split()) == 1 for name in names)
    with_words = sum(len(text.split()) > 1 for text in texts)
    return one_word and 2 * with_words > len(texts) and len(pairs) >= 2 * len(names)


def _look_at(path: str) -> list[dict[str, str]]:
    """The first rows of what may be a list; none if it is not."""
    try:
        return [cells for _, cells in read_metadata_file(path, _FIRST_BYTES).rows]
    except DataError:
        return []


def _names_audio(folder: Folder, path: str) -> bool:
    """Whether the first rows of what may be a list name audio files that are there."""
    rows = _look_at(path)[:_FIRST_ROWS]
    if not rows:
        return False
    one = folder.listed_set("", path, SetContent)
    folders = [AudioFolder(place) for place in one.folders]
    tree = AudioTree(one.search_below) if one.search_below else None
    written = WrittenPaths(folders, folder.path)
    for cells in rows:
        name = cells.get("id") or cells.get("audio") or ""
        try:
            parts = split_id(name.replace("\\", "/"))
        except EscapingIdError:
            parts = ()
        if parts and (any(place.find(parts) for place in folders) or (tree is not None and tree.find(parts))):
            return True
        if "audio" in cells and written.find(name)[1]:
            return True
    return False


def _is_common_voice(path: str) -> bool:
    rows = _look_at(path) if path.endswith(".tsv") else []
    return bool(rows) and {"audio", "text", "speaker"} <= rows[0].keys()


LJSPEECH = Layout("ljspeech", "metadata.csv, or another list of id|text", _find_ljspeech, open_list)
PIPER = Layout("piper", "metadata.csv of id|speaker|text", _find_piper, _open_piper)
COMMON_VOICE = Layout(
    "common-voice",
    "validated.tsv with client_id, path and sentence",
    _find_common_voice,
    _open_common_voice,
    _is_common_voice,
)
M_AILABS = Layout("m-ailabs", "by_book/GENDER/SPEAKER/BOOK/metadata.csv", _find_m_ailabs)
