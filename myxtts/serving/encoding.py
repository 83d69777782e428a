"""Speech in the formats that clients ask for, encoded while it is being spoken."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import soundfile
import soxr

from myxtts.audio.reading import RESAMPLER_QUALITY, to_pcm16

# Of PCM, which has no header to say it, and of Opus, which knows few rates.
OPENAI_RATE = 24000
_MP3_RATES = frozenset([8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000])
# 64 kbit/s below 32 kHz.
_MP3_COMPRESSION = 0.6
# As many bytes as the header can say: whoever reads the stream reads to its end.
_UNKNOWN_LENGTH = 0xFFFFFFFF


class Encoder(Protocol):
    """Samples to bytes."""

    def add(self, audio: np.ndarray) -> bytes:
        """The next bytes, perhaps none, of float32 [n], full scale ±1."""

    def finish(self) -> bytes:
        """The last bytes."""


class PcmEncoder:
    """16-bit samples, little-endian, without a header."""

    def add(self, audio: np.ndarray) -> bytes:
        return to_pcm16(audio).astype("<i2").tobytes()

    def finish(self) -> bytes:
        return b""


class WavEncoder(PcmEncoder):
    """16-bit WAV whose header says that the length is not known.

    Args:
        sample_rate: in Hz.
    """

    def __init__(self, sample_rate: int) -> None:
        about = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
        length = struct.pack("<I", _UNKNOWN_LENGTH)
        self._header = b"RIFF" + length + b"WAVEfmt " + about + b"data" + length

    def add(self, audio: np.ndarray) -> bytes:
        header, self._header = self._header, b""
        return header + super().add(audio)

    def finish(self) -> bytes:
        header, self._header = self._header, b""
        return header


class FileEncoder:
    """What libsndfile writes.

    Args:
        sample_rate: in Hz.
        whole: nothing before the end, since the beginning of the file is written last.
        options: of `soundfile.SoundFile`.
    """

    def __init__(self, sample_rate: int, *, whole: bool = False, **options: Any) -> None:
        self._buffer = io.BytesIO()
        self._file = soundfile.SoundFile(self._buffer, "w", sample_rate, 1, **options)
        self._whole = whole
        self._sent = 0

    def add(self, audio: np.ndarray) -> bytes:
        self._file.write(audio)
        return b"" if self._whole else self._unsent()

    def finish(self) -> bytes:
        self._file.close()
        return self._unsent()

    def _unsent(self) -> bytes:
        with self._buffer.getbuffer() as view:
            new = bytes(view[self._sent :])
        self._sent += len(new)
        return new


class ResamplingEncoder:
    """Another encoder, at its own sample rate.

    Args:
        encoder: gets the resampled audio.
        from_rate: of what is added.
        to_rate: of the encoder.
    """

    def __init__(self, encoder: Encoder, from_rate: int, to_rate: int) -> None:
        self._encoder = encoder
        self._stream = soxr.ResampleStream(from_rate, to_rate, 1, dtype="float32", quality=RESAMPLER_QUALITY)

    def add(self, audio: np.ndarray) -> bytes:
        return self._encoder.add(self._stream.resample_chunk(audio))

    def finish(self) -> bytes:
        rest = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        return self._encoder.add(rest) + self._encoder.finish()


@dataclass(frozen=True)
class AudioFormat:
    """A format that can be asked for.

    Attributes:
        name: as clients write it.
        media_type: of the response.
        create: its encoder at a sample rate.
        rate: by the sample rate of the voice, the one that the format has.
    """

    name: str
    media_type: str
    create: Callable[[int], Encoder]
    rate: Callable[[int], int]

    def encoder(self, sample_rate: int) -> Encoder:
        """For speech at this sample rate."""
        own = self.rate(sample_rate)
        encoder = self.create(own)
        return encoder if own == sample_rate else ResamplingEncoder(encoder, sample_rate, own)


def _same(rate: int) -> int:
    return rate


def _fixed(_: int) -> int:
    return OPENAI_RATE


def _mp3_rate(rate: int) -> int:
    return rate if rate in _MP3_RATES else OPENAI_RATE


def _mp3(rate: int) -> Encoder:
    # With a variable bitrate, players guess the length of a stream wrong.
    return FileEncoder(
        rate,
        format="MP3",
        subtype="MPEG_LAYER_III",
        bitrate_mode="CONSTANT",
        compression_level=_MP3_COMPRESSION,
    )


def _opus(rate: int) -> Encoder:
    return FileEncoder(rate, format="OGG", subtype="OPUS")


def _flac(rate: int) -> Encoder:
    return FileEncoder(rate, whole=True, format="FLAC", subtype="PCM_16")


def _pcm(_: int) -> Encoder:
    return PcmEncoder()


FORMATS = {
    chosen.name: chosen
    for chosen in (
        AudioFormat("mp3", "audio/mpeg", _mp3, _mp3_rate),
        AudioFormat("opus", "audio/ogg", _opus, _fixed),
        AudioFormat("flac", "audio/flac", _flac, _same),
        AudioFormat("wav", "audio/wav", WavEncoder, _same),
        AudioFormat("pcm", "audio/pcm", _pcm, _fixed),
    )
}
