"""The rows of the tables, and which of them can be measured here."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from loading.data import BenchData
from loading.source import Source

# blocking: builds batches in the training thread. The other peers load ahead of it, in threads or processes.
Kind = Literal["peer", "blocking", "ours", "limit", "runtime peer", "runtime ours"]


@dataclass(frozen=True)
class Row:
    """One way of loading.

    Attributes:
        name: for `--rows` and the results.
        title: for people.
        kind: what it is compared with.
        dtype: of the mels it delivers.
        function: `module:function` in this package, which makes a `Source`.
        arguments: what it is given besides the data.
        needs: packages that have to be installed.
        environment: variables its process is started with.
        key: measured on the simulated accelerator with `--quick` as well.
        cold: measured with an empty page cache as well.
    """

    name: str
    title: str
    kind: Kind
    function: str
    dtype: str = "float32"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    key: bool = False
    cold: bool = False

    @property
    def runtime(self) -> bool:
        return self.kind.startswith("runtime")

    def missing(self) -> list[str]:
        """Packages that it needs and that are not installed."""
        return [package for package in self.needs if importlib.util.find_spec(package) is None]

    def make(self, data: BenchData) -> Source:
        module, _, function = self.function.partition(":")
        return getattr(importlib.import_module(f"loading.{module}"), function)(data, **self.arguments)


# More threads inside librosa's matrix product than CPUs make its pool slower, so it gets one.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
DTYPES = ("float32", "float16")
LIMITS = (
    ("float32", "one", "fresh"),
    ("float32", "one", "kept"),
    ("float32", "all", "kept"),
    ("float16", "one", "kept"),
    ("float16", "all", "kept"),
)


def _all_rows() -> list[Row]:
    rows = [
        Row(
            "npy-numpy-function",
            ".npy per clip, numpy_function, padded_batch",
            "peer",
            "peers_tensorflow:npy_through_python",
            key=True,
            cold=True,
        ),
        Row(
            "npy-tf-native",
            ".npy per clip, TF-native, padded_batch",
            "peer",
            "peers_tensorflow:npy_in_graph",
            key=True,
            cold=True,
        ),
        Row("npy-torch", ".npy per clip, PyTorch DataLoader", "peer", "peers_torch:npy", needs=("torch",)),
        Row("npy-grain", ".npy per clip, Grain threads", "peer", "peers_grain:npy", needs=("grain",)),
        Row("npy-spdl", ".npy per clip, SPDL threads", "peer", "peers_spdl:npy", needs=("spdl",)),
        Row(
            "tfrecord-clips",
            "TFRecord, parse_single_example, padded_batch",
            "peer",
            "peers_tensorflow:tfrecord_clip_by_clip",
            cold=True,
        ),
        Row(
            "tfrecord-batches", "TFRecord, parse_example per batch", "peer", "peers_tensorflow:tfrecord_batch_at_once"
        ),
    ]
    for package, title in (("torch", "PyTorch DataLoader"), ("grain", "Grain threads"), ("spdl", "SPDL threads")):
        rows += [
            Row(
                f"packed-{package}-{dtype}",
                f"packed, NumPy batches, {title}, {dtype}",
                "peer",
                f"peers_{package}:packed",
                dtype,
                {"dtype": dtype},
                needs=(package,),
                key=package != "grain",
                cold=dtype == "float32" and package != "grain",
            )
            for dtype in DTYPES
        ]
    rows += [
        Row(
            f"packed-loop-{dtype}",
            f"packed, NumPy batches, in the training thread, {dtype}",
            "blocking",
            "packed:blocking_loop",
            dtype,
            {"dtype": dtype},
            key=True,
            cold=dtype == "float32",
        )
        for dtype in DTYPES
    ]
    for dtype in DTYPES:
        rows += [
            Row(
                f"ours-{dtype}-one-shape",
                f"ours, one shape, {dtype}",
                "ours",
                "ours:from_store",
                dtype,
                {"dtype": dtype, "num_buckets": 1},
            ),
            Row(
                f"ours-{dtype}",
                f"ours, bucketed, {dtype}",
                "ours",
                "ours:from_store",
                dtype,
                {"dtype": dtype},
                key=True,
                cold=True,
            ),
        ]
    for dtype, threads, memory in LIMITS:
        title = f"limit: copy, {'1 thread' if threads == 'one' else 'all CPUs'}, {memory} memory, {dtype}"
        arguments = {"dtype": dtype, "threads": threads, "memory": memory}
        rows.append(Row(f"limit-{dtype}-{threads}-{memory}", title, "limit", "packed:limit", dtype, arguments))
    rows += [
        Row(
            "runtime-numpy-function",
            "WAV, soundfile + librosa, numpy_function",
            "runtime peer",
            "peers_runtime:through_python",
            needs=("librosa",),
            environment=ONE_THREAD,
        ),
        Row(
            "runtime-torch",
            "WAV, soundfile + librosa, PyTorch DataLoader",
            "runtime peer",
            "peers_runtime:torch_workers",
            needs=("librosa", "torch"),
            environment=ONE_THREAD,
        ),
        Row(
            "runtime-host", "ours, WAV, mel on the host", "runtime ours", "ours:runtime", arguments={"device": "host"}
        ),
        Row(
            "runtime-device",
            "ours, WAV, samples for mel on the device",
            "runtime ours",
            "ours:runtime",
            dtype="int16",
            arguments={"device": "accelerator"},
        ),
    ]
    return rows


ROWS: dict[str, Row] = {row.name: row for row in _all_rows()}
