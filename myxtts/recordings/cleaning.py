"""Makes one recording fit for a data set: no DC and no rumble, short silent ends, one loudness."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

RUMBLE_HZ = 40.0  # the lowest voices speak at 70 Hz
HIGHEST_PEAK = 10 ** (-1 / 20)  # -1 dB of full scale

_FILTER_ORDER = 2  # applied forwards and backwards, so that no sound moves
_BLOCK_SECONDS = 0.4  # of BS.1770
_FADE_SECONDS = 0.005
_FRAME_SECONDS = 0.01
# The voice activity model begins late at "s" and ends early at "t": sound that goes on at the ends belongs to a word.
_LONGEST_EXTENSION_SECONDS = 0.25
_ABOVE_NOISE = 10 ** (10 / 10)
_NOISE_PERCENTILE = 25  # of the frames in which nobody speaks; some of the others are the ends of words
_FEWEST_NOISE_FRAMES = 5


def without_rumble(audio: np.ndarray, rate: int) -> np.ndarray:
    """float32 [n] without DC and what lies below 40 Hz."""
    from scipy import signal  # takes a second

    sections = signal.butter(_FILTER_ORDER, RUMBLE_HZ, "highpass", fs=rate, output="sos")
    centred = audio - audio.mean(dtype=np.float64)
    padding = min(len(audio) - 1, int(rate / RUMBLE_HZ))
    return signal.sosfiltfilt(sections, centred, padlen=padding).astype(np.float32)


def speech_ends(audio: np.ndarray, rate: int, spans: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """The samples between which somebody speaks.

    Args:
        audio: float32 [n].
        rate: in Hz.
        spans: of speech as the voice activity model finds them, in seconds; at least one.
    """
    power = _frame_power(audio, rate)
    frame = int(rate * _FRAME_SECONDS)
    spoken = np.zeros(len(power), bool)
    for begin, end in spans:
        spoken[int(begin / _FRAME_SECONDS) : int(end / _FRAME_SECONDS) + 1] = True
    quiet = power[~spoken]
    noise = np.percentile(quiet, _NOISE_PERCENTILE) if len(quiet) >= _FEWEST_NOISE_FRAMES else power.min()
    loud = power > noise * _ABOVE_NOISE
    reach = int(_LONGEST_EXTENSION_SECONDS / _FRAME_SECONDS)
    first = min(int(spans[0][0] * rate) // frame, len(power) - 1)
    last = min(int(spans[-1][1] * rate) // frame, len(power) - 1)
    earliest, latest = max(0, first - reach), min(len(power) - 1, last + reach)
    while first > earliest and loud[first - 1]:
        first -= 1
    while last < latest and loud[last + 1]:
        last += 1
    return first * frame, min(len(audio), (last + 1) * frame)


def with_silent_ends(audio: np.ndarray, rate: int, ends: tuple[int, int], seconds: float) -> np.ndarray:
    """The speech between `ends` (samples) with so much silence before and after it.

    Silence is that of the recording; what it lacks is made of its own mirrored silence, or of zeros if it begins with
    a word. The outermost 5 ms fade.
    """
    length = round(seconds * rate)
    begin, end = ends
    before = _silence(audio[max(0, begin - length) : begin][::-1], length)[::-1]
    after = _silence(audio[end : end + length], length)
    result = np.concatenate([before, audio[begin:end], after])
    fade = min(int(_FADE_SECONDS * rate), len(result) // 2)
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    result[:fade] *= ramp
    result[len(result) - fade :] *= ramp[::-1]
    return result


def loudness(audio: np.ndarray, rate: int) -> float:
    """Integrated loudness by ITU-R BS.1770 in LUFS; -inf where there is nothing to hear."""
    import pyloudnorm

    seconds = min(_BLOCK_SECONDS, len(audio) / rate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of no block
        found = float(pyloudnorm.Meter(rate, block_size=seconds).integrated_loudness(audio.astype(np.float64)))
    return found if np.isfinite(found) else -np.inf


def at_loudness(audio: np.ndarray, rate: int, target: float) -> np.ndarray:
    """`audio` at `target` LUFS, or as near as its largest sample allows; silence is left alone."""
    current = loudness(audio, rate)
    peak = float(np.abs(audio).max())
    if not np.isfinite(current) or peak == 0:
        return audio
    return audio * np.float32(min(10 ** ((target - current) / 20), HIGHEST_PEAK / peak))


def _frame_power(audio: np.ndarray, rate: int) -> np.ndarray:
    """float64: the mean power of each whole frame of 10 ms; of a shorter recording, of all of it."""
    size = max(1, min(len(audio), int(rate * _FRAME_SECONDS)))
    frames = audio[: len(audio) // size * size].reshape(-1, size).astype(np.float64)
    return np.mean(frames**2, axis=1)


def _silence(near: np.ndarray, length: int) -> np.ndarray:
    """`length` samples that begin with `near`, those next to the speech."""
    if not len(near):
        return np.zeros(length, np.float32)
    return np.pad(near, (0, length - len(near)), mode="symmetric")
