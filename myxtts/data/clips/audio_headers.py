"""Reads the headers of many audio files at once: lengths, rates, and which files are not audio.

Threads are enough: opening and reading happen outside the interpreter lock, and on a cold disk the time goes
into waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from myxtts.audio.reading import audio_info, resampled_length
from myxtts.data.clips import Clip, Problem, ProblemKind
from myxtts.errors import AudioError
from myxtts.hardware import usable_cpus

_CHUNK = 64
_Header = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class AudioHeaders:
    """What the headers say, an entry per clip in the order given; 0 where a file cannot be used.

    Attributes:
        frames: int64, samples per channel.
        sample_rate: int32, in Hz.
        channels: int32.
        size: int64, of the file in bytes.
        mtime_ns: int64, when the file was last changed.
        data_offset: int64, of the first sample in a 16-bit WAV file; 0 for any other file.
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
    chunks = [clips[start : start + _CHUNK] for start in range(0, len(clips), _CHUNK)]
    start = 0
    with ThreadPoolExecutor(max_workers=max(1, workers or usable_cpus())) as pool:
        for chunk, results in zip(chunks, pool.map(_probe_chunk, chunks), strict=True):
            for offset, result in enumerate(results):
                if isinstance(result, Problem):
                    problems.append(result)
                else:
                    fields[:, start + offset] = result
            start += len(chunk)
            if on_progress is not None:
                on_progress(len(chunk))
    frames, sample_rate, channels, size, mtime_ns, data_offset = fields
    rates, channels = sample_rate.astype(np.int32), channels.astype(np.int32)
    return AudioHeaders(frames, rates, channels, size, mtime_ns, data_offset, problems)


def _probe_chunk(clips: Sequence[Clip]) -> list[_Header | Problem]:
    return [_probe(clip) for clip in clips]


def _probe(clip: Clip) -> _Header | Problem:
    path = clip.audio_path
    try:
        status = os.stat(path)
    except OSError as error:
        return _problem("missing-audio", f"{path}: {error.strerror}", clip)
    if status.st_size == 0:
        return _problem("empty-audio", f"{path}: the audio file has 0 bytes", clip)
    try:
        info = audio_info(path)
    except AudioError as error:
        return _problem("unreadable-audio", str(error), clip)
    if info.missing_bytes:
        message = f"{path}: the audio file was cut off: {info.missing_bytes:,} bytes fewer than its header says"
        return _problem("truncated-audio", message, clip)
    if info.frames <= 0:
        return _problem("empty-audio", f"{path}: the audio file has a header and no samples", clip)
    return info.frames, info.sample_rate, info.channels, status.st_size, status.st_mtime_ns, info.data_offset


def _problem(kind: ProblemKind, message: str, clip: Clip) -> Problem:
    return Problem(kind, message, clip.source, clip.line, clip.id)
