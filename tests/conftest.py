"""Fixtures that several test files share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# librosa compiles for most of a minute, for a few calls. What is compiled like this is kept from everybody else.
os.environ["NUMBA_OPT"] = "0"
os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "numba")
if "PYTEST_XDIST_WORKER" in os.environ:
    # As many processes as cores: a thread each, or they are in each other's way.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell starts what runs in the background deaf to Ctrl-C, and so would be the programs that are tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def ljspeech_mini() -> Path:
    """Sixteen real LJSpeech clips, on the developers' machines."""
    folder = SHARED / "ljspeech-mini"
    if not folder.is_dir():
        pytest.skip("the real LJSpeech clips are not on this machine")
    return folder


@pytest.fixture(scope="session")
def ljspeech_transcripts() -> list[str]:
    """The text of all 13,100 LJSpeech clips, on the developers' machines."""
    path = SHARED / "ljspeech-transcripts.txt"
    if not path.is_file():
        pytest.skip("the LJSpeech transcripts are not on this machine")
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def run_myxtts() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the program in a process of its own, as a user would."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "myxtts", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]

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
