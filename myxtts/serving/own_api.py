"""Our own API: speech with word times, voices from recordings, and what whoever runs the server needs."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from myxtts.errors import AudioError
from myxtts.serving.access import UPLOAD_PATH
from myxtts.serving.api_error import ApiError
from myxtts.serving.bodies import parse_json, read_body
from myxtts.serving.catalogue import ServedModel
from myxtts.serving.encoding import FORMATS
from myxtts.serving.metrics import MEDIA_TYPE
from myxtts.serving.openai_api import Name, Seed, Speed, Text
from myxtts.serving.references import decode_reference
from myxtts.serving.responses import submit, take
from myxtts.serving.service import Service
from myxtts.serving.speech import line_chunks


class SpeakBody(BaseModel):
    """A request to speak with word times. A key that there is not is an error."""

    model_config = ConfigDict(strict=True, extra="forbid")
    text: Text
    model: Name | None = None
    voice: Name | None = None
    language: Name | None = None
    speed: Speed = 1.0
    seed: Seed = 0
    ssml: bool | None = None
    format: Literal["mp3", "opus", "flac", "wav", "pcm"] = "pcm"
    mel: bool = False


def own_routes(service: Service) -> list[Route]:
    """`/api`, `/healthz` and `/metrics`."""

    async def speak(request: Request) -> Response:
        data = await read_body(request, service.limits.json_bytes, service.limits.receiving_seconds)
        body = parse_json(data, SpeakBody)
        asked = service.speech(body.text, body.model, body.voice, body.language, body.speed, body.seed, body.ssml)
        work = partial(line_chunks, asked, FORMATS[body.format], body.mel)
        return service.respond(asked, work, "application/x-ndjson")

    async def add_voice(request: Request) -> Response:
        model = service.catalogue.model(request.query_params.get("model"))
        data = await read_body(request, service.limits.upload_bytes, service.limits.receiving_seconds)
        try:
            audio = await decode_reference(data, model.speaker.sample_rate, service.limits)
        except AudioError as error:
            raise ApiError.of_request(error) from None
        job = submit(service.queue, partial(_voice, model, audio))
        try:
            vector = await take(job)
        finally:
            job.cancel()
        seconds = round(len(audio) / model.speaker.sample_rate, 3)
        voice = service.catalogue.keep(model, vector)
        return JSONResponse({"id": voice, "model": model.id, "seconds": seconds}, 201)

    async def about(_: Request) -> Response:
        models = [
            {
                "id": model.id,
                "language": model.speaker.language,
                "languages": list(model.speaker.languages),
                "voices": list(model.speaker.voices),
                "sample_rate": model.speaker.sample_rate,
            }
            for model in service.catalogue.models
        ]
        limits = {
            "text_characters": service.limits.text_characters,
            "upload_bytes": service.limits.upload_bytes,
            "reference_seconds": service.limits.reference_seconds,
        }
        return JSONResponse({"models": models, "formats": list(FORMATS), "limits": limits})

    async def health(_: Request) -> Response:
        if service.queue.stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok"})

    async def metrics(_: Request) -> Response:
        queue = service.queue
        now = {
            "workers": ("Threads that speak.", queue.workers),
            "busy_workers": ("Threads that are speaking.", queue.busy),
            "waiting_requests": ("Requests that wait for a worker.", queue.waiting),
            "uploaded_voices": ("Voices of recordings that are kept.", service.catalogue.uploaded),
        }
        return PlainTextResponse(service.metrics.text(now), media_type=MEDIA_TYPE)

    return [
        Route("/api/speak", speak, methods=["POST"]),
        Route(UPLOAD_PATH, add_voice, methods=["POST"]),
        Route("/api/about", about, methods=["GET"]),
        Route("/healthz", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
    ]


def _voice(model: ServedModel, audio: np.ndarray) -> Generator[np.ndarray, None, None]:
    yield model.speaker.voice(audio)
