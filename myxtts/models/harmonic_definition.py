"""What defines the harmonic vocoder besides its weights: classes of pitch, the noise, phases. Needs no TensorFlow.

The noise is the same 64-thousand-odd samples again and again, so that a frame's noise depends on its number only, and
speech made in parts equals speech made at once.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from myxtts.audio.mel import MelSettings, windows

LOWEST, HIGHEST = 55.0, 550.0  # Hz; human speech
CLASSES = 160  # a quarter of a semitone each
CLASS_PITCHES = np.geomspace(LOWEST, HIGHEST, CLASSES).astype(np.float32)
SCORE_CHANGE = 0.5  # cost of a change by a class, in a network's scores
NEIGHBOURS = 4  # classes at either side of the best that are averaged
_WIDEST_CHANGE = 24  # classes; a jump costs no more than this, which lets a phrase begin at another pitch

USUAL_PITCH = 200.0  # Hz, at which a pulse train has amplitude 1 in each harmonic
AT_A_PULSE = 1e-4  # where the quotient of two sines is replaced by its limit
LOUDEST = 8.0  # natural logarithm of a magnitude; full scale has less
# The first and last frames have few neighbours to overlap with; dividing by less would amplify their errors.
LEAST_ENVELOPE = 1e-2

NOISE_FRAMES = 256
_NOISE_SEED = 2024


def change_costs(change: float) -> np.ndarray:
    """What moving from one class to another costs: float32 [CLASSES, CLASSES], symmetric.

    Args:
        change: cost of moving by one class.
    """
    classes = np.arange(CLASSES)
    steps = np.minimum(np.abs(classes[:, None] - classes), _WIDEST_CHANGE)
    return change * steps.astype(np.float32)


def phase_of_pitch(pitch: np.ndarray, settings: MelSettings) -> np.ndarray:
    """The phase at the middle of each frame of a pitch in Hz [F], from 0 on: float32 [F], 0 to 2π.

    In float64: an error of the pitch's sum would be heard fifty times as large in the fiftieth harmonic.
    """
    cycles = np.asarray(pitch, np.float64) * settings.hop_length / settings.sample_rate
    advance = 0.5 * (cycles[1:] + cycles[:-1])
    phase = np.concatenate([[0.0], np.cumsum(advance)])[: len(cycles)]
    return (2 * np.pi * (phase % 1.0)).astype(np.float32)


@lru_cache(maxsize=4)
def noise_spectra(settings: MelSettings) -> np.ndarray:
    """Spectra of white noise that repeats after `NOISE_FRAMES` frames, of power 1 in each bin: complex64
    [NOISE_FRAMES, bins]."""
    hop, window = settings.hop_length, windows(settings)[0]
    noise = np.random.default_rng(_NOISE_SEED).standard_normal(NOISE_FRAMES * hop)
    places = (np.arange(NOISE_FRAMES)[:, None] * hop + np.arange(settings.n_fft)) % len(noise)
    return (np.fft.rfft(noise[places] * window) / np.sqrt(np.sum(window**2))).astype(np.complex64)
