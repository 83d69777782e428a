"""What a row gives to be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Source:
    """An endless stream of batches, and what is known about them.

    Attributes:
        batches: each `next` gives a batch whose bytes are in memory.
        clips_per_batch: clips in a batch on average, empty places not counted.
        padding_share: share of the frames that are padding.
        warmup_batches: taken at least before anything is counted, where new shapes have to be compiled first.
        first_rows: which clips the first batch should hold, where the batch itself does not say.
        after: called when everything else is measured; what it returns is part of the row's results.
    """

    batches: Iterator[Any]
    clips_per_batch: float
    padding_share: float
    warmup_batches: int = 1
    first_rows: Sequence[int] = ()
    after: Callable[[], dict[str, float]] = field(default=dict)
