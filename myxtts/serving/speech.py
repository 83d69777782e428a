"""What a client asked to be spoken, as the bytes of its answer. Everything here runs in a worker."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Generator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from myxtts.errors import TextError
from myxtts.serving.catalogue import ChosenVoice
from myxtts.serving.encoding import AudioFormat
from myxtts.text.markup import Markup, parse_markup

Chunks = Generator[bytes, None, None]


@dataclass
class SpeechRequest:
    """A text to be spoken, and what has come of it.

    Attributes:
        text: as written, markup included.
        voice: that speaks.
        language: its code.
        speed: 2 is twice as fast.
        seed: of the flow decoder.
        ssml: whether the text is SSML; None: if it begins like it.
        asked: when the request came, by `time.perf_counter`.
        first_piece: seconds from the request to the first sound; None: there is none yet.
        seconds: of speech until now.
    """

    text: str
    voice: ChosenVoice
    language: str
    speed: float = 1.0
    seed: int = 0
    ssml: bool | None = None
    asked: float = field(default_factory=time.perf_counter)
    first_piece: float | None = None
    seconds: float = 0.0

    @property
    def sample_rate(self) -> int:
        return self.voice.model.speaker.sample_rate

    def markup(self) -> Markup:
        """
        Raises:
            TextError: the text or its markup cannot be spoken.
        """
        try:
            self.text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TextError(f"character {error.start + 1} of the text is half of a character (a surrogate)") from None
        return parse_markup(self.text, self.language, ssml=self.ssml)

    def pieces(self, markup: Markup) -> Generator[Any, None, None]:
        """`SpokenPiece` by `SpokenPiece`.

        Raises:
            TextError: nothing in the text can be spoken.
            UsageError: an unknown language, or a speed out of range.
        """
        speaker = self.voice.model.speaker
        for piece in speaker.stream_pieces(
            markup, language=self.language, speed=self.speed, seed=self.seed, voice=self.voice.vector
        ):
            if self.first_piece is None:
                self.first_piece = time.perf_counter() - self.asked
            self.seconds += len(piece.audio) / self.sample_rate
            yield piece


def audio_chunks(speech: SpeechRequest, chosen: AudioFormat) -> Chunks:
    """The audio in a format."""
    encoder = chosen.encoder(speech.sample_rate)
    for piece in speech.pieces(speech.markup()):
        # A chunk without bytes lets the worker see that the client has left.
        yield encoder.add(piece.audio)
    yield encoder.finish()


def sse_chunks(speech: SpeechRequest, chosen: AudioFormat) -> Chunks:
    """The audio in events as OpenAI streams them. A token is a character, and a piece of 40 ms of audio."""
    for chunk in audio_chunks(speech, chosen):
        yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(chunk).decode()}) if chunk else b""
    asked, answered = len(speech.text), round(25 * speech.seconds)
    usage = {"input_tokens": asked, "output_tokens": answered, "total_tokens": asked + answered}
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(values: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(values)}\n\n".encode()


def line_chunks(speech: SpeechRequest, chosen: AudioFormat, with_mel: bool) -> Chunks:
    """A line of JSON for each thing that is known: `start`, `sentence` (words, mel), `audio`, `done`."""
    markup = speech.markup()
    encoder = chosen.encoder(speech.sample_rate)
    pieces = speech.pieces(markup)
    first = next(pieces)
    yield _line(
        type="start",
        model=speech.voice.model.id,
        language=speech.language,
        format=chosen.name,
        sample_rate=chosen.rate(speech.sample_rate),
        ignored=list(markup.ignored),
    )
    for piece in _chain(first, pieces):
        if piece.mel is not None:
            words = [
                {**asdict(word), "start": round(word.start, 3), "end": round(word.end, 3)} for word in piece.words
            ]
            # The piece itself is counted already.
            start = speech.seconds - len(piece.audio) / speech.sample_rate
            mel = {"mel": _picture(piece.mel)} if with_mel else {}
            yield _line(type="sentence", start=round(start, 3), words=words, **mel)
        yield _audio_line(encoder.add(piece.audio))
    yield _audio_line(encoder.finish())
    yield _line(type="done", seconds=round(speech.seconds, 3))


def _chain(first: Any, rest: Generator[Any, None, None]) -> Generator[Any, None, None]:
    yield first
    yield from rest


def _line(**values: Any) -> bytes:
    return json.dumps(values, ensure_ascii=False).encode() + b"\n"


def _audio_line(chunk: bytes) -> bytes:
    return _line(type="audio", audio=base64.b64encode(chunk).decode()) if chunk else b""


def _picture(mel: np.ndarray) -> dict[str, Any]:
    """A mel float32 [F, n_mels] as a picture: a byte for each value, frame by frame, from quiet to loud."""
    low, high = float(mel.min()), float(mel.max())
    grey = np.round((mel - low) * (255 / max(high - low, 1e-6))).astype(np.uint8)
    return {"frames": mel.shape[0], "bands": mel.shape[1], "values": base64.b64encode(grey.tobytes()).decode()}
