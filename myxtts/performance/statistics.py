"""Statistics of a stream of measurements in bounded memory.

Count, total, mean, standard deviation and extremes cover all values; quantiles cover the most recent ones, which are
kept in a ring buffer.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import asdict, dataclass

import numpy as np

DEFAULT_WINDOW = 4096

# Standard deviation of step times over their mean, from the reference documents.
HIGH_VARIATION = 0.50
STABLE_VARIATION = 0.20


def variation_verdict(variation: float) -> str:
    """`stable` (a standard deviation under 20 % of the mean), `moderate`, or `high` (over 50 %)."""
    if variation < STABLE_VARIATION:
        return "stable"
    return "high" if variation > HIGH_VARIATION else "moderate"


@dataclass(frozen=True)
class Summary:
    """One stream in numbers, all in the unit of its values. `p50` to `p99` are of the most recent ones."""

    count: int
    total: float
    mean: float
    std: float
    minimum: float
    maximum: float
    p50: float
    p95: float
    p99: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


class RunningStatistics:
    """Adds up values one at a time. Quantiles are taken over the `window` most recent ones."""

    __slots__ = ("_maximum", "_mean", "_minimum", "_recent", "_squares", "_window", "count", "total")

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        self._window = window
        self._recent = array("d")
        self.count = 0
        self.total = 0.0
        self._mean = 0.0
        self._squares = 0.0
        self._minimum = math.inf
        self._maximum = -math.inf

    def add(self, value: float) -> None:
        if self.count < self._window:
            self._recent.append(value)
        else:
            self._recent[self.count % self._window] = value
        self.count += 1
        self.total += value
        # Welford's update: a plain sum of squares loses the deviation of a long run to rounding.
        difference = value - self._mean
        self._mean += difference / self.count
        self._squares += difference * (value - self._mean)
        if value < self._minimum:
            self._minimum = value
        if value > self._maximum:
            self._maximum = value

    def summary(self) -> Summary:
        """All zeros if nothing was added."""
        if not self.count:
            return Summary(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        p50, p95, p99 = np.quantile(np.array(self._recent), (0.5, 0.95, 0.99)).tolist()
        std = math.sqrt(self._squares / self.count)
        return Summary(self.count, self.total, self._mean, std, self._minimum, self._maximum, p50, p95, p99)
