"""What a voice sounds like before throat and mouth shape it: pulses at its pitch, and noise.

Pulses are described frame by frame: pitch, voicing, and the phase at the middle of the frame, 2π being one period.
Between two frames the pitch moves on a straight line. `runtime/harmonic_speaker.py` makes the same pulses in NumPy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.mel import MelSettings, windows
from myxtts.models.harmonic_definition import AT_A_PULSE, NOISE_FRAMES, USUAL_PITCH, noise_spectra
from myxtts.models.masking import dims
from myxtts.models.pitch import pitch_of_audio


class Source(NamedTuple):
    """Pulses, float32 [B, F] each."""

    pitch: tf.Tensor  # Hz
    voiced: tf.Tensor  # 0 to 1
    phase: tf.Tensor  # radians, at the middle of the frame


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
    at_pulse = tf.abs(sine) < AT_A_PULSE
    ratio = tf.where(at_pulse, 2 * harmonics + 1, tf.sin((harmonics + 0.5) * phase) / tf.where(at_pulse, 1.0, sine))
    # A quiet voice has as much energy in a second at any pitch.
    train = 0.5 * (ratio - 1) * voiced * tf.sqrt(pitch / USUAL_PITCH)
    first = more * hop - settings.n_fft // 2
    batch, frames = dims(source.pitch)
    return tf.reshape(train, [batch, -1])[:, first : first + (frames - 1) * hop + settings.n_fft]


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
