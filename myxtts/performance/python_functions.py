"""Finds the Python functions in a `tf.data` pipeline by looking into its graph.

A Python function in a pipeline holds the interpreter's lock for each element. The functions that a dataset's
transformations were given are traced graphs, and so are the functions these call; a call back into Python is one of a
few operations in them. Nothing is serialised, so a pipeline that has captured gigabytes costs nothing to look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

PYTHON_OPERATIONS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def python_functions(dataset: tf.data.Dataset) -> list[str]:
    """Names the Python operations of a pipeline, each as `transformation: operation`; empty if there is none.

    Args:
        dataset: any `tf.data` pipeline; what it was made from is looked at as well.
    """
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
