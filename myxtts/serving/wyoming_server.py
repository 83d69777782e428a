"""The Wyoming protocol, by which Home Assistant asks for speech: https://github.com/rhasspy/wyoming.

A connection is a row of events. `synthesize` has a whole text. A stream is `synthesize-start`, `synthesize-chunk`
with text cut anywhere, `synthesize-stop`; each sentence is spoken as soon as it is complete, while more arrives. The
`synthesize` that Home Assistant sends inside a stream, for servers that cannot stream, is ignored, and so are events
that are not known.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.info import Attribution, Info, TtsProgram, TtsVoice
from wyoming.tts import SynthesizeStopped

from myxtts import __version__
from myxtts.inference.sentences import pause_after
from myxtts.serving.api_error import ApiError
from myxtts.serving.encoding import PcmEncoder
from myxtts.serving.responses import submit, take
from myxtts.serving.service import Service
from myxtts.serving.speech import SpeechRequest

logger = logging.getLogger(__name__)

_LONGEST_LINE = 2**16
# Of audio, which a server of speech has no use for, and reads over.
_LONGEST_PAYLOAD = 2**20
_BYTES_PER_SAMPLE = 2
_SENTENCE_END = re.compile(r"(?:[!?…؟۔।]|(?<=\w{4})\.)[\"'”’»›)]*\s+(?=\S)|[。！？]")
_SOURCE = Attribution("MyXTTS", "")


class WyomingServer:
    """Serves Wyoming on a socket that listens already.

    Args:
        service: that speaks.
        listening: the socket.
    """

    def __init__(self, service: Service, listening: socket.socket) -> None:
        self._service = service
        self._socket = listening
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._info = describe(service)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_LONGEST_LINE)

    async def stop(self, seconds: float) -> None:
        """Takes no new connection, ends those that are idle at once, and the others when they have spoken, or after
        `seconds`."""
        if self._server is None:
            return
        # Without `wait_closed`, which waits for idle connections, too, and so without end.
        self._server.close()
        for task, connection in self._connections.items():
            connection.finishing = True
            if not connection.speaking:
                task.cancel()
        if self._connections:
            _, late = await asyncio.wait(self._connections, timeout=seconds)
            for task in late:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self._service.limits.connections:
            writer.transport.abort()
            return
        connection = Connection(self._service, self._info, reader, writer)
        self._connections[task] = connection
        try:
            await connection.run()
        except asyncio.CancelledError:
            pass  # the server stops
        except (OSError, asyncio.TimeoutError, EOFError):
            connection.writer.transport.abort()
        finally:
            connection.cancel()
            self._connections.pop(task, None)
            writer.close()


class Connection:
    """One client.

    Attributes:
        speaking: whether it is being answered.
        finishing: end after the present answer.
    """

    def __init__(
        self, service: Service, info: Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._service = service
        self._info = info
        self._reader = reader
        self.writer = writer
        self.speaking = False
        self.finishing = False
        self._stream: _TextStream | None = None
        self._events: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=64)
        self._job: Any = None
        self._reading: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """The client has left: what is being spoken for it is not wanted."""
        if self._job is not None:
            self._job.cancel()
        if self._reading is not None:
            self._reading.cancel()

    async def run(self) -> None:
        """Answers events until the client leaves."""
        # Read while it is being spoken, too: only so is it seen that a client has left.
        self._reading = asyncio.create_task(self._read())
        while not self.finishing and (event := await self._events.get()) is not None:
            self.speaking = True
            await self._answer(event)
            self.speaking = False

    async def _read(self) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError, RecursionError):
            while (event := await _read_event(self._reader)) is not None:
                await self._events.put(event)
        if self._job is not None:
            self._job.cancel()
        await self._events.put(None)

    async def _answer(self, event: Event) -> None:
        data = event.data or {}
        if event.type == "describe":
            await self._write(self._info)
        elif event.type == "synthesize":
            if self._stream is None:
                await self._speak_text(self._begin(data), _text(data))
        elif event.type == "synthesize-start":
            self._stream = self._begin(data)
        elif event.type == "synthesize-chunk" and self._stream is not None:
            await self._speak_stream(self._stream, _text(data))
        elif event.type == "synthesize-stop" and self._stream is not None:
            stream, self._stream = self._stream, None
            await self._speak_stream(stream, None)

    def _begin(self, data: dict[str, Any]) -> _TextStream:
        return _TextStream(data, self._service.limits.text_characters)

    async def _speak_text(self, stream: _TextStream, text: str) -> None:
        """A whole text."""
        stream.characters = len(text)
        if await self._speak(stream, text):
            await self._write(AudioStop().event())

    async def _speak_stream(self, stream: _TextStream, text: str | None) -> None:
        """More text of a stream; None: there is no more."""
        ready = stream.add(text)
        if ready:
            stream.failed = not await self._speak(stream, ready)
        if text is None:
            if stream.begun:
                await self._write(AudioStop().event())
            await self._write(SynthesizeStopped().event())

    async def _speak(self, stream: _TextStream, text: str) -> bool:
        """Whether it could be spoken; if not, the client has been told why."""
        try:
            speech = self._speech(stream, text)
            self._job = submit(self._service.queue, partial(_samples, speech, stream.pause))
            while (chunk := await take(self._job)) is not None:
                await self._write_audio(stream, chunk, speech.sample_rate)
        except ApiError as error:
            logger.info("wyoming %d", error.status)
            self._service.metrics.answered("wyoming", error.status)
            await self._write(Error(error.message, error.code).event())
            return False
        finally:
            self._job = None
        stream.pause = pause_after(text)
        self._service.metrics.answered("wyoming", 200)
        self._service.metrics.spoken(len(text), speech.seconds, speech.first_piece)
        logger.info("wyoming 200: %d characters, %s, %.1f s of speech", len(text), speech.language, speech.seconds)
        return True

    def _speech(self, stream: _TextStream, text: str) -> SpeechRequest:
        most = self._service.limits.text_characters
        if stream.characters > most:
            raise ApiError(400, f"the text has more than {most:,} characters", code="string_above_max_length")
        voice, language = stream.voice, stream.language
        if voice is None and language is not None:
            voice = next((one.id for one in self._service.catalogue.voices() if one.language == language), None)
        return self._service.speech(text, None, voice, language, ssml=stream.ssml)

    async def _write_audio(self, stream: _TextStream, chunk: bytes, rate: int) -> None:
        if not stream.begun:
            stream.begun = True
            await self._write(AudioStart(rate, _BYTES_PER_SAMPLE, 1).event())
        await self._write(AudioChunk(rate, _BYTES_PER_SAMPLE, 1, chunk).event())

    async def _write(self, event: Event) -> None:
        await asyncio.wait_for(async_write_event(event, self.writer), self._service.limits.sending_seconds)


class _TextStream:
    """What is asked for in one request, with the text that is not spoken yet.

    Args:
        data: of the event that begins it.
        most: characters.
    """

    def __init__(self, data: dict[str, Any], most: int) -> None:
        self._most = most
        voice = data.get("voice")
        voice = voice if isinstance(voice, dict) else {}
        self.voice = _name(voice.get("name"))
        self.language = None if self.voice is not None else _name(voice.get("language"))
        self.ssml = True if data.get("text_format") == "ssml" else None
        self.characters = 0
        self.pause = 0.0
        self.begun = False
        self.failed = False
        self._text = ""

    def add(self, more: str | None) -> str:
        """What can be spoken with this further text; None: there is no more, so all of it.

        The end of a sentence is certain when a space and the beginning of the next one have come, and the full stop
        is not that of a short word, such as "Dr.".
        """
        if self.failed:
            return ""
        self.characters += len(more or "")
        self._text += more or ""
        end = len(self._text)
        # SSML is spoken as a whole. Too much text is refused when it is spoken.
        if more is not None and self.characters <= self._most:
            markup = self.ssml or self._text.lstrip().startswith("<")
            ends = [] if markup else [match.end() for match in _SENTENCE_END.finditer(self._text)]
            end = next((one for one in reversed(ends) if not _is_open(self._text[:one])), 0)
        ready, self._text = self._text[:end], self._text[end:]
        return ready if ready.strip() else ""


def _is_open(text: str) -> bool:
    """Whether phonemes or a mark, in brackets, go on after this text."""
    return text.count("[") > text.count("]")


def _name(given: Any) -> str | None:
    return given if isinstance(given, str) and given else None


def _text(data: dict[str, Any]) -> str:
    text = data.get("text")
    return text if isinstance(text, str) else ""


def _samples(speech: SpeechRequest, pause: float) -> Generator[bytes, None, None]:
    """16-bit samples of a speech, after so many seconds of silence."""
    encoder = PcmEncoder()
    silence = np.zeros(round(pause * speech.sample_rate), np.float32)
    for piece in speech.pieces(speech.markup()):
        yield encoder.add(np.concatenate([silence, piece.audio]))
        silence = silence[:0]


async def _read_event(reader: asyncio.StreamReader) -> Event | None:
    """The next event, or None at the end, or after what is none.

    The package's own reader would wait for as many bytes as a stranger announces.
    """
    line = await reader.readline()
    if not line:
        return None
    header = json.loads(line)
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        return None
    data = header.get("data") or {}
    more = await _read_part(reader, header.get("data_length"), _LONGEST_LINE)
    await _read_part(reader, header.get("payload_length"), _LONGEST_PAYLOAD)
    if more:
        added = json.loads(more)
        if isinstance(data, dict) and isinstance(added, dict):
            data = data | added
    return Event(header["type"], data if isinstance(data, dict) else {})


async def _read_part(reader: asyncio.StreamReader, length: Any, most: int) -> bytes:
    if not length:
        return b""
    if not isinstance(length, int) or not 0 < length <= most:
        raise ValueError("a part of an event is too long")
    return await reader.readexactly(length)


def describe(service: Service) -> Event:
    """What the server can do, as the protocol says it."""
    voices = [
        TtsVoice(
            name=voice.id,
            attribution=_SOURCE,
            installed=True,
            description=f"{voice.model.id}: {voice.id}",
            version=__version__,
            languages=[voice.language],
        )
        for voice in service.catalogue.voices()
    ]
    program = TtsProgram(
        name="myxtts",
        attribution=_SOURCE,
        installed=True,
        description="Voices trained with MyXTTS",
        version=__version__,
        voices=voices,
        supports_synthesize_streaming=True,
    )
    return Info(tts=[program]).event()
