"""One process's share of every batch, where several processes train together (docs/scaling.md).

A plan, its order and a position know nothing of processes: they are those of the whole batch. Process r of n takes
places r, r + n, r + 2n, … of it, filled up with empty places so that all processes have the same shape. Loaders in
graph take the same (`clip_table.TableInGraph`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from myxtts.data.batches.plan import EMPTY


@dataclass(frozen=True)
class Share:
    """Every `ranks`-th place of a batch, from place `rank` on; by default all of them.

    Attributes:
        rank: number of the process, from 0.
        ranks: processes in all.
    """

    rank: int = 0
    ranks: int = 1

    @property
    def is_whole(self) -> bool:
        return self.ranks == 1

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Of a batch's rows int64 [B], those of this share: [ceil(B / ranks)], −1 for an empty place."""
        return np.pad(rows, (0, -len(rows) % self.ranks), constant_values=EMPTY)[self.rank :: self.ranks]

    def places(self, size: int) -> np.ndarray:
        """Where the places of this share are in a batch of `size`: int64 [ceil(size / ranks)]. Empty places that fill
        it up have numbers from `size` on."""
        return np.arange(self.rank, size + -size % self.ranks, self.ranks)


WHOLE = Share()
