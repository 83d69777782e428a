"""Layouts with a text file for each clip: VCTK, LibriTTS, and any folders with a text beside each audio file.

The id of a clip is the path of its text from the data set's folder, in VCTK's from `txt/`, without suffix. So no two
clips share one. A problem is at line 1 of the text file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from unicodedata import normalize

from myxtts.data.clips import Problem, ProblemKind
from myxtts.data.clips.audio_files import by_preference, is_audio, walk_folders
from myxtts.data.clips.audio_headers import in_threads
from myxtts.data.clips.layouts.layout import ClipRow, ClipSet, Folder, Layout, SetContent
from myxtts.data.clips.text_lines import read_lines
from myxtts.errors import DataError
from myxtts.hardware import usable_cpus

_NORMALIZED = ".normalized.txt"
_BESIDE = (".txt", ".lab")
_TEXTS = "txt"
# VCTK was recorded with two microphones; not every speaker has the second.
_MICROPHONES = ("", "_mic1", "_mic2")
_ABOUT = {"readme", "license", "licence", "copying", "changelog", "changes", "notice", "authors", "speaker-info"}
_DEPTH = 4


def _find_vctk(folder: Folder) -> Sequence[ClipSet]:
    audio = _vctk_audio(folder)
    if audio is None or _TEXTS not in folder.folders:
        return []
    texts = folder.folder(_TEXTS).first(lambda place: any(name.endswith(".txt") for name in place.files), 1)
    if texts is None:
        return []
    return [ClipSet("vctk", folder.path, partial(_read_vctk, folder.join(_TEXTS), folder.join(audio)))]


def _vctk_audio(folder: Folder) -> str | None:
    """The folder of the audio; of several, the highest rate, silence trimmed."""
    named = [name for name in folder.folders if name.startswith(("wav", "audio", "flac"))]
    return max(named, key=lambda name: (name.startswith("wav48"), len(name), name), default=None)


def _read_vctk(texts: str, audio: str) -> SetContent:
    content = SetContent()
    found: list[tuple[str, str, str]] = []
    for folder, files in walk_folders(texts):
        inside = os.path.relpath(folder, texts)
        beside = _audio_by_stem(os.path.join(audio, inside))
        for name in files:
            if name.endswith(".txt"):
                stem = normalize("NFC", name[: -len(".txt")])
                recordings = [beside[stem + mic] for mic in _MICROPHONES if stem + mic in beside]
                clip_id = stem if inside == "." else f"{inside}/{stem}"
                found.append((clip_id, os.path.join(folder, name), recordings[0] if recordings else ""))
    _add_rows(content, found, lambda clip_id: clip_id.rpartition("/")[0].partition("/")[0])
    return content


def _find_libritts(folder: Folder) -> Sequence[ClipSet]:
    if not folder.first(lambda place: any(name.endswith(_NORMALIZED) for name in place.files), _DEPTH):
        return []
    return [ClipSet("libritts", folder.path, partial(_read_libritts, folder.path))]


def _read_libritts(root: str) -> SetContent:
    content = SetContent()
    _read_beside(content, root, (_NORMALIZED,), lambda clip_id: clip_id.rpartition("/")[2].partition("_")[0])
    return content


def _find_text_files(folder: Folder) -> Sequence[ClipSet]:
    if not folder.first(_has_texts_beside_audio, _DEPTH):
        return []
    return [ClipSet("text-files", folder.path, partial(_read_text_files, folder.path))]


def _has_texts_beside_audio(folder: Folder) -> bool:
    stems = {os.path.splitext(name)[0] for name in folder.files if is_audio(name)}
    return any(os.path.splitext(name)[0] in stems for name in folder.files if name.endswith(_BESIDE))


def _read_text_files(root: str) -> SetContent:
    content = SetContent()
    _read_beside(content, root, _BESIDE, lambda clip_id: "")
    return content


def _read_beside(content: SetContent, root: str, suffixes: Sequence[str], speaker_of: Callable[[str], str]) -> None:
    """Adds a row for each text with one of the suffixes, and problems for what has no partner."""
    found: list[tuple[str, str, str]] = []
    for folder, files in walk_folders(root):
        audio = _audio_by_stem(folder, files)
        if not audio and suffixes == _BESIDE:
            continue
        texts: dict[str, str] = {}
        for suffix in suffixes:
            for name in files:
                if name.endswith(suffix):
                    texts.setdefault(normalize("NFC", name[: -len(suffix)]), os.path.join(folder, name))
        inside = os.path.relpath(folder, root).replace(os.sep, "/")
        prefix = "" if inside == "." else f"{inside}/"
        for stem, path in sorted(texts.items()):
            if stem in audio or stem.casefold() not in _ABOUT:
                found.append((prefix + stem, path, audio.get(stem, "")))
        for stem in sorted(audio.keys() - texts.keys()):
            message = f"no text beside it: {stem}{suffixes[0]} is missing"
            content.problems.append(_problem("empty-text", message, audio[stem], prefix + stem))
    _add_rows(content, found, speaker_of)


def _add_rows(content: SetContent, found: Sequence[tuple[str, str, str]], speaker_of: Callable[[str], str]) -> None:
    """Reads the texts; of each clip its id, its text file and its audio file are given."""
    texts = in_threads(_read_text, [path for _, path, _ in found], usable_cpus())
    for (clip_id, path, audio), text in zip(found, texts, strict=True):
        if isinstance(text, Problem):
            content.problems.append(text)
            continue
        cells = {"id": normalize("NFC", clip_id), "text": text}
        speaker = speaker_of(clip_id)
        if speaker:
            cells["speaker"] = speaker
        if _is_text(clip_id):
            content.rows.append(ClipRow(path, 1, cells, audio))
        else:
            message = "the name of the file is not UTF-8; rename it"
            content.problems.append(_problem("undecodable-text", message, path))


def _read_text(path: str) -> str | Problem:
    """The lines of a text file as one text."""
    problems: list[Problem] = []
    try:
        lines = read_lines(path, problems)
    except DataError as error:
        return _problem("undecodable-text", str(error).removeprefix(f"{path}: "), path)
    return problems[0] if problems else " ".join(line.strip() for _, line in lines)


def _audio_by_stem(folder: str, files: Iterable[str] | None = None) -> dict[str, str]:
    """The audio files of a folder by name without suffix, in NFC; the one that an id would take."""
    if files is None:
        try:
            files = os.listdir(folder)
        except OSError:
            files = []
    names = by_preference([name for name in files if is_audio(name)])
    stems = {normalize("NFC", os.path.splitext(name)[0]): os.path.join(folder, name) for name in reversed(names)}
    return stems


def _problem(kind: ProblemKind, message: str, path: str, clip_id: str | None = None) -> Problem:
    shown = path if _is_text(path) else os.fsencode(path).decode("utf-8", "replace")
    return Problem(kind, message, shown, 1, clip_id if clip_id and _is_text(clip_id) else None)


def _is_text(name: str) -> bool:
    """Whether a name of the file system is text; what is not has lone surrogates in Python."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


VCTK = Layout("vctk", "txt/SPEAKER/*.txt with wav48*/SPEAKER/", _find_vctk)
LIBRITTS = Layout("libritts", "*.normalized.txt beside the audio", _find_libritts)
TEXT_FILES = Layout("text-files", "a .txt or .lab beside each audio file", _find_text_files)
