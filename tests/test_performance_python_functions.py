"""Python functions are found in the graph of a pipeline, wherever they hide, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from myxtts.performance.python_functions import python_functions


def python_square(x: tf.Tensor) -> tf.Tensor:
    return tf.numpy_function(np.square, [x], tf.int64)


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.range(4)


@tf.function
def square_in_a_function(x: tf.Tensor) -> tf.Tensor:
    return python_square(x)


@pytest.mark.parametrize(
    "dataset",
    [
        numbers().map(python_square),
        numbers().map(lambda x: tf.py_function(lambda y: y, [x], tf.int64)).prefetch(1),
        numbers().map(python_square).batch(2).prefetch(1).repeat(),
        numbers().map(square_in_a_function),
        numbers().map(lambda x: tf.cond(x > 2, lambda: python_square(x), lambda: x)),
        numbers().flat_map(lambda x: tf.data.Dataset.from_tensors(x).map(python_square)),
        numbers().interleave(lambda x: tf.data.Dataset.from_tensors(x).map(python_square), num_parallel_calls=2),
        numbers().filter(lambda x: python_square(x) > 3),
        tf.data.Dataset.zip((numbers(), numbers().map(python_square))),
        tf.data.Dataset.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64)),
    ],
    ids=[
        "map",
        "py_function",
        "under-other-transformations",
        "in-a-called-function",
        "in-a-branch",
        "in-an-inner-dataset",
        "in-an-interleaved-dataset",
        "filter",
        "one-of-two-sources",
        "generator",
    ],
)
def test_a_python_function_is_found(dataset: tf.data.Dataset) -> None:
    assert python_functions(dataset)


@pytest.mark.parametrize(
    "dataset",
    [
        numbers(),
        numbers().map(tf.square).batch(2).prefetch(1),
        numbers().flat_map(lambda x: tf.data.Dataset.from_tensors(x).map(tf.square)),
    ],
    ids=["range", "graph-map", "graph-inner-dataset"],
)
def test_a_graph_without_python_is_not_accused(dataset: tf.data.Dataset) -> None:
    assert python_functions(dataset) == []


def test_the_transformation_is_named() -> None:
    assert python_functions(numbers().map(python_square)) == ["MapDataset: PyFunc"]
