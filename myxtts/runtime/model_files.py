"""Networks in files of two formats behind one interface: ONNX, run by ONNX Runtime, and LiteRT (TensorFlow Lite).

What the tensors mean is not known here: `vocoder_files` finds out, `bundle` knows.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.errors import MissingExtraError, VocoderError
from myxtts.hardware import usable_cpus

EXTRA = "vocoders"
# ONNX Runtime's names of the types that a mel can have.
_ONNX_TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16"}


@dataclass(frozen=True)
class TensorInfo:
    """What a file says about a tensor.

    Attributes:
        name: in the file.
        shape: None where the length is free.
        dtype: as NumPy or the format names it.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        lengths = ", ".join("any" if length is None else str(length) for length in self.shape)
        return f"{self.name} {self.dtype} [{lengths}]"


class ModelFile(Protocol):
    """A network in a file.

    Attributes:
        path: of the file.
        inputs, outputs: in the file's order. A shape that the file does not state is empty.
        metadata: what else the file says about itself.
    """

    path: Path
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    metadata: Mapping[str, str]

    def run(self, value: np.ndarray) -> list[np.ndarray]:
        """All outputs for a value of the only input. The runtime's own exceptions come through."""

    def call(self, values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Outputs by name for inputs by name, for files that have such names."""


def open_model_file(path: Path, threads: int | None = None) -> ModelFile:
    """Opens a `.onnx` or `.tflite` file.

    Args:
        path: of the file.
        threads: to compute with; None: as many as there are CPUs.

    Raises:
        VocoderError: the file is missing, damaged, or not of its format.
        MissingExtraError: the package that runs it is not installed.
    """
    if not path.is_file():
        raise VocoderError(f"{path}: no such file")
    kind: type[OnnxFile | LiteRtFile] = OnnxFile if path.suffix.lower() == ".onnx" else LiteRtFile
    if importlib.util.find_spec(kind.package) is None:
        raise MissingExtraError(f"{path}: a {path.suffix} file", EXTRA)
    try:
        return kind(path, threads or usable_cpus())
    except Exception as error:  # each runtime has exceptions of its own, of no common type
        raise VocoderError(f"{path}: cannot be read as a {path.suffix} file ({first_line(error)})") from None


def first_line(error: Exception) -> str:
    """An exception as a part of a sentence."""
    return next(iter(str(error).splitlines()), type(error).__name__).strip().rstrip(".")


class OnnxFile:
    """A `.onnx` file."""

    package = "onnxruntime"

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        self.path = path
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads that wait by counting take the CPU from others: on a busy one, a sentence takes three times as long.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # what is wrong is raised as well
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = [_onnx_info(tensor) for tensor in self._session.get_inputs()]
        self.outputs = [_onnx_info(tensor) for tensor in self._session.get_outputs()]
        self.metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map

    def run(self, value: np.ndarray) -> list[np.ndarray]:
        return self._session.run(None, {self.inputs[0].name: value})

    def call(self, values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        found = self._session.run(None, dict(values))
        return {output.name: value for output, value in zip(self.outputs, found, strict=True)}


def _onnx_info(tensor: Any) -> TensorInfo:
    shape = tuple(length if isinstance(length, int) else None for length in tensor.shape)
    return TensorInfo(tensor.name, shape, _ONNX_TYPES.get(tensor.type, tensor.type))


class LiteRtFile:
    """A `.tflite` file."""

    package = "ai_edge_litert"
    metadata: Mapping[str, str] = {}

    def __init__(self, path: Path, threads: int) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.path = path
        with without_native_messages():
            self._interpreter = Interpreter(str(path), num_threads=threads)
            self._interpreter.allocate_tensors()
        self.inputs = [_litert_info(tensor) for tensor in self._interpreter.get_input_details()]
        self.outputs = [_litert_info(tensor) for tensor in self._interpreter.get_output_details()]
        # An interpreter keeps its tensors, so it serves one thread at a time.
        self._lock = threading.Lock()

    def run(self, value: np.ndarray) -> list[np.ndarray]:
        with self._lock:
            (tensor,) = self._interpreter.get_input_details()
            if tuple(tensor["shape"]) != value.shape:
                self._interpreter.resize_tensor_input(tensor["index"], value.shape)
                self._interpreter.allocate_tensors()
            self._interpreter.set_tensor(tensor["index"], value)
            self._interpreter.invoke()
            return [self._interpreter.get_tensor(one["index"]) for one in self._interpreter.get_output_details()]

    def call(self, values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        with self._lock:
            return self._interpreter.get_signature_runner()(**values)


def _litert_info(tensor: Any) -> TensorInfo:
    shape = tuple(None if length < 0 else int(length) for length in tensor["shape_signature"])
    return TensorInfo(tensor["name"], shape, np.dtype(tensor["dtype"]).name)


@contextlib.contextmanager
def without_native_messages() -> Iterator[None]:
    """Keeps off standard error what libraries say there from C++, and no setting stops."""
    stderr = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
