"""The clips that a store should hold, as arrays: what each is recognised by, and which ones are out of the question.

A clip is recognised by its id and the place of its audio file; whether its features are still right, by the file's
size and time, or by the hash of its content, and by the hash of its text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import xxhash

from myxtts.audio.mel import MelSettings
from myxtts.audio.reading import resampled_length
from myxtts.data.audio_headers import probe_audio
from myxtts.data.building.column import RECORD
from myxtts.data.building.features import read_source
from myxtts.data.clips import Clip
from myxtts.data.store_format import FailedClip

_CHUNK = 256
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class BuildPlan:
    """Clips in the order of the data set.

    Attributes:
        clips: the clips.
        mel: RECORD [N] with `clip`, `size`, `mtime`, and `content` if `by_content`.
        token: RECORD [N] with `clip` and `content`.
        by_content: audio is recognised by its content instead of its size and time.
    """

    clips: Sequence[Clip]
    mel: np.ndarray
    token: np.ndarray
    by_content: bool = False

    @classmethod
    def of(cls, clips: Sequence[Clip], root: str, workers: int) -> tuple[BuildPlan, list[FailedClip]]:
        """The plan for clips of the data set in `root`, and the clips whose audio cannot even be looked at."""
        mel, token = np.zeros(len(clips), RECORD), np.zeros(len(clips), RECORD)
        prefix = os.path.join(root, "")
        mel["clip"] = token["clip"] = [clip_key(clip, prefix) for clip in clips]
        token["content"] = [text_hash(clip) for clip in clips]
        found = list(_in_threads(_stat, [clip.audio_path for clip in clips], workers))
        stamps = [(-1, -1) if isinstance(one, str) else one for one in found]
        mel["size"], mel["mtime"] = np.array(stamps, np.int64).reshape(-1, 2).T
        failed = [FailedClip(clip.id, one) for clip, one in zip(clips, found, strict=True) if isinstance(one, str)]
        return cls(clips, mel, token).without([entry.id for entry in failed]), failed

    def hashed(self, workers: int, on_progress: Callable[[int], None]) -> tuple[BuildPlan, list[FailedClip]]:
        """The same plan by content: every audio file is read and hashed."""
        if self.by_content:
            return self, []
        mel = self.mel.copy()
        failed = []
        paths = [clip.audio_path for clip in self.clips]
        for row, found in enumerate(_in_threads(_hash, paths, workers, on_progress)):
            if isinstance(found, str):
                failed.append(FailedClip(self.clips[row].id, found, *self.stamp(row)))
            else:
                mel["size"][row], mel["mtime"][row], mel["content"][row] = found
        return replace(self, mel=mel, by_content=True).without([entry.id for entry in failed]), failed

    def stamp(self, row: int) -> tuple[int, int]:
        """Size and time of a clip's audio file."""
        return int(self.mel["size"][row]), int(self.mel["mtime"][row])

    def without(self, ids: Sequence[str]) -> BuildPlan:
        """The plan without some clips."""
        if not ids:
            return self
        left_out = set(ids)
        rows = [row for row, clip in enumerate(self.clips) if clip.id not in left_out]
        clips = [self.clips[row] for row in rows]
        return replace(self, clips=clips, mel=self.mel[rows], token=self.token[rows])


@dataclass(frozen=True)
class Estimate:
    """What computing clips will take.

    Attributes:
        mel_rows: int64 [M], frames of each clip, before trimming.
        seconds: of audio.
        failed: clips whose header cannot be read.
    """

    mel_rows: np.ndarray
    seconds: float
    failed: list[FailedClip]


def estimate(plan: BuildPlan, rows: np.ndarray, settings: MelSettings, workers: int) -> Estimate:
    """Looks at the headers of some clips of a plan."""
    clips = [plan.clips[row] for row in rows]
    headers = probe_audio(clips, workers)
    lengths = zip(headers.frames.tolist(), headers.sample_rate.tolist(), strict=True)
    samples = [resampled_length(frames, rate or 1, settings.sample_rate) for frames, rate in lengths]
    row_of = {clip.id: int(row) for clip, row in zip(clips, rows, strict=True)}
    failed = [
        FailedClip(clip_id, problem.message, *plan.stamp(row_of[clip_id]))
        for problem in headers.problems
        if (clip_id := problem.clip_id) is not None
    ]
    return Estimate(settings.frames(np.array(samples, np.int64)), float(headers.seconds.sum()), failed)


def clip_key(clip: Clip, prefix: str) -> int:
    """xxh3-64 of the id and the audio file's path, which is relative if the file lies below `prefix`."""
    path = os.fsencode(clip.audio_path.removeprefix(prefix))
    return xxhash.xxh3_64_intdigest(clip.id.encode("utf-8") + b"\0" + path)


def text_hash(clip: Clip) -> int:
    """xxh3-64 of everything a clip's tokens are made from."""
    text = "\0".join((clip.text, clip.language, clip.ipa or ""))
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))


def _stat(path: str) -> tuple[int, int] | str:
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return status.st_size, status.st_mtime_ns


def _hash(path: str) -> tuple[int, int, int] | str:
    try:
        return read_source(path)
    except OSError as error:
        return f"{path}: {error.strerror}"


def _in_threads(
    function: Callable[[str], _Result],
    paths: Sequence[str],
    workers: int,
    on_progress: Callable[[int], None] = lambda count: None,
) -> Iterator[_Result]:
    """The function's results in order. Threads, because what takes time is waiting for the disk or the network."""
    chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for results in pool.map(lambda chunk: [function(path) for path in chunk], chunks):
            on_progress(len(results))
            yield from results
