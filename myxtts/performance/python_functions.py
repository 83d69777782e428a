"""Finds the Python functions in a `tf.data` pipeline by looking into its graph, and times them.

A Python function in a pipeline holds the interpreter's lock for each element. The functions that a dataset's
transformations were given are traced graphs, and so are the functions these call; a call back into Python is one of a
few operations in them. Nothing is serialised, so a pipeline that has captured gigabytes costs nothing to look at. A
function is timed by a wrapper in the registry where TensorFlow looks it up.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

PYTHON_OPERATIONS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def python_functions(dataset: tf.data.Dataset) -> list[str]:
    """The Python operations of a pipeline and of those it was made from, each as `transformation: operation`."""
    return [
        f"{type(node).__name__.strip('_')}: {operation.op}"
        for node in pipeline(dataset)
        for operation in python_operations(node)
    ]


def pipeline(dataset: Any) -> Iterator[Any]:
    """The dataset and everything it is made from, each once."""
    seen: set[int] = set()
    waiting = [dataset]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(node._inputs())


def python_operations(node: Any) -> list[Any]:
    """The Python operations of one transformation, each as a `NodeDef`."""
    return [
        operation
        for function in node._functions()
        for operation in operations(function.function)
        if operation.op in PYTHON_OPERATIONS
    ]


def operations(function: Any) -> Iterator[Any]:
    """The operations in a function's graph and in those it calls, datasets made inside included, as `NodeDef`s."""
    definition = function.function_def
    library = {inner.signature.name: inner for inner in function.graph.as_graph_def().library.function}
    waiting, seen = [definition], {definition.signature.name}
    while waiting:
        for operation in waiting.pop().node_def:
            yield operation
            for attribute in operation.attr.values():
                for called in (attribute.func, *attribute.list.func):
                    if called.name in library and called.name not in seen:
                        seen.add(called.name)
                        waiting.append(library[called.name])


class PythonTimes:
    """Times every Python function of a pipeline while its block runs."""

    def __init__(self, dataset: Any) -> None:
        from tensorflow.python.ops import script_ops

        self._registry = script_ops._py_funcs._funcs
        self._eager_function = script_ops.EagerFunc
        tokens = {op.attr["token"].s.decode() for node in pipeline(dataset) for op in python_operations(node)}
        self._found: dict[str, Any] = {
            token: self._registry[token] for token in sorted(tokens) if token in self._registry
        }
        self._seconds = dict.fromkeys(self._found, 0.0)
        self._lock = threading.Lock()
        self._held: dict[str, Any] = {}  # the registry itself holds only weak references

    def __enter__(self) -> PythonTimes:
        for token, function in self._found.items():
            if isinstance(function, self._eager_function):
                self._held[token] = function._func
                function._func = self._timed(token, function._func)
            else:
                self._held[token] = self._timed(token, function)
                self._registry[token] = self._held[token]
        return self

    def __exit__(self, *error: object) -> None:
        for token, function in self._found.items():
            if isinstance(function, self._eager_function):
                function._func = self._held[token]
            else:
                self._registry[token] = function

    def restart(self) -> None:
        """Starts again from zero."""
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
