"""How long a batch takes to load when nothing else runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from myxtts.performance.batches import leading_dimension
from myxtts.performance.statistics import RunningStatistics, Summary, variation_verdict
from myxtts.performance.step_run import fetch

# Milliseconds per batch on average, from the reference documents.
GOOD_BELOW_MS = 100.0
SLOW_ABOVE_MS = 500.0


def loading_verdict(mean_ms: float) -> str:
    """`good` (under 100 ms), `moderate` (to 500 ms) or `slow`."""
    if mean_ms < GOOD_BELOW_MS:
        return "good"
    return "moderate" if mean_ms <= SLOW_ABOVE_MS else "slow"


@dataclass(frozen=True)
class LoadingProfile:
    """Times of batches that were asked for one after another, without the first and the warm-up.

    Attributes:
        times: milliseconds per batch.
        first_ms: until the first batch was there: starting threads, reading what is read at the start.
        clips: in the batches of `times`.
    """

    times: Summary
    first_ms: float
    clips: int

    @property
    def verdict(self) -> str:
        return loading_verdict(self.times.mean)

    @property
    def clips_per_second(self) -> float:
        return 1e3 * self.clips / self.times.total if self.times.total else 0.0

    @property
    def variation(self) -> float:
        """Standard deviation of the times over their mean."""
        return self.times.std / self.times.mean if self.times.mean else 0.0

    @property
    def variation_verdict(self) -> str:
        """`stable` (under 20 %), `moderate`, or `high` (over 50 %)."""
        return variation_verdict(self.variation)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "verdict": self.verdict,
            "batches": self.times.count,
            "clips": self.clips,
            "clips_per_second": self.clips_per_second,
            "mean_ms": self.times.mean,
            "p50_ms": self.times.p50,
            "p95_ms": self.times.p95,
            "p99_ms": self.times.p99,
            "max_ms": self.times.maximum,
            "first_ms": self.first_ms,
            "variation": self.variation,
        }


def profile_loading(
    source: Iterable[Any],
    num_batches: int,
    *,
    is_warm: Callable[[Any], bool] = lambda batch: True,
    count_clips: Callable[[Any], int] = leading_dimension,
    on_batch: Callable[[Any], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> LoadingProfile:
    """Takes batches as fast as they come.

    Args:
        source: batches of any kind.
        num_batches: to time; fewer if the source ends.
        is_warm: gets every batch until it returns true; the batches after that one are timed.
        count_clips: clips in a batch.
        on_batch: gets every batch, in time that is not counted.
        clock: seconds that never go back.

    Raises:
        ValueError: the source ended before there was a batch to time.
    """
    times = RunningStatistics(window=num_batches)
    first_ms, clips, warm = None, 0, False
    for fetched in fetch(iter(source), clock=clock):
        milliseconds = 1e3 * fetched.waited
        if first_ms is None:
            first_ms = milliseconds
        if warm:
            times.add(milliseconds)
            clips += count_clips(fetched.batch)
        warm = warm or is_warm(fetched.batch)
        if on_batch is not None:
            on_batch(fetched.batch)
        if times.count == num_batches:
            break
    if first_ms is None or not times.count:
        raise ValueError("the data ended during the warm-up; there is nothing to time")
    return LoadingProfile(times.summary(), first_ms, clips)
