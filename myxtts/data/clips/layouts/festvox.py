"""festvox: lines of `( id "text" )` in `etc/txt.done.data`, audio in `wav/`. CMU ARCTIC is the best known."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial

from myxtts.data.clips import Problem
from myxtts.data.clips.layouts.layout import ClipRow, ClipSet, Folder, Layout, SetContent
from myxtts.data.clips.text_lines import read_lines

_FILE = "txt.done.data"
_LINE = re.compile(r'\s*\(\s*([^\s"()]+)\s+"((?:[^"\\]|\\.)*)"\s*\)?\s*')
_ESCAPE = re.compile(r"\\(.)")


def _find(folder: Folder) -> Sequence[ClipSet]:
    for place in (folder.folder("etc"), folder):
        if _FILE in place.files:
            return [_open(folder, place.join(_FILE))]
    return []


def _recognises(path: str) -> bool:
    return os.path.basename(path) == _FILE


def _open(folder: Folder, path: str) -> ClipSet:
    return folder.listed_set("festvox", path, partial(_read, path))


def _read(path: str) -> SetContent:
    content = SetContent()
    for number, line in read_lines(path, content.problems):
        match = _LINE.fullmatch(line)
        if match:
            text = _ESCAPE.sub(r"\1", match[2]).strip()
            content.rows.append(ClipRow(path, number, {"id": match[1], "text": text}))
        elif not line.lstrip().startswith(";"):  # a comment
            message = 'the line is not of the form ( id "text" )'
            content.problems.append(Problem("wrong-columns", message, path, number))
    return content


FESTVOX = Layout("festvox", "etc/txt.done.data", _find, _open, _recognises)
