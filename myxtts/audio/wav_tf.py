"""Decodes 16-bit PCM WAV files inside a TensorFlow graph: no Python function, and no error that ends a pipeline.

`wav` states the rules and has the same in Python, for deciding beforehand which files can be read here.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.audio import wav

_NOT_SEEN = -1
# The 44 bytes that begin nearly every file, as 16-bit numbers, and those of them that are the same in each.
_PLAIN_HEADER = np.frombuffer(b"RIFF....WAVEfmt \x10\0\0\0................data....", "<u2").astype(np.int64)
_OF_WAVE = np.array([0, 1, 4, 5])
_OF_PLAIN = np.array([0, 1, 4, 5, 6, 7, 8, 9, 18, 19])
_PLAIN_FMT, _PLAIN_DATA = 20, 44


def decode_pcm16(contents: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """The samples of a 16-bit PCM WAV file.

    Args:
        contents: string scalar, the bytes of the file.

    Returns:
        audio: int16 [n], channels averaged and rounded half to even as by `reading.read_pcm16`; empty if not ok.
        sample_rate: int32 scalar, as the file has it; 0 if not ok.
        channels: int32 scalar, as the file has it; 0 if not ok.
        ok: bool scalar. False for what is not a 16-bit PCM WAV file, was cut off, or holds no samples.
    """
    size = tf.cast(tf.strings.length(contents), tf.int64)
    fmt, fmt_bytes, data, data_bytes = tf.unstack(_find_chunks(contents, size))
    fields = _unsigned(contents, size, tf.maximum(fmt, 0), wav.FMT_EXTENSIBLE_SIZE // 2)
    kind, channels, frame_bytes, bits = fields[0], fields[1], fields[6], fields[7]
    sample_rate = _joined(fields[2:4])
    fmt_held = tf.minimum(fmt_bytes, size - fmt)
    extensible = tf.equal(kind, wav.EXTENSIBLE) & (fmt_held >= wav.FMT_EXTENSIBLE_SIZE)
    kind = tf.where(extensible, fields[wav.SUB_FORMAT // 2], kind)
    data_held = tf.minimum(data_bytes, size - data)
    frames = data_held // tf.maximum(frame_bytes, 1)
    cut_off = (data_bytes - data_held > wav.MISCOUNTED_BYTES) & (data_bytes < wav.UNKNOWN_DATA_SIZE)
    right = tf.equal(tf.stack([kind, bits, frame_bytes]), tf.stack([wav.PCM, 16, 2 * channels]))
    positive = tf.stack([data, channels, sample_rate, frames]) > 0
    ok = tf.reduce_all(tf.concat([right, positive, [fmt_held >= wav.FMT_SIZE, ~cut_off]], axis=0))

    sample_rate, channels, start, length = tf.unstack(
        tf.where(ok, tf.stack([sample_rate, channels, data, frames * frame_bytes]), 0)
    )
    audio = tf.io.decode_raw(tf.strings.substr(contents, start, length), tf.int16)
    audio = tf.cond(channels > 1, lambda: _mix_down(audio, channels), lambda: audio)
    return tf.ensure_shape(audio, [None]), tf.cast(sample_rate, tf.int32), tf.cast(channels, tf.int32), ok


def _find_chunks(contents: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Where the body of the first `fmt ` chunk begins, its length as written, and both of the first `data`."""
    header = _unsigned(contents, size, 0, len(_PLAIN_HEADER))
    matching = tf.equal(header, _PLAIN_HEADER)
    is_wave = tf.reduce_all(tf.gather(matching, _OF_WAVE))
    is_plain = tf.reduce_all(tf.gather(matching, _OF_PLAIN))
    plain = tf.stack([_PLAIN_FMT, wav.FMT_SIZE, _PLAIN_DATA, _joined(header[20:22])])
    nothing = tf.constant([_NOT_SEEN, 0, _NOT_SEEN, 0], tf.int64)

    def unfinished(position: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        return (position + wav.CHUNK_HEADER <= size) & tf.reduce_any(tf.equal(found, _NOT_SEEN))

    def next_chunk(position: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        name = tf.strings.substr(contents, position, 4)
        length = _joined(_unsigned(contents, size, position + 4, 2))
        body = position + wav.CHUNK_HEADER
        is_new = tf.equal(name, [b"fmt ", b"data"]) & tf.equal(found[::2], _NOT_SEEN)
        found = tf.where(tf.repeat(is_new, 2), tf.stack([body, length, body, length]), found)
        return body + length + length % 2, found

    # A plain header is known without a turn of the loop, and what is not a WAV file has no chunk to find.
    start = tf.where(is_wave, tf.constant(wav.FIRST_CHUNK, tf.int64), size)
    return tf.while_loop(
        unfinished, next_chunk, (start, tf.where(is_plain, plain, nothing)), maximum_iterations=wav.MAX_CHUNKS
    )[1]


def _unsigned(contents: tf.Tensor, size: tf.Tensor, position: tf.Tensor | int, count: int) -> tf.Tensor:
    """16-bit little-endian numbers as int64 [count]; zeros beyond the end of the file."""
    # Asking `substr` for something beyond the end would be an error.
    piece = tf.strings.substr(contents, tf.minimum(tf.cast(position, tf.int64), size), 2 * count)
    padded = tf.strings.substr(tf.strings.join([piece, b"\0" * (2 * count)]), 0, 2 * count)
    return tf.cast(tf.io.decode_raw(padded, tf.uint16), tf.int64)


def _joined(halves: tf.Tensor) -> tf.Tensor:
    return halves[0] + (1 << 16) * halves[1]


def _mix_down(audio: tf.Tensor, channels: tf.Tensor) -> tf.Tensor:
    total = tf.reduce_sum(tf.cast(tf.reshape(audio, [-1, channels]), tf.int32), axis=1)
    mean = tf.cast(total, tf.float64) / tf.cast(channels, tf.float64)
    return tf.cast(tf.round(mean), tf.int16)
