"""The figures of one recording that tell whether a voice can be trained on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Fault = Literal["clipped", "noisy", "band-limited", "near-empty"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

# From these on a recording has the fault. Measured on three voices, with noise, clipping and filters added.
MOST_FLAT_PEAKS = 3  # a recording that is not clipped has 0 or 1, one that is clipped by 3 dB more than 10
LOWEST_SNR_DB = 15.0  # below about 25 dB noise can be heard, and is learnt with the voice
LOWEST_BANDWIDTH_HZ = 6500.0  # recordings at 16 kHz have 7,000 and more, telephones 4,000
LEAST_SPEECH_SECONDS = 0.25

_NOISE_WINDOW = 1024
_NOISE_PERCENTILE = 5  # of the frames, at each frequency
_SILENT_POWER = 1e-10  # digital silence tells nothing about the microphone
_FLAT = 0.99  # of the largest sample
_FLAT_SAMPLES = 3
_WINDOW = 2048
_BAND_DB = 60.0  # below the strongest frequency there is nothing to learn
_LOUD_PERCENTILE = 95
_RUMBLE_HZ = 40.0
_SMALLEST = 1e-12


@dataclass(frozen=True)
class Measurement:
    """What a recording is like, before anything is changed.

    Attributes:
        seconds: its length.
        speech_seconds: of it, in which somebody speaks.
        peak_db: its largest sample, in dB of full scale.
        dc: its mean, in parts of full scale.
        rumble_db: power below 40 Hz, in dB of the whole.
        flat_peaks: how often at least three samples in a row are within 1 % of the largest one.
        snr_db: power of its louder half over that of the noise, what every frequency has in its quietest moments.
        bandwidth_hz: the highest frequency that its louder moments have, no more than 60 dB below the strongest.
    """

    seconds: float
    speech_seconds: float
    peak_db: float
    dc: float
    rumble_db: float
    flat_peaks: int
    snr_db: float
    bandwidth_hz: float

    def faults(self) -> list[Fault]:
        """What is wrong with it; a recording in which nobody speaks is only near-empty."""
        if self.speech_seconds < LEAST_SPEECH_SECONDS:
            return ["near-empty"]
        found: list[tuple[Fault, bool]] = [
            ("clipped", self.flat_peaks > MOST_FLAT_PEAKS),
            ("noisy", self.snr_db < LOWEST_SNR_DB),
            ("band-limited", self.bandwidth_hz < LOWEST_BANDWIDTH_HZ),
        ]
        return [fault for fault, present in found if present]


def measure(audio: np.ndarray, filtered: np.ndarray, rate: int, spans: Sequence[tuple[float, float]]) -> Measurement:
    """The figures of a recording.

    Args:
        audio: float32 [n], n > 0, as it was recorded.
        filtered: the same without DC and rumble, which are no reason to call a recording noisy.
        rate: in Hz.
        spans: in which somebody speaks, in seconds.
    """
    power = float(np.mean(audio.astype(np.float64) ** 2))
    return Measurement(
        seconds=round(len(audio) / rate, 3),
        speech_seconds=round(sum(end - begin for begin, end in spans), 3),
        peak_db=round(_db(float(np.abs(audio).max()) ** 2), 1),
        dc=round(float(audio.mean()), 5),
        rumble_db=round(_rumble(audio, rate, power), 1),
        flat_peaks=_flat_peaks(audio),
        snr_db=round(_snr(filtered), 1),
        bandwidth_hz=round(_bandwidth(filtered, rate)),
    )


def _snr(audio: np.ndarray) -> float:
    """Speech leaves every frequency quiet at some time, even where words follow each other without a pause."""
    spectra = _spectra(audio, _NOISE_WINDOW)
    strength = spectra.sum(axis=1)
    heard = strength > _SILENT_POWER * _NOISE_WINDOW
    if not heard.any():
        return 0.0
    spectra, strength = spectra[heard], strength[heard]
    # The power of noise at one frequency is spread exponentially: this is its mean, from its percentile.
    quietest = np.percentile(spectra, _NOISE_PERCENTILE, axis=0).sum()
    noise = max(float(quietest) / -np.log(1 - _NOISE_PERCENTILE / 100), _SMALLEST)
    speech = float(strength[strength >= np.median(strength)].mean())
    return _db(max(speech - noise, _SMALLEST) / noise)


def _flat_peaks(audio: np.ndarray) -> int:
    high = np.abs(audio) >= _FLAT * np.abs(audio).max()
    steps = np.diff(high.astype(np.int8), prepend=0, append=0)
    return int(np.sum(np.flatnonzero(steps == -1) - np.flatnonzero(steps == 1) >= _FLAT_SAMPLES))


def _bandwidth(audio: np.ndarray, rate: int) -> float:
    spectra = _spectra(audio, _WINDOW)
    strength = spectra.sum(axis=1)
    loud = np.percentile(spectra[strength >= np.median(strength)], _LOUD_PERCENTILE, axis=0)
    present = np.flatnonzero(loud > loud.max() * 10 ** (-_BAND_DB / 10))
    return float(present[-1]) * rate / _WINDOW if len(present) else 0.0


def _spectra(audio: np.ndarray, window: int) -> np.ndarray:
    """float64 [frames, window / 2 + 1], power; a quarter of a window from frame to frame."""
    padded = np.pad(audio, (0, max(0, window - len(audio))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[:: window // 4]
    return np.abs(np.fft.rfft(frames * np.hanning(window), axis=1)) ** 2


def _rumble(audio: np.ndarray, rate: int, power: float) -> float:
    spectrum = np.abs(np.fft.rfft(audio.astype(np.float64) - audio.mean())) ** 2
    low = 2 * float(spectrum[: int(_RUMBLE_HZ * len(audio) / rate) + 1].sum()) / len(audio) ** 2
    return _db(low / max(power, _SMALLEST))


def _db(power: float) -> float:
    return float(10 * np.log10(max(power, _SMALLEST)))
