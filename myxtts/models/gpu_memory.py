"""GPU memory for speaking: as much as is needed, and not all there is, as TensorFlow would take."""

from __future__ import annotations

import contextlib

import tensorflow as tf


def grow_as_needed() -> None:
    """Lets the GPUs' memory grow, unless they are in use already or training has set a limit."""
    for gpu in tf.config.list_physical_devices("GPU"):
        # TensorFlow raises the first for a GPU that is in use, the second for one with a limit.
        with contextlib.suppress(RuntimeError, ValueError):
            tf.config.experimental.set_memory_growth(gpu, True)
