"""What can fail in a run, as errors that say how to fix it."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import DataConfig
from myxtts.errors import DataError, TrainingError
from myxtts.training.progress import shape_text
from myxtts.training.steps_in_flight import CompletedStep
from myxtts.training.training_data import TrainingData

logger = logging.getLogger(__name__)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a device ran out of memory; XLA reports this under several types."""
    text = str(error)
    return "RESOURCE_EXHAUSTED" in text or "Out of memory" in text or "OOM when allocating" in text


def out_of_memory(shape: Sequence[int], config: DataConfig) -> TrainingError:
    """The error to raise: which batch did not fit, and what to lower."""
    size = f"batch_size ({config.batch_size})"
    if config.max_frames_per_batch is not None:
        size = f"max_frames_per_batch ({config.max_frames_per_batch})"
    return TrainingError(
        f"out of memory with a batch of {shape_text(shape)}\n"
        f"lower {size} or max_mel_frames ({config.max_mel_frames}), or let --auto-batch find what fits"
    )


@contextmanager
def loading_errors() -> Iterator[None]:
    """Turns TensorFlow's error about a batch that cannot be loaded into one line with the cause.

    Raises:
        DataError: a batch cannot be loaded. If the reason is a lack of memory, TensorFlow's own error is raised.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if is_out_of_memory(error):
            raise
        # TensorFlow wraps the cause into its own call chain; the cause comes first.
        lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
        raise DataError(f"a batch cannot be loaded: {lines[0] if lines else type(error).__name__}") from error


def batches_of(dataset: Iterable[Mapping[str, tf.Tensor]]) -> Iterator[Mapping[str, tf.Tensor]]:
    """The batches of a data set, with `loading_errors` around the loading only, not around their use."""
    iterator = iter(dataset)
    while True:
        with loading_errors():
            batch = next(iterator, None)
        if batch is None:
            return
        yield batch


class NonFiniteWatch:
    """Counts skipped steps, remembers their clips, and says when training must stop: after `most` in a row.

    Attributes:
        stop: whether training must stop.
        stopped_batch: the batch with which that was known; 0 before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._batches: deque[tuple[int, np.ndarray | None]] = deque(maxlen=most)
        self._warned = False
        self.stop = False
        self.stopped_batch = 0

    def completed(self, done: CompletedStep, index: Any) -> None:
        """Looks at a completed step; `index` are its clips, on the device."""
        if self.stop:
            return  # this step was in flight already when the last one failed
        if not done.skipped_in_a_row:
            if self._batches:
                with self._lock:
                    self._batches.clear()
            return
        if not self._warned:
            logger.warning("batch %s: loss or gradient is not finite; the step is skipped", f"{done.step.batch:,}")
            self._warned = True
        with self._lock:
            self._batches.append((done.step.batch, None if index is None else index.numpy()))
        if done.skipped_in_a_row >= self._most:
            self.stop, self.stopped_batch = True, done.step.batch

    def error(self, path: Path, data: TrainingData, write: bool = True) -> TrainingError:
        """Writes the clips to `path`, if this process is the one that writes, and returns the error to raise."""
        with self._lock:
            batches = [
                {"batch": batch, "clips": [] if index is None else data.clip_names(index.tolist())}
                for batch, index in self._batches
            ]
        where = f"their clips are in {path}"
        try:
            if write:
                path.write_text(json.dumps({"batches": batches}, indent=2) + "\n", encoding="utf-8")
        except OSError as problem:
            where = f"{path} cannot be written ({problem.strerror})"
        return TrainingError(
            f"loss or gradient was not finite in {self._most} steps in a row; {where}\n"
            "lower learning_rate, or look at these clips; --resume goes on from the last checkpoint"
        )
