"""TensorFlow functions as files that other runtimes open."""

from __future__ import annotations

import importlib.util
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from myxtts.errors import MissingExtraError
from myxtts.runtime.graphs import GraphNames
from myxtts.runtime.model_files import without_native_messages

EXTRA = "export"
# Of the packages that write each format.
_PACKAGES = {"onnx": "tf2onnx", "litert": "ai_edge_litert", "saved-model": "tensorflow"}
_OPSET = 18
_SIGNATURE = "serving_default"
# Operations with weights, and a part of the names of those in a `ConvBlock`.
_QUANTIZED = ("Conv", "MatMul", "Gemm")
_BLOCK = "/conv_block"
_SMALL_WEIGHT = 256  # values; not worth an operation of their own


def require_packages(runs_with: str) -> None:
    """
    Raises:
        MissingExtraError: what writes files of this format is not installed.
    """
    if importlib.util.find_spec(_PACKAGES[runs_with]) is None:
        raise MissingExtraError(f"exporting to {runs_with}", EXTRA)


def convert(function: Any, names: GraphNames, path: Path, quantized: bool = False) -> None:
    """Writes a function of `models.graphs` as a `.onnx` or `.tflite` file, by the file's suffix.

    Args:
        function: with one input signature; its outputs have names.
        names: of its inputs and outputs.
        path: of the file to write.
        quantized: whether its weights become integers of 8 bits.
    """
    # Weights first: without them, converters write a file that opens and says nonsense.
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    if path.suffix == ".onnx":
        _write_onnx(frozen, names, path)
        if quantized:
            _quantize_onnx(path)
    else:
        _write_litert(frozen, names, path, quantized)


def _write_onnx(frozen: Any, names: GraphNames, path: Path) -> None:
    import tf2onnx

    for talkative in ("tf2onnx", "tensorflow"):
        logging.getLogger(talkative).setLevel(logging.ERROR)
    inputs, outputs = ([tensor.name for tensor in tensors] for tensors in (frozen.inputs, frozen.outputs))
    # A function's named outputs are in alphabetical order.
    renamed = dict(zip(inputs, names.inputs, strict=True)) | dict(zip(outputs, sorted(names.outputs), strict=True))
    with without_native_messages():
        proto, _ = tf2onnx.convert.from_graph_def(
            frozen.graph.as_graph_def(),
            input_names=inputs,
            output_names=outputs,
            opset=_OPSET,
            tensors_to_rename=renamed,
        )
    _store_halves(proto.graph)
    path.write_bytes(proto.SerializeToString())


def _store_halves(graph: Any) -> None:
    """Stores weights as float16 where that holds them exactly, as it does those of the voice that comes with MyXTTS:
    half the bytes, the same numbers. ONNX Runtime converts them once, when it opens the file."""
    from onnx import TensorProto, helper, numpy_helper

    for weight in graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < _SMALL_WEIGHT:
            continue
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if np.array_equal(half, values):
            name = weight.name
            weight.CopyFrom(numpy_helper.from_array(half, f"{name}/half"))
            graph.node.insert(0, helper.make_node("Cast", [f"{name}/half"], [name], to=TensorProto.FLOAT))


def _quantize_onnx(path: Path) -> None:
    """Rounds the weights of the blocks; the layers before and after them are small, and matter most."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    nodes = [node.name for node in onnx.load(path).graph.node if node.op_type in _QUANTIZED and _BLOCK in node.name]
    with tempfile.TemporaryDirectory() as folder:
        exact = Path(folder) / path.name
        exact.write_bytes(path.read_bytes())
        logging.disable(logging.WARNING)  # advice on what to do before
        try:
            quantize_dynamic(
                exact,
                path,
                op_types_to_quantize=list(_QUANTIZED),
                nodes_to_quantize=nodes,
                per_channel=True,
                # With all 8 bits, sums of products overflow on CPUs without instructions for them.
                reduce_range=True,
                weight_type=QuantType.QInt8,
            )
        finally:
            logging.disable(logging.NOTSET)


def _write_litert(frozen: Any, names: GraphNames, path: Path, quantized: bool) -> None:
    outputs = sorted(names.outputs)

    def call(*values: tf.Tensor) -> dict[str, tf.Tensor]:
        found = frozen(*values)
        return dict(zip(outputs, found if isinstance(found, list | tuple) else [found], strict=True))

    module = tf.Module()
    signature = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name)
        for tensor, name in zip(frozen.inputs, names.inputs, strict=True)
    ]
    module.call = tf.function(call, input_signature=signature, autograph=False)
    with tempfile.TemporaryDirectory() as folder, without_native_messages():
        tf.saved_model.save(
            module,
            folder,
            signatures={_SIGNATURE: module.call.get_concrete_function()},
            options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
        )
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if quantized:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        path.write_bytes(converter.convert())
