"""What turns a mel into sound."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Vocoder(Protocol):
    """Anything that speaks log-mels of the project's definition (HiFi-GAN's convention by default).

    `GriffinLim` is the one that needs no training. A neural vocoder trained for the same mel settings takes its
    place by being given to `XTTSInference`.
    """

    @property
    def sample_rate(self) -> int:
        """Samples per second of what is returned."""

    def __call__(self, mel: np.ndarray) -> np.ndarray:
        """Natural-log mel float32 [F, n_mels] → sound float32 [F * hop_length], full scale ±1."""
