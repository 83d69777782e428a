"""What a voice sounds like before throat and mouth shape it: pulses at its pitch, and noise.

Pulses are described frame by frame: pitch, voicing, and the phase at the middle of the frame, 2π being one period.
Between two frames the pitch moves on a straight line. The noise is the same 64-thousand-odd samples again and again,
so that a frame's noise depends on its number only, and speech made in parts equals speech made at once.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, windows
from myxtts.models.masking import dims
from myxtts.models.pitch import pitch_of_audio

NOISE_FRAMES = 256
_NOISE_SEED = 2024
_USUAL_PITCH = 200.0  # Hz, at which a pulse train has amplitude 1 in each harmonic
_AT_A_PULSE = 1e-4  # where the quotient of two sines is replaced by its limit


class Source(NamedTuple):
    """Pulses, float32 [B, F] each."""

    pitch: tf.Tensor  # Hz
    voiced: tf.Tensor  # 0 to 1
    phase: tf.Tensor  # radians, at the middle of the frame


def phase_of_pitch(pitch: np.ndarray, settings: MelSettings) -> np.ndarray:
    """The phase at the middle of each frame of a pitch in Hz [F], from 0 on: float32 [F], 0 to 2π.

    In float64: an error of the pitch's sum would be heard fifty times as large in the fiftieth harmonic.
    """
    cycles = np.asarray(pitch, np.float64) * settings.hop_length / settings.sample_rate
    advance = 0.5 * (cycles[1:] + cycles[:-1])
    phase = np.concatenate([[0.0], np.cumsum(advance)])[: len(cycles)]
    return (2 * np.pi * (phase % 1.0)).astype(np.float32)


def source_of_audio(audio: tf.Tensor, settings: MelSettings) -> Source:
    """Pitch and voicing of recorded speech, with the phase of its fundamental, so that pulses lie where the
    recording has them.

    Args:
        audio: float32 [B, F · hop_length].
        settings: of the mels.
    """
    pitch, voiced = pitch_of_audio(audio, settings.sample_rate, settings.hop_length)
    padded = tf.pad(audio, [[0, 0], [settings.padding, settings.padding]])
    frames = tf.signal.frame(padded, settings.n_fft, settings.hop_length) * windows(settings)[0]
    from_middle = (np.arange(settings.n_fft) - settings.n_fft / 2).astype(np.float32)
    angle = (2 * math.pi / settings.sample_rate) * pitch[:, :, None] * from_middle
    real = tf.reduce_sum(frames * tf.cos(angle), axis=2)
    imaginary = -tf.reduce_sum(frames * tf.sin(angle), axis=2)
    return Source(pitch, voiced, tf.math.atan2(imaginary, real))


def pulses(source: Source, settings: MelSettings) -> tf.Tensor:
    """A band-limited pulse train, [B, (F - 1) · hop_length + n_fft]: every sample that the frames see."""
    hop, rate = settings.hop_length, settings.sample_rate
    radians = 2 * math.pi * hop / rate  # a frame's, at 1 Hz
    advance = 0.5 * radians * (source.pitch[:, 1:] + source.pitch[:, :-1])
    slip = _wrap(source.phase[:, 1:] - source.phase[:, :-1] - advance)

    # The frames see up to `more` hops before the first middle and after the last one.
    more = math.ceil(settings.n_fft / (2 * hop))
    pitch, voiced = (_extended(value, more) for value in (source.pitch, source.voiced))
    steps = np.arange(1, more + 1, dtype=np.float32)
    before = source.phase[:, :1] - radians * source.pitch[:, :1] * steps[::-1]
    after = source.phase[:, -1:] + radians * source.pitch[:, -1:] * steps
    phase = tf.concat([before, source.phase, after], axis=1)[:, :-1, None]
    slip = tf.pad(slip, [[0, 0], [more, more]])[:, :, None]

    between = np.arange(hop, dtype=np.float32) / hop  # from one middle to the next
    low, high = pitch[:, :-1, None], pitch[:, 1:, None]
    phase += radians * (low * between + (high - low) * (between**2 / 2)) + slip * between
    pitch = low + (high - low) * between
    voiced = voiced[:, :-1, None] + (voiced[:, 1:, None] - voiced[:, :-1, None]) * between
    # The sum of the cosines of all harmonics below half the sample rate, in closed form.
    phase = _wrap(phase)
    harmonics = tf.floor(rate / 2 / pitch)
    sine = tf.sin(phase / 2)
    at_pulse = tf.abs(sine) < _AT_A_PULSE
    ratio = tf.where(at_pulse, 2 * harmonics + 1, tf.sin((harmonics + 0.5) * phase) / tf.where(at_pulse, 1.0, sine))
    # A quiet voice has as much energy in a second at any pitch.
    train = 0.5 * (ratio - 1) * voiced * tf.sqrt(pitch / _USUAL_PITCH)
    first = more * hop - settings.n_fft // 2
    batch, frames = dims(source.pitch)
    return tf.reshape(train, [batch, -1])[:, first : first + (frames - 1) * hop + settings.n_fft]


@lru_cache(maxsize=4)
def noise_spectra(settings: MelSettings) -> np.ndarray:
    """Spectra of white noise that repeats after `NOISE_FRAMES` frames, of power 1 in each bin: complex64
    [NOISE_FRAMES, bins]."""
    hop, window = settings.hop_length, windows(settings)[0]
    noise = np.random.default_rng(_NOISE_SEED).standard_normal(NOISE_FRAMES * hop)
    places = (np.arange(NOISE_FRAMES)[:, None] * hop + np.arange(settings.n_fft)) % len(noise)
    return (np.fft.rfft(noise[places] * window) / np.sqrt(np.sum(window**2))).astype(np.complex64)


def noise_of_frames(first: tf.Tensor, frames: int | tf.Tensor, settings: MelSettings) -> tf.Tensor:
    """The noise of `frames` frames from number `first` int32 [B] on: complex64 [B, frames, bins]."""
    numbers = (first[:, None] + tf.range(frames)) % NOISE_FRAMES
    return tf.gather(tf.constant(noise_spectra(settings)), numbers)


def _extended(values: tf.Tensor, more: int) -> tf.Tensor:
    """[B, F] with its first and last values repeated."""
    return tf.concat([*[values[:, :1]] * more, values, *[values[:, -1:]] * more], axis=1)


def _wrap(phase: tf.Tensor) -> tf.Tensor:
    """Between -π and π."""
    return phase - 2 * math.pi * tf.round(phase / (2 * math.pi))
