"""One process, one loop: HTTP by uvicorn, Wyoming beside it, and an end that comes soon and cuts nothing off."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from myxtts.errors import UsageError
from myxtts.serving.access import Access
from myxtts.serving.app import create_app
from myxtts.serving.service import Service

if TYPE_CHECKING:
    from myxtts.serving.wyoming_server import WyomingServer

logger = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, not yet listening; port 0 takes a free one.

    Raises:
        UsageError: the address is not one of this machine, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"--host {host}: {error.strerror}") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} of {host} is taken; choose another one") from None
        raise UsageError(f"port {port} of {host}: {error.strerror}") from None
    return bound


class _QuietServer(uvicorn.Server):
    """uvicorn without signals of its own: ours stop both servers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@dataclass
class Server:
    """Serves until it is told to stop.

    Attributes:
        service: that speaks.
        access: who may ask.
        http: bound socket of the web server.
        wyoming: bound socket of Wyoming; None: not served.
        on_ready: called when requests are taken.
    """

    service: Service
    access: Access
    http: socket.socket
    wyoming: socket.socket | None = None
    on_ready: Callable[[], None] = lambda: None

    def run(self) -> None:
        """Until SIGTERM or Ctrl-C: then what is being spoken is finished. A second signal ends at once."""
        asyncio.run(self.serve())

    async def serve(self) -> None:
        """The same inside a loop."""
        limits = self.service.limits
        for listening in filter(None, (self.http, self.wyoming)):
            # So that a client which stopped reading is forgotten by the kernel, too.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * limits.sending_seconds))
        config = uvicorn.Config(
            create_app(self.service, self.access),
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=limits.finishing_seconds,
            # Who asks is neither logged nor used.
            proxy_headers=False,
        )
        # Its messages and tracebacks may hold what clients sent; what fails is logged by us.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        http = self._http = _QuietServer(config)
        wyoming = None
        if self.wyoming is not None:
            from myxtts.serving.wyoming_server import WyomingServer

            wyoming = WyomingServer(self.service, self.wyoming)
            await wyoming.start()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ValueError, RuntimeError):  # another thread than the main one has no signals
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        ready = asyncio.create_task(self._announce(http))
        self._stopped = asyncio.Event()
        await asyncio.gather(http.serve(sockets=[self.http]), self._stop_later(wyoming))
        ready.cancel()
        await asyncio.to_thread(self.service.queue.join, 0.0 if http.force_exit else limits.finishing_seconds)

    def stop(self) -> None:
        """Called in the loop: finishes what is being spoken, then `serve` returns. Called again, it cuts it off."""
        if self._http.should_exit:
            self._http.force_exit = True
        else:
            logger.info("stopping: finishing what is being spoken")
        self._http.should_exit = True
        self.service.queue.stop()
        self._stopped.set()

    async def _stop_later(self, wyoming: WyomingServer | None) -> None:
        await self._stopped.wait()
        if wyoming is not None:
            await wyoming.stop(self.service.limits.finishing_seconds)

    async def _announce(self, http: uvicorn.Server) -> None:
        while not http.started:
            await asyncio.sleep(0.01)
        self.on_ready()
