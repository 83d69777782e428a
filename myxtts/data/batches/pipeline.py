"""From a plan and a loader to the batches that a training step consumes, read top to bottom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.data.batches.order_in_graph import batch_requests, segment_requests
from myxtts.data.batches.plan import BatchOrder, BatchPlan
from myxtts.data.batches.segment_plan import SegmentPlan
from myxtts.data.batches.window_plan import WindowedPlan
from myxtts.data.batches.windows_in_graph import window_requests
from myxtts.data.store.allocation import keep_freed_memory
from myxtts.errors import DataError

ENHANCED_DEVICE_BATCHES = 2


class BatchLoader(Protocol):
    """Anything that turns a request into a batch, in graph or in Python."""

    def load_batch(self, request: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]: ...


@dataclass(frozen=True)
class PipelineSettings:
    """How batches are moved; none of it changes what is in them.

    Attributes:
        workers: batches loaded at the same time, and threads of the pipeline's own pool.
        prefetch: batches kept ready on the host.
        overlap: false loads a batch when it is asked for, and not before, for debugging and as a baseline.
        device: where the batches are moved ahead of the step, e.g. `/GPU:0`; none: they stay on the host.
        device_batches: how many are kept there.
    """

    workers: int
    prefetch: int
    overlap: bool = True
    device: str | None = None
    device_batches: int = ENHANCED_DEVICE_BATCHES

    @classmethod
    def from_config(cls, config: DataConfig, device: str | None = None) -> PipelineSettings:
        """The settings that the configuration's switches stand for, on a machine whose GPU is `device`."""
        return cls(
            workers=config.workers,
            prefetch=config.prefetch,
            overlap=config.optimize_cpu_gpu_overlap,
            device=device if config.prefetch_to_gpu and config.optimize_cpu_gpu_overlap else None,
            device_batches=ENHANCED_DEVICE_BATCHES if config.enhanced_gpu_prefetch else 1,
        )


def create_dataset(
    loader: BatchLoader,
    plan: BatchPlan | WindowedPlan | SegmentPlan,
    settings: PipelineSettings,
    order: BatchOrder,
) -> tf.data.Dataset:
    """The batches of a plan, in order.

    Raises:
        DataError: there is no batch to give, or not at that place.
    """
    if len(plan) == 0:
        left_out = sum(plan.skipped_because.values())
        raise DataError(f"no clip to load: all {left_out} are left out ({_reasons(plan)})")
    if not 0 <= order.start_step < len(plan):
        raise DataError(f"there is no step {order.start_step} in an epoch of {len(plan)} batches")
    keep_freed_memory()

    dataset = _requests(plan, order)
    # Loaders are graph operations throughout; to look through their source for Python's control flow takes seconds.
    load_batch = tf.autograph.experimental.do_not_convert(loader.load_batch)
    if settings.overlap:
        # The order is a promise (resuming depends on it), so batches come in order whatever the number of workers.
        dataset = dataset.map(load_batch, num_parallel_calls=settings.workers, deterministic=True)
    else:
        dataset = dataset.map(load_batch)
    return deliver(dataset, settings)


def deliver(dataset: tf.data.Dataset, settings: PipelineSettings) -> tf.data.Dataset:
    """Batches kept ready, on the host and on the device."""
    if settings.overlap:
        dataset = dataset.prefetch(settings.prefetch)
    dataset = dataset.with_options(_options(settings))
    if settings.device is not None:
        # Last of all: what follows a device prefetch would run on the host again.
        to_device = tf.data.experimental.prefetch_to_device(settings.device, settings.device_batches)
        dataset = dataset.apply(to_device)
    return dataset


def _requests(plan: BatchPlan | WindowedPlan | SegmentPlan, order: BatchOrder) -> tf.data.Dataset:
    if isinstance(plan, SegmentPlan):
        return segment_requests(plan, order)
    return window_requests(plan, order) if isinstance(plan, WindowedPlan) else batch_requests(plan, order)


def gpu_device() -> str | None:
    """The first GPU that TensorFlow can use, or None."""
    return "/GPU:0" if tf.config.list_logical_devices("GPU") else None


def _options(settings: PipelineSettings) -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    # A pool of its own, so that a step on the CPU and the loading of batches do not queue behind each other.
    options.threading.private_threadpool_size = settings.workers if settings.overlap else 1
    # One gather per batch gains nothing from more threads inside it, and several batches are loaded at once anyway.
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.map_fusion = True
    # Workers and prefetch are set on purpose; a tuner that starts from one of each would stall the first steps.
    options.autotune.enabled = False
    return options


def _reasons(plan: BatchPlan | WindowedPlan | SegmentPlan) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in plan.skipped_because.items()) or "no clips"
