"""Which clips make batch k of epoch e where there are too many clips to deal out at once, in NumPy.

The clips of a store in parts are dealt out in windows. A window is a few parts, always the same ones, taken at equal
distances so that each window has parts of every data set. In every epoch the windows come in another order, and the
clips of a window are dealt out as `BatchPlan` does it. So the order is a pure function of (seed, epoch) as ever,
every clip comes exactly once in an epoch, and what an epoch takes in memory is what a window takes.

What a plan has to know of all clips is how many have which length. That is counted once for a store and its limits
(`LengthSummary`) and kept, so that a plan is made in the same time whatever the number of clips.

This module knows arrays, not stores: `Windows` brings them. Raise `WINDOW_VERSION` with any change to the order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import xxhash

from myxtts.data.batches.buckets import bucket_of, choose_buckets_of_counts
from myxtts.data.batches.order import GOLDEN, MASK, keys, mix, stream
from myxtts.data.batches.plan import (
    EMPTY,
    ORDER_VERSION,
    BatchOrder,
    BatchPlan,
    EpochBatches,
    PlanDescription,
    apply_limits,
    check_plan_settings,
    require_in_range,
)

if TYPE_CHECKING:
    from myxtts.data.batches.clip_table import ClipTable

WINDOW_VERSION = 1
# Some 16,000 batches, well mixed; and with TensorFlow, three windows at a time stay below a gigabyte.
WINDOW_CLIPS = 1 << 19


class WindowLengths(NamedTuple):
    """The clips of a window that are dealt out.

    Attributes:
        mel_lengths, token_lengths: int [n].
        rows: int64 [n], their positions among all clips of the window.
        repeats: int64 [n], how often each comes in an epoch, or None for once.
    """

    mel_lengths: np.ndarray
    token_lengths: np.ndarray
    rows: np.ndarray
    repeats: np.ndarray | None = None


class Windows(Protocol):
    """The clips of a data set, window by window.

    Attributes:
        identity: of the clips, their order, and which of them are dealt out: equal identities, equal windows.
    """

    identity: str

    def __len__(self) -> int: ...

    def lengths(self, window: int) -> WindowLengths: ...

    def names(self, window: int) -> np.ndarray:
        """What a batch calls the clips of a window, int64 [N]."""

    def table(self, window: int) -> ClipTable:
        """Where the features of the clips of a window lie."""


def group_parts(clips: Sequence[int], window_clips: int = WINDOW_CLIPS) -> list[list[int]]:
    """The parts of each window, where part i has `clips[i]` clips: as many as fit on average, and at least one."""
    in_window = max(1, window_clips * len(clips) // max(1, sum(clips)))
    count = -(-len(clips) // in_window)
    return [list(range(first, len(clips), count)) for first in range(count)]


@dataclass(frozen=True, eq=False)
class LengthSummary:
    """How many clips have which length.

    Attributes:
        counts: int64 [windows, F + 1], clips of each window with so many frames, repeats counted.
        most_tokens: int64 [F + 1], tokens of that one of them that has the most.
        skipped_because: clips that are left out, by reason.
    """

    counts: np.ndarray
    most_tokens: np.ndarray
    skipped_because: dict[str, int]

    @classmethod
    def of(
        cls, windows: Windows, *, max_mel_frames: int | None, max_tokens: int | None, long_clips: str
    ) -> LengthSummary:
        """Looks at every clip, window by window."""
        counts: list[np.ndarray] = []
        most_tokens = np.zeros(0, np.int64)
        because: dict[str, int] = {}
        for window in range(len(windows)):
            clips = windows.lengths(window)
            limited = apply_limits(clips.mel_lengths, clips.token_lengths, max_mel_frames, max_tokens, long_clips)
            frames, tokens = limited.frames[limited.used], limited.tokens[limited.used]
            times = None if clips.repeats is None else clips.repeats[limited.used]
            counts.append(np.bincount(frames, times).astype(np.int64))
            most_tokens = _lengthened(most_tokens, len(counts[-1]))
            np.maximum.at(most_tokens, frames, tokens.astype(np.int64))
            for reason, count in limited.skipped_because.items():
                because[reason] = because.get(reason, 0) + count
        return cls(np.stack([_lengthened(one, len(most_tokens)) for one in counts]), most_tokens, because)


class WindowedPlan:
    """The batches of a data set in windows: as `BatchPlan`, which deals out the clips of each window.

    The last batch of each shape in a window is completed with empty places.

    Args:
        windows: the clips.
        summary: of their lengths under the same limits; none: they are counted now.
        source, and the others: as those of `BatchPlan`.

    Attributes:
        windows: as given.
        buckets, clips, skipped_because, padding_share, description: as those of `BatchPlan`.
        batches_in_window: int64 [windows], the same in every epoch.

    Raises:
        ConfigError: a setting is out of range.
    """

    def __init__(
        self,
        windows: Windows,
        summary: LengthSummary | None = None,
        *,
        batch_size: int | None = None,
        max_frames_per_batch: int | None = None,
        num_buckets: int = 6,
        max_mel_frames: int | None = None,
        max_tokens: int | None = None,
        long_clips: str = "skip",
        source: str = "",
    ) -> None:
        self.windows = windows
        self._settings = {
            "batch_size": batch_size,
            "max_frames_per_batch": max_frames_per_batch,
            "num_buckets": num_buckets,
            "max_mel_frames": max_mel_frames,
            "max_tokens": max_tokens,
            "long_clips": long_clips,
        }
        check_plan_settings(batch_size, max_frames_per_batch, num_buckets, max_mel_frames, max_tokens)
        summary = summary or LengthSummary.of(
            windows, max_mel_frames=max_mel_frames, max_tokens=max_tokens, long_clips=long_clips
        )
        self.skipped_because = summary.skipped_because
        self.clips = int(summary.counts.sum())
        self.buckets = choose_buckets_of_counts(
            summary.counts.sum(axis=0),
            summary.most_tokens,
            num_buckets=num_buckets,
            batch_size=batch_size,
            max_frames_per_batch=max_frames_per_batch,
            max_mel_frames=max_mel_frames,
            max_tokens=max_tokens,
        )
        sizes = np.array([bucket.batch_size for bucket in self.buckets], np.int64)
        bucket = bucket_of(self.buckets, np.arange(len(summary.most_tokens)))
        clips = np.zeros((len(windows), len(sizes)), np.int64)
        for number in range(len(sizes)):
            clips[:, number] = summary.counts[:, bucket == number].sum(axis=1)
        self._batches = -(-clips // sizes)  # [windows, buckets]
        self.batches_in_window = self._batches.sum(axis=1)

        shapes = [astuple(one) for one in self.buckets]
        padded = sum(
            shape[0] * int(places) for shape, places in zip(shapes, (self._batches * sizes).sum(axis=0), strict=True)
        )
        used = int((summary.counts.sum(axis=0) * np.arange(len(summary.most_tokens))).sum())
        self.padding_share = 1 - used / padded if padded else 0.0
        limits = [max_mel_frames, max_tokens, long_clips]
        clips_hash = xxhash.xxh3_128_hexdigest(json.dumps([windows.identity, len(windows), limits]).encode())
        decisive = json.dumps([ORDER_VERSION, WINDOW_VERSION, source, clips_hash, shapes])
        self.description = PlanDescription(
            hash=xxhash.xxh3_128_hexdigest(decisive.encode()),
            source=source,
            clips=self.clips,
            clips_hash=clips_hash,
            **self._settings,  # type: ignore[arg-type]
            buckets=self.buckets,
            batches=int(self.batches_in_window.sum()),
            order_version=ORDER_VERSION,
        )

    def __len__(self) -> int:
        """Batches per epoch, the same in every epoch."""
        return self.description.batches

    @property
    def hash(self) -> str:
        """Two plans with the same hash give the same batches for every seed and epoch."""
        return self.description.hash

    @property
    def rows(self) -> np.ndarray:
        """Names of the clips that are dealt out, int64 [clips]; made anew each time."""
        return np.concatenate(
            [self.windows.names(window)[self.window(window).rows] for window in range(len(self.windows))]
        )

    def batch_shapes(self) -> np.ndarray:
        """Clips, frames and tokens of each batch, padding included, in the order of buckets; int64 [batches, 3]."""
        shapes = [(bucket.batch_size, bucket.frames, bucket.tokens) for bucket in self.buckets]
        return np.repeat(np.array(shapes, np.int64).reshape(-1, 3), self._batches.sum(axis=0), axis=0)

    def window(self, window: int) -> BatchPlan:
        """The batches of one window; rows are positions among its clips."""
        clips = self.windows.lengths(window)
        return BatchPlan(
            clips.mel_lengths,
            clips.token_lengths,
            clips.rows,
            repeats=clips.repeats,
            buckets=self.buckets,
            source=str(window),
            **self._settings,  # type: ignore[arg-type]
        )

    def window_order(self, seed: int, epoch: int, shuffle: bool = True) -> np.ndarray:
        """The windows in the order in which they come in an epoch, int64 [windows]."""
        require_in_range("seed", seed, 0, 2**64 - 1)
        require_in_range("epoch", epoch, 0, 2**64 - 1)
        if not shuffle:
            return np.arange(len(self.windows))
        return np.argsort(keys(stream(seed, epoch), len(self.windows)), kind="stable")

    def find(self, order: BatchOrder) -> tuple[int, int]:
        """Where a run begins: the place of the window in the order of the epoch, and the batch of that window."""
        sizes = self.batches_in_window[self.window_order(order.seed, order.start_epoch, order.shuffle)]
        ends = np.cumsum(sizes)
        place = int(np.searchsorted(ends, order.start_step, side="right"))
        return place, order.start_step - int(ends[place] - sizes[place])

    def batches_of(self, window: int, seed: int, epoch: int, shuffle: bool = True) -> EpochBatches:
        """The batches of one window in an epoch, with the clips' names."""
        batches = self.window(window).epoch(_window_seed(seed, window), epoch, shuffle)
        names = np.append(self.windows.names(window), EMPTY)
        return EpochBatches(batches.bucket_of_batch, batches.offsets, names[batches.indices])

    def epoch(self, seed: int, epoch: int, shuffle: bool = True) -> EpochBatches:
        """All batches of an epoch at once, for data sets that are small enough; as `BatchPlan.epoch`."""
        found = [self.batches_of(int(one), seed, epoch, shuffle) for one in self.window_order(seed, epoch, shuffle)]
        ends = np.cumsum([0, *(len(one.indices) for one in found)])
        return EpochBatches(
            np.concatenate([one.bucket_of_batch for one in found]),
            np.concatenate([[0], *(one.offsets[1:] + end for one, end in zip(found, ends, strict=False))]),
            np.concatenate([one.indices for one in found]),
        )

    def rows_of_batches(self, order: BatchOrder) -> Iterator[np.ndarray]:
        """The names of the clips of one batch after another, empty places left out."""
        epoch = order.start_epoch
        place, step = self.find(order)
        while order.epochs is None or epoch < order.start_epoch + order.epochs:
            for window in self.window_order(order.seed, epoch, order.shuffle)[place:].tolist():
                batches = self.batches_of(window, order.seed, epoch, order.shuffle)
                for number in range(step, len(batches)):
                    rows = batches[number]
                    yield rows[rows >= 0]
                step = 0
            place = 0
            epoch += 1

    def requests(self, window: int, seed: int, epoch: int, shuffle: bool = True) -> dict[str, np.ndarray]:
        """What to load for each batch of a window in an epoch, in order.

        Returns:
            `rows` int64 [K, largest batch], positions in the window, −1 for an empty place; `size`, `frames` and
            `tokens`, int32 [K], and `draw`, uint64 [K], as in `order_in_graph.batch_requests`.
        """
        plan, seed = self.window(window), _window_seed(seed, window)
        batches = plan.epoch(seed, epoch, shuffle)
        shapes = np.array([(one.batch_size, one.frames, one.tokens) for one in self.buckets], np.int32)
        size, frames, tokens = shapes[batches.bucket_of_batch].T
        column = np.arange(max(one.batch_size for one in self.buckets))
        place = batches.offsets[:-1, np.newaxis] + np.minimum(column, size[:, np.newaxis] - 1)
        rows = np.where(column < size[:, np.newaxis], batches.indices[place], EMPTY)
        return {
            "rows": rows,
            "size": size,
            "frames": frames,
            "tokens": tokens,
            "draw": plan.draws(seed, epoch, shuffle),
        }


def _window_seed(seed: int, window: int) -> int:
    """The windows of an epoch have unrelated orders."""
    return mix((seed + (window + 1) * GOLDEN) & MASK)


def _lengthened(array: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([array, np.zeros(max(0, size - len(array)), array.dtype)])
