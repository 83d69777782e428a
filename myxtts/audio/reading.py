"""Reads audio files: any format libsndfile knows, as one channel at the sample rate asked for.

The samples of a 16-bit file stay on the 16-bit grid unless they have to be resampled: channels are averaged
and rounded (half to even). So for such a file `read_audio` is exactly `read_pcm16` / 32768, and what the
graph decodes (`wav_tf`) is the same, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NoReturn

import numpy as np
import soundfile
import soxr

from myxtts.audio.wav import AudioInfo, read_pcm16_header
from myxtts.errors import AudioError

PCM16_SCALE = 32768
RESAMPLER_QUALITY = "HQ"
# A part of a file that ends this close to the end of the file ends with it: durations are often rounded.
PART_END_SECONDS = 0.05
# Of files that telephones record, and libsndfile does not read.
UNREAD_SUFFIXES = (".m4a", ".aac", ".amr", ".3gp", ".wma", ".webm")

AudioPath = str | os.PathLike[str]


def audio_info(path: AudioPath) -> AudioInfo:
    """Reads the header only.

    Raises:
        AudioError: the file is missing, empty, cannot be opened, or is not audio.
    """
    with _opened(path) as (file, size):
        header = read_pcm16_header(file, size)
        if header is not None:
            return header
    try:
        with soundfile.SoundFile(path) as sound:
            return AudioInfo(sound.frames, sound.samplerate, sound.channels)
    except soundfile.LibsndfileError as error:
        _refuse(path, error)


def read_audio(path: AudioPath, sample_rate: int, start: float = 0.0, duration: float | None = None) -> np.ndarray:
    """The clip as float32 [n], full scale being ±1.

    Args:
        path: of a file that libsndfile can read.
        sample_rate: in Hz; audio at another rate is resampled.
        start, duration: the part of the file to read, in seconds; no duration: to the end.

    Raises:
        AudioError: the file is missing, empty, not audio, cut off, without samples, does not have this part, or has
            samples that are not finite numbers.
    """
    return _as_float(read_samples(path, sample_rate, start, duration))


def read_samples(path: AudioPath, sample_rate: int, start: float = 0.0, duration: float | None = None) -> np.ndarray:
    """The clip as `read_pcm16` gives it where that loses nothing, that is, from 16-bit files at this rate, else as
    `read_audio` gives it; takes and raises what they do. `log_mel` and `trim` give the same for either."""
    audio, rate = _read_mono(path, start, duration)
    return audio if rate == sample_rate else resample(_as_float(audio), rate, sample_rate)


def read_pcm16(path: AudioPath, sample_rate: int, start: float = 0.0, duration: float | None = None) -> np.ndarray:
    """The clip as int16 [n]; takes and raises what `read_audio` does. What is louder than full scale is clipped."""
    return to_pcm16(read_samples(path, sample_rate, start, duration))


def to_pcm16(audio: np.ndarray) -> np.ndarray:
    """float32 audio of full scale ±1 on the 16-bit grid, int16: rounded half to even, clipped; int16 stays."""
    if audio.dtype == np.int16:
        return audio
    scaled = np.rint(audio * np.float32(PCM16_SCALE))
    return np.clip(scaled, -PCM16_SCALE, PCM16_SCALE - 1, out=scaled).astype(np.int16)


def resampled_length(samples: int, from_rate: int, to_rate: int) -> int:
    """The number of samples after resampling: samples · to_rate / from_rate, rounded half up."""
    return (2 * samples * to_rate + from_rate) // (2 * from_rate)


def resample(audio: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """float32 [n] at another rate, `resampled_length` samples long."""
    if from_rate == to_rate:
        return audio
    resampled = soxr.resample(audio, from_rate, to_rate, quality=RESAMPLER_QUALITY)
    length = resampled_length(len(audio), from_rate, to_rate)
    # soxr is one sample short where the exact length ends in a half.
    return np.pad(resampled[:length], (0, max(0, length - len(resampled))))


def part_of(path: AudioPath, info: AudioInfo, start: float, duration: float | None) -> tuple[int, int]:
    """The first sample of a part of a file, and how many samples it has; `start` and `duration` as `read_audio` takes
    them.

    Raises:
        AudioError: the file does not have this part.
    """
    if not start and duration is None:
        return 0, info.frames
    slack = round(PART_END_SECONDS * info.sample_rate)
    first = round(start * info.sample_rate)
    stop = info.frames if duration is None else round((start + duration) * info.sample_rate)
    if first >= info.frames or stop > info.frames + slack or first >= stop:
        end = "its end" if duration is None else f"{start + duration:.3f} s"
        length = info.frames / info.sample_rate
        raise AudioError(f"{path}: the part from {start:.3f} s to {end} is not in the file, which has {length:.3f} s")
    return first, (info.frames if stop > info.frames - slack else stop) - first


def _read_mono(path: AudioPath, start: float, duration: float | None) -> tuple[np.ndarray, int]:
    """One channel, int16 if the file is 16-bit PCM and float32 otherwise, and the file's own sample rate."""
    with _opened(path) as (file, size):
        header = read_pcm16_header(file, size)
        if header is not None:
            samples = _read_samples(path, file, header, *part_of(path, header, start, duration))
            rate = header.sample_rate
    if header is None:
        samples, rate = _decode(path, start, duration)
    if not len(samples):
        raise AudioError(f"{path}: the file holds no samples")
    finite = samples.dtype == np.int16 or np.isfinite(samples)
    if not np.all(finite):
        first = int(np.flatnonzero(~np.all(finite, axis=1))[0])
        raise AudioError(f"{path}: sample {first:,} is not a finite number")
    return _mix_down(samples), rate


def _read_samples(path: AudioPath, file: BinaryIO, header: AudioInfo, first: int, count: int) -> np.ndarray:
    if header.missing_bytes:
        raise AudioError(f"{path}: the file was cut off, {header.missing_bytes:,} bytes of its audio are missing")
    samples = np.empty(count * header.channels, dtype="<i2")
    file.seek(header.data_offset + first * header.channels * samples.itemsize)
    if file.readinto(samples) != samples.nbytes:  # type: ignore[attr-defined]
        raise AudioError(f"{path}: the file changed while it was read")
    return samples.reshape(count, header.channels)


def _decode(path: AudioPath, start: float, duration: float | None) -> tuple[np.ndarray, int]:
    """Samples [n, channels] through libsndfile."""
    try:
        with soundfile.SoundFile(path) as sound:
            dtype = "int16" if sound.subtype == "PCM_16" else "float32"
            rate = sound.samplerate
            first, announced = part_of(path, AudioInfo(sound.frames, rate, sound.channels), start, duration)
            if first:
                sound.seek(first)
            samples = sound.read(announced if announced < sound.frames else -1, dtype=dtype, always_2d=True)
    except soundfile.LibsndfileError as error:
        _refuse(path, error)
    if len(samples) < announced:
        raise AudioError(f"{path}: the file was cut off, {len(samples):,} of {announced:,} samples are there")
    return samples, rate


def _mix_down(samples: np.ndarray) -> np.ndarray:
    channels = samples.shape[1]
    if channels == 1:
        return samples[:, 0]
    total = samples[:, 0].astype(np.int32 if samples.dtype == np.int16 else np.float32)
    for channel in range(1, channels):
        total += samples[:, channel]
    if samples.dtype == np.int16:
        return np.rint(total / channels).astype(np.int16)
    return total * np.float32(1 / channels)


def _as_float(audio: np.ndarray) -> np.ndarray:
    return audio * np.float32(1 / PCM16_SCALE) if audio.dtype == np.int16 else audio


@contextmanager
def _opened(path: AudioPath) -> Iterator[tuple[BinaryIO, int]]:
    """The open file and its size; what goes wrong while it is open is an AudioError."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise AudioError(f"{path}: the file is empty")
            yield file, size
    except FileNotFoundError:
        raise AudioError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise AudioError(f"{path}: this is a folder, not an audio file") from None
    except OSError as error:
        raise AudioError(f"{path}: cannot be read ({error.strerror})") from None


def _refuse(path: AudioPath, error: soundfile.LibsndfileError) -> NoReturn:
    reason = " ".join(error.error_string.split()).rstrip(".")
    convert = "; convert it to WAV or FLAC, e.g. with ffmpeg" if str(path).lower().endswith(UNREAD_SUFFIXES) else ""
    raise AudioError(f"{path}: libsndfile cannot read it as audio ({reason}){convert}") from None
