"""Large arrays of the host, mapped files among them, as tensors that are never copied.

Two ways that look simpler cost a store's size in time and memory (TensorFlow 2.21):

- `tf.raw_ops.ImmutableConst` maps a file, but TensorFlow runs even a single operation as a function, whose constants
  it folds: it copies the whole tensor, finds it too large to fold, and throws the copy away.
- A tensor that a function of a `tf.data` pipeline captures is shown to the graph optimiser as zeros of the same
  shape, made anew for every iterator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.data.store.allocation import ALIGNMENT


class HostTensor:
    """An array that the functions of a pipeline read where it lies. It lives as long as anything that reads it.

    Args:
        array: contiguous; never changed again. It is copied only if it is not aligned to `ALIGNMENT` bytes.
    """

    def __init__(self, array: np.ndarray) -> None:
        # Inside an `Optional` the tensor is, to whoever captures it, a scalar.
        with tf.device("/CPU:0"):
            self._held = tf.experimental.Optional.from_value(_shared(array))

    def tensor(self) -> tf.Tensor:
        """The array; to be called where it is used, inside the function."""
        return self._held.get_value()


class _Writable:
    """An array, read-only or not, as writable memory: the first version of DLPack knows no other.

    TensorFlow writes to no tensor whose memory is not its own.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # keeps the memory
        self.__array_interface__: dict[str, Any] = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def _shared(array: np.ndarray) -> tf.Tensor:
    if array.ctypes.data % ALIGNMENT or not array.flags.c_contiguous:
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(np.asarray(_Writable(array)).__dlpack__())
