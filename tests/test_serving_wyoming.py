"""The server as Home Assistant asks it, by the real `wyoming` package."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from running_server import RunningServer, running_server, wait_until
from tone_speaker import RATE, ToneSpeaker
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

TEXT = "Hello there. How are you today? Dr. Smith paid 3.5 dollars."


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


async def ask(server: RunningServer, events: list[Any], last: str) -> list[Event]:
    """What a server answers to events, up to the event of type `last`."""
    answers: list[Event] = []
    async with AsyncTcpClient("127.0.0.1", server.wyoming_port) as client:
        for event in events:
            await client.write_event(event if isinstance(event, Event) else event.event())
        while not answers or answers[-1].type != last:
            answer = await client.read_event()
            assert answer is not None, [one.type for one in answers]
            answers.append(answer)
    return answers


def samples(answers: list[Event]) -> np.ndarray:
    return np.frombuffer(b"".join(one.payload or b"" for one in answers if one.type == "audio-chunk"), "<i2") / 32768


def spoken(*texts: str, pause: float = 0.4) -> np.ndarray:
    """Texts spoken one by one, with a pause between them."""
    speaker = ToneSpeaker()
    parts: list[np.ndarray] = []
    for text in texts:
        pieces = speaker.stream_pieces(text, language="en", speed=1.0, seed=0, voice=speaker.named_voice("default"))
        parts += [np.zeros(round(pause * RATE), np.float32)] if parts else []
        parts += [piece.audio for piece in pieces]
    return np.concatenate(parts)


def test_it_says_what_it_can(server: RunningServer) -> None:
    (answer,) = asyncio.run(ask(server, [Describe()], "info"))
    (program,) = Info.from_event(answer).tts
    assert program.supports_synthesize_streaming
    assert [(voice.name, voice.languages) for voice in program.voices] == [
        ("default", ["en"]),
        ("default@fa", ["fa"]),
        ("low", ["en"]),
        ("low@fa", ["fa"]),
        ("other/default", ["de"]),
        ("other/anna", ["de"]),
    ]
    assert all(voice.installed for voice in program.voices)


def test_a_whole_text(server: RunningServer) -> None:
    answers = asyncio.run(ask(server, [Synthesize(TEXT, SynthesizeVoice("default"))], "audio-stop"))
    assert answers[0].type == "audio-start"
    assert answers[0].data == {"rate": RATE, "width": 2, "channels": 1, "timestamp": None}
    assert {one.type for one in answers[1:-1]} == {"audio-chunk"}
    np.testing.assert_allclose(samples(answers), spoken(TEXT), atol=1e-4)


def test_text_cut_anywhere_is_spoken_sentence_by_sentence(server: RunningServer) -> None:
    cut = [TEXT[start : start + 3] for start in range(0, len(TEXT), 3)]
    start = SynthesizeStart(SynthesizeVoice("default"))
    events = [start, *map(SynthesizeChunk, cut), Synthesize(TEXT), SynthesizeStop()]
    answers = asyncio.run(ask(server, events, "synthesize-stopped"))
    kinds = [one.type for one in answers]
    assert kinds.count("audio-start") == kinds.count("audio-stop") == 1
    assert kinds[-2:] == ["audio-stop", "synthesize-stopped"]
    sentences = ("Hello there. ", "How are you today? ", "Dr. Smith paid 3.5 dollars.")
    np.testing.assert_allclose(samples(answers), spoken(*sentences), atol=1e-4)


def test_a_sentence_is_spoken_while_the_next_one_is_not_written_yet(server: RunningServer) -> None:
    async def first_sound() -> None:
        async with AsyncTcpClient("127.0.0.1", server.wyoming_port) as client:
            events = [SynthesizeStart(), *map(SynthesizeChunk, ("One more sen", "tence. A", "nd"))]
            for event in events:
                await client.write_event(event.event())
            answer = await client.read_event()
            assert answer is not None
            assert answer.type == "audio-start"

    asyncio.run(first_sound())


def test_a_connection_serves_several_requests_and_ignores_what_it_does_not_know(server: RunningServer) -> None:
    unknown = Event("detect", {"names": ["hey"]}, b"payload")
    outside = [SynthesizeStop(), SynthesizeChunk("x")]
    events = [unknown, Synthesize("One."), unknown, *outside, Synthesize("Two."), Describe()]
    answers = asyncio.run(ask(server, events, "info"))
    np.testing.assert_allclose(samples(answers), np.concatenate([spoken("One."), spoken("Two.")]), atol=1e-4)


@pytest.mark.parametrize("voice", [SynthesizeVoice(language="fa"), SynthesizeVoice("default@fa")])
def test_a_voice_is_chosen_by_name_or_by_language(server: RunningServer, voice: SynthesizeVoice) -> None:
    answers = asyncio.run(ask(server, [Synthesize("سلام", voice)], "audio-stop"))
    assert len(samples(answers)) > 0


@pytest.mark.parametrize(
    "wrong",
    [
        Synthesize("Hello.", SynthesizeVoice("nobody")),
        Synthesize("Hello.", SynthesizeVoice(language="xx")),
        Synthesize(""),
        Synthesize("a" * 5000),
        Synthesize("<speak>a", text_format="ssml"),
        Event("synthesize", {}),
        Event("synthesize", {"text": 1}),
        Event("synthesize", {"text": "a\x00", "voice": 3, "text_format": []}),
    ],
)
def test_what_cannot_be_spoken_is_an_error_event_and_the_connection_lives(server: RunningServer, wrong: Any) -> None:
    answers = asyncio.run(ask(server, [wrong, Describe()], "info"))
    if answers[0].type == "error":
        assert answers[0].data["text"]
    else:
        assert answers[-2].type == "audio-stop"


def test_a_stream_that_fails_still_ends(server: RunningServer) -> None:
    events = [SynthesizeStart(SynthesizeVoice("nobody")), SynthesizeChunk("One. Two. Three."), SynthesizeStop()]
    answers = asyncio.run(ask(server, events, "synthesize-stopped"))
    assert [one.type for one in answers] == ["error", "synthesize-stopped"]


def test_ssml_in_a_stream_is_spoken_as_a_whole(server: RunningServer) -> None:
    cut = ["<speak>One sent", "ence. An", "other.</spe", "ak>"]
    events = [SynthesizeStart(text_format="ssml"), *map(SynthesizeChunk, cut), SynthesizeStop()]
    answers = asyncio.run(ask(server, events, "synthesize-stopped"))
    np.testing.assert_allclose(samples(answers), spoken("One sentence. Another."), atol=1e-4)


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\n",
        b"{}\n",
        b"[]\n",
        b'{"type": 1}\n',
        b'{"type": "describe"',
        b'{"type": "synthesize", "data_length": 10000000000}\n',
        b'{"type": "synthesize", "data_length": -5}\n',
        b'{"type": "synthesize", "data_length": "x"}\n',
        b'{"type": "audio-chunk", "payload_length": 99999999999}\n',
        b'{"type": "synthesize", "data_length": 3}\nabc',
        b'{"type": "synthesize", "data_length": 30}\n{}',
        b"{" * 200_000 + b"\n",
        b"[" * 60_000 + b"\n",
        bytes(100_000),
        b"\xff\xfe\n",
    ],
)
def test_bytes_that_are_no_event_end_the_connection_and_not_the_server(server: RunningServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.wyoming_port)) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        except OSError:
            pass  # cut off while it was still sending
    assert asyncio.run(ask(server, [Describe()], "info"))


def test_a_client_that_leaves_frees_the_worker(server: RunningServer) -> None:
    before = server.speaker.pieces_made
    server.speaker.may_go_on.clear()
    event = json.dumps({"type": "synthesize", "data": {"text": "wonderful " * 400}}).encode() + b"\n"
    with socket.create_connection(("127.0.0.1", server.wyoming_port)) as connection:
        connection.sendall(event)
        wait_until(lambda: server.service.queue.busy == 1)
    time.sleep(0.05)
    server.speaker.may_go_on.set()
    wait_until(lambda: server.service.queue.busy == 0)
    assert server.speaker.pieces_made - before < 1000


def test_stopping_ends_idle_connections_and_finishes_what_is_spoken() -> None:
    heard: list[Event] = []
    with running_server() as server:
        idle = socket.create_connection(("127.0.0.1", server.wyoming_port))
        server.speaker.may_go_on.clear()

        def listen() -> None:
            heard.extend(asyncio.run(ask(server, [Synthesize(TEXT)], "audio-stop")))

        client = threading.Thread(target=listen)
        client.start()
        wait_until(lambda: server.service.queue.busy == 1)
        # Leaving the block stops the server, and lets the speaker go on.
    client.join()
    np.testing.assert_allclose(samples(heard), spoken(TEXT), atol=1e-4)
    assert idle.recv(100) == b""
    idle.close()
