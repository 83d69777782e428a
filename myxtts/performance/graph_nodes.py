"""The nodes of a `tf.data` pipeline and the time each takes, from the analytical model inside its iterator.

The model is read twice, so that times are those of a running pipeline and not of its start. TensorFlow's own
rewriting (fusing a map with a batch, say) is off: nodes then are what the pipeline's author wrote. A node's time is
wall time of its work, waiting for bytes included, added up over its threads.

Nodes that work in their consumer's thread form a stage with it; a node with threads of its own (a prefetch, a
parallel map) begins a new stage. A pipeline is as fast as its slowest stage.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from myxtts.hardware import usable_cpus
from myxtts.performance.diagnosis import NodeTime
from myxtts.performance.python_functions import pipeline, python_operations

if TYPE_CHECKING:
    import tensorflow as tf

_ASYNCHRONOUS = frozenset({"Prefetch", "ParallelMap", "ParallelInterleave", "ParallelBatch", "MapAndBatch"})
# Of a PyTorch loader: what comes from its workers. The nodes after these work in the same thread.
_BEGINS_A_STAGE = frozenset({"Prefetch", "Send"})
_REWRITES = (
    "filter_fusion", "filter_parallelization", "inject_prefetch", "map_and_batch_fusion", "map_and_filter_fusion",
    "map_fusion", "map_parallelization", "noop_elimination", "parallel_batch", "shuffle_and_repeat_fusion",
)  # fmt: skip
_SUFFIX = re.compile(r"V\d+$")
_PREFIX = re.compile(r"^(Forever|Finite|Empty)")


@dataclass(frozen=True, eq=False)
class Node:
    """One node, as written and as timed.

    Attributes:
        name: its kind, and the name of its function if a person gave it one.
        kind: `ParallelMap`, `Shuffle`, and so on.
        dataset: the Python object that it belongs to; None for what such an object consists of inside.
        seconds: per batch, of all threads.
        calls: elements per batch.
        parallelism: threads that work at once, 1 without any.
        python_seconds: of `seconds`, in Python functions.
    """

    name: str
    kind: str
    seconds: float
    calls: float
    parallelism: int
    python_seconds: float = 0.0
    dataset: Any = None

    @property
    def blocking(self) -> float:
        """Seconds per batch that its consumer waits for it, its threads working side by side."""
        return self.seconds / self.parallelism

    @property
    def is_map(self) -> bool:
        return self.kind in ("Map", "ParallelMap", "MapAndBatch")

    @property
    def is_batch(self) -> bool:
        return self.kind in ("Batch", "ParallelBatch", "PaddedBatch", "Collate")

    def to_time(self) -> NodeTime:
        share = min(1.0, self.python_seconds / self.seconds) if self.seconds else 0.0
        return NodeTime(self.name, 1e3 * self.seconds, self.parallelism, self.calls, share)


Stage = Sequence[Node]  # nodes that work one after the other in one thread, or one node with threads of its own


def stage_seconds(stage: Stage) -> float:
    """Per batch."""
    return sum(node.blocking for node in stage)


def stages(nodes: Sequence[Node]) -> list[Stage]:
    """The stages of a pipeline, the consumer's own first. `nodes` go from the end of the pipeline to its source."""
    found: list[Stage] = []
    current: list[Node] = []
    for node in nodes:
        if node.kind not in _ASYNCHRONOUS | _BEGINS_A_STAGE:
            current.append(node)
            continue
        found.append(current)
        if node.kind in _BEGINS_A_STAGE:
            current = [node]
        else:
            found.append([node])
            current = []
    found.append(current)
    return [stage for position, stage in enumerate(found) if stage or position == 0]


def slowest_node(nodes: Sequence[Node]) -> Node | None:
    """The node that the pipeline's slowest stage spends most time in."""
    if not nodes:
        return None
    slowest = max(stages(nodes), key=stage_seconds)
    return max(slowest, key=lambda node: node.seconds, default=None)


def host_part(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A pipeline without its last part, which moves batches to a device and cannot be followed by anything."""
    for node in pipeline(dataset):
        if kind_of(node) == "CopyToDevice":
            return node._input_dataset
    return dataset


def ends_with_prefetch(dataset: tf.data.Dataset) -> bool:
    """Whether a pipeline ends by keeping batches ready."""
    for node in pipeline(dataset):
        kind = kind_of(node)
        if kind in ("Options", "Repeat", "Take", "Skip"):  # hand on what they get
            continue
        return kind == "Prefetch" or kind == "ParallelBatch" or "Device" in kind
    return False


def buffered_batches(dataset: tf.data.Dataset, otherwise: int = 4) -> int:
    """How many batches the pipeline can visibly have ready at most."""
    depth = 0
    for node in pipeline(dataset):
        if kind_of(node) == "Prefetch":
            size = int(node._buffer_size)
            depth += size if size > 0 else otherwise
        elif kind_of(node) in ("Batch", "PaddedBatch", "ParallelBatch"):
            break
    return depth


def threads_of(dataset: tf.data.Dataset) -> int:
    """Threads that a pipeline's parallel calls share: its own pool, or TensorFlow's, which has one per CPU."""
    import tensorflow as tf

    own = dataset.options().threading.private_threadpool_size
    return own or tf.config.threading.get_inter_op_parallelism_threads() or usable_cpus()


def kind_of(dataset: Any) -> str:
    """`_ParallelMapDataset` as `ParallelMap`."""
    return type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V1") or "Dataset"


class TimedPipeline:
    """A pipeline whose nodes' times can be read while it runs.

    Attributes:
        batches: its iterator.
    """

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self._dataset = dataset
        with _quiet():
            self.batches = iter(dataset.with_options(_as_written()))
        self._before: Any = None

    def start(self) -> None:
        """Times are counted from here."""
        self._before = self._model()

    def read(self, batches: int) -> list[Node]:
        """The nodes from the end of the pipeline to its source, with times since `start`, so many batches ago.

        Empty where TensorFlow has no model of the pipeline.
        """
        after = self._model()
        if after is None or self._before is None or not batches:
            return []
        written = [node for node in pipeline(self._dataset) if kind_of(node) != "Options"]
        nodes: list[Node] = []
        span, restarted = float(batches), False
        pool = threads_of(self._dataset)
        for number, inside in _main_path(after):
            now, then = after.nodes[number], self._before.nodes.get(number)
            kind = _PREFIX.sub("", _SUFFIX.sub("", now.name))
            seconds = _seconds(after, now, inside) - (_seconds(self._before, then, inside) if then else 0.0)
            calls = now.num_elements - (then.num_elements if then else 0)
            if then is None and nodes and not restarted:
                # A new epoch has a new iterator, which has counted for less time than the nodes above it.
                restarted, span = True, calls / nodes[-1].calls if nodes[-1].calls else 0.0
            dataset = _take(written, kind)
            threads = [one.value for one in now.parameters if one.name == "parallelism"]
            parallelism = max(1, min(pool, int(threads[0]))) if threads else 1
            seconds = max(0.0, seconds) / span if span else 0.0
            name = _node_name(kind, dataset)
            nodes.append(Node(name, kind, seconds, calls / span if span else 0.0, parallelism, dataset=dataset))
        return nodes[1:]  # without the model's own root

    def _model(self) -> Any:
        import tensorflow as tf

        try:
            return tf.data.experimental.get_model_proto(self.batches)
        except (tf.errors.OpError, ValueError):
            return None


def with_python(nodes: Sequence[Node], seconds: dict[str, float]) -> list[Node]:
    """The nodes with the time per batch of their Python functions, given by the functions' tokens."""
    counted = []
    for node in nodes:
        calls = python_operations(node.dataset) if node.dataset is not None else ()
        tokens = {call.attr["token"].s.decode() for call in calls}
        counted.append(replace(node, python_seconds=sum(seconds.get(token, 0.0) for token in tokens)))
    return counted


def _node_name(kind: str, dataset: Any) -> str:
    function = getattr(getattr(dataset, "_map_func", None), "_func", None)
    given = getattr(dataset, "_name", None) or getattr(function, "__name__", "")
    return f"{kind} {given}" if given and given != "<lambda>" else kind


def _take(written: list[Any], kind: str) -> Any:
    """The next object as written that is of this kind; both lists go from the end of the pipeline to its source."""
    for position, dataset in enumerate(written):
        if kind_of(dataset) == kind:
            del written[: position + 1]
            return dataset
    return None


def _main_path(model: Any) -> Iterator[tuple[int, tuple[int, ...]]]:
    """From the root down to the source: a node's number, and the numbers of nodes that work inside of it."""
    number = model.output
    while number in model.nodes:
        inputs = list(model.nodes[number].inputs)
        yield number, tuple(inputs[1:])
        if not inputs:
            return
        number = inputs[0]


def _seconds(model: Any, node: Any, inside: tuple[int, ...]) -> float:
    """A node's own time, and that of whatever works inside it (the pipelines of a flat map, say)."""
    total = node.processing_time / 1e9
    waiting = [number for number in inside if number in model.nodes]
    while waiting:
        inner = model.nodes[waiting.pop()]
        total += inner.processing_time / 1e9
        waiting.extend(number for number in inner.inputs if number in model.nodes)
    return total


def _as_written() -> tf.data.Options:
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = True  # without it there is no model
    options.experimental_optimization.apply_default_optimizations = False
    for name in _REWRITES:
        setattr(options.experimental_optimization, name, False)
    return options


@contextmanager
def _quiet() -> Iterator[None]:
    """TensorFlow warns of every option that is set again."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
