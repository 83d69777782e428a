"""What all ways to ask share: the voices, the workers, the limits and the figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from myxtts.serving.api_error import ApiError
from myxtts.serving.catalogue import Catalogue
from myxtts.serving.limits import Limits
from myxtts.serving.metrics import Metrics
from myxtts.serving.responses import SpeechResponse
from myxtts.serving.speech import Chunks, SpeechRequest
from myxtts.serving.speech_queue import SpeechQueue


@dataclass(frozen=True)
class Service:
    """A running service.

    Attributes:
        catalogue: models and voices.
        queue: of the workers.
        limits: of a client.
        metrics: of what was done.
    """

    catalogue: Catalogue
    queue: SpeechQueue
    limits: Limits
    metrics: Metrics

    def speech(
        self,
        text: str,
        model: str | None,
        voice: str | None,
        language: str | None = None,
        speed: float = 1.0,
        seed: int = 0,
        ssml: bool | None = None,
    ) -> SpeechRequest:
        """What is to be spoken, with everything checked that takes no time.

        Raises:
            ApiError: there is no such model, voice or language.
        """
        chosen = self.catalogue.choose(model, voice)
        speaker = chosen.model.speaker
        language = language or chosen.language or speaker.language
        if language not in speaker.languages:
            known = ", ".join(speaker.languages)
            raise ApiError(400, f"the model does not speak this language; it speaks: {known}", "language")
        return SpeechRequest(text, chosen, language, speed, seed, ssml)

    def respond(self, speech: SpeechRequest, work: Callable[[], Chunks], media_type: str) -> SpeechResponse:
        """
        Raises:
            ApiError: the queue is full.
        """
        return SpeechResponse(speech, work, self.queue, self.limits, media_type)
