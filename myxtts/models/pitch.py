"""Pitch: of audio, by its autocorrelation; and as classes that a network can predict.

Frame by frame, both often take a pitch for the one an octave below or above. So both choose the path through all
frames that is best as a whole, where every change of pitch has a cost.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from myxtts.models.harmonic_definition import (
    CLASS_PITCHES,
    CLASSES,
    HIGHEST,
    LOWEST,
    NEIGHBOURS,
    SCORE_CHANGE,
    WIDEST_CHANGE,
    change_costs,
)

_LEAST_CORRELATION = 0.5  # of a voiced frame with itself, one period later
_LEAST_LEVEL = 1e-3  # of full scale
_PER_OCTAVE = 0.08  # by how much the correlation at twice the period must be higher to be preferred
_CHANGE = 0.016  # cost of a change by a class, in correlation: 0.8 for an octave
_NEAR = 1.05  # how far from its class the exact pitch may be
_WIDTH = 1.2  # standard deviation of a target, in classes


def pitch_of_audio(audio: tf.Tensor, sample_rate: int, hop_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Pitch of each frame by autocorrelation, as Boersma (1993) does it, all in graph.

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
    path = best_path(tf.maximum(score, 0.0) @ _at_classes(sample_rate / lag), _CHANGE)  # [B, F]
    period = sample_rate / tf.gather(tf.constant(CLASS_PITCHES), path)
    near = tf.abs(tf.math.log(lag[1:-1] / period[:, :, None])) < math.log(_NEAR)
    best = tf.argmax(tf.where(near, correlation[:, :, 1:-1], -1.0), axis=2, output_type=tf.int32)  # [B, F]
    left, middle, right = (tf.gather(correlation, best + place, batch_dims=2) for place in range(3))
    # The top of the parabola through the three.
    shift = 0.5 * (left - right) / tf.minimum(left - 2 * middle + right, -1e-6)
    pitch = sample_rate / (tf.cast(best + first, tf.float32) + tf.clip_by_value(shift, -1.0, 1.0))
    level = tf.sqrt(energy[:, :, 0] / of_window + 1e-12)
    voiced = (middle > _LEAST_CORRELATION) & (level > _LEAST_LEVEL)
    return pitch, tf.cast(voiced, tf.float32)


def pitch_targets(pitch: tf.Tensor) -> tf.Tensor:
    """What a network should predict for a pitch [B, F] in Hz: a share for each class, [B, F, CLASSES]."""
    logarithm = tf.math.log(tf.clip_by_value(pitch, LOWEST, HIGHEST))[:, :, None]
    distance = (logarithm - np.log(CLASS_PITCHES)) / (_WIDTH * math.log(HIGHEST / LOWEST) / (CLASSES - 1))
    return tf.nn.softmax(-0.5 * tf.square(distance))


def predicted_pitch(scores: tf.Tensor) -> tf.Tensor:
    """The pitch in Hz [B, F] of scores [B, F, CLASSES]: the mean of the classes around the best path."""
    best = best_path(tf.nn.log_softmax(scores), SCORE_CHANGE)[:, :, None]
    near = tf.abs(tf.range(CLASSES) - best) <= NEIGHBOURS
    shares = tf.nn.softmax(tf.where(near, scores, -1e9))
    return tf.exp(tf.reduce_sum(shares * np.log(CLASS_PITCHES), axis=2))


def best_path(scores: tf.Tensor, change: float) -> tf.Tensor:
    """The classes, one for each frame, whose scores are highest in sum, less the costs of their changes (Viterbi).

    Args:
        scores: [B, F, CLASSES].
        change: cost of moving by a class from one frame to the next.

    Returns:
        int32 [B, F].
    """
    cost = change_costs(change)  # [from, to]
    by_frame = tf.transpose(scores, [1, 0, 2])  # [F, B, C]

    def forward(before: tf.Tensor, score: tf.Tensor) -> tf.Tensor:
        total = _after_change(before, change) + score
        return total - tf.reduce_max(total, axis=1, keepdims=True)

    totals = tf.scan(forward, by_frame[1:], by_frame[0])
    totals = tf.concat([by_frame[:1], totals], axis=0)
    last = tf.argmax(totals[-1], axis=1, output_type=tf.int32)  # [B]

    def backward(place: tf.Tensor, before: tf.Tensor) -> tf.Tensor:
        return tf.argmax(before - tf.gather(cost, place), axis=1, output_type=tf.int32)

    earlier = tf.scan(backward, totals[:-1], last, reverse=True)  # [F - 1, B]
    return tf.transpose(tf.concat([earlier, last[None]], axis=0))


def _after_change(totals: tf.Tensor, change: float) -> tf.Tensor:
    """The best way to every class of totals [B, CLASSES] of the frame before, less the cost of the change.

    The cost grows with the width of a change up to `WIDEST_CHANGE`. So steps of 1, 2, 4, … classes, each taken or
    not, give every narrow change, and the highest total of all a jump from anywhere.
    """
    best, reached, width = totals, 0, 1
    while reached < WIDEST_CHANGE - 1:
        padded = tf.pad(best, [[0, 0], [width, width]], constant_values=-1e9)
        best = tf.maximum(best, tf.maximum(padded[:, : -2 * width], padded[:, 2 * width :]) - width * change)
        reached, width = reached + width, 2 * width
    return tf.maximum(best, tf.reduce_max(totals, axis=1, keepdims=True) - WIDEST_CHANGE * change)


def _at_classes(pitches: np.ndarray) -> np.ndarray:
    """Weights [n, CLASSES] that read values at falling `pitches` [n] at the classes' pitches, by straight lines."""
    weights = np.zeros((len(pitches), CLASSES), np.float32)
    after = np.clip(len(pitches) - np.searchsorted(pitches[::-1], CLASS_PITCHES), 1, len(pitches) - 1)
    share = (pitches[after - 1] - CLASS_PITCHES) / (pitches[after - 1] - pitches[after])
    weights[after, np.arange(CLASSES)] = np.clip(share, 0, 1)
    weights[after - 1, np.arange(CLASSES)] = 1 - np.clip(share, 0, 1)
    return weights


def _autocorrelation(frames: tf.Tensor, lags: slice) -> tuple[tf.Tensor, tf.Tensor]:
    """The energy of frames [B, F, n], [B, F, 1], and their correlation with themselves at some lags."""
    size = frames.shape[2]
    spectrum = tf.signal.rfft(tf.pad(frames, [[0, 0], [0, 0], [0, size]]))
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    correlation = tf.signal.irfft(tf.complex(power, tf.zeros_like(power)), [2 * size])
    return correlation[:, :, :1], correlation[:, :, lags]
