"""Sends what a worker makes while it makes it, and lets the worker go when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from myxtts.errors import MyXTTSError
from myxtts.serving.api_error import ApiError
from myxtts.serving.limits import Limits
from myxtts.serving.speech import Chunks, SpeechRequest
from myxtts.serving.speech_queue import Job, QueueFullError, SpeechQueue, StoppedError, Work

CLIENT_LEFT = 499
# Keys of the ASGI scope, for whoever counts requests: what is spoken, and how it ended if not as the status says.
SPEECH = "myxtts.speech"
STATUS = "myxtts.status"


class SpeechResponse(Response):
    """The answer to a request to speak.

    An error before the first byte is answered as one. Later the connection is cut, so that no client takes half a
    speech for a whole one.

    Args:
        speech: that is spoken.
        work: makes the bytes, in a worker.
        queue: of the workers.
        limits: of what a slow client may take.
        media_type: of the bytes.
        headers: of the response.

    Raises:
        ApiError: the queue is full.
    """

    def __init__(
        self,
        speech: SpeechRequest,
        work: Callable[[], Chunks],
        queue: SpeechQueue,
        limits: Limits,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # No `super().__init__`: it would set a length.
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._speech = speech
        self._limits = limits
        self._job = submit(queue, work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[SPEECH] = self._speech
        watcher = asyncio.create_task(_cancel_when_gone(receive, self._job))
        begun = False
        try:
            chunk = await self._next()
            begun = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while chunk is not None:
                message = {"type": "http.response.body", "body": chunk, "more_body": True}
                await asyncio.wait_for(send(message), self._limits.sending_seconds)
                chunk = await self._next()
            if watcher.done():
                scope[STATUS] = CLIENT_LEFT
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ApiError as error:
            if not begun:
                await error.response()(scope, receive, send)
            scope[STATUS] = error.status
        except (OSError, asyncio.TimeoutError):
            scope[STATUS] = CLIENT_LEFT
        finally:
            self._job.cancel()
            watcher.cancel()

    async def _next(self) -> bytes | None:
        """The next chunk that has bytes."""
        while (chunk := await take(self._job)) == b"":
            pass
        return chunk


async def _cancel_when_gone(receive: Receive, job: Job) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    job.cancel()


def submit(queue: SpeechQueue, work: Work) -> Job:
    """
    Raises:
        ApiError: the queue is full, or the server stops.
    """
    try:
        return queue.submit(work)
    except QueueFullError as error:
        raise ApiError(
            429,
            f"the server is busy; try again in {error.retry_after} s",
            code="rate_limit_exceeded",
            headers={"Retry-After": str(error.retry_after)},
        ) from None
    except StoppedError:
        raise _stopped() from None


async def take(job: Job) -> Any:
    """The next piece of a job.

    Raises:
        ApiError: it cannot be made.
    """
    try:
        return await job.take()
    except MyXTTSError as error:
        raise ApiError.of_request(error) from None
    except StoppedError:
        raise _stopped() from None
    except Exception:
        # The worker has logged it.
        raise ApiError(500, "the speech could not be made; the server's log says where", code="internal") from None


def _stopped() -> ApiError:
    return ApiError(503, "the server is stopping", code="stopping", headers={"Retry-After": "5"})
