"""Samples to spectra and back in NumPy, framed as the mels are."""

from __future__ import annotations

import numpy as np

from myxtts.audio.mel import MelSettings, windows


class FrameTransform:
    """Fourier transforms of the frames that mels are made of; the twin of `models.spectrum.FrameTransform`.

    Frame i is centred on sample (i + 1/2) · hop_length.

    Args:
        settings: of the mels.
        least_envelope: what the sum of the squared windows at a sample is raised to.
    """

    def __init__(self, settings: MelSettings, least_envelope: float) -> None:
        self.settings = settings
        self.window = windows(settings)[0]
        self._wide_window = self.window.astype(np.float64)
        self._least_envelope = least_envelope

    def analyse(self, samples: np.ndarray) -> np.ndarray:
        """[n] → complex64 [1 + (n - n_fft) // hop_length, bins]; the first frame begins with the first sample."""
        every = np.lib.stride_tricks.sliding_window_view(samples, self.settings.n_fft)
        # In float64, because NumPy takes more than twice as long for the transform of float32.
        return np.fft.rfft(every[:: self.settings.hop_length] * self._wide_window).astype(np.complex64)

    def synthesise(self, spectrum: np.ndarray, envelope: np.ndarray) -> np.ndarray:
        """complex64 [F, bins] → float32 [(F - 1) · hop_length + n_fft] or a few zeros more: every sample of the
        frames, divided by their `envelope`."""
        frames = np.fft.irfft(spectrum, self.settings.n_fft).astype(np.float32, copy=False)
        frames *= self.window
        return self._overlapped(frames) / envelope

    def inside(self, samples: np.ndarray, frames: int) -> np.ndarray:
        """Of all samples that so many frames have, those that belong to them: [F · hop_length]."""
        first = self.settings.padding
        return samples[first : first + frames * self.settings.hop_length]

    def envelope(self, frames: int) -> np.ndarray:
        """The sum of the squared windows of so many frames at each sample."""
        squares = np.broadcast_to(self.window**2, (frames, self.settings.n_fft))
        return np.maximum(self._overlapped(squares), np.float32(self._least_envelope))

    def _overlapped(self, frames: np.ndarray) -> np.ndarray:
        """The sum of frames [F, n_fft] that begin a hop after each other."""
        count, hop = len(frames), self.settings.hop_length
        hops = -(-self.settings.n_fft // hop)
        parts = np.pad(frames, ((0, 0), (0, hops * hop - self.settings.n_fft))).reshape(count, hops, hop)
        summed = np.zeros((count + hops - 1, hop), np.float32)
        for place in range(hops):
            summed[place : place + count] += parts[:, place]
        return summed.ravel()
