"""Batches loaded by other processes, over loopback: order, loaders that are killed, what is refused."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from training_samples import BATCHES, assert_equal_batches, configure, data_folder

from myxtts.config.config import DataConfig
from myxtts.data.batch_service import ServedSource
from myxtts.data.batch_source import BatchSource
from myxtts.data.batches.position import Position
from myxtts.data.modes import prepare
from myxtts.errors import DataError


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("service"))


def section(data: Path, **changes: Any) -> DataConfig:
    values = {"preprocessing_mode": "runtime", "num_buckets": 1}  # one shape for each loader to compile
    return configure(data, data / "run", **(values | changes)).data


@pytest.fixture
def start_loader(python_with_tensorflow: str) -> Iterator[Callable[[int], subprocess.Popen[str]]]:
    """`myxtts serve-data` at a port of loopback, running."""
    with contextlib.ExitStack() as running:

        def start(port: int) -> subprocess.Popen[str]:
            code = "from myxtts.cli.app import main; main()"
            arguments = ["serve-data", "--port", str(port), "--host", "127.0.0.1", "--json"]
            loader = subprocess.Popen(
                [python_with_tensorflow, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
            )
            running.callback(loader.wait)
            running.callback(loader.kill)
            assert loader.stdout is not None
            assert loader.stdout.readline() == "{\n"  # what it is comes when it has begun
            return loader

        yield start


def free_port() -> int:
    """A port that is free, and so is the one after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port


def test_batches_of_two_loaders_are_those_of_none_though_one_of_them_is_killed(
    data: Path, start_loader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = section(data)
    source = BatchSource.build(prepare(config), config, "train")
    ports = [free_port(), free_port()]
    loaders = [start_loader(port) for port in ports]
    served = ServedSource.of(source, [f"127.0.0.1:{port}" for port in ports])
    assert served.dataset().element_spec == source.dataset().element_spec

    position = Position.start(source.plan, 3).advance(2)
    batches, expected = iter(served.resume(position)), iter(source.resume(position))
    for _ in range(BATCHES):
        assert_equal_batches(next(batches), next(expected))
    loaders[1].kill()
    loaders[1].wait()
    start_loader(ports[1])
    with caplog.at_level(logging.WARNING):
        for _ in range(5 * BATCHES):  # more than what was loaded ahead
            assert_equal_batches(next(batches), next(expected))
    assert "a loader was started again" in caplog.text

    one_pass = list(served.dataset(shuffle=False, epochs=1))
    for one, other in zip(one_pass, source.dataset(shuffle=False, epochs=1), strict=True):
        assert_equal_batches(one, other)


def test_a_loader_that_is_not_there_is_one_line(data: Path) -> None:
    config = section(data)
    source = BatchSource.build(prepare(config), config, "train")
    with pytest.raises(DataError, match=r"no loader at 127\.0\.0\.1:1 .*myxtts serve-data"):
        ServedSource.of(source, ["127.0.0.1:1"])
    with pytest.raises(DataError, match="no loader at somewhere"):
        ServedSource.of(source, ["somewhere"])


def test_a_store_and_files_that_only_python_reads_are_refused_with_the_reason(data: Path, tmp_path: Path) -> None:
    config = section(data, preprocessing_mode="precompute", cache_dir=str(tmp_path))
    with pytest.raises(DataError, match="seven times as fast"):
        ServedSource.of(BatchSource.build(prepare(config), config, "train"), ["127.0.0.1:1"])
    config = section(data, sample_rate=16000, mel_fmax=7000.0)
    with pytest.raises(DataError, match="files are not 16-bit WAV at 16,000 Hz"):
        ServedSource.of(BatchSource.build(prepare(config), config, "train"), ["127.0.0.1:1"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"preprocessing_mode": "auto"}, "seven times as fast"),
        ({"preprocessing_mode": "precompute"}, "seven times as fast"),
        ({"feature_device": "accelerator"}, "feature_device: host"),
        ({"use_tf_native_loading": False}, "use_tf_native_loading: true"),
    ],
)
def test_a_configuration_that_has_nothing_to_load_elsewhere_is_refused(
    data: Path, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        section(data, data_service=["node7:5050"], **changes)
