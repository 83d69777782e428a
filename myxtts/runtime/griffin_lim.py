"""Audio from a mel without a trained vocoder, in NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from myxtts.audio.mel import MelSettings, mel_filterbank
from myxtts.runtime.frame_transform import FrameTransform


class GriffinLim:
    """Fast Griffin-Lim (Perraudin, Balazs & Søndergaard 2013): finds phases that agree with the magnitudes.

    The same mel gives the same audio.

    ```python
    audio = GriffinLim(MelSettings())(mel)      # [F, n_mels] → [F * hop_length]
    ```

    Args:
        settings: of the mels.
        iterations: transforms back and forth; more than about 30 gain little.
        momentum: share of the last change that is added again; 0 is the plain algorithm.
    """

    name = "Griffin-Lim"

    # Steps of the search for magnitudes whose mel is the given one.
    _MAGNITUDE_STEPS = 10
    _SMALL = np.float32(1e-8)

    def __init__(self, settings: MelSettings, iterations: int = 32, momentum: float = 0.99) -> None:
        self.settings = settings
        self.iterations = iterations
        self.momentum = np.float32(momentum)
        self._transform = FrameTransform(settings, least_envelope=1e-3)
        self._bands = mel_filterbank(settings)  # [n_mels, bins]
        self._inverse = np.linalg.pinv(self._bands).T.astype(np.float32)  # [n_mels, bins]

    @property
    def sample_rate(self) -> int:
        return self.settings.sample_rate

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → audio float32 [F * hop_length]."""
        frames = len(mel)
        if not frames:
            return np.zeros(0, np.float32)
        magnitude = self._magnitude(np.exp(mel.astype(np.float32, copy=False)))  # [F, bins]
        angle = np.random.default_rng(0).random(magnitude.shape, np.float32) * np.float32(2 * np.pi)
        spectrum = magnitude * (np.cos(angle) + 1j * np.sin(angle))
        envelope = self._transform.envelope(frames)
        last = spectrum
        for _ in range(self.iterations):
            consistent = self._transform.analyse(self._transform.synthesise(spectrum, envelope))[:frames]
            spectrum = consistent + self.momentum * (consistent - last)
            spectrum *= magnitude / np.sqrt(spectrum.real**2 + spectrum.imag**2 + self._SMALL**2)
            last = consistent
        return self._transform.inside(self._transform.synthesise(spectrum, envelope), frames)

    def stream(self, mel: np.ndarray, chunk_frames: int = 0) -> Iterator[np.ndarray]:
        """All of the audio in one piece, whatever `chunk_frames`: each phase depends on all frames."""
        if len(mel):
            yield self(mel)

    def _magnitude(self, mel: np.ndarray) -> np.ndarray:
        """Non-negative magnitudes [F, bins] whose mel is near [F, n_mels]: multiplicative updates from the
        pseudo-inverse (Lee & Seung 2001)."""
        magnitude = np.maximum(mel @ self._inverse, self._SMALL)
        wanted = mel @ self._bands  # [F, bins]
        for _ in range(self._MAGNITUDE_STEPS):
            given = (magnitude @ self._bands.T) @ self._bands
            magnitude *= wanted / (given + self._SMALL)
        return magnitude
