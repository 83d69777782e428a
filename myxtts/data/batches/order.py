"""Random keys as a pure function of (seed, epoch, position): SplitMix64.

Sorting by these keys is how everything is shuffled. The function is written out in integer arithmetic, here
for NumPy and in `order_in_graph` for a graph, so that the order does not depend on a library's generator, its
version or the machine, and a graph needs no Python to make an epoch's order. Key k of a stream is the k-th
output of the SplitMix64 generator whose state is mixed from seed and epoch (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
MASK = (1 << 64) - 1


def mix(state: int) -> int:
    """SplitMix64's output function, a bijection of 64-bit integers."""
    state = ((state ^ (state >> SHIFTS[0])) * MULTIPLIERS[0]) & MASK
    state = ((state ^ (state >> SHIFTS[1])) * MULTIPLIERS[1]) & MASK
    return state ^ (state >> SHIFTS[2])


def stream(seed: int, epoch: int) -> int:
    """The state of the stream of this seed and epoch; neighbouring pairs have unrelated streams."""
    return mix(mix((seed + GOLDEN) & MASK) ^ ((mix((epoch + GOLDEN) & MASK) * GOLDEN) & MASK))


def keys(state: int, count: int, first: int = 0) -> np.ndarray:
    """uint64 [count], the keys of positions `first`, `first` + 1, … of a stream."""
    key = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    key *= np.uint64(GOLDEN)
    key += np.uint64(state)
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        key ^= key >> np.uint64(shift)
        key *= np.uint64(multiplier)
    key ^= key >> np.uint64(SHIFTS[2])
    return key
