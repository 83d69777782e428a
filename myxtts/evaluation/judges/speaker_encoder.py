"""Resemblyzer's speaker encoder in NumPy: speech to a vector of the voice.

Only the weights file of the Resemblyzer package is used (`pip install --no-deps Resemblyzer`). The package itself
needs PyTorch, and webrtcvad, which has to be compiled and cannot be imported beside a current setuptools.

A clip is cut into windows of 1.6 s that begin 0.77 s apart. Each window's power mel goes through three LSTM layers,
a dense layer and ReLU, and is brought to length 1; a clip's vector is the mean over its windows, of length 1.
"""

from __future__ import annotations

import collections
import importlib.util
import math
import pickle
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from scipy.fft import rfft
from scipy.special import expit

from myxtts.audio.mel import MelSettings, mel_filterbank
from myxtts.errors import UsageError

RATE = 16000
_HOP = 160
_SETTINGS = MelSettings(sample_rate=RATE, n_fft=400, win_length=400, hop_length=_HOP, n_mels=40, fmax=RATE / 2)
_LAYERS = 3
_WINDOW = 160  # frames
_STEP = 77  # frames from one window to the next
# A last window is used if it holds at least this share of speech.
_COVERAGE = 0.75
# Quieter audio is raised to this level, in dB of full scale.
_LEVEL = -30


class SpeakerEncoder:
    """Makes vectors of voices. Resemblyzer has to be installed.

    Raises:
        UsageError: the weights' file is not the expected one.
    """

    def __init__(self) -> None:
        path = _weights_path()
        try:
            self._weights = read_torch_weights(path)
            self._layers = [self._layer(number) for number in range(_LAYERS)]
        except (OSError, KeyError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise UsageError(f"{path}: not the weights of Resemblyzer 0.1.4 ({error})") from None

    def __call__(self, audio: np.ndarray) -> np.ndarray:
        """The vector of a clip, float32 [256], of length 1.

        Args:
            audio: float32 [n] at `RATE`, with at least one sample.
        """
        starts = _window_starts(len(audio))
        audio = np.pad(_raised(audio), (0, max(0, (starts[-1] + _WINDOW) * _HOP - len(audio))))
        mel = _power_mel(audio)
        voices = self._run(np.stack([mel[start : start + _WINDOW] for start in starts]))
        mean = voices.mean(axis=0)
        return mean / max(np.linalg.norm(mean), 1e-12)

    def _run(self, mels: np.ndarray) -> np.ndarray:
        """From windows [W, frames, bands] to vectors [W, 256] of length 1."""
        sequence = mels
        for inputs, recurrent, bias in self._layers:
            sequence = _lstm(sequence @ inputs + bias, recurrent)
        voices = np.maximum(sequence[:, -1] @ self._weights["linear.weight"].T + self._weights["linear.bias"], 0)
        return voices / np.maximum(np.linalg.norm(voices, axis=1, keepdims=True), 1e-12)

    def _layer(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        inputs, recurrent, one, other = (
            self._weights[f"lstm.{name}_l{number}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return np.ascontiguousarray(inputs.T), np.ascontiguousarray(recurrent.T), one + other


def _lstm(inputs: np.ndarray, recurrent: np.ndarray) -> np.ndarray:
    """The states [W, T, H] of an LSTM layer whose gates get `inputs` [W, T, 4 H] from outside."""
    windows, frames, _ = inputs.shape
    size = len(recurrent)
    state, memory = np.zeros((2, windows, size), np.float32)
    states = np.empty((windows, frames, size), np.float32)
    for frame in range(frames):
        gates = inputs[:, frame] + state @ recurrent
        keep_new, keep_old, out = (expit(gates[:, place * size : (place + 1) * size]) for place in (0, 1, 3))
        memory = keep_old * memory + keep_new * np.tanh(gates[:, 2 * size : 3 * size])
        state = states[:, frame] = out * np.tanh(memory)
    return states


def _window_starts(samples: int) -> list[int]:
    """The first frames of the windows of a clip; there is always one."""
    frames = math.ceil((samples + 1) / _HOP)
    starts = list(range(0, max(1, frames - _WINDOW + _STEP + 1), _STEP))
    if len(starts) > 1 and (samples - starts[-1] * _HOP) / (_WINDOW * _HOP) < _COVERAGE:
        starts.pop()
    return starts


def _raised(audio: np.ndarray) -> np.ndarray:
    level = math.sqrt(float(np.mean(np.square(audio, dtype=np.float64))))
    wanted = 10 ** (_LEVEL / 20)
    return audio * np.float32(wanted / level) if 0 < level < wanted else audio


def _power_mel(audio: np.ndarray) -> np.ndarray:
    """The mel without a logarithm, of frames centred on multiples of the hop: float32 [frames, bands]."""
    padded = np.pad(audio.astype(np.float32), _SETTINGS.n_fft // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, _SETTINGS.n_fft)[::_HOP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_SETTINGS.n_fft) / _SETTINGS.n_fft)
    power = np.abs(rfft(frames * hann.astype(np.float32), axis=1)) ** 2
    return (power @ mel_filterbank(_SETTINGS).T).astype(np.float32)


def _weights_path() -> Path:
    # The package is found and not imported: importing it would ask for PyTorch.
    found = importlib.util.find_spec("resemblyzer")
    assert found is not None
    assert found.submodule_search_locations is not None
    return Path(next(iter(found.submodule_search_locations))) / "pretrained.pt"


class _Tensor(NamedTuple):
    """A tensor of which only the place is known yet."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read_torch_weights(path: Path) -> dict[str, np.ndarray]:
    """The float32 arrays of `model_state` in a file that PyTorch wrote before version 1.6.

    Such a file is five pickles (a magic number, a version, facts about the machine, the object with references to
    storages, the storages' names), then the bytes of every storage. Nothing in it is executed: the pickles may name
    tensors and dictionaries, and nothing else.

    Raises:
        ValueError, pickle.UnpicklingError, EOFError: it is not such a file.
    """
    with open(path, "rb") as file:
        magic, version, _ = (_Pickle(file).load() for _ in range(3))
        if (magic, version) != (0x1950A86A20F9469CFC6C, 1001):
            raise ValueError("another format")
        content = _Pickle(file)
        tensors = content.load()["model_state"]
        storages = {}
        for name in _Pickle(file).load():
            count = int(np.frombuffer(file.read(8), "<i8")[0])
            dtype = content.dtypes[name]
            storages[name] = np.frombuffer(file.read(count * dtype.itemsize), dtype)
    return {name: _array(tensor, storages[tensor.storage]) for name, tensor in tensors.items()}


def _array(tensor: _Tensor, storage: np.ndarray) -> np.ndarray:
    strides = [step * storage.itemsize for step in tensor.stride]
    view = np.lib.stride_tricks.as_strided(storage[tensor.offset :], tensor.shape, strides)
    return np.array(view, np.float32)


class _Pickle(pickle.Unpickler):
    """Reads the pickles of such a file: tensors become `_Tensor`, and any other object is refused."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="utf-8")
        self.dtypes: dict[str, np.dtype[Any]] = {}

    @cached_property
    def _allowed(self) -> dict[tuple[str, str], Any]:
        def rebuild(storage: str, offset: int, shape: Any, stride: Any, *_: Any) -> _Tensor:
            return _Tensor(storage, offset, tuple(shape), tuple(stride))

        return {
            ("collections", "OrderedDict"): collections.OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): rebuild,
            ("torch", "FloatStorage"): np.dtype("<f4"),
            ("torch", "LongStorage"): np.dtype("<i8"),
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._allowed:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return self._allowed[module, name]

    def persistent_load(self, reference: Any) -> str:
        _, dtype, name, *_ = reference
        self.dtypes[name] = dtype
        return str(name)
