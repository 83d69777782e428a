"""Times the Python functions of a `tf.data` pipeline, by standing in for them where TensorFlow looks them up."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tensorflow.python.ops import script_ops

from myxtts.performance.python_functions import pipeline, python_operations


class PythonTimes:
    """Times every Python function of a pipeline while its block runs.

    Args:
        dataset: the pipeline.
    """

    def __init__(self, dataset: Any) -> None:
        registry = script_ops._py_funcs._funcs
        tokens = {op.attr["token"].s.decode() for node in pipeline(dataset) for op in python_operations(node)}
        self._found: dict[str, Any] = {token: registry[token] for token in sorted(tokens) if token in registry}
        self._seconds = dict.fromkeys(self._found, 0.0)
        self._lock = threading.Lock()
        self._stand_ins: dict[str, Any] = {}  # the registry itself holds only weak references

    def __enter__(self) -> PythonTimes:
        registry = script_ops._py_funcs._funcs
        for token, function in self._found.items():
            if isinstance(function, script_ops.EagerFunc):
                self._stand_ins[token] = function._func
                function._func = self._timed(token, function._func)
            else:
                self._stand_ins[token] = self._timed(token, function)
                registry[token] = self._stand_ins[token]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        registry = script_ops._py_funcs._funcs
        for token, function in self._found.items():
            if isinstance(function, script_ops.EagerFunc):
                function._func = self._stand_ins[token]
            else:
                registry[token] = function

    def restart(self) -> None:
        """Counts from here."""
        with self._lock:
            self._seconds = dict.fromkeys(self._found, 0.0)

    def seconds(self) -> dict[str, float]:
        """Wall time of each function's calls so far, by token."""
        with self._lock:
            return dict(self._seconds)

    def _timed(self, token: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                lasted = time.perf_counter() - began
                with self._lock:
                    self._seconds[token] += lasted

        return timed
