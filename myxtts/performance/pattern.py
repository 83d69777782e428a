"""Finds what repeats in a series of step times, and what coincides with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from myxtts.performance.diagnosis import Pattern
from myxtts.performance.statistics import variation_verdict

# An autocorrelation above this, in a series that repeats at least three times, is a period and not chance.
_CLEAR = 0.4
_SPIKE = 3.0


def find_pattern(step_times: np.ndarray, events: Mapping[str, Sequence[int]]) -> Pattern:
    """Describes how step times vary.

    Args:
        step_times: float [N], of consecutive steps.
        events: descriptions of events with the steps they happened at. The first that explains most slow steps and
            is rare otherwise is given as the cause.
    """
    times = np.asarray(step_times, np.float64)
    mean = float(times.mean()) if len(times) else 0.0
    variation = float(times.std()) / mean if mean else 0.0
    swing = variation_verdict(variation)
    if swing == "stable":
        return Pattern(variation, swing)
    return Pattern(variation, swing, period(times), _cause(times, events))


def period(series: np.ndarray) -> int | None:
    """Steps after which a series repeats itself, or None. It must do so three times at least."""
    longest = len(series) // 3
    centred = np.asarray(series, np.float64) - np.mean(series)
    power = float(centred @ centred)
    if longest < 2 or not power:
        return None
    # Normalised by the number of pairs, or long periods could not be seen.
    lags = np.array(
        [centred[:-lag] @ centred[lag:] / power * len(series) / (len(series) - lag) for lag in range(1, longest + 1)]
    )
    clear = [
        lag
        for lag in range(2, longest + 1)
        if lags[lag - 1] >= _CLEAR
        and lags[lag - 1] >= lags[lag - 2]
        and (lag == longest or lags[lag - 1] >= lags[lag])
    ]
    # Multiples of the period look as good: the first that is nearly the best is the period.
    best = max((lags[lag - 1] for lag in clear), default=0.0)
    return next((lag for lag in clear if lags[lag - 1] >= 0.8 * best), None)


def spikes(series: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Positions of values far above the median: three times, and by at least `least`."""
    median = float(np.median(series)) if len(series) else 0.0
    return np.flatnonzero(series > max(_SPIKE * median, median + least))


def _cause(times: np.ndarray, events: Mapping[str, Sequence[int]]) -> str | None:
    slow = set(spikes(times, 0.5 * float(np.median(times))).tolist())
    if not slow:
        return None
    for text, positions in events.items():
        # A delay at one step may show in the next, whose batch was made meanwhile.
        near = {step + late for step in positions for late in (0, 1)}
        at_events = len(slow & near)
        if at_events >= 0.5 * len(slow) and at_events >= 0.5 * len(set(positions)):
            return text
    return None
