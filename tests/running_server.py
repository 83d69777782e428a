"""A server in a thread of the test, on free ports of loopback, with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tone_speaker import ToneSpeaker

from myxtts.serving.access import Access
from myxtts.serving.catalogue import Catalogue, ServedModel
from myxtts.serving.limits import Limits
from myxtts.serving.metrics import Metrics
from myxtts.serving.server import Server, listen
from myxtts.serving.service import Service
from myxtts.serving.speech_queue import SpeechQueue

# Seconds after which something will not come any more.
PATIENCE = 120


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


@dataclass(frozen=True)
class RunningServer:
    """Where it is, and what it serves."""

    port: int
    wyoming_port: int
    service: Service
    speaker: ToneSpeaker
    server: Server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def tone_service(workers: int = 2, waiting: int = 8, speaker: ToneSpeaker | None = None, **limits: Any) -> Service:
    """Two models, of which the first is the given speaker."""
    chosen = replace(Limits(), **limits)
    models = [
        ServedModel("tones", speaker or ToneSpeaker()),
        ServedModel("other", ToneSpeaker(("de",), ("default", "anna"))),
    ]
    queue = SpeechQueue(workers, waiting, chosen.unsent_bytes)
    return Service(Catalogue(models, chosen.kept_voices), queue, chosen, Metrics())


@contextlib.contextmanager
def running_server(access: Access | None = None, **options: Any) -> Iterator[RunningServer]:
    speaker = ToneSpeaker()
    service = tone_service(speaker=speaker, **options)
    http, wyoming = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    ready = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def on_ready() -> None:
        loops.append(asyncio.get_running_loop())
        ready.set()

    server = Server(service, access or Access(), http, wyoming, on_ready)
    ports = http.getsockname()[1], wyoming.getsockname()[1]
    thread = threading.Thread(target=server.run)
    thread.start()
    ready.wait()
    try:
        yield RunningServer(*ports, service, speaker, server)
    finally:
        speaker.may_go_on.set()
        if thread.is_alive():
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loops[0].call_soon_threadsafe(server.stop)
        thread.join()
