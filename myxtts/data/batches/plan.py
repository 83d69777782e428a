"""Which clips make batch k of epoch e: a pure function of (seed, epoch), in NumPy.

A `BatchPlan` is made once from the clips' lengths. It fixes what never changes: the bucket shapes, the bucket
of each clip, the number of batches. `BatchPlan.epoch` then deals the clips out for one epoch:

1. Every clip draws a key from the stream of (seed, epoch). Sorting the clips by (bucket, key) shuffles the
   whole data set and leaves the clips of each bucket together, in random order.
2. Each bucket's clips are cut into batches; the last one is completed with empty places (−1).
3. The batches are sorted by keys of the same stream, so lengths come in no order.

The keys are `order`'s and the sorts are stable, so the order depends on the seed, the epoch and the plan, not
on the version of NumPy or the machine, and a graph can make the same one (`order_in_graph`). Raise
`ORDER_VERSION` with any change to it.

This module knows arrays, not stores: a clip is its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from myxtts.data.batches.buckets import MAX_BUCKETS, Bucket, bucket_of, choose_buckets
from myxtts.data.batches.order import keys, stream
from myxtts.errors import ConfigError

ORDER_VERSION = 1
EMPTY = -1
BUCKET_BITS = 8  # of a clip's sort key: its bucket above, its random key below

_UNLIMITED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class BatchOrder:
    """Which batches of a plan come, and in what order.

    Attributes:
        seed: of the order, 0 to 2**64 − 1.
        shuffle: a new order in every epoch; otherwise that of the plan.
        epochs: how many, counted from `start_epoch`; None for no end.
        start_epoch, start_step: begin with this batch of this epoch.
    """

    seed: int = 0
    shuffle: bool = True
    epochs: int | None = None
    start_epoch: int = 0
    start_step: int = 0


@dataclass(frozen=True)
class PlanDescription:
    """What a plan is made from: small enough to save with a position, enough to say how two plans differ.

    Attributes:
        hash: over everything that decides which clips are in which batch. Equal hashes, equal batches.
        source: what the rows hold, as the caller named it.
        clips: clips dealt out per epoch.
        clips_hash: over the rows and the lengths of these clips.
        batches: batches per epoch.

    The others are the arguments of `BatchPlan`, and its buckets.
    """

    hash: str
    source: str
    clips: int
    clips_hash: str
    batch_size: int | None
    max_frames_per_batch: int | None
    num_buckets: int
    max_mel_frames: int | None
    max_tokens: int | None
    long_clips: str
    buckets: tuple[Bucket, ...]
    batches: int
    order_version: int


@dataclass(frozen=True, eq=False)
class EpochBatches:
    """The batches of one epoch. Arrays are read-only.

    Attributes:
        bucket_of_batch: int32 [K], the bucket (shape) of each batch.
        offsets: int64 [K + 1]; batch k is `indices[offsets[k]:offsets[k + 1]]`, its bucket's batch size long.
        indices: int64 [places of all batches], rows of clips, −1 for an empty place.
    """

    bucket_of_batch: np.ndarray
    offsets: np.ndarray
    indices: np.ndarray

    def __len__(self) -> int:
        return len(self.bucket_of_batch)

    def __getitem__(self, batch: int) -> np.ndarray:
        """Rows of the clips in a batch, int64 [batch size of its bucket]."""
        if not 0 <= batch < len(self):
            raise IndexError(f"batch {batch} of {len(self)}")
        return self.indices[self.offsets[batch] : self.offsets[batch + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[batch] for batch in range(len(self)))


class BatchPlan:
    """The batches of a data set: their shapes, their number, and for any epoch their clips.

    Every clip that is not left out appears exactly once per epoch, or as often as `repeats` says, in a batch whose
    shape holds it. Which clips share a batch changes from epoch to epoch, how many batches have which shape does not.

    Example:
        >>> plan = BatchPlan([120, 480, 500, 130], [15, 60, 70, 20], batch_size=2, num_buckets=2)
        >>> plan.buckets
        (Bucket(frames=136, tokens=24, batch_size=2), Bucket(frames=504, tokens=72, batch_size=2))
        >>> [sorted(batch.tolist()) for batch in plan.epoch(seed=1, epoch=0, shuffle=False)]
        [[0, 3], [1, 2]]

    Args:
        mel_lengths: int [N], mel frames of each clip.
        token_lengths: int [N], tokens of each clip.
        rows: int [N], distinct, what a batch calls each clip (its row in the store); by default 0 to N − 1.
        batch_size: clips per batch. Give either this or `max_frames_per_batch`.
        max_frames_per_batch: frame budget: a bucket's batches have as many places as fit into it, but one at
            least.
        num_buckets: at most this many shapes; 1 pads everything to one.
        max_mel_frames: longest mel, None for no limit.
        max_tokens: longest text, None for no limit.
        long_clips: what happens to clips over a limit: `skip` leaves them out, `crop` uses their beginning,
            that is, min(length, limit) frames and tokens.
        source: what the rows hold (a store's fingerprint, say), so that a position is not resumed on other
            data that happens to have the same lengths.
        repeats: int [N], how often each clip comes in an epoch; by default once.
        buckets: shapes that hold every clip, in place of those that would be chosen.

    Attributes:
        buckets: the shapes, shortest first.
        clips: clips dealt out per epoch, repeats counted.
        skipped: int64, rows of clips left out: over a limit, or with no frame or no token at all.
        skipped_because: how many were left out, by reason: `max_mel_frames`, `max_tokens`, `empty`.
        cropped: int64, rows of clips that are used in part.
        padding_share: share of all frames in the batches that are padding, empty places included (0 to 1).
        description: what the plan is made from, and its hash.
        rows: int64 [clips], the rows dealt out.
        bucket_of_clip: uint8 [clips], the bucket of each of them.
        bucket_of_batch, batch_sizes, first_place: [batches], of each batch in the order of buckets, before an
            epoch reorders them: its bucket, its places, and the first of them among the places of all.
        clip_of_place: int64 [places], for each place the rank of its clip among the clips sorted by
            (bucket, key), or `clips` for an empty one. The same in every epoch.

    Raises:
        ConfigError: a setting is out of range.
        ValueError: the arrays do not describe clips.
    """

    def __init__(
        self,
        mel_lengths: npt.ArrayLike,
        token_lengths: npt.ArrayLike,
        rows: npt.ArrayLike | None = None,
        *,
        batch_size: int | None = None,
        max_frames_per_batch: int | None = None,
        num_buckets: int = 6,
        max_mel_frames: int | None = None,
        max_tokens: int | None = None,
        long_clips: str = "skip",
        source: str = "",
        repeats: npt.ArrayLike | None = None,
        buckets: tuple[Bucket, ...] | None = None,
    ) -> None:
        check_plan_settings(batch_size, max_frames_per_batch, num_buckets, max_mel_frames, max_tokens)
        frames = checked_lengths("mel_lengths", mel_lengths)
        tokens = checked_lengths("token_lengths", token_lengths, size=len(frames))
        every_row = checked_rows(rows, size=len(frames))
        times = None if repeats is None else checked_lengths("repeats", repeats, size=len(frames))

        limited = apply_limits(frames, tokens, max_mel_frames, max_tokens, long_clips)
        used, frames, tokens = limited.used, limited.frames, limited.tokens
        self.cropped = every_row[limited.cropped]
        self.skipped = every_row[~used]
        self.skipped_because = limited.skipped_because

        frames, tokens, self.rows = frames[used], tokens[used], every_row[used]
        if times is not None:
            frames, tokens, self.rows = (np.repeat(array, times[used]) for array in (frames, tokens, self.rows))
        self.clips = len(self.rows)
        if buckets is None:
            self.buckets, self.bucket_of_clip = choose_buckets(
                frames,
                tokens,
                num_buckets=num_buckets,
                batch_size=batch_size,
                max_frames_per_batch=max_frames_per_batch,
                max_mel_frames=max_mel_frames,
                max_tokens=max_tokens,
            )
        else:
            self.buckets, self.bucket_of_clip = buckets, bucket_of(buckets, frames)
        sizes = np.array([bucket.batch_size for bucket in self.buckets], np.int64)
        clips_in_bucket = np.bincount(self.bucket_of_clip, minlength=len(self.buckets))
        batches_in_bucket = -(-clips_in_bucket // sizes)
        self.bucket_of_batch = np.repeat(np.arange(len(sizes), dtype=np.int32), batches_in_bucket)
        self.batch_sizes = sizes[self.bucket_of_batch]
        self.first_place = np.cumsum(self.batch_sizes) - self.batch_sizes
        self.clip_of_place = _fill_places(clips_in_bucket, batches_in_bucket * sizes)

        shapes = [astuple(bucket) for bucket in self.buckets]
        padded = sum(shape[0] * places for shape, places in zip(shapes, batches_in_bucket * sizes, strict=True))
        self.padding_share = float(1 - frames.sum() / padded) if padded else 0.0

        clips_hash = xxhash.xxh3_128()
        for array in (self.rows, frames, tokens):
            clips_hash.update(array.astype("<i8", copy=False).data)
        decisive = json.dumps([ORDER_VERSION, source, clips_hash.hexdigest(), shapes])
        self.description = PlanDescription(
            hash=xxhash.xxh3_128_hexdigest(decisive.encode()),
            source=source,
            clips=self.clips,
            clips_hash=clips_hash.hexdigest(),
            batch_size=batch_size,
            max_frames_per_batch=max_frames_per_batch,
            num_buckets=num_buckets,
            max_mel_frames=max_mel_frames,
            max_tokens=max_tokens,
            long_clips=long_clips,
            buckets=self.buckets,
            batches=len(self),
            order_version=ORDER_VERSION,
        )

    def __len__(self) -> int:
        """Batches per epoch, the same in every epoch."""
        return len(self.bucket_of_batch)

    @property
    def hash(self) -> str:
        """Two plans with the same hash give the same batches for every seed and epoch."""
        return self.description.hash

    def batch_shapes(self) -> np.ndarray:
        """Clips, frames and tokens of each batch, padding included, in the order of buckets; int64 [batches, 3]."""
        shapes = [(bucket.batch_size, bucket.frames, bucket.tokens) for bucket in self.buckets]
        return np.array(shapes, np.int64).reshape(-1, 3)[self.bucket_of_batch]

    def epoch(self, seed: int, epoch: int, shuffle: bool = True) -> EpochBatches:
        """Deal the clips out for one epoch.

        Args:
            seed: 0 to 2**64 − 1.
            epoch: 0 or more.
            shuffle: False gives the same batches for every seed and epoch: shortest bucket first, clips in
                the order they were given in.
        """
        require_in_range("seed", seed, 0, 2**64 - 1)
        require_in_range("epoch", epoch, 0, 2**64 - 1)
        if shuffle:
            state = stream(seed, epoch)
            clip_keys = keys(state, self.clips) >> np.uint64(BUCKET_BITS)
            clip_keys |= self.bucket_of_clip.astype(np.uint64) << np.uint64(64 - BUCKET_BITS)
            clip_order = np.argsort(clip_keys, kind="stable")
            batch_order = np.argsort(keys(state, len(self), first=self.clips), kind="stable")
        else:
            clip_order = np.argsort(self.bucket_of_clip, kind="stable")
            batch_order = np.arange(len(self))
        places = np.append(self.rows[clip_order], EMPTY)[self.clip_of_place]
        return self._in_order(places, batch_order)

    def draws(self, seed: int, epoch: int, shuffle: bool = True) -> np.ndarray:
        """A random number of each batch's own, in the order of the epoch, uint64 [batches]."""
        state = stream(seed, epoch) if shuffle else stream(0, 0)
        return keys(state, len(self), first=self.clips + len(self))

    def rows_of_batches(self, order: BatchOrder) -> Iterator[np.ndarray]:
        """The rows of the clips of one batch after another, empty places left out."""
        epoch = order.start_epoch
        while order.epochs is None or epoch < order.start_epoch + order.epochs:
            batches = self.epoch(order.seed, epoch, order.shuffle)
            for number in range(order.start_step if epoch == order.start_epoch else 0, len(batches)):
                rows = batches[number]
                yield rows[rows >= 0]
            epoch += 1

    def _in_order(self, places: np.ndarray, batch_order: np.ndarray) -> EpochBatches:
        sizes = self.batch_sizes[batch_order]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        moved_by = self.first_place[batch_order] - offsets[:-1]
        indices = places[np.repeat(moved_by, sizes) + np.arange(len(places))]
        bucket_of_batch = self.bucket_of_batch[batch_order]
        for array in (bucket_of_batch, offsets, indices):
            array.setflags(write=False)
        return EpochBatches(bucket_of_batch, offsets, indices)


class LimitedLengths(NamedTuple):
    """Lengths of clips under the limits of a plan.

    Attributes:
        used: bool [N], the clips that are not left out.
        cropped: bool [N], those that are used in part.
        frames, tokens: int [N], what is used of each clip.
        skipped_because: how many are left out, by reason.
    """

    used: np.ndarray
    cropped: np.ndarray
    frames: np.ndarray
    tokens: np.ndarray
    skipped_because: dict[str, int]


def apply_limits(
    frames: np.ndarray, tokens: np.ndarray, max_mel_frames: int | None, max_tokens: int | None, long_clips: str
) -> LimitedLengths:
    """What becomes of clips under the limits; arguments as those of `BatchPlan`."""
    if long_clips not in ("skip", "crop"):
        raise ConfigError(f"long_clips is {long_clips!r}; it can be 'skip' or 'crop'")
    empty = (frames == 0) | (tokens == 0)
    over_frames = (frames > (max_mel_frames or _UNLIMITED)) & ~empty
    over_tokens = (tokens > (max_tokens or _UNLIMITED)) & ~empty
    over = over_frames | over_tokens
    if long_clips == "skip":
        used, cropped = ~(empty | over), np.zeros(len(frames), bool)
        reasons = {"max_mel_frames": over_frames, "max_tokens": over_tokens & ~over_frames, "empty": empty}
    else:
        used, cropped = ~empty, over
        reasons = {"empty": empty}
        frames = np.minimum(frames, max_mel_frames or _UNLIMITED)
        tokens = np.minimum(tokens, max_tokens or _UNLIMITED)
    because = {reason: int(clips.sum()) for reason, clips in reasons.items() if clips.any()}
    return LimitedLengths(used, cropped, frames, tokens, because)


def _fill_places(clips: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The clip in each place, by its rank among the clips sorted by bucket; their number for an empty place.

    Args:
        clips: int [buckets], clips in each bucket.
        places: int [buckets], places in all batches of each bucket.
    """
    filled = np.full(int(places.sum()), int(clips.sum()), np.int64)
    first_place, first_clip = np.cumsum(places) - places, np.cumsum(clips) - clips
    for place, clip, count in zip(first_place, first_clip, clips, strict=True):
        filled[place : place + count] = np.arange(clip, clip + count)
    return filled


def check_plan_settings(
    batch_size: int | None,
    max_frames_per_batch: int | None,
    num_buckets: int,
    max_mel_frames: int | None,
    max_tokens: int | None,
) -> None:
    """Raises ConfigError if a setting of a plan is out of range."""
    if (batch_size is None) == (max_frames_per_batch is None):
        raise ConfigError("set either batch_size or max_frames_per_batch")
    require_in_range("batch_size", batch_size, 1)
    require_in_range("max_frames_per_batch", max_frames_per_batch, 1)
    require_in_range("num_buckets", num_buckets, 1, MAX_BUCKETS)
    require_in_range("max_mel_frames", max_mel_frames, 1)
    require_in_range("max_tokens", max_tokens, 1)


def require_in_range(name: str, value: int | None, least: int, most: int | None = None) -> None:
    """Raises a ConfigError for a setting that is out of its range; None is not looked at."""
    if value is not None and (value < least or (most is not None and value > most)):
        allowed = f"{least} or more" if most is None else f"{least} to {most}"
        raise ConfigError(f"{name} is {value}; it can be {allowed}")


def checked_lengths(name: str, values: npt.ArrayLike, size: int | None = None) -> np.ndarray:
    """Lengths of clips, int64 [N], or a ValueError."""
    array = _integers(name, values, size)
    if array.size and array.min() < 0:
        raise ValueError(f"{name} holds a negative length")
    return array


def checked_rows(values: npt.ArrayLike | None, size: int) -> np.ndarray:
    """What `size` clips are called, int64 [N], or a ValueError; 0 to N − 1 where nothing is given."""
    if values is None:
        return np.arange(size)
    array = _integers("rows", values, size)
    ordered = np.sort(array)
    if array.size and (ordered[0] < 0 or not np.diff(ordered).all()):
        raise ValueError("rows must be distinct and not negative")
    return array


def _integers(name: str, values: npt.ArrayLike, size: int | None) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a one-dimensional array of integers")
    if size is not None and len(array) != size:
        raise ValueError(f"{name} has {len(array)} entries for {size} clips")
    return array.astype(np.int64)
