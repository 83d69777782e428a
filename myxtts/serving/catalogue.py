"""The models and voices that are served, each by its id. A client never names a path.

A voice's id is its name; of a model other than the first, `MODEL/NAME`. Where a model speaks several languages,
`ID@LANGUAGE` is the same voice in one of them: most clients can choose a voice and nothing else. Voices of uploaded
recordings are known to whoever uploaded them and are not listed.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.errors import UsageError
from myxtts.serving.api_error import ApiError

# What clients of OpenAI send where nobody has chosen a model: the first one is meant.
OPENAI_MODELS = frozenset(["tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"])
_UPLOADED = "voice_"
# Names of folders that say nothing about the voice inside.
_NAMELESS = frozenset(["best", "last", "bundle", "checkpoint"])


class Speaker(Protocol):
    """What is served: the part of `XTTSInference` that the server calls."""

    sample_rate: int
    language: str
    languages: tuple[str, ...]
    voices: tuple[str, ...]

    def voice(self, reference_audio: np.ndarray | None = None) -> np.ndarray: ...

    def named_voice(self, name: str) -> np.ndarray: ...

    def stream_pieces(self, text: Any, *, language: Any, speed: float, seed: int, voice: np.ndarray) -> Any: ...


@dataclass(frozen=True)
class ServedModel:
    """A model.

    Attributes:
        id: as clients name it.
        speaker: that speaks.
    """

    id: str
    speaker: Speaker


@dataclass(frozen=True)
class ListedVoice:
    """A voice as it is shown to clients.

    Attributes:
        id: as clients name it.
        model: that it belongs to.
        language: that it speaks under this id, when no other is asked for.
    """

    id: str
    model: ServedModel
    language: str


@dataclass(frozen=True)
class ChosenVoice:
    """What speaks.

    Attributes:
        model: of the voice.
        vector: float32 [D], the voice.
        language: that its id names; None: none.
    """

    model: ServedModel
    vector: np.ndarray
    language: str | None


class Catalogue:
    """All that can be asked for.

    Args:
        models: in the order in which they were given; the first is what speaks when none is named.
        kept_voices: of uploaded recordings.
    """

    def __init__(self, models: Sequence[ServedModel], kept_voices: int) -> None:
        self.models = tuple(models)
        self._kept_voices = kept_voices
        self._uploaded: OrderedDict[str, tuple[ServedModel, np.ndarray]] = OrderedDict()
        self._lock = threading.Lock()
        self._named: dict[str, tuple[ServedModel, str]] = {}
        for model in self.models:
            for name in model.speaker.voices:
                self._named[self._id(model, name)] = model, name

    def _id(self, model: ServedModel, name: str) -> str:
        return name if model is self.models[0] else f"{model.id}/{name}"

    def voices(self) -> Generator[ListedVoice, None, None]:
        """All but those of uploaded recordings."""
        for voice, (model, _) in self._named.items():
            own = model.speaker.language
            yield ListedVoice(voice, model, own)
            for language in model.speaker.languages:
                if language != own:
                    yield ListedVoice(f"{voice}@{language}", model, language)

    def model(self, name: str | None) -> ServedModel:
        """
        Raises:
            ApiError: there is no such model.
        """
        if name is None or name in OPENAI_MODELS:
            return self.models[0]
        for model in self.models:
            if model.id == name:
                return model
        known = ", ".join(model.id for model in self.models)
        raise ApiError(404, f"there is no model of this name; there are: {known}", "model", "model_not_found")

    def choose(self, model_name: str | None, voice: str | None) -> ChosenVoice:
        """The voice that a client asks for; None: the first of the model.

        Raises:
            ApiError: there is no such model, or no such voice of this model.
        """
        wanted = self.model(model_name)
        only = wanted if model_name == wanted.id else None
        if voice is None:
            voice = self._id(wanted, wanted.speaker.voices[0])
        found, language = self._find(voice, wanted, only), None
        if found is None and "@" in voice:
            name, _, language = voice.rpartition("@")
            found = self._find(name, wanted, only)
        if found is None or (language is not None and language not in found[0].speaker.languages):
            known = ", ".join(listed.id for listed in self.voices() if only in (None, listed.model))
            raise ApiError(400, f"there is no voice of this name; there are: {known}", "voice", "voice_not_found")
        return ChosenVoice(*found, language)

    def _find(
        self, voice: str, wanted: ServedModel, only: ServedModel | None
    ) -> tuple[ServedModel, np.ndarray] | None:
        """A voice by its id, or by its name in the model that is wanted; of no other model than `only`."""
        for known in (self._id(wanted, voice), voice):
            model, name = self._named.get(known, (None, ""))
            if model is not None and only in (None, model):
                return model, model.speaker.named_voice(name)
        with self._lock:
            uploaded = self._uploaded.get(voice)
            if uploaded is not None and only in (None, uploaded[0]):
                self._uploaded.move_to_end(voice)
                return uploaded
        return None

    def keep(self, model: ServedModel, vector: np.ndarray) -> str:
        """Keeps the voice of an uploaded recording in memory; returns its id, which nobody can guess."""
        voice = _UPLOADED + secrets.token_hex(12)
        with self._lock:
            self._uploaded[voice] = model, vector
            while len(self._uploaded) > self._kept_voices:
                self._uploaded.popitem(last=False)
        return voice

    @property
    def uploaded(self) -> int:
        """How many voices of recordings are kept."""
        return len(self._uploaded)


def model_ids(paths: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, or its parent's where it is called `best`.

    Raises:
        UsageError: two have the same.
    """
    names = []
    for path in paths:
        place = path.resolve()
        name = place.parent.name if place.name in _NAMELESS and place.parent.name else place.name
        if name in names:
            raise UsageError(f"{path}: another voice is called {name} already; rename one of the folders")
        names.append(name)
    return names
