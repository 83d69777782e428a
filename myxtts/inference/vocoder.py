"""Vocoders turn a mel into audio: their protocol, and which one is used unless another is given."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from myxtts.audio.mel import MelSettings


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


def create_vocoder(settings: MelSettings) -> Vocoder:
    """The vocoder for mels of these settings wherever none is given: in `XTTSInference`, training and evaluation."""
    from myxtts.inference.griffin_lim import GriffinLim  # needs TensorFlow

    return GriffinLim(settings)
