"""Builds WAV files byte by byte, right ones and wrong ones."""

from __future__ import annotations

import struct

import numpy as np

PCM_GUID = bytes.fromhex("0100000000001000800000aa00389b71")
FLOAT_GUID = bytes.fromhex("0300000000001000800000aa00389b71")


def wav(
    samples: np.ndarray | bytes,
    *,
    rate: int = 22050,
    channels: int = 1,
    bits: int = 16,
    kind: int = 1,
    guid: bytes | None = None,
    before_fmt: bytes = b"",
    before_data: bytes = b"",
    after_data: bytes = b"",
    data_size: int | None = None,
    frame_bytes: int | None = None,
    data_first: bool = False,
) -> bytes:
    """A file with these fields; with a `guid` the format is the extensible one."""
    data = samples if isinstance(samples, bytes) else np.ascontiguousarray(samples, "<i2").tobytes()
    frame = channels * bits // 8 if frame_bytes is None else frame_bytes
    fmt = struct.pack("<HHIIHH", 0xFFFE if guid else kind, channels, rate, rate * frame, frame, bits)
    if guid:
        fmt += struct.pack("<HHI", 22, bits, 0) + guid
    chunks = [chunk(b"fmt ", fmt), before_data, chunk(b"data", data, data_size)]
    body = b"WAVE" + before_fmt + b"".join(chunks[::-1] if data_first else chunks) + after_data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) % 2)
