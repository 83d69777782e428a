"""The times of processes that train together, and which of them the others wait for.

Every step ends with a sum over all processes, so all take as long as the slowest. Its own work takes longest; the
others spend the difference in the sum.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# A rank is slow if the others lose this share of every step by it.
SLOW = 0.1


@dataclass(frozen=True)
class RankTimes:
    """Means of one process over a number of steps.

    Attributes:
        step_ms: milliseconds per step.
        stall_ms: of these, waiting for data.
        all_reduce_ms: of these, waiting for slower processes, and adding up.
        clips_per_second: its own clips.
        compilations: shapes that its step was compiled for so far.
    """

    step_ms: float = 0.0
    stall_ms: float = 0.0
    all_reduce_ms: float = 0.0
    clips_per_second: float = 0.0
    compilations: int = 0

    @property
    def own_ms(self) -> float:
        """Milliseconds that it needs itself, waiting for data included."""
        return max(0.0, self.step_ms - self.all_reduce_ms)

    @property
    def stall_share(self) -> float:
        """Share of step time that waits for data, 0 to 1."""
        return self.stall_ms / self.step_ms if self.step_ms else 0.0


@dataclass(frozen=True)
class SlowRank:
    """The process that the others wait for.

    Attributes:
        rank: its number.
        share: of every step that the others wait for it, 0 to 1.
        by_data: whether it is slow because it waits for data; otherwise it computes more slowly.
    """

    rank: int
    share: float
    by_data: bool

    def __str__(self) -> str:
        why = "it waits for data" if self.by_data else "it computes more slowly"
        return f"rank {self.rank} is slow: the others wait {100 * self.share:.0f} % of every step for it; {why}"


def mean_times(readings: Sequence[Sequence[RankTimes]]) -> list[RankTimes]:
    """The means of several readings of all ranks; those of before the first step are left out."""
    whole = [times for times in readings if all(one.step_ms > 0 for one in times)]
    return [
        RankTimes(
            step_ms=statistics.fmean(one.step_ms for one in of_rank),
            stall_ms=statistics.fmean(one.stall_ms for one in of_rank),
            all_reduce_ms=statistics.fmean(one.all_reduce_ms for one in of_rank),
            clips_per_second=statistics.fmean(one.clips_per_second for one in of_rank),
            compilations=of_rank[-1].compilations,
        )
        for of_rank in zip(*whole, strict=True)
    ]


def find_slow_rank(times: Sequence[RankTimes]) -> SlowRank | None:
    """The rank that the others wait for; None if there is none."""
    if len(times) < 2:
        return None
    rank = max(range(len(times)), key=lambda number: times[number].own_ms)
    slow, others = times[rank], [one for number, one in enumerate(times) if number != rank]
    more = slow.own_ms - statistics.median(one.own_ms for one in others)
    if not slow.step_ms or more < SLOW * slow.step_ms:
        return None
    by_data = slow.stall_ms - statistics.median(one.stall_ms for one in others) >= more / 2
    return SlowRank(rank, more / slow.step_ms, by_data)
