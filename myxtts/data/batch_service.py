"""Loading on other machines: runtime batches computed by the `tf.data` service, in order.

A loader is a dispatcher and a worker of TensorFlow's service in one process (`serve_batches`). The training process
sends it the graph that makes its batches; the files are read where the loader runs, so its machine sees the data set
under the same path. With several loaders each computes every n-th batch, and the batches are taken in turn.

A loader that is started again begins with the first batch of what it was sent, and says nothing. So batches are
numbered: a number that does not come next is an error of the pipeline, and `ServedBatches` asks again from the batch
that should have come.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.order_in_graph import batch_requests
from myxtts.data.batches.pipeline import BatchLoader, PipelineSettings, deliver, gpu_device
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.runtime_clips import RuntimeClips
from myxtts.errors import DataError

logger = logging.getLogger(__name__)

_OUT_OF_ORDER = "a loader gave a batch out of order"
# What the service says of loaders that are gone, or that know nothing of this run because they were started again.
_INTERRUPTED = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
_FORGOTTEN = ("iteration client", "iteration_client", "Dataset id", "dataset id", "task ", "Task ")
_MOST_IN_A_ROW = 60
_PAUSE_SECONDS = 1.0  # before it is tried again: a loader may not know its worker yet
_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 20.0


def serve_batches(port: int, host: str) -> list[Any]:
    """Starts a loader in this process: a dispatcher at `port` and a worker at the port after it.

    Args:
        port: of the dispatcher.
        host: name or address under which training processes reach this machine.

    Returns:
        What has to be kept for as long as it should run.

    Raises:
        DataError: a port is taken.
    """
    service = tf.data.experimental.service
    try:
        dispatcher = service.DispatchServer(service.DispatcherConfig(port=port))
        worker = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=f"localhost:{port}", worker_address=f"{host}:{port + 1}", port=port + 1
            )
        )
    except tf.errors.OpError as error:
        raise DataError(
            f"ports {port} and {port + 1}: {str(error).splitlines()[0]}; choose others with --port"
        ) from None
    return [dispatcher, worker]


@dataclass(frozen=True)
class ServedSource(BatchSource):
    """The batches of a split, loaded by others.

    Attributes:
        addresses: of the loaders, `host:port`.
    """

    addresses: Sequence[str] = ()

    @classmethod
    def of(cls, source: BatchSource, addresses: Sequence[str]) -> ServedSource:
        """The same batches, loaded by others.

        Raises:
            DataError: they cannot be, or a loader does not answer.
        """
        clips = source.clips
        if not isinstance(clips, RuntimeClips):
            raise DataError("--data-service: batches of a store are not sent, reading it here is seven times as fast")
        unreadable = int((~clips.graph_readable).sum())
        if unreadable:
            raise DataError(
                f"--data-service: {unreadable:,} files are not 16-bit WAV at {source.config.sample_rate:,} Hz; they "
                "cannot be loaded on other machines; --preprocessing-mode precompute reads all kinds, once"
            )
        for address in addresses:
            _require_listening(address)
        return cls(**vars(source), addresses=tuple(addresses))

    def dataset(self, order: BatchOrder | None = None, **changes: Any) -> Any:
        """The batches: `element_spec`, `cardinality` and iteration are those of a `tf.data.Dataset`."""
        settings = PipelineSettings.from_config(self.config, gpu_device())
        loader, plan = self.native_loader(), self.plan
        assert isinstance(plan, BatchPlan)  # windows are of stores

        def create(order: BatchOrder, first: int) -> tf.data.Dataset:
            return served_dataset(loader, plan, settings, order, self.addresses, first)

        return ServedBatches(create, len(plan), replace(order or BatchOrder(), **changes), self.addresses)


def served_dataset(
    loader: BatchLoader,
    plan: BatchPlan,
    settings: PipelineSettings,
    order: BatchOrder,
    addresses: Sequence[str],
    first: int = 0,
) -> tf.data.Dataset:
    """The batches of a plan, in order, each computed by one of the loaders.

    Args:
        loader: makes a batch of a request, in graph.
        plan, settings, order: as for `pipeline.create_dataset`.
        addresses: of the loaders.
        first: the number of the first batch; from there on they are counted and checked.
    """
    service = tf.data.experimental.service

    @tf.autograph.experimental.do_not_convert
    def load(number: tf.Tensor, request: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return number, loader.load_batch(request)

    options = tf.data.Options()
    options.deterministic = True
    options.threading.max_intra_op_parallelism = 1
    parts = []
    for place, address in enumerate(addresses):
        part = batch_requests(plan, order).enumerate(first).shard(len(addresses), place)
        # As many at a time as the loader's machine has cores, which is not known here.
        part = part.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)
        part = part.with_options(options)
        parts.append(part.apply(service.distribute(service.ShardingPolicy.OFF, f"grpc://{address}")))
    turns = tf.data.Dataset.range(len(parts)).repeat()
    chosen = parts[0] if len(parts) == 1 else tf.data.Dataset.choose_from_datasets(parts, turns)

    @tf.autograph.experimental.do_not_convert
    def check(expected: tf.Tensor, numbered: tuple[tf.Tensor, dict[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
        number, batch = numbered
        with tf.control_dependencies([tf.debugging.assert_equal(number, expected, message=_OUT_OF_ORDER)]):
            return {name: tf.identity(value) for name, value in batch.items()}

    checked = tf.data.Dataset.zip((tf.data.Dataset.counter(first), chosen)).map(check)
    return deliver(checked, settings)


class ServedBatches:
    """Batches from loaders, in order, even if loaders fail or are started again.

    Args:
        create: gives the batches from a place in the order on, the first of them with the number given.
        batches_per_epoch: how many.
        order: which batches.
        addresses: of the loaders, for messages.
    """

    def __init__(
        self,
        create: Callable[[BatchOrder, int], tf.data.Dataset],
        batches_per_epoch: int,
        order: BatchOrder,
        addresses: Sequence[str],
    ) -> None:
        self._create = create
        self._batches_per_epoch = batches_per_epoch
        self._order = order
        self._addresses = addresses
        self._first = create(order, 0)

    @property
    def element_spec(self) -> Any:
        return self._first.element_spec

    def cardinality(self) -> tf.Tensor:
        return self._first.cardinality()

    def __iter__(self) -> Iterator[Mapping[str, tf.Tensor]]:
        given, failures = 0, 0
        batches = iter(self._first)
        with _Silence(self._addresses) as silence:
            while True:
                try:
                    with silence.asked():
                        batch = next(batches, None)
                except tf.errors.OpError as error:
                    failures += 1
                    if not _by_loader(error) or failures > _MOST_IN_A_ROW:
                        raise
                    if failures == 1:
                        logger.warning("a loader was started again; batch %s is asked for again", f"{given:,}")
                    else:
                        time.sleep(_PAUSE_SECONDS)
                    logger.debug("loaders: %s", error)
                    batches = iter(self._create(self._after(given), given))
                    continue
                if batch is None:
                    return
                given, failures = given + 1, 0
                yield batch

    def _after(self, given: int) -> BatchOrder:
        """The order that continues after so many batches."""
        epochs, step = divmod(self._order.start_step + given, self._batches_per_epoch)
        left = None if self._order.epochs is None else self._order.epochs - epochs
        return replace(self._order, epochs=left, start_epoch=self._order.start_epoch + epochs, start_step=step)


class _Silence:
    """Says once in a while which loader does not answer, while a batch is waited for."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses
        self._since: float | None = None
        self._ended = threading.Event()

    def __enter__(self) -> _Silence:
        threading.Thread(target=self._watch, name="loaders", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While a batch is waited for."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def _watch(self) -> None:
        while not self._ended.wait(_SILENT_SECONDS / 4):
            since = self._since
            if since is None or time.monotonic() - since < _SILENT_SECONDS:
                continue
            for address in self._addresses:
                try:
                    _require_listening(address)
                except DataError as error:
                    logger.warning("waiting for batches: %s", error)
            self._ended.wait(_SILENT_SECONDS)


def _by_loader(error: tf.errors.OpError) -> bool:
    """Whether an error tells of a loader and not of the data."""
    if isinstance(error, _INTERRUPTED) or _OUT_OF_ORDER in str(error):
        return True
    return isinstance(error, tf.errors.NotFoundError) and any(text in str(error) for text in _FORGOTTEN)


def _require_listening(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"no loader at {address} ({reason}); start it with `myxtts serve-data`") from None
