"""Pitch: of audio, by its autocorrelation; and as classes that a network can predict."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

LOWEST, HIGHEST = 55.0, 550.0  # Hz; human speech
CLASSES = 160  # a quarter of a semitone each
CLASS_PITCHES = np.geomspace(LOWEST, HIGHEST, CLASSES).astype(np.float32)

_LEAST_CORRELATION = 0.5  # of a voiced frame with itself, one period later
_LEAST_LEVEL = 1e-3  # of full scale
_PER_OCTAVE = 0.03  # by how much the correlation at twice the period must be higher to be preferred
_WIDTH = 1.2  # standard deviation of a target, in classes
_NEIGHBOURS = 4  # classes at either side of the best that are averaged


def pitch_of_audio(audio: tf.Tensor, sample_rate: int, hop_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Pitch of each frame by autocorrelation (Boersma 1993), each frame averaged with its neighbours in place of
    tracking: everything happens at once, in graph.

    Args:
        audio: float32 [B, F · hop_length], full scale ±1.
        sample_rate: in Hz.
        hop_length: samples of a frame.

    Returns:
        float32 [B, F] each: the pitch in Hz, which means nothing in an unvoiced frame, and 1 for voiced, 0 for
        unvoiced.
    """
    size = 2 ** math.ceil(math.log2(2.5 * sample_rate / LOWEST))  # more than two periods of the lowest pitch
    window = (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(size) + 0.5) / size)).astype(np.float32)
    before = (size - hop_length) // 2
    padded = tf.pad(audio, [[0, 0], [before, size - hop_length - before]])
    frames = tf.signal.frame(padded, size, hop_length)  # [B, F, size]
    frames = (frames - tf.reduce_mean(frames, axis=2, keepdims=True)) * window

    first, last = int(sample_rate / HIGHEST), int(sample_rate / LOWEST) + 2
    lags = slice(first - 1, last + 2)
    energy, correlation = _autocorrelation(frames, lags)
    of_window, shape = np.sum(window**2), np.correlate(window, window, "full")[size - 1 :]
    correlation /= (energy + 1e-5) * (shape[lags] / shape[0]).astype(np.float32)
    around = tf.pad(correlation, [[0, 0], [1, 1], [0, 0]], mode="SYMMETRIC")
    correlation = 0.5 * correlation + 0.25 * (around[:, :-2] + around[:, 2:])

    lag = np.arange(first - 1, last + 2, dtype=np.float32)
    score = correlation - _PER_OCTAVE * np.log2(lag / first)
    inner = score[:, :, 1:-1]
    peak = (inner > score[:, :, :-2]) & (inner >= score[:, :, 2:])
    best = tf.argmax(tf.where(peak, inner, -1.0), axis=2, output_type=tf.int32)  # [B, F]
    left, middle, right = (tf.gather(correlation, best + place, batch_dims=2) for place in range(3))
    # The top of the parabola through the three.
    shift = 0.5 * (left - right) / tf.minimum(left - 2 * middle + right, -1e-6)
    pitch = sample_rate / (tf.cast(best + first, tf.float32) + tf.clip_by_value(shift, -1.0, 1.0))
    level = tf.sqrt(energy[:, :, 0] / of_window + 1e-12)
    voiced = (middle > _LEAST_CORRELATION) & (level > _LEAST_LEVEL) & tf.reduce_any(peak, axis=2)
    return pitch, tf.cast(voiced, tf.float32)


def pitch_targets(pitch: tf.Tensor) -> tf.Tensor:
    """What a network should predict for a pitch [B, F] in Hz: a share for each class, [B, F, CLASSES]."""
    logarithm = tf.math.log(tf.clip_by_value(pitch, LOWEST, HIGHEST))[:, :, None]
    distance = (logarithm - np.log(CLASS_PITCHES)) / (_WIDTH * math.log(HIGHEST / LOWEST) / (CLASSES - 1))
    return tf.nn.softmax(-0.5 * tf.square(distance))


def predicted_pitch(scores: tf.Tensor) -> tf.Tensor:
    """The pitch in Hz [B, F] of scores [B, F, CLASSES]: the mean of the classes around the best."""
    best = tf.argmax(scores, axis=2, output_type=tf.int32)[:, :, None]
    near = tf.abs(tf.range(CLASSES) - best) <= _NEIGHBOURS
    shares = tf.nn.softmax(tf.where(near, scores, -1e9))
    return tf.exp(tf.reduce_sum(shares * np.log(CLASS_PITCHES), axis=2))


def _autocorrelation(frames: tf.Tensor, lags: slice) -> tuple[tf.Tensor, tf.Tensor]:
    """The energy of frames [B, F, n], [B, F, 1], and their correlation with themselves at some lags."""
    size = frames.shape[2]
    spectrum = tf.signal.rfft(tf.pad(frames, [[0, 0], [0, 0], [0, size]]))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    correlation = tf.signal.irfft(tf.complex(power, tf.zeros_like(power)), [2 * size])
    return correlation[:, :, :1], correlation[:, :, lags]
