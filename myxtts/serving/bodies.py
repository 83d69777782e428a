"""Reads the bodies of requests, no more of them than is allowed, and no longer."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from myxtts.serving.api_error import ApiError

Body = TypeVar("Body", bound=BaseModel)


async def read_body(request: Request, most_bytes: int, seconds: float) -> bytes:
    """
    Raises:
        ApiError: the body is too long, or does not arrive in time.
    """
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > most_bytes:
        _refuse(most_bytes)
    try:
        return await asyncio.wait_for(_collect(request, most_bytes), seconds)
    except asyncio.TimeoutError:
        raise ApiError(
            408, f"the body did not arrive within {seconds:g} s", headers={"Connection": "close"}
        ) from None
    except ClientDisconnect:
        raise ApiError(400, "the client left before the body had arrived") from None


async def _collect(request: Request, most_bytes: int) -> bytes:
    parts = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            _refuse(most_bytes)
        parts.append(part)
    return b"".join(parts)


def _refuse(most_bytes: int) -> NoReturn:
    raise ApiError(
        413, f"the body has more than {most_bytes:,} bytes", code="body_too_large", headers={"Connection": "close"}
    )


def parse_json(data: bytes, kind: type[Body]) -> Body:
    """
    Raises:
        ApiError: it is not JSON, or not what is expected; `param` names the key.
    """
    try:
        values = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise ApiError(400, "the body is not UTF-8") from None
    except RecursionError:
        raise ApiError(400, "the JSON is nested too deeply") from None
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ApiError(400, f"the body is not JSON{where}") from None
    if not isinstance(values, dict):
        raise ApiError(400, "the body should be a JSON object")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = str(first["loc"][0]) if first["loc"] else None
        known = param if param in kind.model_fields else None
        if first["type"] == "extra_forbidden":
            raise ApiError(
                400, f"unknown key; there are: {', '.join(kind.model_fields)}", code="unknown_key"
            ) from None
        code = "string_above_max_length" if first["type"] == "string_too_long" else None
        raise ApiError(400, f"'{known}': {first['msg']}", known, code) from None


def _refuse_constant(_: str) -> Any:
    raise ValueError("not JSON")
