"""Which segments of which clips make batch k of epoch e: a pure function of (seed, epoch, k), in NumPy.

A segment is a number of successive frames of one clip, with the samples under them: what a vocoder is trained on.
All frames of the data set that a segment can begin with are numbered, clip after clip. Each place of a batch draws
one of these numbers with a key of the stream of (seed, epoch), each with the same chance, so a long clip is drawn
more often than a short one. An epoch has as many frames as the data set; but since segments are drawn, some frames
come several times in it, and some not at all.

A graph draws the same (`order_in_graph`). Raise `SEGMENT_VERSION` with any change to what is drawn.

This module knows arrays, not stores: a clip is its row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from myxtts.data.batches.order import keys, stream
from myxtts.data.batches.plan import checked_lengths, checked_rows, require_in_range

SEGMENT_VERSION = 1


class Segments(NamedTuple):
    """The segments of one batch.

    Attributes:
        rows: int64 [B], rows of their clips.
        first_frame: int64 [B], where they begin.
    """

    rows: np.ndarray
    first_frame: np.ndarray


@dataclass(frozen=True)
class SegmentDescription:
    """What a plan of segments is made from: small enough to save with a position.

    Attributes:
        hash: over everything that decides which segments are in which batch. Equal hashes, equal batches.
        source: what the rows hold, as the caller named it.
        clips: clips that segments are drawn from.
        clips_hash: over the rows and the lengths of these clips.
        batch_size: segments per batch.
        frames: of a segment.
        batches: per epoch.
        segment_version: of the draw.
    """

    hash: str
    source: str
    clips: int
    clips_hash: str
    batch_size: int
    frames: int
    batches: int
    segment_version: int


class SegmentPlan:
    """The batches of random segments of a data set: their shape, their number, and for any of them its segments.

    A clip shorter than a segment is one segment, which begins with its first frame and is padded.

    Example:
        >>> plan = SegmentPlan([120, 480, 500, 130], frames=32, batch_size=4)
        >>> len(plan), plan.starts
        (9, 1106)
        >>> plan.batch(seed=1, epoch=0, step=8).rows.tolist()
        [3, 2, 2, 3]

    Args:
        mel_lengths: int [N], mel frames of each clip.
        rows: int [N], distinct, what a batch calls each clip (its row in the store); by default 0 to N − 1.
        frames: of a segment.
        batch_size: segments per batch.
        source: what the rows hold (a store's fingerprint, say), so that a position is not resumed on other data that
            happens to have the same lengths.
        repeats: int [N], how often each clip's frames count; by default once.

    Attributes:
        frames, batch_size: as given.
        clips: clips that segments are drawn from.
        rows: int64 [clips], their rows.
        first_start: int64 [clips], for each of them how many places to begin there are in all clips before it.
        starts: places to begin, in all clips.
        shortest: frames of the shortest clip.
        skipped: int64, rows of clips without a frame.
        skipped_because: how many were left out, by reason: `empty`.
        description: what the plan is made from, and its hash.

    Raises:
        ConfigError: a setting is out of range.
        ValueError: the arrays do not describe clips.
    """

    def __init__(
        self,
        mel_lengths: npt.ArrayLike,
        rows: npt.ArrayLike | None = None,
        *,
        frames: int,
        batch_size: int,
        source: str = "",
        repeats: npt.ArrayLike | None = None,
    ) -> None:
        require_in_range("frames", frames, 1)
        require_in_range("batch_size", batch_size, 1)
        lengths = checked_lengths("mel_lengths", mel_lengths)
        every_row = checked_rows(rows, size=len(lengths))
        used = lengths > 0
        self.skipped = every_row[~used]
        self.skipped_because = {"empty": len(self.skipped)} if len(self.skipped) else {}
        self.rows, lengths = every_row[used], lengths[used]
        if repeats is not None:
            times = checked_lengths("repeats", repeats, size=len(used))[used]
            self.rows, lengths = np.repeat(self.rows, times), np.repeat(lengths, times)
        self.frames, self.batch_size, self.clips = frames, batch_size, len(lengths)
        starts = np.maximum(lengths - frames + 1, 1)
        self.first_start = np.cumsum(starts) - starts
        self.starts = int(starts.sum())
        self.shortest = int(lengths.min(initial=np.iinfo(np.int64).max))

        clips_hash = xxhash.xxh3_128()
        for array in (self.rows, lengths):
            clips_hash.update(array.astype("<i8", copy=False).data)
        decisive = json.dumps([SEGMENT_VERSION, source, clips_hash.hexdigest(), batch_size, frames])
        self.description = SegmentDescription(
            hash=xxhash.xxh3_128_hexdigest(decisive.encode()),
            source=source,
            clips=self.clips,
            clips_hash=clips_hash.hexdigest(),
            batch_size=batch_size,
            frames=frames,
            batches=max(1, int(lengths.sum()) // (batch_size * frames)) if self.clips else 0,
            segment_version=SEGMENT_VERSION,
        )

    def __len__(self) -> int:
        """Batches per epoch, the same in every epoch."""
        return self.description.batches

    @property
    def hash(self) -> str:
        """Two plans with the same hash give the same batches for every seed and epoch."""
        return self.description.hash

    def batch(self, seed: int, epoch: int, step: int, shuffle: bool = True) -> Segments:
        """The segments of one batch.

        Args:
            seed: 0 to 2**64 − 1.
            epoch: 0 or more.
            step: number of the batch in its epoch.
            shuffle: False gives the same segments for every seed and epoch: those of seed 0 in epoch 0.
        """
        require_in_range("seed", seed, 0, 2**64 - 1)
        require_in_range("epoch", epoch, 0, 2**64 - 1)
        if not 0 <= step < len(self):
            raise IndexError(f"batch {step} of {len(self)}")
        state = stream(seed, epoch) if shuffle else stream(0, 0)
        drawn = (keys(state, self.batch_size, first=step * self.batch_size) >> np.uint64(1)).astype(np.int64)
        start = drawn % self.starts
        clip = np.searchsorted(self.first_start, start, side="right") - 1
        return Segments(self.rows[clip], start - self.first_start[clip])
