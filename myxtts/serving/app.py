"""The web application: routes, what stands before them, and what is counted and logged of each request."""

from __future__ import annotations

import logging
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from myxtts.serving.access import Access, HostCheck, RequestCheck
from myxtts.serving.api_error import ApiError
from myxtts.serving.metrics import Metrics
from myxtts.serving.openai_api import openai_routes
from myxtts.serving.own_api import own_routes
from myxtts.serving.page import page_routes
from myxtts.serving.responses import SPEECH, STATUS
from myxtts.serving.service import Service
from myxtts.serving.speech_queue import raised_at

logger = logging.getLogger(__name__)

# Asked for every few seconds.
_NOT_LOGGED = frozenset(["/healthz", "/metrics"])


def create_app(service: Service, access: Access) -> ASGIApp:
    """The application, for any ASGI server."""
    routes = [*openai_routes(service), *own_routes(service), *page_routes()]
    cors = [
        Middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type"],
        )
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(Accounting, metrics=service.metrics, routes=routes),
            Middleware(HostCheck, access=access),
            *(cors if access.origins else ()),
            Middleware(RequestCheck, access=access),
        ],
        exception_handlers={ApiError: _refused, HTTPException: _not_found, Exception: _failed},
    )


async def _refused(_: Request, error: Any) -> Response:
    return error.response()


async def _not_found(_: Request, error: Any) -> Response:
    return ApiError(error.status_code, str(error.detail).lower(), headers=error.headers).response()


async def _failed(_: Request, error: Exception) -> Response:
    logger.error("a request failed: %s at %s", type(error).__name__, raised_at(error))
    return ApiError(500, "the server failed", code="internal").response()


class Accounting:
    """Counts and logs requests: the route, the status, and of what was spoken its length and language."""

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: list[Route]) -> None:
        self._app = app
        self._metrics = metrics
        self._routes = frozenset(route.path for route in routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._count(scope, scope.get(STATUS, status))

    def _count(self, scope: Scope, status: int) -> None:
        # A path that is none of ours is of the client's making.
        route = scope["path"] if scope["path"] in self._routes else "other"
        self._metrics.answered(route, status)
        speech = scope.get(SPEECH)
        if speech is not None:
            self._metrics.spoken(len(speech.text), speech.seconds, speech.first_piece)
            said = f"{len(speech.text)} characters, {speech.language}, {speech.seconds:.1f} s of speech"
            logger.info("%s %d: %s", route, status, said)
        elif route not in _NOT_LOGGED or status >= 400:
            logger.info("%s %d", route, status)
