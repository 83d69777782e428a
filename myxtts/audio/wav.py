"""Where the samples lie in a 16-bit PCM WAV file.

Most data sets are such files. Taking their samples from the file as they are costs a third of going through
libsndfile, and can be done inside a TensorFlow graph as well (`wav_tf`). Every other format, and every header
that is not plainly one of these, is libsndfile's to read (`reading`).

The rules, which `wav_tf` follows too:

- A `RIFF` file of form `WAVE`. Its chunks are walked from byte 12, each padded to an even length, until a
  `fmt ` and a `data` chunk have been seen, in either order.
- The format is 1 (PCM), or 0xFFFE (extensible) with PCM as its sub-format; 16 bits a sample.
- A data size of 0x7FFFF000 or more that the file does not hold is what programs write that cannot seek back:
  the data goes on to the end of the file. Any other size of which more than 64 bytes are not there means that
  the file was cut off; fewer come from programs that count a header in.
- Bytes after the last whole sample are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

PCM = 1
EXTENSIBLE = 0xFFFE
UNKNOWN_DATA_SIZE = 0x7FFFF000
MISCOUNTED_BYTES = 64
FIRST_CHUNK = 12
CHUNK_HEADER = 8
FMT_SIZE = 16
FMT_EXTENSIBLE_SIZE = 40
SUB_FORMAT = 24
# Real files have a handful; a file of zeros would have one every eight bytes.
MAX_CHUNKS = 256


@dataclass(frozen=True)
class AudioInfo:
    """What the header of an audio file says.

    Attributes:
        frames: samples per channel; of a WAV file that was cut off, those it still holds.
        sample_rate: in Hz.
        channels: at least 1; their samples are interleaved.
        missing_bytes: what a 16-bit WAV file lacks of the data it announces, 0 if it is whole.
        data_offset: of the first sample in a 16-bit WAV file, in bytes; 0 for any other file.
    """

    frames: int
    sample_rate: int
    channels: int
    missing_bytes: int = 0
    data_offset: int = 0


def read_pcm16_header(file: BinaryIO, size: int) -> AudioInfo | None:
    """The header of a file of `size` bytes, read from its beginning; None if it is not a 16-bit PCM WAV file."""
    start = file.read(FIRST_CHUNK)
    if start[:4] != b"RIFF" or start[8:12] != b"WAVE":
        return None
    fmt = data = None
    position = FIRST_CHUNK
    for _ in range(MAX_CHUNKS):
        if position + CHUNK_HEADER > size or (fmt is not None and data is not None):
            break
        file.seek(position)
        chunk = file.read(CHUNK_HEADER)
        length = _unsigned(chunk[4:8])
        if chunk[:4] == b"fmt " and fmt is None:
            fmt = file.read(min(length, FMT_EXTENSIBLE_SIZE))
        elif chunk[:4] == b"data" and data is None:
            data = position + CHUNK_HEADER, length
        position += CHUNK_HEADER + length + length % 2
    if fmt is None or data is None or len(fmt) < FMT_SIZE:
        return None
    kind, channels, sample_rate = _unsigned(fmt[0:2]), _unsigned(fmt[2:4]), _unsigned(fmt[4:8])
    frame_bytes, bits = _unsigned(fmt[12:14]), _unsigned(fmt[14:16])
    if kind == EXTENSIBLE and len(fmt) == FMT_EXTENSIBLE_SIZE:
        kind = _unsigned(fmt[SUB_FORMAT : SUB_FORMAT + 2])
    if kind != PCM or bits != 16 or channels == 0 or sample_rate == 0 or frame_bytes != 2 * channels:
        return None
    offset, length = data
    held = size - offset
    missing = length - held
    cut_off = missing > MISCOUNTED_BYTES and length < UNKNOWN_DATA_SIZE
    frames = min(length, held) // frame_bytes
    return AudioInfo(frames, sample_rate, channels, missing if cut_off else 0, offset)


def _unsigned(field: bytes) -> int:
    return int.from_bytes(field, "little")
