"""Samples to spectra and back, framed as the mels are: frame i is centred on sample (i + 1/2) · hop_length."""

from __future__ import annotations

import tensorflow as tf

from myxtts.audio.mel import MelSettings, windows
from myxtts.models.harmonic_definition import LEAST_ENVELOPE
from myxtts.models.masking import dims


class FrameTransform:
    """Fourier transforms of the frames that mels are made of.

    Args:
        settings: of the mels.
    """

    def __init__(self, settings: MelSettings) -> None:
        self.settings = settings
        self.window = windows(settings)[0]

    def analyse(self, samples: tf.Tensor) -> tf.Tensor:
        """[B, n] → complex64 [B, 1 + (n - n_fft) // hop_length, bins]; the first frame begins with the first
        sample."""
        frames = tf.signal.frame(samples, self.settings.n_fft, self.settings.hop_length)
        return tf.signal.rfft(frames * self.window)

    def synthesise(self, spectrum: tf.Tensor) -> tf.Tensor:
        """complex64 [B, F, bins] → [B, F · hop_length], the samples that belong to the frames."""
        settings, count = self.settings, dims(spectrum)[1]
        frames = tf.signal.irfft(spectrum, [settings.n_fft]) * self.window
        samples = tf.signal.overlap_and_add(frames, settings.hop_length)
        squares = tf.broadcast_to(tf.constant(self.window**2), [count, settings.n_fft])
        envelope = tf.signal.overlap_and_add(squares, settings.hop_length)
        samples /= tf.maximum(envelope, LEAST_ENVELOPE)
        return samples[:, settings.padding : settings.padding + count * settings.hop_length]
