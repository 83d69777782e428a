"""Errors as OpenAI's clients read them: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse

from myxtts.errors import MyXTTSError


class ApiError(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: for people, one line.
        param: the key of the request that is wrong; None: no single one.
        code: for programs.
        headers: of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        # What is quoted may hold half a character, which no answer can.
        self.message = message.encode("utf-8", "replace").decode()
        self.param = param
        self.code = code
        self.headers = headers

    @classmethod
    def of_request(cls, error: MyXTTSError) -> ApiError:
        """What a request asked for cannot be spoken."""
        return cls(400, " ".join(str(error).split()))

    def body(self) -> dict[str, dict[str, str | None]]:
        kinds = {429: "rate_limit_error"}
        kind = kinds.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body(), self.status, self.headers)
