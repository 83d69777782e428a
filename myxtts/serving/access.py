"""Who may ask, and how: checked before anything of a request is read.

- Host: a page of a stranger whose name suddenly points to this machine (DNS rebinding) has that name in its requests.
  Addresses and `localhost` cannot be rebound; other names have to be listed.
- Token: compared in constant time.
- Content type: a page of a stranger can send text/plain or a form to any server without asking; JSON and audio make
  its browser ask first, and unless the page's origin is listed there is no answer that allows it.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from myxtts.errors import UsageError
from myxtts.serving.api_error import ApiError

SHORTEST_TOKEN = 16
# Readable without a token: whether the server lives; the page, which asks for the token; names of models and voices,
# which some versions of Open WebUI fetch without it, and then silently offer wrong ones.
OPEN_PATHS = frozenset(["/", "/healthz", "/v1/audio/voices", "/v1/audio/models"])
# Where audio is sent, and not JSON.
UPLOAD_PATH = "/api/voices"
_ORIGIN = re.compile(r"https?://[^/\s,*]+")


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        token: that requests must have; None: none.
        hosts: names under which the server may be asked, besides addresses and localhost; lower case.
        origins: of the pages in other places that may ask.
    """

    token: str | None = None
    hosts: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()


def read_token(path: Path) -> str:
    """
    Raises:
        UsageError: the file cannot be read, or its token is too short.
    """
    try:
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UsageError(f"--token-file {path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise UsageError(f"--token-file {path}: not text") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"--token-file {path}: should hold one token of at least {SHORTEST_TOKEN} letters and digits\n"
            "Make one with: openssl rand -hex 24"
        )
    return token


def check_origins(origins: Iterable[str]) -> tuple[str, ...]:
    """
    Raises:
        UsageError: one is not like `https://example.org`.
    """
    checked = tuple(origins)
    for origin in checked:
        if not _ORIGIN.fullmatch(origin):
            raise UsageError(f"--cors {origin}: should be like https://example.org, without a path")
    return checked


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HostCheck:
    """Refuses requests to another name. Outermost."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope).getlist("host")):
            error = ApiError(403, "the server does not answer to this name; --allow-host adds it", code="wrong_host")
            await error.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_ours(self, given: list[str]) -> bool:
        if len(given) != 1:
            return False
        match = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::\d+)?|([^:\[\]]+)(?::\d+)?", given[0])
        if match is None:
            return False
        name = (match[1] or match[2]).lower().rstrip(".")
        if name == "localhost" or name in self._access.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class RequestCheck:
    """Refuses requests without the token, and bodies that a page of a stranger could send."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope, Headers(scope=scope))
            except ApiError as error:
                await error.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        reading = scope["method"] in ("GET", "HEAD")
        if not (reading and scope["path"] in OPEN_PATHS):
            self._check_token(headers)
        if scope["method"] == "POST":
            _check_content(scope["path"], headers)

    def _check_token(self, headers: Headers) -> None:
        if self._access.token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given, wanted = token.strip().encode("utf-8", "surrogateescape"), self._access.token.encode()
        if not hmac.compare_digest(given, wanted) or scheme.lower() != "bearer":
            raise ApiError(
                401,
                "this server needs its token: Authorization: Bearer TOKEN",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


def _check_content(path: str, headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiError(415, "send the body as it is, without Content-Encoding", code="unsupported_media_type")
    if path == UPLOAD_PATH:
        if not kind.startswith("audio/") and kind != "application/octet-stream":
            raise ApiError(415, "send the recording with Content-Type: audio/wav", code="unsupported_media_type")
    elif kind != "application/json":
        raise ApiError(415, "send JSON with Content-Type: application/json", code="unsupported_media_type")
