"""What moving a batch from the host to the device costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from myxtts.performance.simulated_accelerator import leaves


def copy_seconds(batches: Sequence[Any]) -> float:
    """Seconds to copy a batch to the first GPU that TensorFlow uses, the median over these; 0 without one.

    Batches that are on the device already cost nothing.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not tensorflow.config.list_logical_devices("GPU"):
        return 0.0
    times = []
    for batch in batches:
        began = time.perf_counter()
        with tensorflow.device("/GPU:0"):
            copied = [
                tensorflow.identity(leaf)
                for leaf in leaves(batch)
                if tensorflow.is_tensor(leaf) and "GPU" not in leaf.device
            ]
        for tensor in copied[-1:]:  # copies are made in order
            tensor.numpy()
        times.append(time.perf_counter() - began)
    return float(np.median(times)) if times else 0.0
