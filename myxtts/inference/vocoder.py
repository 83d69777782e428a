"""The protocol of vocoders, which turn a mel into audio."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Vocoder(Protocol):
    """Makes audio of log-mels as the project defines them (HiFi-GAN's convention by default).

    `GriffinLim` needs no training. To use a neural vocoder, trained with the same mel settings, pass it to
    `XTTSInference`.
    """

    @property
    def sample_rate(self) -> int:
        """Samples per second of the audio."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → audio float32 [F * hop_length], full scale ±1."""
