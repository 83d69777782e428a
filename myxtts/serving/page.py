"""The page for people: one file, which loads nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route


def page_routes() -> list[Route]:
    """`/`."""
    html = (files(__package__) / "page.html").read_text(encoding="utf-8")
    headers = {
        "content-security-policy": content_policy(html),
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "permissions-policy": "microphone=(self), camera=(), geolocation=()",
        "cache-control": "no-cache",
    }

    async def page(_: Request) -> Response:
        return HTMLResponse(html, headers=headers)

    return [Route("/", page, methods=["GET"])]


def content_policy(html: str) -> str:
    """Allows the page's own script and style, by their hashes, requests to this server, and sound that it made."""
    policy = ["default-src 'none'", "connect-src 'self'", "media-src blob:", "img-src data:"]
    for directive, tag in (("script-src", "script"), ("style-src", "style")):
        inline = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        hashes = (base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in inline)
        policy.append(" ".join([directive, *(f"'sha256-{value}'" for value in hashes)]))
    return "; ".join([*policy, "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"])
