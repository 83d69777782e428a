"""The processes that train together: what they add up, and what each of them knows of the others.

The sum over all processes (all-reduce) is TensorFlow's own: gRPC between CPUs, NCCL between GPUs. Model and optimizer
are plain, and the same in every process; only gradients and a few numbers are summed, between the two programs of a
step (`step.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow as tf
from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
from tensorflow.python.eager import context

from myxtts.errors import TrainingError
from myxtts.training.cluster import Rank, RankLostError

# What TensorFlow raises in the others when a process has ended or does not answer.
_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
_TASK = re.compile(r"/task:(\d+)")
_HEARTBEAT = "CoordinationService/Heartbeat"


class Collective:
    """This process among those that train together.

    Create it before anything else runs in TensorFlow. It waits until all processes are there, without end, and while
    it waits, signals are ignored: whoever starts processes must watch them (`launcher.py`).

    Args:
        rank: which process this is.
        timed: whether the sums of steps are timed, which TensorFlow refuses where operations must be deterministic.
    """

    def __init__(self, rank: Rank, timed: bool = True) -> None:
        self.place = rank
        self._timed = timed
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(rank.addresses)}),
            task_type="worker",
            task_id=rank.number,
            rpc_layer="grpc",
        )
        _notice_silence_after(rank)
        self._strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver)
        self._strategy.extended._check_health_timeout = rank.lost_timeout
        self._sum_in_graph = tf.function(self._sum, autograph=False)

    @property
    def rank(self) -> int:
        return self.place.number

    @property
    def ranks(self) -> int:
        return len(self.place.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this process writes, validates and reports for all."""
        return self.rank == 0

    def sum(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """The sums over all processes, in a graph or out of it. Every process must call it, with the same shapes."""
        return list((self._sum_in_graph if tf.executing_eagerly() else self._sum)(list(values)))

    def timed_sum(self, values: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """`sum`, and the seconds it took, float32: the waiting for slower processes, and the sum itself.

        The last of the values should be small. It is read on the host to know when the device has computed them all.
        """
        if not self._timed:
            return self.sum(values), tf.zeros([])
        with tf.device("/CPU:0"), tf.control_dependencies([tf.identity(values[-1])]):
            began = tf.timestamp()
        with tf.control_dependencies([began]):
            values = [tf.identity(value) for value in values]
        summed = self.sum(values)
        with tf.device("/CPU:0"), tf.control_dependencies([tf.identity(summed[-1])]):
            ended = tf.timestamp()
        return summed, tf.cast(ended - began, tf.float32)

    def gather(self, values: np.ndarray) -> np.ndarray:
        """The values of every process: float64 [K] → [ranks, K]. None goes on before all are here."""
        table = np.zeros((self.ranks, len(values)))
        table[self.rank] = values
        with self.lost_ranks(), tf.device("/CPU:0"):
            (summed,) = self.sum([tf.constant(table)])
        return np.asarray(summed)

    def from_chief(self, values: np.ndarray) -> np.ndarray:
        """The chief's values, float64 [K], in every process. Others wait here until it has them."""
        return self.gather(values)[0]

    def require_same(self, facts: Mapping[str, int]) -> None:
        """Checks that all processes are about to do the same.

        Args:
            facts: numbers below 2**53, by what a message calls them.

        Raises:
            TrainingError: they differ between two processes.
        """
        table = self.gather(np.array(list(facts.values()), np.float64))
        for number, row in enumerate(table):
            differing = [name for name, mine, first in zip(facts, row, table[0], strict=True) if mine != first]
            if differing:
                raise TrainingError(
                    f"{self.place.name(number)} has another {differing[0]} than rank 0; give all processes the same "
                    "configuration and data, and a --checkpoint-dir that all of them can read"
                )

    @contextmanager
    def lost_ranks(self) -> Iterator[None]:
        """Turns TensorFlow's error about a process that is gone into one that names it.

        Raises:
            RankLostError: a process has ended or does not answer.
        """
        try:
            yield
        except _LOST as error:
            named = [int(found) for found in _TASK.findall(str(error))]
            if not named and _HEARTBEAT in str(error):
                named = [0]  # which every rank tells that it is alive
            others = [rank for rank in named if rank != self.rank]
            raise RankLostError(others[0] if others else None) from error

    def _sum(self, values: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        def reduce() -> Sequence[tf.Tensor]:
            # Without `identity` TensorFlow finds no destination for values that are inputs of the graph.
            inputs = [tf.identity(value) for value in values]
            return tf.distribute.get_replica_context().all_reduce("SUM", inputs)

        return self._strategy.run(reduce)


def _notice_silence_after(rank: Rank) -> None:
    """Sets how long a process may be silent. The strategy would set up the same service, with TensorFlow's 10 s: too
    short for a machine that is suspended for a moment."""
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * rank.lost_timeout),
        coordinated_jobs=[coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=len(rank.addresses))],
    )
