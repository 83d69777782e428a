"""A server of voices, asked by the real clients over real sockets."""

from __future__ import annotations

import base64
import io
import itertools
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2 as httpx
import numpy as np
import openai
import pytest
import soundfile
from running_server import RunningServer, running_server, wait_until
from tone_speaker import RATE, ToneSpeaker

from myxtts.errors import UsageError
from myxtts.serving.access import Access, read_token
from myxtts.serving.catalogue import model_ids
from myxtts.serving.encoding import FORMATS, OPENAI_RATE

TEXT = "Hello there. How are you today?"
TOKEN = "0123456789abcdef-token"
# A word is some 40 pieces of sound.
LONG = " ".join(["wonderful"] * 400)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="anything", max_retries=0)


def spoken(speaker: ToneSpeaker, text: str = TEXT, speed: float = 1.0) -> np.ndarray:
    pieces = speaker.stream_pieces(text, language="en", speed=speed, seed=0, voice=speaker.named_voice("default"))
    return np.concatenate([piece.audio for piece in pieces])


def wav(seconds: float = 2.0, rate: int = 16000, loudness: float = 0.3) -> bytes:
    file = io.BytesIO()
    tone = loudness * np.sin(np.arange(int(seconds * rate)) * 0.1)
    soundfile.write(file, tone, rate, format="WAV")
    return file.getvalue()


def has_jobs(server: RunningServer, number: int) -> bool:
    return server.service.queue.busy + server.service.queue.waiting == number


def lines_of(response: httpx.Response) -> list[dict[str, object]]:
    return [json.loads(line) for line in response.text.splitlines()]


def test_the_openai_client_gets_mp3_by_default(server: RunningServer, client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tts-1", voice="default", input=TEXT)
    assert answer.response.headers["content-type"] == "audio/mpeg"
    audio, rate = soundfile.read(io.BytesIO(answer.content))
    assert rate == RATE
    # Players of a stream cannot know what the encoder added at the ends.
    assert len(audio) == pytest.approx(len(spoken(server.speaker)), abs=4000)


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_wav_and_flac_are_exactly_what_was_spoken(server: RunningServer, client: openai.OpenAI, name: str) -> None:
    answer = client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format=name)  # type: ignore[arg-type]
    audio, rate = soundfile.read(io.BytesIO(answer.content), dtype="float32")
    assert rate == RATE
    np.testing.assert_allclose(audio, spoken(server.speaker), atol=1 / 32768)


def test_pcm_is_24_kilohertz_whatever_the_voice_has(server: RunningServer, client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format="pcm")
    seconds = len(spoken(server.speaker)) / RATE
    assert len(answer.content) / 2 / OPENAI_RATE == pytest.approx(seconds, abs=0.001)


def test_opus_can_be_read(server: RunningServer, client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format="opus")
    audio, rate = soundfile.read(io.BytesIO(answer.content))
    assert rate == OPENAI_RATE
    assert len(audio) / rate == pytest.approx(len(spoken(server.speaker)) / RATE, abs=0.05)


@pytest.mark.parametrize("name", FORMATS)
def test_pieces_encode_to_what_the_whole_does(name: str) -> None:
    audio = (0.3 * np.sin(np.arange(3 * RATE) * 0.1)).astype(np.float32)
    pieces, whole = FORMATS[name].encoder(RATE), FORMATS[name].encoder(RATE)
    streamed = b"".join(pieces.add(audio[start : start + 5000]) for start in range(0, len(audio), 5000))
    streamed += pieces.finish()
    at_once = whole.add(audio) + whole.finish()
    if name in ("mp3", "opus"):
        assert len(streamed) == pytest.approx(len(at_once), rel=0.05)
    else:
        assert streamed == at_once


@pytest.mark.parametrize("rate", [11000, 44100])
def test_mp3_takes_any_rate(rate: int) -> None:
    encoder = FORMATS["mp3"].encoder(rate)
    file = encoder.add(np.zeros(2 * rate, np.float32)) + encoder.finish()
    audio, own = soundfile.read(io.BytesIO(file))
    assert len(audio) / own == pytest.approx(2, abs=0.2)


def test_speed_changes_the_length(server: RunningServer, client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format="wav", speed=2)
    audio, _ = soundfile.read(io.BytesIO(answer.content))
    assert len(audio) == len(spoken(server.speaker, speed=2))


def test_sound_comes_before_the_end_of_the_text(server: RunningServer, client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(model="tones", voice="default", input=LONG) as answer:
        before = server.speaker.pieces_made
        next(answer.iter_bytes(1000))
        assert server.speaker.pieces_made - before < 40 * 400


def test_server_sent_events_hold_the_same_audio(server: RunningServer, client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tones", voice="default", input=TEXT, response_format="wav", stream_format="sse"
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["input_tokens"] == len(TEXT)
    file = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    audio, _ = soundfile.read(io.BytesIO(file), dtype="float32")
    np.testing.assert_allclose(audio, spoken(server.speaker), atol=1 / 32768)


def test_a_voice_may_be_an_object_with_an_id(client: openai.OpenAI) -> None:
    low = client.audio.speech.create(model="tones", voice={"id": "low"}, input=TEXT, response_format="pcm")
    same = client.audio.speech.create(model="tones", voice="low", input=TEXT, response_format="pcm")
    default = client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format="pcm")
    assert low.content == same.content != default.content


def test_models_and_voices_are_listed_as_clients_expect(server: RunningServer, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tones", "other"]
    assert client.models.retrieve("other").id == "other"
    voices = httpx.get(f"{server.url}/v1/audio/voices").json()["voices"]
    assert [voice["id"] for voice in voices] == [
        "default",
        "default@fa",
        "low",
        "low@fa",
        "other/default",
        "other/anna",
    ]
    assert all(voice["name"] for voice in voices)
    assert [model["id"] for model in httpx.get(f"{server.url}/v1/audio/models").json()["models"]] == [
        "tones",
        "other",
    ]


@pytest.mark.parametrize(
    ("model", "voice", "language"),
    [
        ("tts-1", "default", "en"),
        ("tts-1", "default@fa", "fa"),
        ("tts-1", "other/anna", "de"),
        ("other", "anna", "de"),
        ("other", "other/anna", "de"),
        ("tones", "low@fa", "fa"),
    ],
)
def test_a_voice_is_found_by_its_id_or_by_its_name_in_a_model(
    server: RunningServer, model: str, voice: str, language: str
) -> None:
    speech = server.service.speech("x", model, voice)
    assert speech.language == language


@pytest.mark.parametrize(
    ("model", "voice"), [("tones", "anna"), ("tts-1", "anna"), ("other", "low"), ("tones", "default@de")]
)
def test_an_unknown_voice_is_an_error_and_never_another_voice(client: openai.OpenAI, model: str, voice: str) -> None:
    with pytest.raises(openai.BadRequestError, match="there is no voice of this name; there are: ") as caught:
        client.audio.speech.create(model=model, voice=voice, input=TEXT)
    assert caught.value.param == "voice"
    assert caught.value.code == "voice_not_found"


def test_errors_are_those_of_openai(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.audio.speech.create(model="gpt-9", voice="default", input=TEXT)
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="mp3, opus, flac, wav, pcm") as refused:
        client.audio.speech.create(model="tones", voice="default", input=TEXT, response_format="aac")
    assert refused.value.param == "response_format"


def test_persian_is_spoken_by_a_language_of_ours(server: RunningServer, client: openai.OpenAI) -> None:
    def speak(voice: str, **more: str) -> bytes:
        answer = client.audio.speech.create(
            model="tones", voice=voice, input="سلام", response_format="wav", extra_body=more
        )
        return answer.content

    assert speak("default", language="fa") == speak("default@fa")
    with pytest.raises(openai.BadRequestError, match="it speaks: en, fa"):
        speak("default", language="de")


def test_our_own_api_has_word_times_and_the_mel(server: RunningServer) -> None:
    body = {"text": "Pay $3.50 now. <b>", "format": "wav", "mel": True}
    lines = lines_of(httpx.post(f"{server.url}/api/speak", json=body))
    assert lines[0] == {
        "type": "start",
        "model": "tones",
        "language": "en",
        "format": "wav",
        "sample_rate": RATE,
        "ignored": [],
    }
    sentences = [line for line in lines if line["type"] == "sentence"]
    words = [word for line in sentences for word in line["words"]]  # type: ignore[attr-defined]
    assert [word["text"] for word in words][:3] == ["Pay", "$3.50", "now"]
    assert (words[1]["first"], words[1]["last"]) == (4, 9)
    assert all(before["end"] <= after["start"] + 0.05 for before, after in itertools.pairwise(words))
    mel = sentences[0]["mel"]
    assert isinstance(mel, dict)
    assert len(base64.b64decode(mel["values"])) == mel["frames"] * mel["bands"]
    file = b"".join(base64.b64decode(str(line["audio"])) for line in lines if line["type"] == "audio")
    audio, rate = soundfile.read(io.BytesIO(file))
    assert lines[-1] == {"type": "done", "seconds": round(len(audio) / rate, 3)}


def test_ssml_is_spoken_and_what_is_ignored_is_named(server: RunningServer) -> None:
    body = {"text": "<speak>One <emphasis>two</emphasis><break time='1s'/> three.</speak>"}
    lines = lines_of(httpx.post(f"{server.url}/api/speak", json=body))
    assert lines[0]["ignored"] == ["<emphasis>"]
    words = [word["text"] for line in lines if line["type"] == "sentence" for word in line["words"]]  # type: ignore[attr-defined]
    assert words == ["One", "two", "three"]


def test_a_recording_becomes_a_voice_for_whoever_has_its_id(server: RunningServer) -> None:
    loud, quiet = (
        httpx.post(f"{server.url}/api/voices", content=wav(loudness=loudness), headers={"content-type": "audio/wav"})
        for loudness in (0.8, 0.2)
    )
    assert loud.status_code == 201
    assert loud.json()["seconds"] == 2.0
    ids = [answer.json()["id"] for answer in (loud, quiet)]
    assert ids[0] != ids[1]
    listed = httpx.get(f"{server.url}/v1/audio/voices").text
    assert not any(voice in listed for voice in ids)
    peaks = []
    for voice in ids:
        body = {"model": "tts-1", "input": TEXT, "voice": voice, "response_format": "wav"}
        answer = httpx.post(f"{server.url}/v1/audio/speech", json=body)
        peaks.append(np.abs(soundfile.read(io.BytesIO(answer.content))[0]).max())
    assert peaks == pytest.approx([0.8, 0.2], abs=0.02)
    other = {"model": "other", "input": TEXT, "voice": ids[0]}
    assert httpx.post(f"{server.url}/v1/audio/speech", json=other).status_code == 400


def test_the_oldest_voices_of_recordings_are_forgotten() -> None:
    with running_server(kept_voices=2) as server:
        model = server.service.catalogue.models[0]
        ids = [server.service.catalogue.keep(model, np.zeros(2, np.float32)) for _ in range(2)]
        server.service.catalogue.choose(None, ids[0])
        ids.append(server.service.catalogue.keep(model, np.zeros(2, np.float32)))
        assert server.service.catalogue.uploaded == 2
        server.service.catalogue.choose(None, ids[0])
        body = {"model": "tts-1", "input": TEXT, "voice": ids[1]}
        assert httpx.post(f"{server.url}/v1/audio/speech", json=body).status_code == 400


def test_a_full_queue_says_when_to_come_back() -> None:
    with running_server(workers=1, waiting=1) as server:
        server.speaker.may_go_on.clear()
        body = {"model": "tts-1", "input": TEXT, "voice": "default"}
        with ThreadPoolExecutor(2) as pool:
            answers = []
            for number in (1, 2):
                answers.append(pool.submit(httpx.post, f"{server.url}/v1/audio/speech", json=body, timeout=None))
                wait_until(partial(has_jobs, server, number))
                wait_until(lambda: server.service.queue.busy == 1)
            refused = httpx.post(f"{server.url}/v1/audio/speech", json=body)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert refused.json()["error"]["type"] == "rate_limit_error"
            server.speaker.may_go_on.set()
            assert [answer.result().status_code for answer in answers] == [200, 200]


def test_a_client_that_leaves_frees_its_worker(server: RunningServer) -> None:
    body = json.dumps({"model": "tts-1", "input": LONG, "voice": "default", "response_format": "flac"}).encode()
    request = b"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(body) + body
    server.speaker.may_go_on.clear()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request)
        wait_until(lambda: server.service.queue.busy == 1)
    before = server.speaker.pieces_made
    wait_until(lambda: 'status="499"' in httpx.get(f"{server.url}/metrics").text)
    server.speaker.may_go_on.set()
    wait_until(lambda: server.service.queue.busy == 0)
    assert server.speaker.pieces_made - before <= 2


def test_a_client_that_leaves_while_it_waits_leaves_the_queue() -> None:
    with running_server(workers=1, waiting=4) as server:
        server.speaker.may_go_on.clear()
        body = json.dumps({"text": TEXT}).encode()
        request = b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request += b"Content-Length: %d\r\n\r\n" % len(body) + body
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        for number, connection in enumerate(connections, 1):
            connection.sendall(request)
            wait_until(partial(has_jobs, server, number))
        connections[1].close()
        wait_until(lambda: server.service.queue.waiting == 0)
        connections[0].close()


def test_a_slow_client_does_not_fill_memory_and_is_given_up() -> None:
    with running_server(unsent_bytes=2**16, sending_seconds=0.5) as server:
        body = json.dumps({"text": LONG, "format": "pcm"}).encode()
        request = b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        request += b"Content-Length: %d\r\n\r\n" % len(body) + body
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(request)
            wait_until(lambda: server.service.queue.busy == 1)
            wait_until(lambda: server.service.queue.busy == 0)
        # All of it would be some 16,000 pieces.
        assert server.speaker.pieces_made < 4000


def test_stopping_finishes_what_is_spoken_and_turns_away_what_waits() -> None:
    with running_server(workers=1, waiting=4) as server, ThreadPoolExecutor(2) as pool:
        server.speaker.may_go_on.clear()
        body = {"model": "tts-1", "input": TEXT, "voice": "default", "response_format": "wav"}
        speaking = pool.submit(httpx.post, f"{server.url}/v1/audio/speech", json=body, timeout=None)
        wait_until(lambda: server.service.queue.busy == 1)
        waiting = pool.submit(httpx.post, f"{server.url}/v1/audio/speech", json=body, timeout=None)
        wait_until(lambda: server.service.queue.waiting == 1)
        server.service.queue.stop()
        assert waiting.result().status_code == 503
        assert httpx.get(f"{server.url}/healthz").status_code == 503
        server.speaker.may_go_on.set()
        audio, _ = soundfile.read(io.BytesIO(speaking.result().content))
        assert len(audio) == len(spoken(ToneSpeaker()))


def test_many_clients_at_once_get_what_they_asked_for(server: RunningServer) -> None:
    texts = [f"Number {number}. " * (1 + number % 3) for number in range(8)]

    def ask(text: str) -> int:
        body = {"model": "tts-1", "input": text, "voice": "default", "response_format": "wav"}
        answer = httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=None)
        return len(soundfile.read(io.BytesIO(answer.content))[0])

    with ThreadPoolExecutor(8) as pool:
        lengths = list(pool.map(ask, texts))
    assert lengths == [len(spoken(ToneSpeaker(), text)) for text in texts]


def test_health_and_metrics(server: RunningServer) -> None:
    httpx.post(f"{server.url}/api/speak", json={"text": TEXT})
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}
    wait_until(lambda: 'route="/api/speak",status="200"' in httpx.get(f"{server.url}/metrics").text)
    text = httpx.get(f"{server.url}/metrics").text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(figures['myxtts_requests_total{route="/api/speak",status="200"}']) >= 1
    assert float(figures["myxtts_speech_seconds_total"]) > 0
    assert figures['myxtts_first_piece_seconds_bucket{le="+Inf"}'] == figures["myxtts_first_piece_seconds_count"]
    assert float(figures["myxtts_workers"]) == 2
    assert float(figures["process_resident_memory_bytes"]) > 1e6


def test_logs_have_lengths_and_languages_and_nothing_else_of_a_request(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "xylophone"
    with caplog.at_level("INFO", logger="myxtts.serving"):
        for body in (
            {"text": f"My {secret}."},
            {"text": f"<speak><voice name='{secret}'>a</voice></speak>"},
            {"text": f"<speak><{secret}</speak>"},
            {"text": "a", "voice": secret},
            {"text": "a", secret: 1},
        ):
            httpx.post(f"{server.url}/api/speak", json=body, headers={"user-agent": secret, "x-name": secret})
        httpx.get(f"{server.url}/{secret}")
        # Written after the answer.
        wait_until(lambda: "other 404" in caplog.text)
    records = [record for record in caplog.records if record.name.startswith("myxtts.serving")]
    assert records
    assert not any(secret in record.getMessage() for record in records)
    assert "/api/speak 200: 13 characters, en" in caplog.text


@pytest.fixture(scope="module")
def guarded() -> Iterator[RunningServer]:
    with running_server(Access(TOKEN, frozenset(["voices.example"]), ("https://page.example",))) as running:
        yield running


def test_the_token_is_what_the_openai_client_calls_its_key(guarded: RunningServer) -> None:
    right = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=TOKEN)
    assert right.audio.speech.create(model="tts-1", voice="default", input=TEXT).content
    wrong = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong")
    with pytest.raises(openai.AuthenticationError) as caught:
        wrong.audio.speech.create(model="tts-1", voice="default", input=TEXT)
    assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize("path", ["/v1/models", "/api/about", "/metrics", "/nowhere"])
def test_without_the_token_little_can_be_read(guarded: RunningServer, path: str) -> None:
    answer = httpx.get(guarded.url + path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/audio/voices", "/v1/audio/models"])
def test_some_lists_need_no_token(guarded: RunningServer, path: str) -> None:
    assert httpx.get(guarded.url + path).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:80", "10.1.2.3", "voices.example."]
)
def test_addresses_and_listed_names_are_served(guarded: RunningServer, host: str) -> None:
    assert httpx.get(f"{guarded.url}/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8020", "127.0.0.1.evil", ""]
)
def test_other_names_are_refused(guarded: RunningServer, host: str) -> None:
    assert httpx.get(f"{guarded.url}/healthz", headers={"host": host}).status_code == 403


def test_only_listed_origins_may_ask_from_a_page(guarded: RunningServer) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    listed = httpx.options(f"{guarded.url}/api/speak", headers={"origin": "https://page.example", **asked})
    assert listed.status_code == 200
    assert listed.headers["access-control-allow-origin"] == "https://page.example"
    other = httpx.options(f"{guarded.url}/api/speak", headers={"origin": "https://evil.example", **asked})
    assert other.status_code == 400
    assert "access-control-allow-origin" not in other.headers


def test_without_listed_origins_no_page_may_ask(server: RunningServer) -> None:
    headers = {"origin": "https://page.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in httpx.options(f"{server.url}/api/speak", headers=headers).headers


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
)
@pytest.mark.parametrize("path", ["/v1/audio/speech", "/api/speak", "/api/voices"])
def test_what_a_page_of_a_stranger_can_send_without_asking_is_refused(
    server: RunningServer, path: str, kind: str
) -> None:
    content = json.dumps({"text": TEXT, "model": "tts-1", "voice": "default", "input": TEXT})
    answer = httpx.post(server.url + path, content=content, headers={"content-type": kind})
    assert answer.status_code == 415


def test_a_token_file_holds_one_long_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path) == TOKEN
    for content in ("", "short", "two words of a token file", "é" * 20):
        path.write_text(content)
        with pytest.raises(UsageError, match="openssl rand"):
            read_token(path)
    with pytest.raises(UsageError, match="No such file"):
        read_token(tmp_path / "missing")


def test_models_are_called_after_their_folders(tmp_path: Path) -> None:
    assert model_ids([tmp_path / "anna", tmp_path / "runs" / "bert" / "best"]) == ["anna", "bert"]
    with pytest.raises(UsageError, match="another voice is called anna"):
        model_ids([tmp_path / "anna", tmp_path / "anna" / "best"])


def test_threads_end_with_the_server() -> None:
    def speakers() -> int:
        return sum(thread.name.startswith("speaker") for thread in threading.enumerate())

    before = speakers()
    with running_server(workers=3) as server:
        httpx.post(f"{server.url}/api/speak", json={"text": TEXT})
        assert speakers() == before + 3
    assert speakers() == before
