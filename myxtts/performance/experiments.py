"""Changes tried out on a pipeline or a step, to measure what they are worth.

Each experiment compares with a control measured in the same way, right before or after.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.performance.batches import batch_shapes, leaves
from myxtts.performance.facts import MORE_PARALLEL, EagerStep, ShuffleRefill, SlowElements
from myxtts.performance.graph_nodes import Node, kind_of
from myxtts.performance.python_functions import pipeline
from myxtts.performance.step_run import drain, wait_for

_SECONDS = 1.0
_FEWEST_ELEMENTS = 4
_MANY_OPERATIONS = 20


def speed_up_by_parallelism(node: Node, options: tf.data.Options) -> float | None:
    """How many times faster a map or interleave gives its elements with many calls at once; None: it cannot be tried.

    The options are those of the whole pipeline; a part of it has none by itself.
    """
    faster = _more_parallel(node.dataset)
    if faster is None:
        return None
    present = node.dataset.with_options(options)
    # In turns, so that other load on the machine affects both.
    slow: list[float] = []
    fast: list[float] = []
    for _ in range(2):
        slow.append(_seconds_per_element(present))
        fast.append(_seconds_per_element(faster))
    return min(slow) / max(min(fast), 1e-9)


def _more_parallel(dataset: Any) -> tf.data.Dataset | None:
    kind = kind_of(dataset) if dataset is not None else ""
    function = getattr(getattr(dataset, "_map_func", None), "_func", None)
    if function is None:
        return None
    parent: tf.data.Dataset = dataset._input_dataset
    if kind in ("Map", "ParallelMap"):
        return _with_threads(parent.map(function, num_parallel_calls=MORE_PARALLEL))
    if kind in ("Interleave", "ParallelInterleave", "FlatMap") and not _is_generator(dataset):
        many = parent.interleave(function, cycle_length=MORE_PARALLEL, num_parallel_calls=MORE_PARALLEL)
        return _with_threads(many)
    return None


def _with_threads(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Calls at once need threads: TensorFlow has as many as there are CPUs, which calls that wait soon use up."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = MORE_PARALLEL
    return dataset.with_options(options)


def _is_generator(dataset: Any) -> bool:
    """Whether a flat map comes from `from_generator`, which has a single generator and cannot run in parallel."""
    return kind_of(dataset) == "FlatMap" and kind_of(dataset._input_dataset) == "Tensor"


def _seconds_per_element(dataset: tf.data.Dataset) -> float:
    """Seconds per element of a running pipeline, without its start."""
    elements = iter(dataset.repeat())
    drain(elements, 2)
    # At least past what so many calls at once have made during the first two.
    count, seconds = drain(elements, 2 * MORE_PARALLEL, least=_FEWEST_ELEMENTS, seconds=_SECONDS)
    if count == 2 * MORE_PARALLEL and seconds < _SECONDS / 4:
        more, longer = drain(elements, 6 * MORE_PARALLEL, seconds=_SECONDS / 4 - seconds)
        count, seconds = count + more, seconds + longer
    return seconds / count


def shuffle_refill(dataset: tf.data.Dataset) -> ShuffleRefill | None:
    """Times the filling of the costliest shuffle buffer that every epoch begins with; None if there is none."""
    worst: ShuffleRefill | None = None
    options = dataset.options()
    for node in pipeline(dataset):
        kind = kind_of(node)
        if kind != "Shuffle":
            continue
        parents = {kind_of(parent) for parent in pipeline(node._input_dataset)}
        if "Repeat" in parents:  # one endless pass: filled once
            continue
        first = _seconds_to_first(node.with_options(options))
        plain = _seconds_to_first(node._input_dataset.with_options(options))
        found = ShuffleRefill(kind, int(node._buffer_size), max(0.0, first - plain))
        if worst is None or found.seconds > worst.seconds:
            worst = found
    return worst


def _seconds_to_first(dataset: tf.data.Dataset) -> float:
    began = time.perf_counter()
    next(iter(dataset), None)
    return time.perf_counter() - began


def slow_elements(node: Node, most: int, seconds: float = 2.0) -> SlowElements | None:
    """Calls a map's function on one element after the other and looks for slow ones; None if none stands out."""
    function = getattr(getattr(node.dataset, "_map_func", None), "function", None)
    if not node.is_map or function is None:
        return None
    names: list[str] = []
    inputs: list[Sequence[Any]] = []
    times: list[float] = []
    began = time.perf_counter()
    for element in node.dataset._input_dataset:
        flat = tf.nest.flatten(element)
        called = time.perf_counter()
        function(*flat)
        times.append(time.perf_counter() - called)
        names.append(_name(flat, len(names)))
        inputs.append(flat)
        if len(times) >= most or time.perf_counter() - began > seconds:
            break

    def time_again(position: int) -> float:
        called = time.perf_counter()
        function(*inputs[1 + position])
        return time.perf_counter() - called

    # Without the first call, which is slower than all others.
    return SlowElements.find(names[1:], np.array(times[1:]), time_again)


def _name(flat: Sequence[Any], position: int) -> str:
    """A clip's name: a string among what the function was given, or its first number, or its place."""
    for value in flat:
        if value.dtype == tf.string and value.shape.rank == 0:
            return str(value.numpy().decode("utf-8", "replace"))
    for value in flat:
        if value.dtype.is_integer and value.shape.rank == 0:
            return f"clip {int(value)}"
    return f"element {position}"


def eager_step(step: Callable[[Any], Any], batches: Sequence[Any]) -> EagerStep | None:
    """Whether a step runs many operations one by one, and what compiling it saves; None if it does not."""
    operations = eager_operations(step, batches[0])
    if operations < _MANY_OPERATIONS:
        return None
    try:
        return EagerStep(operations, gain_by_graph(step, batches))
    except Exception as error:
        return EagerStep(operations, 0.0, (str(error).strip().splitlines() or [""])[0][:80])


def eager_operations(step: Callable[[Any], Any], batch: Any) -> int:
    """How many operations a call of the step runs one by one; a compiled step is a single one."""
    from tensorflow.python.framework import op_callbacks

    count = 0

    def seen(kind: str, inputs: Any, attributes: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        nonlocal count
        if graph is None:
            count += 1

    op_callbacks.add_op_callback(seen)
    try:
        wait_for(step(batch))
    finally:
        op_callbacks.remove_op_callback(seen)
    return count


def gain_by_graph(step: Callable[[Any], Any], batches: Sequence[Any], seconds: float = 4.0) -> float:
    """The share of a step's time that is saved by running it as a `tf.function`, measured on these batches.

    Raises:
        Exception: whatever keeps the step from being traced.
    """
    compiled = tf.function(step, reduce_retracing=True)
    chosen = list({batch_shapes(batch): batch for batch in batches}.values())[:2]
    for batch in chosen:
        compiled(batch)
    times: dict[Any, list[float]] = {step: [], compiled: []}
    began = time.perf_counter()
    while len(times[step]) < 8 and (len(times[step]) < 2 or time.perf_counter() - began < seconds):
        for way, taken in times.items():
            batch = chosen[len(taken) % len(chosen)]
            called = time.perf_counter()
            wait_for(way(batch))
            taken.append(time.perf_counter() - called)
    return max(0.0, 1 - float(np.median(times[compiled])) / float(np.median(times[step])))


def copy_seconds(batches: Sequence[Any]) -> float:
    """Seconds to copy a batch from the host to the first GPU that TensorFlow uses, the median; 0 without a GPU.

    Batches that are on the device already cost nothing.
    """
    if not tf.config.list_logical_devices("GPU"):
        return 0.0
    times = []
    for batch in batches:
        began = time.perf_counter()
        with tf.device("/GPU:0"):
            copied = [tf.identity(leaf) for leaf in leaves(batch) if tf.is_tensor(leaf) and "GPU" not in leaf.device]
        for tensor in copied[-1:]:  # copies are made in order
            tensor.numpy()
        times.append(time.perf_counter() - began)
    return float(np.median(times)) if times else 0.0
