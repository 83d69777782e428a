"""What processes that train together tell each other with every step: a signal that one of them got, and its times.

Each puts its figures into its own row of a table, which is summed with the gradients. So all have the same table
after the same step, and decide the same. Two steps may be in flight: a decision about step k is made by all of them
after step k + 2, when each has surely read the table of step k.
"""

from __future__ import annotations

import numpy as np

from myxtts.performance.rank_times import RankTimes
from myxtts.performance.step_watcher import MAX_IN_FLIGHT

_SIGNAL, _STEP, _STALL, _ALL_REDUCE, _CLIPS, _COMPILATIONS = range(6)
REPORTED = 6  # columns of the table


class RankReports:
    """Makes this process's report and reads those of all.

    Args:
        rank: number of this process.
        ranks: processes in all.
    """

    def __init__(self, rank: int, ranks: int) -> None:
        self._rank = rank
        self._ranks = ranks
        self._signalled_at: int | None = None  # the first batch that told of a signal

    def own(self, signal: int | None, times: RankTimes) -> np.ndarray:
        """This process's report, for the next step: float32 [ranks, REPORTED]."""
        table = np.zeros((self._ranks, REPORTED), np.float32)
        table[self._rank] = (
            signal or 0,
            times.step_ms,
            times.stall_ms,
            times.all_reduce_ms,
            times.clips_per_second,
            times.compilations,
        )
        return table

    def completed(self, batch: int, table: np.ndarray) -> None:
        """Reads the table of a completed step."""
        if self._signalled_at is None and table[:, _SIGNAL].any():
            self._signalled_at = batch

    def signalled(self, batch: int) -> bool:
        """Whether all processes stop after this batch, because one of them got a signal."""
        return self._signalled_at is not None and self._signalled_at <= batch - MAX_IN_FLIGHT


def times_of(table: np.ndarray) -> list[RankTimes]:
    """The times of every rank in a table of reports."""
    return [
        RankTimes(
            step_ms=float(row[_STEP]),
            stall_ms=float(row[_STALL]),
            all_reduce_ms=float(row[_ALL_REDUCE]),
            clips_per_second=float(row[_CLIPS]),
            compilations=int(row[_COMPILATIONS]),
        )
        for row in table
    ]
