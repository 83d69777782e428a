"""Which clips train, which validate, which are kept for testing.

A clip's side is a hash of (split_seed, id) and nothing else: not its position, not the other clips. Appending
clips therefore moves none of those already there, with one exception that small data sets need: if no clip
falls into the validation split by itself, the one with the lowest hash stands in for it, and goes back to
where its hash puts it once a lower one is appended. Even then no clip that was trained on ever moves into
validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import xxhash

from myxtts.config.config import DataConfig

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True)
class SplitRule:
    """Shares of the clips per split, and the seed of the hash; what the two leave over is `test`."""

    train: float
    val: float
    seed: int

    @classmethod
    def from_config(cls, config: DataConfig) -> SplitRule:
        return cls(config.train_split, config.val_split, config.split_seed)

    def position(self, clip_id: str) -> float:
        """Where the id falls between 0 and 1."""
        return xxhash.xxh3_64_intdigest(f"{self.seed}:{clip_id}".encode()) / 2**64

    def split_of(self, clip_id: str) -> Split:
        position = self.position(clip_id)
        if position < self.val:
            return "val"
        # Shares are written in decimal: 0.95 + 0.05 may fall just short of 1 and must not leave a test split.
        return "train" if position < self.val + self.train + 1e-9 else "test"

    def assign(self, ids: Sequence[str]) -> list[Split]:
        """The split of every id; of two or more, one stands in where validation would be empty."""
        splits = [self.split_of(clip_id) for clip_id in ids]
        if self.val > 0 and len(ids) > 1 and "val" not in splits:
            lowest = min(range(len(ids)), key=lambda i: (self.position(ids[i]), ids[i]))
            splits[lowest] = "val"
        return splits


def split_of(clip_id: str, config: DataConfig) -> Split:
    """The split that the hash of a clip's id falls into, under a configuration's shares and seed."""
    return SplitRule.from_config(config).split_of(clip_id)
