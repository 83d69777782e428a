"""The order of batches as graph operations, without Python in the pipeline: the same as `BatchPlan.epoch` and
`SegmentPlan.batch` give.

Shuffling in the graph is what lets epoch follow epoch in one running pipeline. The order of the next epoch is
made while batches of this one are still being loaded, so there is no pause between them, and a pipeline can
begin at any batch of any epoch because nothing has to be replayed to get there.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.data.batches.order import GOLDEN, MASK, MULTIPLIERS, SHIFTS, mix
from myxtts.data.batches.plan import BUCKET_BITS, EMPTY, BatchOrder, BatchPlan
from myxtts.data.batches.segment_plan import SegmentPlan

ENDLESS = 1 << 62
DRAWN_AT_ONCE = 256  # batches of segments


def batch_requests(plan: BatchPlan, order: BatchOrder) -> tf.data.Dataset:
    """What to load for each batch, in order.

    Args:
        plan: the batches; not empty.
        order: which of them come.

    Returns:
        A dataset of dicts: `rows` int64 [B], −1 for an empty place; `size`, `frames` and `tokens`, int32 scalars,
        the shape of the batch (of rows only the first `size` are meant); `draw`, uint64 scalar, a random number
        of this batch's own.
    """
    with tf.device("/CPU:0"):
        epoch_in_graph = _EpochInGraph(plan, order.seed, order.shuffle)
    last_epoch = ENDLESS if order.epochs is None else order.start_epoch + order.epochs

    @tf.autograph.experimental.do_not_convert
    def epoch_and_requests(epoch: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return epoch, epoch_in_graph(epoch)

    @tf.autograph.experimental.do_not_convert
    def requests_of(epoch: tf.Tensor, requests: dict[str, tf.Tensor]) -> tf.data.Dataset:
        first = tf.where(tf.equal(epoch, order.start_epoch), order.start_step, 0)
        # Slicing an epoch that is laid out as arrays calls no function per batch.
        return tf.data.Dataset.from_tensor_slices({name: column[first:] for name, column in requests.items()})

    epochs = tf.data.Dataset.range(order.start_epoch, last_epoch).map(epoch_and_requests)
    return epochs.prefetch(1).flat_map(requests_of)


def segment_requests(plan: SegmentPlan, order: BatchOrder) -> tf.data.Dataset:
    """What to load for each batch of segments, in order.

    A batch is drawn from its number alone, a block of them at a time, so an epoch of any length takes no memory.

    Args:
        plan: the batches; not empty.
        order: which of them come.

    Returns:
        A dataset of dicts: `rows` int64 [B], the clips, and `first_frame` int64 [B], where the segments begin.
    """
    batches, places = len(plan), plan.batch_size
    first = order.start_epoch * batches + order.start_step
    last = ENDLESS if order.epochs is None else (order.start_epoch + order.epochs) * batches
    seed = _mixed_seed(order.seed, order.shuffle)
    with tf.device("/CPU:0"):
        rows, first_start = tf.constant(plan.rows, tf.int64), tf.constant(plan.first_start, tf.int64)

    @tf.autograph.experimental.do_not_convert
    def draw(number: tf.Tensor) -> dict[str, tf.Tensor]:
        numbers = tf.range(number, tf.minimum(number + DRAWN_AT_ONCE, last))[:, tf.newaxis]  # [n, 1]
        epoch, step = numbers // batches, numbers % batches
        state = _stream(seed, epoch if order.shuffle else tf.zeros_like(epoch))
        start = _positive(_keys(state, step * places, places)) % plan.starts  # [n, B]
        clip = tf.searchsorted(first_start, tf.reshape(start, [-1]), side="right") - 1
        clip = tf.reshape(clip, [-1, places])
        return {"rows": tf.gather(rows, clip), "first_frame": start - tf.gather(first_start, clip)}

    # As with whole clips, slicing what is laid out as arrays calls no function per batch.
    blocks = tf.data.Dataset.range(first, last, DRAWN_AT_ONCE).map(draw)
    return blocks.prefetch(1).flat_map(tf.data.Dataset.from_tensor_slices)


class _EpochInGraph:
    """The plan's constant parts as tensors, and the requests an epoch makes of them."""

    def __init__(self, plan: BatchPlan, seed: int, shuffle: bool) -> None:
        self.shuffle = shuffle
        self.clips = plan.clips
        self.batches = len(plan)
        self.seed = _mixed_seed(seed, shuffle)
        self.rows = tf.constant(plan.rows, tf.int64)
        self.bucket_of_clip = tf.constant(plan.bucket_of_clip, tf.uint8)
        self.shape_of_batch = tf.constant(plan.batch_shapes(), tf.int32)  # [K, 3]
        self.clip_of_place = tf.constant(_rectangle(plan))  # [K, largest batch]

    def __call__(self, epoch: tf.Tensor) -> dict[str, tf.Tensor]:
        """The requests of all batches, in order: dict of [K, ...]."""
        state = _stream(self.seed, epoch if self.shuffle else tf.zeros_like(epoch))
        if self.shuffle:
            bucket = tf.bitwise.left_shift(tf.cast(self.bucket_of_clip, tf.uint64), _uint64(64 - BUCKET_BITS))
            key = tf.bitwise.right_shift(_keys(state, 0, self.clips), _uint64(BUCKET_BITS))
            clip_order = _argsort(tf.bitwise.bitwise_or(bucket, key))
            batch_order = _argsort(_keys(state, self.clips, self.batches))
        else:
            clip_order = tf.argsort(tf.cast(self.bucket_of_clip, tf.int32), stable=True)
            batch_order = tf.range(self.batches)
        rows = tf.concat([tf.gather(self.rows, clip_order), tf.constant([EMPTY], tf.int64)], 0)
        size, frames, tokens = tf.unstack(tf.gather(self.shape_of_batch, batch_order), axis=1)
        return {
            "rows": tf.gather(rows, tf.gather(self.clip_of_place, batch_order)),
            "size": size,
            "frames": frames,
            "tokens": tokens,
            "draw": _keys(state, self.clips + self.batches, self.batches),
        }


def _rectangle(plan: BatchPlan) -> np.ndarray:
    """`clip_of_place` with a row per batch, int64 [K, largest batch], filled up with empty places."""
    column = np.arange(int(plan.batch_sizes.max()))
    place = plan.first_place[:, np.newaxis] + np.minimum(column, plan.batch_sizes[:, np.newaxis] - 1)
    return np.where(column < plan.batch_sizes[:, np.newaxis], plan.clip_of_place[place], plan.clips)


def mix_in_graph(state: tf.Tensor) -> tf.Tensor:
    """`order.mix` on uint64 tensors."""
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        state = tf.bitwise.bitwise_xor(state, tf.bitwise.right_shift(state, _uint64(shift))) * _uint64(multiplier)
    return tf.bitwise.bitwise_xor(state, tf.bitwise.right_shift(state, _uint64(SHIFTS[2])))


def _mixed_seed(seed: int, shuffle: bool) -> int:
    """Without shuffling every epoch of every seed is the same, the numbers its batches draw included."""
    return mix(((seed if shuffle else 0) + GOLDEN) & MASK)


def _stream(mixed_seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """`order.stream`."""
    epoch_part = mix_in_graph(tf.cast(epoch, tf.uint64) + _uint64(GOLDEN)) * _uint64(GOLDEN)
    return mix_in_graph(tf.bitwise.bitwise_xor(_uint64(mixed_seed), epoch_part))


def _keys(state: tf.Tensor, first: int | tf.Tensor, count: int) -> tf.Tensor:
    """`order.keys`; of states and firsts [n, 1] the keys of each, [n, count]."""
    positions = tf.cast(first, tf.int64) + tf.range(1, count + 1, dtype=tf.int64)
    return mix_in_graph(state + tf.cast(positions, tf.uint64) * _uint64(GOLDEN))


def _argsort(keys: tf.Tensor) -> tf.Tensor:
    """Stable, ascending. Keys are moved into the range of int64 without changing their order."""
    return tf.argsort(tf.bitcast(tf.bitwise.bitwise_xor(keys, _uint64(1 << 63)), tf.int64), stable=True)


def _positive(keys: tf.Tensor) -> tf.Tensor:
    """The upper 63 bits, int64, of which remainders can be taken."""
    return tf.cast(tf.bitwise.right_shift(keys, _uint64(1)), tf.int64)


def _uint64(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint64)
