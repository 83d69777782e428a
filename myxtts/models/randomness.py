"""What a call of the model draws: a function of its seed and of a clip's place in the batch, and of nothing else.

Where several processes train together, each has some places of every batch. They must draw what one process would, so
each draws for the whole batch and takes what belongs to its places. Drawing is a small share of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from myxtts.models.masking import dims


class PlacedSeed(NamedTuple):
    """The seed of a process that has a share of the batch."""

    seed: tf.Tensor  # int32 [2]
    place: tf.Tensor  # int32 [b], of its clips in the whole batch; for an empty place any number
    whole: tf.Tensor  # [B], anything that has an entry for each place of the whole batch


Seed: TypeAlias = "tf.Tensor | PlacedSeed"
Shape: TypeAlias = "Sequence[int | tf.Tensor]"


def seed_of(batch: Mapping[str, tf.Tensor], seed: Any) -> Seed:
    """The seed, int32 [2], for the places of a batch."""
    seed = tf.convert_to_tensor(seed, tf.int32)
    return PlacedSeed(seed, batch["place"], batch["all_index"]) if "place" in batch else seed


def fold_in(seed: Seed | None, number: int) -> Seed | None:
    """The seed of part `number`, derived from `seed`."""
    if isinstance(seed, PlacedSeed):
        return seed._replace(seed=fold_in(seed.seed, number))
    return None if seed is None else tf.random.experimental.stateless_fold_in(seed, number)


def uniform(shape: Shape, seed: Seed, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """Numbers from 0 to 1, of a shape that begins with the number of clips."""
    return _of_places(lambda whole, key: tf.random.stateless_uniform(whole, key, dtype=dtype), shape, seed)


def normal(shape: Shape, seed: Seed) -> tf.Tensor:
    """Normally distributed numbers, float32, of a shape that begins with the number of clips."""
    return _of_places(tf.random.stateless_normal, shape, seed)


def dropout(x: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """`x` without a share `rate` of its values, the others larger by as much."""
    if not isinstance(seed, PlacedSeed):
        return tf.nn.experimental.stateless_dropout(x, rate, seed=seed)
    keep = uniform(dims(x), seed, x.dtype) >= tf.cast(rate, x.dtype)
    return tf.where(keep, x * tf.cast(1 / (1 - rate), x.dtype), tf.zeros([], x.dtype))


def _of_places(draw: Callable[[Shape, tf.Tensor], tf.Tensor], shape: Shape, seed: Seed) -> tf.Tensor:
    if not isinstance(seed, PlacedSeed):
        return draw(shape, seed)
    # Of exactly the size of the whole batch: under XLA, what is drawn first depends on how much is drawn.
    (places,) = dims(seed.whole)
    return tf.gather(draw([places, *shape[1:]], seed.seed), tf.minimum(seed.place, places - 1))
