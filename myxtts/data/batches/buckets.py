"""The few shapes that a data set's batches are padded to.

Every shape is one more program for XLA to compile, so there is only a handful of them; every frame of padding
is work for nothing, so they are placed where this data set's lengths lie. `choose_buckets` finds the
placement with the least padding by an exact dynamic programme over a histogram of lengths. It counts what is
really computed: whole batches, empty places included. A small data set therefore gets fewer buckets instead
of many half-empty batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FRAME_MULTIPLE = 8
TOKEN_MULTIPLE = 8
MAX_BUCKETS = 256

# The programme is quadratic in the levels of the histogram. Up to 4,096 frames each multiple of 8 is a level.
_MAX_LEVELS = 512
# More than any real cost, and small enough that a few of them can be added without overflow.
_IMPOSSIBLE = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class Bucket:
    """One batch shape.

    Attributes:
        frames: mel frames that every clip of the batch is padded to.
        tokens: tokens that every text of the batch is padded to.
        batch_size: places for clips; a batch with fewer clips has empty places.
    """

    frames: int
    tokens: int
    batch_size: int


def choose_buckets(
    mel_lengths: np.ndarray,
    token_lengths: np.ndarray,
    *,
    num_buckets: int,
    batch_size: int | None,
    max_frames_per_batch: int | None,
    max_mel_frames: int | None,
    max_tokens: int | None,
) -> tuple[tuple[Bucket, ...], np.ndarray]:
    """Choose at most `num_buckets` shapes, shortest first, and put every clip into the first that holds it.

    Frames and tokens of a shape are multiples of 8 unless that would exceed `max_mel_frames` or `max_tokens`.

    Args:
        mel_lengths: int [N], frames of each clip, none over `max_mel_frames`.
        token_lengths: int [N], tokens of each clip, none over `max_tokens`.
        num_buckets: 1 pads everything to one shape.
        batch_size: clips per batch, or None with `max_frames_per_batch`: as many clips as keep frames × clips
            within it, and at least one.

    Returns:
        The buckets, and the bucket of each clip as uint8 [N].
    """
    if mel_lengths.size == 0:
        return (), np.empty(0, np.uint8)

    longest = int(mel_lengths.max())
    unit = _unit(longest)
    frames, places = _place(
        np.bincount(-(-mel_lengths // unit)),
        unit,
        longest,
        num_buckets=num_buckets,
        batch_size=batch_size,
        max_frames_per_batch=max_frames_per_batch,
        max_mel_frames=max_mel_frames,
    )
    bucket_of_clip = np.searchsorted(frames, mel_lengths).astype(np.uint8)
    tokens = [int(token_lengths[bucket_of_clip == bucket].max()) for bucket in range(len(frames))]
    return _buckets(frames, places, tokens, max_tokens), bucket_of_clip


def choose_buckets_of_counts(
    counts: np.ndarray,
    most_tokens: np.ndarray,
    *,
    num_buckets: int,
    batch_size: int | None,
    max_frames_per_batch: int | None,
    max_mel_frames: int | None,
    max_tokens: int | None,
) -> tuple[Bucket, ...]:
    """The same shapes, where clips are only counted.

    Args:
        counts: int [F + 1], how many clips have so many frames.
        most_tokens: int [F + 1], tokens of that one among them that has the most.
    """
    lengths = np.flatnonzero(counts)
    if lengths.size == 0:
        return ()
    longest = int(lengths[-1])
    unit = _unit(longest)
    frames, places = _place(
        np.bincount(-(-lengths // unit), counts[lengths]).astype(np.int64),
        unit,
        longest,
        num_buckets=num_buckets,
        batch_size=batch_size,
        max_frames_per_batch=max_frames_per_batch,
        max_mel_frames=max_mel_frames,
    )
    bucket = np.searchsorted(frames, lengths)
    tokens = [int(most_tokens[lengths[bucket == number]].max()) for number in range(len(frames))]
    return _buckets(frames, places, tokens, max_tokens)


def bucket_of(buckets: tuple[Bucket, ...], mel_lengths: np.ndarray) -> np.ndarray:
    """The first bucket that holds each clip, uint8 [N]."""
    return np.searchsorted([bucket.frames for bucket in buckets], mel_lengths).astype(np.uint8)


def _unit(longest: int) -> int:
    """Frames from one level of the histogram of lengths to the next."""
    return FRAME_MULTIPLE * -(-longest // (FRAME_MULTIPLE * _MAX_LEVELS))


def _place(
    counts: np.ndarray,
    unit: int,
    longest: int,
    *,
    num_buckets: int,
    batch_size: int | None,
    max_frames_per_batch: int | None,
    max_mel_frames: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Frames and places of the buckets, of clips of which `counts` are at each level of length."""
    levels = np.flatnonzero(counts)
    frames = np.minimum(levels * unit, _round_up(longest, FRAME_MULTIPLE, max_mel_frames)).astype(np.int64)
    if batch_size is not None:
        places = np.full_like(frames, batch_size)
    else:
        assert max_frames_per_batch is not None
        places = np.maximum(max_frames_per_batch // frames, 1)
    last_levels = _cheapest_cuts(counts[levels], frames, places, num_buckets)
    return frames[last_levels], places[last_levels]


def _buckets(frames: np.ndarray, places: np.ndarray, tokens: list[int], max_tokens: int | None) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(frame, _round_up(most, TOKEN_MULTIPLE, max_tokens), size)
        for frame, most, size in zip(frames.tolist(), tokens, places.tolist(), strict=True)
    )


def _cheapest_cuts(counts: np.ndarray, frames: np.ndarray, places: np.ndarray, num_buckets: int) -> list[int]:
    """Cut M levels of length into at most `num_buckets` runs so that the padded frames are fewest.

    Args:
        counts: int [M], clips at each level, all positive.
        frames: int [M], ascending; the frames of a bucket whose last level this is.
        places: int [M], likewise the places of its batches.

    Returns:
        The last level of each run, ascending. Of equally good answers, the one with the fewest runs.
    """
    size = len(counts)
    before = np.concatenate([[0], np.cumsum(counts)])
    clips = before[np.newaxis, 1:] - before[:-1, np.newaxis]  # [first level, last level]
    cost = -(-clips // places) * places * frames
    cost[np.tril_indices(size, -1)] = _IMPOSSIBLE

    # total[j]: fewest padded frames for levels 0..j in k runs; first[k][j]: where the last run begins.
    total = cost[0]
    first = [np.zeros(size, np.int64)]
    totals = [int(total[-1])]
    for _ in range(1, min(num_buckets, size)):
        with_one_more = total[:-1, np.newaxis] + cost[1:]
        begin = with_one_more.argmin(axis=0)
        total = np.minimum(with_one_more[begin, np.arange(size)], _IMPOSSIBLE)
        first.append(begin + 1)
        totals.append(int(total[-1]))

    cuts = [size - 1]
    for k in range(int(np.argmin(totals)), 0, -1):
        cuts.append(int(first[k][cuts[-1]]) - 1)
    return cuts[::-1]


def _round_up(length: int, multiple: int, limit: int | None) -> int:
    rounded = -(-length // multiple) * multiple
    return rounded if limit is None else min(rounded, limit)
