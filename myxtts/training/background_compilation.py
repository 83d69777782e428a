"""A step that does not wait to be compiled: it runs as a plain graph until a thread has compiled it.

XLA takes many seconds for every shape of batch. Meanwhile steps are computed by the same graph without XLA, which is
slower and gives the same numbers but for rounding. So a run that must be repeatable to the bit does not use this, nor
do several processes that train together, whose steps must be the same program at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import tensorflow as tf

from myxtts.training.failures import is_out_of_memory
from myxtts.training.objective import Batch, Shape

Result = TypeVar("Result")


class BackgroundCompilation(Generic[Result]):
    """Calls a step, compiled or not.

    Args:
        plain: the step as a graph.
        compiled: the step with compiled parts, which are compiled for every shape when they are first called.
        compile_for: compiles these parts for a batch's shape, without a lasting effect; runs in a thread.
        shape_of: the shape of a batch.
    """

    def __init__(
        self,
        plain: Callable[[Batch], Result],
        compiled: Callable[[Batch], Result],
        compile_for: Callable[[Batch], Any],
        shape_of: Callable[[Batch], Shape],
    ) -> None:
        self._plain = plain
        self._compiled = compiled
        self._compile_for = compile_for
        self._shape_of = shape_of
        self._thread = ThreadPoolExecutor(1, "compilation")
        self._programs: dict[Shape, Future[Any]] = {}

    def __call__(self, batch: Batch) -> Result:
        if not self.is_ready(shape := self._shape_of(batch)):
            try:
                result = self._plain(batch)
            except tf.errors.OpError as error:
                if not is_out_of_memory(error):
                    raise
                # The compiled step may fit: it needs less memory.
                wait([self._program(shape, batch)])
            else:
                self._program(shape, batch)  # only now: the first step is traced and computed by itself
                return result
        # If compiling has failed in the thread, where two steps were in memory, this compiles again.
        return self._compiled(batch)

    def is_ready(self, shape: Shape) -> bool:
        """Whether the next step of this shape is a compiled one."""
        return shape in self._programs and self._programs[shape].done()

    def _program(self, shape: Shape, batch: Batch) -> Future[Any]:
        if shape not in self._programs:
            self._programs[shape] = self._thread.submit(self._compile_for, batch)
        return self._programs[shape]

    def close(self) -> None:
        """Waits for what is being compiled; nothing more is."""
        self._thread.shutdown(cancel_futures=True)
