"""What strangers send: some 250 kinds of wrong requests. Each gets its 4xx, and the server goes on."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from running_server import RunningServer, running_server, tone_service, wait_until
from starlette.testclient import TestClient

from myxtts.errors import AudioError
from myxtts.serving.access import Access
from myxtts.serving.app import create_app
from myxtts.serving.limits import Limits
from myxtts.serving.references import decode_reference

JSON = {"content-type": "application/json"}
WAV = {"content-type": "audio/wav"}
GOOD = {"model": "tts-1", "input": "Hello.", "voice": "default", "response_format": "pcm"}
GOOD_OWN: dict[str, Any] = {"text": "Hello.", "voice": "default", "speed": 1.5, "seed": 3, "ssml": False, "mel": True}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(tone_service(), Access()), base_url="http://localhost") as built:
        yield built


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(receiving_seconds=1.0) as running:
        yield running


def bomb(name: str, content: str) -> str:
    return f'<?xml version="1.0"?><!DOCTYPE {name} [{content}]><speak>&a;</speak>'


WRONG_TEXTS = {
    "empty": "",
    "spaces": "   \n\t ",
    "only marks": "?!…",
    "only an emoji": "🎉",
    "only a pause": "[pause]",
    "4,097 characters": "a" * 4097,
    "half a character": "a\ud800b",
    "pause of a year": "a [pause:31536000] b",
    "pause that is no number": "a [pause:long] b",
    "negative pause": "a [pause:-1] b",
    "billion laughs": bomb("speak", '<!ENTITY b "ha"><!ENTITY a "&b;&b;&b;&b;&b;&b;&b;&b;">'),
    "a file as an entity": bomb("speak", '<!ENTITY a SYSTEM "file:///etc/passwd">'),
    "a page as an entity": bomb("speak", '<!ENTITY a SYSTEM "http://127.0.0.1/">'),
    "a parameter entity": bomb("speak", '<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;'),
    "a document type": "<!DOCTYPE html><speak>a</speak>",
    "an unknown entity": "<speak>&nbsp;a</speak>",
    "an open tag": "<speak>a",
    "tags that cross": "<speak><p><s>a</p></s></speak>",
    "a hundred tags deep": "<speak>" + "<p>" * 100 + "a" + "</p>" * 100 + "</speak>",
    "an ampersand": "<speak>a & b</speak>",
    "nothing in it": "<speak></speak>",
    "silence in it": "<speak><break time='1s'/></speak>",
    "another root": "<?xml version='1.0'?><html>a</html>",
    "a language that is none": "<speak xml:lang='klingon-and-more'>a</speak>",
    "a break of an hour": "<speak>a<break time='3600s'/></speak>",
    "a rate that is none": "<speak><prosody rate='hasty'>a</prosody></speak>",
    "a volume that is none": "<speak><prosody volume='12 dB'>a</prosody></speak>",
    "NUL in XML": "<speak>\x00a</speak>",
    "control characters only": "\x00\x01\x02",
}
WRONG_VALUES: dict[str, list[Any]] = {
    "model": [
        None,
        1,
        True,
        [],
        {},
        "",
        "nobody",
        "a" * 201,
        "../../etc/passwd",
        "/etc/passwd",
        "tones\x00",
        "TONES",
    ],
    "input": [None, 1, True, [], {}, ["Hello."], {"text": "a"}],
    "voice": [
        *(None, 1, True, [], {}, "", "nobody", {"id": 1}, {"id": ""}, {"name": "default"}, ["default"], "@fa", "@"),
        *(
            "default@",
            "default@xx",
            "default@@fa",
            "../default",
            "/etc/passwd",
            "default\x00",
            "voice_00",
            "file:///a",
        ),
        *("other", "other/", "/default", "other/low", "DEFAULT", "\ud800", "a" * 201, "alloy"),
    ],
    "response_format": [None, 1, True, [], {}, "", "aac", "MP3", "exe", "mp3;rm", "../wav"],
    "speed": [None, True, "1", "fast", [], {}, 0, -1, 0.2, 4.1, 1e300, -1e300],
    "stream_format": [None, 1, True, [], "", "SSE", "chunked"],
    "instructions": [1, True, [], {}],
    "language": [1, True, [], {}, "", "xx", "EN", "en-US", "../en", "de", "\ud800", "klingon"],
    "seed": [None, "1", 1.5, True, [], {}, -1, 2**31, 10**30],
}
WRONG_OWN_VALUES: dict[str, list[Any]] = {
    "text": [None, 1, [], {}],
    "format": [None, 1, "aac", "", []],
    "mel": [None, 1, "yes", []],
    "ssml": [1, "yes", []],
    "speed": ["1", 0],
    "seed": [-1],
    "path": ["/etc/passwd"],
    "reference_audio": ["/etc/passwd"],
    "style_wav": ["/etc/passwd"],
}
WRONG_BODIES = {
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"Hello."',
    "a number": b"1",
    "true": b"true",
    "cut off": b'{"model": "tts-1", "inp',
    "single quotes": b"{'model': 'tts-1'}",
    "a comma too many": b'{"model": "tts-1",}',
    "two objects": b"{}{}",
    "a comment": b"{} // a",
    "NaN": json.dumps(GOOD).replace('"mp3"', "NaN").replace("}", ', "speed": NaN}').encode(),
    "infinity": json.dumps(GOOD).replace("}", ', "speed": Infinity}').encode(),
    "a million digits": b'{"speed": ' + b"1" * 60_000 + b"}",
    "ten thousand lists deep": b"[" * 30_000 + b"]" * 30_000,
    "ten thousand objects deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "not UTF-8": b'{"input": "\xff\xfe"}',
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "zeros": bytes(100),
    "a form": b"model=tts-1&input=Hello.",
    "XML": b"<speak>Hello.</speak>",
    "an empty object": b"{}",
    "random bytes": np.random.default_rng(0).bytes(1000),
}


def refused(answer: Any, *statuses: int) -> dict[str, Any]:
    assert answer.status_code in (statuses or (400,)), answer.text[:300]
    error = answer.json()["error"]
    assert error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in answer.text
    return error


@pytest.mark.parametrize("text", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_a_text_that_cannot_be_spoken(client: TestClient, text: str) -> None:
    refused(client.post("/v1/audio/speech", content=json.dumps(GOOD | {"input": text}), headers=JSON))
    refused(client.post("/api/speak", content=json.dumps({"text": text}), headers=JSON))


@pytest.mark.parametrize(
    ("key", "value"),
    [(key, value) for key, values in WRONG_VALUES.items() for value in values],
    ids=lambda part: str(part)[:20] if isinstance(part, str) and part.isascii() and part.isprintable() else None,
)
def test_a_wrong_value(client: TestClient, key: str, value: Any) -> None:
    if key == "language" and value is None:
        pytest.skip("may be left out")
    error = refused(
        client.post("/v1/audio/speech", content=json.dumps(GOOD | {key: value}), headers=JSON),
        404 if key == "model" and isinstance(value, str) and 0 < len(value) <= 200 else 400,
    )
    assert error["param"] == key


@pytest.mark.parametrize("key", ["model", "input", "voice"])
def test_a_missing_value(client: TestClient, key: str) -> None:
    body = {name: value for name, value in GOOD.items() if name != key}
    assert refused(client.post("/v1/audio/speech", json=body))["param"] == key


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in WRONG_OWN_VALUES.items() for value in values]
)
def test_a_wrong_value_of_our_own_api(client: TestClient, key: str, value: Any) -> None:
    refused(client.post("/api/speak", json=GOOD_OWN | {key: value}))


@pytest.mark.parametrize("path", ["/v1/audio/speech", "/api/speak"])
@pytest.mark.parametrize("body", WRONG_BODIES.values(), ids=WRONG_BODIES)
def test_a_body_that_is_no_request(client: TestClient, path: str, body: bytes) -> None:
    refused(client.post(path, content=body, headers=JSON))


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/jsonx", "json", "application/xml", "audio/wav", "a/b;"]
)
def test_another_content_type(client: TestClient, kind: str) -> None:
    refused(client.post("/v1/audio/speech", content=json.dumps(GOOD), headers={"content-type": kind}), 415)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "x"])
def test_a_body_that_would_have_to_be_unpacked(client: TestClient, encoding: str) -> None:
    refused(client.post("/api/speak", content=b"{}", headers=JSON | {"content-encoding": encoding}), 415)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/audio/speech", 405),
        ("PUT", "/api/speak", 405),
        ("DELETE", "/api/voices", 405),
        ("POST", "/", 415),
        ("POST", "/healthz", 415),
        ("PATCH", "/v1/models", 405),
        ("GET", "/v1/audio/transcriptions", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/..%2f..%2fetc/passwd", 404),
        ("GET", "/v1/models/nobody", 404),
        ("GET", "/v1/models/..%2fa", 404),
        ("GET", "/%00", 404),
        ("GET", "/" + "a" * 4000, 404),
        ("OPTIONS", "/api/speak", 405),
    ],
)
def test_a_wrong_method_or_path(client: TestClient, method: str, path: str, status: int) -> None:
    refused(client.request(method, path), status)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
changes = st.dictionaries(st.sampled_from([*GOOD, *GOOD_OWN, "a"]), values, min_size=1, max_size=4)


@pytest.mark.long
@settings(max_examples=60)
@given(change=changes)
def test_any_change_of_a_request_is_spoken_or_refused(client: TestClient, change: dict[str, Any]) -> None:
    for path, body in (("/v1/audio/speech", GOOD), ("/api/speak", GOOD_OWN)):
        answer = client.post(path, content=json.dumps(body | change), headers=JSON)
        if answer.status_code != 200:
            refused(answer, 400, 404)


@settings(max_examples=60)
@given(text=st.text(min_size=1, max_size=60))
def test_any_text_is_spoken_or_refused(client: TestClient, text: str) -> None:
    answer = client.post("/api/speak", content=json.dumps({"text": text}), headers=JSON)
    if answer.status_code != 200:
        refused(answer)


def wav(seconds: float, rate: int = 8000, channels: int = 1, value: float = 0.1) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full((int(seconds * rate), channels), value), rate, format="WAV")
    return file.getvalue()


def wav_that_says(samples: int, rate: int, channels: int = 1) -> bytes:
    """A header with nothing behind it."""
    about = struct.pack("<IHHIIHH", 16, 1, channels, rate, 2 * rate * channels % 2**32, 2 * channels % 2**16, 16)
    size = 2 * channels * samples % 2**32
    return b"RIFF" + struct.pack("<I", (36 + size) % 2**32) + b"WAVEfmt " + about + b"data" + struct.pack("<I", size)


WRONG_RECORDINGS = {
    "nothing": b"",
    "a text": b"I am a text." * 100,
    "zeros": bytes(10_000),
    "random bytes": np.random.default_rng(1).bytes(10_000),
    "a header alone": wav(2)[:44],
    "cut off": wav(2)[:9000],
    "too short": wav(0.5),
    "too long": wav(200),
    "a header that says hours": wav_that_says(2**30, 8000) + bytes(100),
    "no sample rate": wav_that_says(100, 0) + bytes(200),
    "sixty thousand channels": wav_that_says(100, 8000, 60_000) + bytes(200),
    "a broken MP3": b"ID3\x04\x00\x00\x00\x00\x00\x00" + b"\xff\xfb\x90\x64" * 500,
    "a broken FLAC": b"fLaC" + bytes(200),
    "a broken Ogg": b"OggS" + bytes(200),
    "a ZIP": b"PK\x03\x04" + bytes(500),
    "an HTML page": b"<!doctype html><script>alert(1)</script>" * 20,
}


@pytest.mark.parametrize("file", WRONG_RECORDINGS.values(), ids=WRONG_RECORDINGS)
def test_a_recording_that_is_none(client: TestClient, file: bytes) -> None:
    error = refused(client.post("/api/voices", content=file, headers=WAV))
    assert "/dev/stdin" not in error["message"]


def test_a_recording_of_another_model_or_too_many_bytes(client: TestClient) -> None:
    refused(client.post("/api/voices?model=nobody", content=wav(2), headers=WAV), 404)
    refused(client.post("/api/voices", content=bytes(Limits().upload_bytes + 1), headers=WAV), 413)


def test_decoding_that_takes_too_long_is_ended() -> None:
    with pytest.raises(AudioError, match="takes too long to decode"):
        asyncio.run(decode_reference(wav(2), 22050, Limits(decoding_seconds=0.0)))


RAW = {
    "no HTTP": b"hello\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
    "no Host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    "a stranger's Host": b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "a Host with a user": b"GET /healthz HTTP/1.1\r\nHost: localhost@evil.example\r\n\r\n",
    "negative length": b"POST /api/speak HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "a length that is none": b"POST /api/speak HTTP/1.1\r\nHost: a\r\nContent-Length: ten\r\n\r\n",
    "a length and chunks": b"POST /api/speak HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n",
    "a chunk that is none": b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a header of a megabyte": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 2**20 + b"\r\n\r\n",
    "ten gigabytes announced": b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 10000000000\r\n\r\n{",
    "a body that does not come": b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 10\r\n\r\n{",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a WebSocket": b"GET /api/speak HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
}


@pytest.mark.parametrize("sent", RAW.values(), ids=RAW)
def test_bytes_that_are_no_request(server: RunningServer, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        try:
            connection.sendall(sent)
            answer = connection.recv(65536)
        except ConnectionError:
            answer = b""  # cut off while it was still sending
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:100]
    assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_ten_megabytes_of_text(server: RunningServer) -> None:
    body = json.dumps({"text": "Hello. " * 1_500_000}).encode()
    try:
        answer = httpx.post(f"{server.url}/api/speak", content=body, headers=JSON, timeout=None)
        refused(answer, 413)
    except httpx.NetworkError:
        pass  # cut off while it was still sending
    assert httpx.get(f"{server.url}/healthz").status_code == 200


@pytest.mark.parametrize("after", ["connecting", "half a header", "half a body", "the request", "half of it, closed"])
def test_clients_that_leave(server: RunningServer, after: str) -> None:
    body = json.dumps({"text": "Hello. " * 500}).encode()
    head = b"POST /api/speak HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    sent = {"connecting": b"", "half a header": head[:40], "half a body": head + body[:10]}.get(after, head + body)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(sent)
        if after == "half of it, closed":
            connection.shutdown(socket.SHUT_WR)
            connection.recv(100)
    good = httpx.post(f"{server.url}/api/speak", json=GOOD_OWN, timeout=None)
    assert good.status_code == 200


TOKENS = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    "Basic 0123456789abcdef",
    "0123456789abcdef",
    "bearer 0123456789abcde",
]


@pytest.mark.parametrize("given", [*TOKENS, "Bearer 0123456789abcdef0", "Bearer \xff\xfe", "Bearer 0123456789ABCDEF"])
def test_a_wrong_token(given: str) -> None:
    with TestClient(create_app(tone_service(1), Access("0123456789abcdef")), base_url="http://localhost") as client:
        headers = {"authorization": given.encode("latin-1")}
        refused(client.post("/v1/audio/speech", content=json.dumps(GOOD), headers=JSON | headers), 401)  # type: ignore[arg-type]


def test_after_all_of_this_the_server_speaks(client: TestClient, server: RunningServer) -> None:
    assert client.post("/v1/audio/speech", json=GOOD).status_code == 200
    assert client.post("/api/speak", json=GOOD_OWN).text.splitlines()[-1].startswith('{"type": "done"')
    assert httpx.post(f"{server.url}/v1/audio/speech", json=GOOD).status_code == 200
    wait_until(lambda: server.service.queue.busy == server.service.queue.waiting == 0)
