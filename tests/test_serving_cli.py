"""`myxtts serve` as a program: what it refuses, and a real voice that is asked, heard and stopped."""

from __future__ import annotations

import io
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import openai
import pytest
import soundfile
from running_server import wait_until

Run = Callable[..., "subprocess.CompletedProcess[str]"]
TEXT = "Hello there. How are you today?"


def refused(done: subprocess.CompletedProcess[str], code: int, message: str) -> None:
    assert done.returncode == code
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there(call_myxtts: Run, tmp_path: Path) -> None:
    refused(call_myxtts("serve", tmp_path / "nowhere"), 1, "nowhere: no such folder")


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_other_machines_are_let_in_only_on_request(call_myxtts: Run, tmp_path: Path, host: str) -> None:
    done = call_myxtts("serve", tmp_path, "--host", host)
    refused(done, 2, "give it a token with --token-file, or let everybody in with --allow-any-client")


def test_wyoming_has_no_tokens(call_myxtts: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("0123456789abcdef")
    options = ("--host", "0.0.0.0", "--token-file", tmp_path / "token", "--wyoming-port", 0)
    refused(call_myxtts("serve", tmp_path, *options), 2, "Wyoming has no tokens.*--allow-any-client")


def test_a_token_must_be_long(call_myxtts: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    refused(call_myxtts("serve", tmp_path, "--token-file", tmp_path / "token"), 2, "at least 16 letters and digits")


@pytest.mark.parametrize("origin", ["*", "example.org", "https://example.org/page", "null"])
def test_an_origin_is_a_scheme_and_a_host(call_myxtts: Run, tmp_path: Path, origin: str) -> None:
    refused(call_myxtts("serve", tmp_path, "--cors", origin), 2, "should be like https://example.org")


@pytest.mark.parametrize(
    ("package", "extra", "options"), [("uvicorn", "serve", ()), ("wyoming", "wyoming", ("--wyoming-port", 0))]
)
def test_a_missing_extra_is_named(
    call_myxtts: Run, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, options: tuple[object, ...]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = call_myxtts("serve", "nowhere", *options)
    refused(done, 2, rf"needs the '{extra}' extra: pip install 'myxtts\[{extra}\]'")


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that was never trained."""
    pytest.importorskip("tensorflow")
    from test_inference import small_checkpoint

    from myxtts.config.config import XTTSConfig

    folder = tmp_path_factory.mktemp("voices") / "anna" / "best"
    return small_checkpoint(folder, XTTSConfig(size="tiny", text_symbols="graphemes"))


def test_a_port_that_is_taken(call_myxtts: Run, voice: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(call_myxtts("serve", voice, "--port", port), 2, f"port {port} of 127.0.0.1 is taken; choose another")


def test_an_address_of_another_machine(call_myxtts: Run, voice: Path) -> None:
    done = call_myxtts("serve", voice, "--host", "192.0.2.1", "--port", 0, "--allow-any-client")
    refused(done, 2, "port 0 of 192.0.2.1: Cannot assign requested address")


@contextmanager
def serving(python: str, *arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, when it is ready, and its address."""
    command = [python, "-m", "myxtts", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            ready = next(line for line in process.stderr if line.startswith(("serving", "error")))
            yield process, ready.split()[-1]
        finally:
            process.kill()


def test_a_real_voice_is_heard_and_a_stopped_server_finishes_it(python_with_tensorflow: str, voice: Path) -> None:
    with serving(python_with_tensorflow, voice, "--workers", 1) as (process, url):
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=None)
        assert [model.id for model in client.models.list()] == ["anna"]
        answer = client.audio.speech.create(model="anna", voice="default", input=TEXT, response_format="wav")
        heard, rate = soundfile.read(io.BytesIO(answer.content), dtype="float32")

        lines = httpx.post(f"{url}/api/speak", json={"text": TEXT}, timeout=None).text.splitlines()
        assert '"type": "sentence"' in lines[1]
        assert lines[-1] == f'{{"type": "done", "seconds": {round(len(heard) / rate, 3)}}}'

        long = {"model": "anna", "voice": "default", "input": f"{TEXT} " * 20, "response_format": "wav"}
        with httpx.stream("POST", f"{url}/v1/audio/speech", json=long, timeout=None) as response:
            parts = response.iter_bytes(1000)
            first = next(parts)
            process.send_signal(signal.SIGTERM)
            file = first + b"".join(parts)
        audio, _ = soundfile.read(io.BytesIO(file))
        assert len(audio) > 20 * len(heard)
        assert process.wait() == 0


def test_ctrl_c_ends_it_while_clients_are_connected(python_with_tensorflow: str, voice: Path) -> None:
    with serving(python_with_tensorflow, voice, "--wyoming-port", 0) as (process, url):
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            assert httpx.get(f"{url}/healthz").status_code == 200
            process.send_signal(signal.SIGINT)
            assert connection.recv(10) == b""
        wait_until(lambda: process.poll() is not None)
        assert process.returncode == 0


@pytest.mark.soak
def test_an_hour_of_requests_loses_none_and_memory_stays_flat(voice: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
    from bench_serving import ServedProcess, load

    with ServedProcess([voice, "--workers", "2", "--queue", "100"]) as served:
        load(served, clients=4, requests=200)
        before = served.resident_bytes()
        result = load(served, clients=4, seconds=3600)
        assert result.lost == 0
        assert served.resident_bytes() < 1.1 * before + 20e6
