"""Reads the headers of many audio files at once: lengths, rates, and which files are not audio.

Threads are enough: opening and reading happen outside the interpreter lock, and on a cold disk the time goes
into waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from myxtts.audio.reading import audio_info, part_of, resampled_length
from myxtts.data.clips import Clip, Problem
from myxtts.errors import AudioError
from myxtts.hardware import usable_cpus

_Header = tuple[int, int, int, int, int, int]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class AudioHeaders:
    """What the headers say, an int64 per clip in the order given; 0 where a file cannot be used.

    Attributes:
        frames: samples per channel, of the clip where it is a part of its file.
        sample_rate: in Hz.
        channels: how many.
        size: of the file in bytes.
        mtime_ns: when the file was last changed.
        data_offset: of the first sample in a 16-bit WAV file; 0 for any other file, and for a part of one.
        problems: one for each clip whose file is empty or cannot be read.
    """

    frames: np.ndarray
    sample_rate: np.ndarray
    channels: np.ndarray
    size: np.ndarray
    mtime_ns: np.ndarray
    data_offset: np.ndarray
    problems: list[Problem]

    @property
    def seconds(self) -> np.ndarray:
        """float64, 0 where a file cannot be used."""
        return self.frames / np.maximum(self.sample_rate, 1)

    def samples_at(self, sample_rate: int) -> np.ndarray:
        """int64, how many samples reading gives at this rate; 0 where a file cannot be used."""
        headers = zip(self.frames.tolist(), self.sample_rate.tolist(), strict=True)
        return np.array([resampled_length(frames, rate or 1, sample_rate) for frames, rate in headers], np.int64)

    def graph_readable(self, sample_rate: int) -> np.ndarray:
        """bool, whether `wav_tf.decode_pcm16` gives the file's samples: a 16-bit WAV file at this rate."""
        return (self.data_offset > 0) & (self.sample_rate == sample_rate)


def probe_audio(
    clips: Sequence[Clip], workers: int | None = None, on_progress: Callable[[int], None] | None = None
) -> AudioHeaders:
    """Reads the header of every clip's file.

    Args:
        clips: what to look at.
        workers: files open at a time; none: the CPUs this process may use.
        on_progress: called with the number of clips that were done since the last call, from this thread.

    Never raises for a file: what is wrong with it is in `problems`.
    """
    fields = np.zeros((6, len(clips)), dtype=np.int64)
    problems: list[Problem] = []
    for row, found in enumerate(in_threads(_probe, clips, workers or usable_cpus(), on_progress)):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            fields[:, row] = found
    frames, sample_rate, channels, size, mtime_ns, data_offset = fields
    return AudioHeaders(frames, sample_rate, channels, size, mtime_ns, data_offset, problems)


def in_threads(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    workers: int,
    on_progress: Callable[[int], None] | None = None,
    chunk: int = 64,
) -> Iterator[_Result]:
    """The function's results in order, computed by threads a chunk of items at a time; `on_progress` as above."""
    chunks = [items[start : start + chunk] for start in range(0, len(items), chunk)]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        for results in pool.map(lambda chunk: [function(item) for item in chunk], chunks):
            if on_progress is not None:
                on_progress(len(results))
            yield from results


def _probe(clip: Clip) -> _Header | Problem:
    path = clip.audio_path
    try:
        status = os.stat(path)
    except OSError as error:
        return clip.problem("missing-audio", f"{path}: {error.strerror}")
    if status.st_size == 0:
        return clip.problem("empty-audio", f"{path}: the audio file has 0 bytes")
    try:
        info = audio_info(path)
    except AudioError as error:
        return clip.problem("unreadable-audio", str(error))
    if info.missing_bytes:
        message = f"{path}: the audio file was cut off: {info.missing_bytes:,} bytes fewer than its header says"
        return clip.problem("truncated-audio", message)
    if info.frames <= 0:
        return clip.problem("empty-audio", f"{path}: the audio file has a header and no samples")
    try:
        _, frames = part_of(path, info, clip.start, clip.duration)
    except AudioError as error:
        return clip.problem("wrong-part", str(error))
    data_offset = info.data_offset if frames == info.frames else 0
    return frames, info.sample_rate, info.channels, status.st_size, status.st_mtime_ns, data_offset
