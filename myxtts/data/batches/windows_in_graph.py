"""The order of batches in windows, as requests of a pipeline.

The order of a window is made by one call of Python, while batches of the window before are loaded; what is done for
each batch stays in the graph. With its requests a window brings the table of its clips, since one table for all clips
would grow with them. A tensor in a dataset is passed on, and not copied, so each request may carry it.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from myxtts.data.batches.clip_table import COLUMNS
from myxtts.data.batches.plan import EMPTY, BatchOrder
from myxtts.data.batches.window_plan import WindowedPlan

ENDLESS = 1 << 62
_REQUESTS = {"rows": tf.int64, "size": tf.int32, "frames": tf.int32, "tokens": tf.int32, "draw": tf.uint64}
_TABLE = {"table": tf.int64, "members": tf.int64, "names": tf.int64}


def window_requests(plan: WindowedPlan, order: BatchOrder) -> tf.data.Dataset:
    """What to load for each batch, in order.

    Args:
        plan: the batches; not empty.
        order: which of them come.

    Returns:
        A dataset of dicts as `order_in_graph.batch_requests` gives, in which `rows` are positions in the window; and
        the window itself: `table` int64 [COLUMNS, N + 1], `members` int64 [M], `names` int64 [N + 1], for
        `TableInGraph`.
    """
    count = len(plan.windows)
    place, step = plan.find(order)
    first = order.start_epoch * count + place
    last = ENDLESS if order.epochs is None else (order.start_epoch + order.epochs) * count
    largest = max(bucket.batch_size for bucket in plan.buckets)
    shapes: dict[str, list[int | None]] = {
        "rows": [None, largest], "table": [COLUMNS, None], "members": [None], "names": [None],
    }  # fmt: skip

    def make(number: np.int64) -> list[np.ndarray]:
        epoch, place = divmod(int(number), count)
        window = int(plan.window_order(order.seed, epoch, order.shuffle)[place])
        made = plan.requests(window, order.seed, epoch, order.shuffle)
        table = plan.windows.table(window)
        names = np.append(plan.windows.names(window), EMPTY)
        return [*(made[name] for name in _REQUESTS), np.ascontiguousarray(table.values.T), table.some_members, names]

    @tf.autograph.experimental.do_not_convert
    def load(number: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        types = _REQUESTS | _TABLE
        window = dict(zip(types, tf.numpy_function(make, [number], list(types.values())), strict=True))
        for name, tensor in window.items():
            tensor.set_shape(shapes.get(name, [None]))
        return number, window

    @tf.autograph.experimental.do_not_convert
    def requests_of(number: tf.Tensor, window: dict[str, tf.Tensor]) -> tf.data.Dataset:
        begin = tf.where(tf.equal(number, first), step, 0)
        batches = tf.data.Dataset.from_tensor_slices({name: window[name][begin:] for name in _REQUESTS})
        table = tf.data.Dataset.from_tensors({name: window[name] for name in _TABLE}).repeat()
        return tf.data.Dataset.zip((batches, table)).map(lambda batch, table: batch | table)

    windows = tf.data.Dataset.range(first, last).map(load)
    return windows.prefetch(1).flat_map(requests_of)
