"""OpenAI's API as its clients call it: https://platform.openai.com/docs/api-reference/audio/createSpeech.

Also the two lists that Open WebUI fetches. `language` and `seed` are ours; OpenAI's clients can send them in
`extra_body`.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from myxtts.inference.speech_plan import FASTEST, SLOWEST
from myxtts.serving.api_error import ApiError
from myxtts.serving.bodies import parse_json, read_body
from myxtts.serving.encoding import FORMATS
from myxtts.serving.limits import Limits
from myxtts.serving.service import Service
from myxtts.serving.speech import audio_chunks, sse_chunks

Speed = Annotated[float, Field(ge=SLOWEST, le=FASTEST)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Text = Annotated[str, Field(min_length=1, max_length=Limits.text_characters)]
Name = Annotated[str, Field(min_length=1, max_length=200)]


class VoiceId(BaseModel):
    """A voice as an object."""

    model_config = ConfigDict(strict=True)
    id: Name


class SpeechBody(BaseModel):
    """A request to speak. Keys that OpenAI may add are ignored."""

    model_config = ConfigDict(strict=True)
    model: Name
    input: Text
    voice: Name | VoiceId
    response_format: str = "mp3"
    speed: Speed = 1.0
    stream_format: Literal["audio", "sse"] = "audio"
    instructions: str | None = None
    language: Name | None = None
    seed: Seed = 0


def openai_routes(service: Service) -> list[Route]:
    """The routes below `/v1`."""

    async def speech(request: Request) -> Response:
        data = await read_body(request, service.limits.json_bytes, service.limits.receiving_seconds)
        body = parse_json(data, SpeechBody)
        chosen = FORMATS.get(body.response_format)
        if chosen is None:
            raise ApiError(400, f"no such format; there are: {', '.join(FORMATS)}", "response_format")
        voice = body.voice if isinstance(body.voice, str) else body.voice.id
        asked = service.speech(body.input, body.model, voice, body.language, body.speed, body.seed)
        if body.stream_format == "sse":
            return service.respond(asked, partial(sse_chunks, asked, chosen), "text/event-stream")
        return service.respond(asked, partial(audio_chunks, asked, chosen), chosen.media_type)

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(served.id) for served in service.catalogue.models]})

    async def model(request: Request) -> Response:
        return JSONResponse(_model(service.catalogue.model(request.path_params["id"]).id))

    async def audio_models(_: Request) -> Response:
        return JSONResponse({"models": [{"id": one.id, "name": one.id} for one in service.catalogue.models]})

    async def audio_voices(_: Request) -> Response:
        voices = [
            {"id": voice.id, "name": voice.id, "model": voice.model.id, "language": voice.language}
            for voice in service.catalogue.voices()
        ]
        return JSONResponse({"voices": voices})

    return [
        Route("/v1/audio/speech", speech, methods=["POST"]),
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{id:path}", model, methods=["GET"]),
        Route("/v1/audio/models", audio_models, methods=["GET"]),
        Route("/v1/audio/voices", audio_voices, methods=["GET"]),
    ]


def _model(name: str) -> dict[str, str | int]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "myxtts"}
