"""When each written word is spoken, and files that say so: JSON, SubRip (SRT) and WebVTT."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from myxtts.errors import UsageError

_FRAMES_BETWEEN_WORDS = 3  # a blank, a space, a blank

# A cue is what is shown at once: two lines that can be read in a few seconds.
_LINE = 42  # characters
_LONGEST_CUE = 2 * _LINE
_LONGEST_SECONDS = 7.0
_SHORTEST_SECONDS = 1.0
# Seconds of silence that end a cue, anywhere and after the end of a sentence; the stop of "Dr." has less.
_GAP = 0.6
_SENTENCE_GAP = 0.12
_SENTENCE_ENDS = ".!?…؟۔।。！？"
_CLAUSE_ENDS = ",;:—–،؛、，；："
_CLOSING = "\"'”’»›)]」』）"


@dataclass(frozen=True)
class WordTime:
    """A written word, and when it is spoken.

    Attributes:
        text: as written, without the punctuation around it; a character, where a language has no word breaks.
        start: seconds from the start of the whole audio.
        end: likewise.
        first: place of its first character in the text that was given, markup included.
        last: place after its last one.
    """

    text: str
    start: float
    end: float
    first: int
    last: int


@dataclass(frozen=True)
class Cue:
    """Words that are shown together.

    Attributes:
        text: as written, in one line.
        start: seconds from the start of the audio.
        end: likewise.
    """

    text: str
    start: float
    end: float


def spoken_frames(owners: np.ndarray, alignment: np.ndarray) -> dict[int, tuple[int, int]]:
    """The frames of each word: from its first one, up to and not including the second number.

    Between two words stand a space and blanks. In fluent speech nothing is heard of them, but the alignment gives
    each at least a frame, so that the word has begun by then.

    Args:
        owners: int32 [T], the word of each token that has a sound, never falling; -1 for blanks, spaces and marks.
        alignment: int32 [F], the token of each frame; never falling.
    """
    frames = np.bincount(alignment, minlength=len(owners))
    ends = np.cumsum(frames)
    starts = ends - frames
    spans: dict[int, tuple[int, int]] = {}
    before = 0
    for word, tokens in groupby(np.flatnonzero(owners >= 0).tolist(), key=lambda token: int(owners[token])):
        own = list(tokens)
        first = max(before, int(starts[own[0]]) - _FRAMES_BETWEEN_WORDS)
        before = min(int(ends[own[-1]]) + 1, len(alignment))
        spans[word] = (first, before)
    return spans


def check_timestamps_file(path: Path) -> None:
    """
    Raises:
        UsageError: the suffix is none of those that can be written, or the folder does not exist.
    """
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(f"--timestamps {path}: name it {', '.join(_WRITERS)}")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: the folder {path.parent} does not exist")


def write_timestamps(
    path: Path, words: Sequence[WordTime], seconds: float, shown_between: Callable[[int, int], str]
) -> None:
    """Writes the times of words, in the format that the suffix names.

    Args:
        path: of the file: `.json`, `.srt` or `.vtt`.
        words: in the order in which they are spoken.
        seconds: length of the audio.
        shown_between: what a reader sees between two places of the text, such as `Markup.shown_between`.

    Raises:
        UsageError: another suffix, or the file cannot be written.
    """
    check_timestamps_file(path)
    content = _WRITERS[path.suffix.lower()](words, seconds, shown_between)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from None


def group_cues(words: Sequence[WordTime], shown_between: Callable[[int, int], str]) -> list[Cue]:
    """The words as subtitles: a cue ends with a sentence or a silence, else where two lines are full.

    Args:
        words: in the order in which they are spoken.
        shown_between: what a reader sees between two places of the text.
    """
    shown = _with_punctuation(words, shown_between)
    groups: list[tuple[int, int]] = []
    start = 0
    for number in range(len(words)):
        if number > start and _is_full(words, shown, start, number + 1):
            stop = _best_cut(shown, start, number)
            groups.append((start, stop))
            start = stop
        if _ends_cue(words, shown, number):
            groups.append((start, number + 1))
            start = number + 1
    cues = []
    for place, (first, stop) in enumerate(groups):
        begin, end = words[first].start, words[stop - 1].end
        following = words[groups[place + 1][0]].start if place + 1 < len(groups) else end + _SHORTEST_SECONDS
        end = max(end, min(following, begin + _SHORTEST_SECONDS))
        cues.append(Cue(_joined(shown[first:stop]), begin, end))
    return cues


def _with_punctuation(words: Sequence[WordTime], shown_between: Callable[[int, int], str]) -> list[str]:
    """Each word with the marks and spaces up to the next one; opening quotes before the first."""
    shown = []
    for number, word in enumerate(words):
        first = 0 if number == 0 else word.first
        last = words[number + 1].first if number + 1 < len(words) else np.iinfo(np.int32).max
        shown.append(shown_between(first, max(word.last, int(last))))
    return shown


def _joined(shown: Sequence[str]) -> str:
    return " ".join("".join(shown).split())


def _is_full(words: Sequence[WordTime], shown: Sequence[str], start: int, stop: int) -> bool:
    too_long = words[stop - 1].end - words[start].start > _LONGEST_SECONDS
    return too_long or len(_joined(shown[start:stop])) > _LONGEST_CUE


def _best_cut(shown: Sequence[str], start: int, stop: int) -> int:
    """Where to end a cue that must end before word `stop`: after the last clause of its second half."""
    for number in range(stop - 1, (start + stop) // 2, -1):
        if shown[number].rstrip().rstrip(_CLOSING).endswith(tuple(_CLAUSE_ENDS)):
            return number + 1
    return stop


def _ends_cue(words: Sequence[WordTime], shown: Sequence[str], number: int) -> bool:
    gap = words[number + 1].start - words[number].end if number + 1 < len(words) else _GAP
    if gap >= _GAP:
        return True
    after = shown[number][len(words[number].text) :].rstrip().rstrip(_CLOSING)
    return gap >= _SENTENCE_GAP and after.endswith(tuple(_SENTENCE_ENDS))


def _as_json(words: Sequence[WordTime], seconds: float, _: Callable[[int, int], str]) -> str:
    rounded = [{**asdict(word), "start": round(word.start, 3), "end": round(word.end, 3)} for word in words]
    return json.dumps({"seconds": round(seconds, 3), "words": rounded}, ensure_ascii=False, indent=1) + "\n"


def _as_srt(words: Sequence[WordTime], _: float, shown_between: Callable[[int, int], str]) -> str:
    return "\n".join(
        f"{number}\n{_clock(cue.start, ',')} --> {_clock(cue.end, ',')}\n{_lines(cue.text)}\n"
        for number, cue in enumerate(group_cues(words, shown_between), 1)
    )


def _as_vtt(words: Sequence[WordTime], _: float, shown_between: Callable[[int, int], str]) -> str:
    cues = [
        f"{_clock(cue.start, '.')} --> {_clock(cue.end, '.')}\n{html.escape(_lines(cue.text), quote=False)}\n"
        for cue in group_cues(words, shown_between)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def _lines(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LINE)) or text


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


_WRITERS = {".json": _as_json, ".srt": _as_srt, ".vtt": _as_vtt}
