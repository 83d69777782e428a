"""Layouts whose clips are lines of JSON: NeMo's manifests, and lhotse's cuts or supervisions with recordings.

A line may name a part of a longer recording, which is then a clip of its own. Paths are looked for as `WrittenPaths`
says, since most manifests hold those of the machine that wrote them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from myxtts.data.clips import Problem
from myxtts.data.clips.layouts.layout import ClipRow, ClipSet, Folder, Layout, SetContent, choose_file
from myxtts.data.clips.text_lines import read_lines
from myxtts.errors import DataError

_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_MOST_FILES = 64
_FIRST_BYTES = 1 << 20
# lhotse's recipes write some languages out.
_LANGUAGE_NAMES = {
    "english": "en", "spanish": "es", "french": "fr", "german": "de", "italian": "it", "portuguese": "pt",
    "polish": "pl", "turkish": "tr", "russian": "ru", "dutch": "nl", "czech": "cs", "arabic": "ar", "chinese": "zh",
    "mandarin": "zh", "japanese": "ja", "hungarian": "hu", "korean": "ko", "persian": "fa", "farsi": "fa",
}  # fmt: skip

_Entry = Mapping[str, Any]


class _WrongEntry(ValueError):
    """A line of JSON that is not a clip; says why."""


def _find_nemo(folder: Folder) -> Sequence[ClipSet]:
    listed = [path for path in _manifests(folder) if _is_nemo(path)]
    return choose_file(folder, [_open_nemo(folder, path) for path in listed])


def _is_nemo(path: str) -> bool:
    return "audio_filepath" in _first_entry(path)


def _open_nemo(folder: Folder, path: str) -> ClipSet:
    return folder.listed_set("nemo", path, partial(_read, path, _nemo_rows))


def _find_lhotse(folder: Folder) -> Sequence[ClipSet]:
    listed = [path for path in _manifests(folder) if _is_lhotse(path)]
    # Cuts are made of supervisions: where both are there, they are the same clips.
    cuts = [path for path in listed if "supervisions" in _first_entry(path)]
    return choose_file(folder, [_open_lhotse(folder, path) for path in cuts or listed])


def _is_lhotse(path: str) -> bool:
    entry = _first_entry(path)
    return "supervisions" in entry or "recording_id" in entry


def _open_lhotse(folder: Folder, path: str) -> ClipSet:
    return folder.listed_set("lhotse", path, partial(_read_lhotse, path))


def _manifests(folder: Folder) -> list[str]:
    """The files of a folder that may be lines of JSON."""
    return [folder.join(name) for name in folder.files if name.casefold().endswith(_SUFFIXES)][:_MOST_FILES]


def _first_entry(path: str) -> _Entry:
    """The first line of what may be a manifest; nothing if it is not."""
    if not path.casefold().endswith(_SUFFIXES):
        return {}
    try:
        lines = read_lines(path, [], _FIRST_BYTES)
        return _parse(lines[0][1]) if lines else {}
    except (DataError, _WrongEntry):
        return {}


def _read(path: str, rows_of: Callable[[str, int, _Entry], Iterator[ClipRow]]) -> SetContent:
    content = SetContent()
    for number, line in read_lines(path, content.problems):
        try:
            content.rows.extend(list(rows_of(path, number, _parse(line))))
        except _WrongEntry as error:
            content.problems.append(Problem("wrong-columns", str(error), path, number))
    return content


def _nemo_rows(path: str, number: int, entry: _Entry) -> Iterator[ClipRow]:
    """The clip of a NeMo entry: `audio_filepath`, `text`, and if it is a part of the file `offset` and `duration`."""
    cells = _cells(entry, {"audio": ("audio_filepath",), "speaker": ("speaker", "speaker_id")})
    if not cells.get("audio"):
        raise _WrongEntry("no 'audio_filepath'")
    start, duration = _seconds(entry, "offset") or 0.0, _seconds(entry, "duration")
    if start and duration is None:
        raise _WrongEntry("an 'offset' needs a 'duration'")
    yield ClipRow(path, number, cells, start=start, duration=duration)


def _read_lhotse(path: str) -> SetContent:
    recordings, problems = _recordings_beside(path)
    content = _read(path, partial(_lhotse_rows, recordings))
    content.problems.extend(problems)
    return content


def _lhotse_rows(recordings: Mapping[str, _Entry], path: str, number: int, entry: _Entry) -> Iterator[ClipRow]:
    """The clips of a cut, one for each supervision, or the clip of a supervision."""
    if "supervisions" not in entry:
        yield _lhotse_row(path, number, entry, _recording_of(entry, recordings), 0.0)
        return
    supervisions = entry["supervisions"]
    if not isinstance(supervisions, list) or not all(isinstance(one, dict) for one in supervisions):
        raise _WrongEntry("'supervisions' is not a list of objects")
    if entry.get("tracks"):
        raise _WrongEntry("a mixed cut; save its audio first, with lhotse's save_audios")
    recording = entry.get("recording")
    if not isinstance(recording, dict):
        recording = _recording_of(supervisions[0] if supervisions else entry, recordings)
    for one in supervisions:
        yield _lhotse_row(path, number, one, recording, _seconds(entry, "start") or 0.0)


def _lhotse_row(path: str, number: int, entry: _Entry, recording: _Entry, cut_start: float) -> ClipRow:
    cells = _cells(entry, {"id": ("id",), "speaker": ("speaker",)})
    custom = entry.get("custom")
    if isinstance(custom, dict) and "normalized_text" not in cells:
        cells |= _cells(custom, {"normalized_text": ("normalized_text",)})
    cells["audio"] = _source_of(recording, entry)
    start = cut_start + (_seconds(entry, "start", below_zero=True) or 0.0)
    return ClipRow(path, number, cells, start=max(start, 0.0), duration=_seconds(entry, "duration"))


def _source_of(recording: _Entry, supervision: _Entry) -> str:
    """The path of a recording's audio file, if all of it is what the supervision means."""
    sources = recording.get("sources")
    if not isinstance(sources, list) or len(sources) != 1 or not isinstance(sources[0], dict):
        raise _WrongEntry("the recording has not exactly one source")
    source = sources[0]
    if source.get("type") != "file" or not isinstance(source.get("source"), str):
        raise _WrongEntry(f"the recording's source is of type {str(source.get('type'))[:20]!r}, not 'file'")
    channels = source.get("channels")
    if isinstance(channels, list) and len(channels) > 1 and isinstance(supervision.get("channel"), int):
        raise _WrongEntry(f"one channel of a recording with {len(channels)}; save it as a file of its own first")
    changes = recording.get("transforms") or []
    names = [change.get("name") if isinstance(change, dict) else change for change in changes]
    if set(map(str, names)) - {"Resample"}:
        raise _WrongEntry("the recording is changed when it is read ('transforms'); save its audio first")
    return str(source["source"])


def _recording_of(entry: _Entry, recordings: Mapping[str, _Entry]) -> _Entry:
    name = entry.get("recording_id")
    if not isinstance(name, str) or name not in recordings:
        raise _WrongEntry(f"no recording {str(name)[:60]!r} in the recordings beside this file")
    return recordings[name]


def _recordings_beside(path: str) -> tuple[dict[str, _Entry], list[Problem]]:
    """The recordings by id that belong to a file of supervisions or cuts, which has a name like theirs."""
    folder, name = os.path.split(path)
    other = next((name.replace(word, "recordings") for word in ("supervisions", "cuts") if word in name), None)
    beside = os.path.join(folder, other or "recordings.jsonl.gz")
    choices = [beside, beside.removesuffix(".gz"), f"{beside}.gz"]
    found = next((choice for choice in choices if os.path.isfile(choice)), None)
    if found is None or found == path:
        return {}, []
    problems: list[Problem] = []
    recordings: dict[str, _Entry] = {}
    for number, line in read_lines(found, problems):
        try:
            entry = _parse(line)
        except _WrongEntry as error:
            problems.append(Problem("wrong-columns", str(error), found, number))
            continue
        recordings[str(entry.get("id"))] = entry
    return recordings, problems


def _parse(line: str) -> _Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too long"
        raise _WrongEntry(f"the line is not JSON: {reason}") from None
    if not isinstance(entry, dict):
        raise _WrongEntry("the line is not a JSON object")
    return entry


def _cells(entry: _Entry, names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The texts of an entry: those named, what is said, and the language."""
    wanted = {
        "text": ("text",),
        "normalized_text": ("normalized_text",),
        "language": ("language", "lang"),
        **names,
    }
    cells: dict[str, str] = {}
    for column, keys in wanted.items():
        value = next((entry[key] for key in keys if entry.get(key) is not None), None)
        if value is None:
            continue
        if isinstance(value, int) and not isinstance(value, bool) and column in ("speaker", "id"):
            value = str(value)
        if not isinstance(value, str):
            raise _WrongEntry(f"'{keys[0]}' is not text")
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise _WrongEntry(f"'{keys[0]}' has half of a character")
        cells[column] = value.strip()
    if "language" in cells:
        cells["language"] = _LANGUAGE_NAMES.get(cells["language"].casefold(), cells["language"])
    return cells


def _seconds(entry: _Entry, key: str, below_zero: bool = False) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _WrongEntry(f"'{key}' is not a number of seconds")
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or (seconds < 0 and not below_zero):
        raise _WrongEntry(f"'{key}' is not a number of seconds")
    return seconds


NEMO = Layout("nemo", "*.jsonl or *.json with audio_filepath", _find_nemo, _open_nemo, _is_nemo)
LHOTSE = Layout(
    "lhotse",
    "cuts*.jsonl.gz, or supervisions*.jsonl.gz with recordings",
    _find_lhotse,
    _open_lhotse,
    _is_lhotse,
)
