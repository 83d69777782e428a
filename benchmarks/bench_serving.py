"""The server under load: time to the first sound, clients at once, memory over many requests; beside it its peers.

    .venv/bin/python benchmarks/bench_serving.py [--size tiny] [--requests 1000] [--workers 2] [--bundle FOLDER]

The voice is untrained and speaks with the shipped vocoder: the result is noise, but computed as speech would be. It
is exported to a bundle, and served by `myxtts serve` in a process of its own; the checkpoint that it comes from is
served by TensorFlow, for comparison. Clients are threads of this program, on the same cores. Latencies are of a warm
server; `first` is the time from sending a request to the first byte of its audio (mp3).

Must show: the first byte within 150 ms for ten words and for 120; no request lost; memory flat.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import psutil
from common import describe_machine, parser, print_table, write_json

TEXT = "the quick brown fox jumps over the lazy dog and then sleeps under an old tree by the river"
SENTENCE = 12
# Untrained durations are 4.5 frames per token; at this speed they are like those of real speech.
SPEED = 1.5
FIRST_BYTE_BOUND = 0.150
# What memory may differ by from one look to the next.
FLAT_BYTES = 30e6
PIPER = "import piper.http_server, time; print('ready', flush=True); time.sleep(600)"


def text_of(words: int) -> str:
    """So many words, in sentences of a dozen."""
    chosen = list(itertools.islice(itertools.cycle(TEXT.split()), words))
    ends = {number for number in range(words) if number % SENTENCE == SENTENCE - 1 or number == words - 1}
    return " ".join(word + ("." if number in ends else "") for number, word in enumerate(chosen))


class ServedProcess:
    """`myxtts serve` in a process of its own.

    Attributes:
        start_seconds: from the start of the process until it takes requests.
    """

    def __init__(self, arguments: Sequence[object]) -> None:
        begun = time.perf_counter()
        command = [sys.executable, "-m", "myxtts", "serve", *map(str, arguments), "--port", "0"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("serving"):
                break
        else:
            raise SystemExit(f"{' '.join(command)}: did not start")
        self.start_seconds = time.perf_counter() - begun
        self.port = int(line.rsplit(":", 1)[1])
        # Its log is read, so that the pipe never fills.
        threading.Thread(target=self._process.stderr.read, daemon=True).start()

    def __enter__(self) -> ServedProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def resident_bytes(self) -> int:
        return psutil.Process(self._process.pid).memory_info().rss


@dataclass(frozen=True)
class Answer:
    """How one request went.

    Attributes:
        first: seconds to the first byte of the audio.
        whole: seconds to the last one.
        bytes: of the audio; 0: the request was lost.
    """

    first: float
    whole: float
    bytes: int


def ask(served: ServedProcess, text: str, audio: str = "mp3") -> Answer:
    """Asks for a text as OpenAI's clients do."""
    body = {"model": "tts-1", "voice": "default", "input": text, "response_format": audio, "speed": SPEED}
    begun = time.perf_counter()
    try:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", served.port)) as connection:
            connection.request("POST", "/v1/audio/speech", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            got = len(response.read(1))
            first = time.perf_counter() - begun
            got += len(response.read())
            return Answer(first, time.perf_counter() - begun, got if response.status == 200 else 0)
    except (OSError, http.client.HTTPException):
        return Answer(0.0, 0.0, 0)


@dataclass(frozen=True)
class LoadResult:
    """Many requests by several clients.

    Attributes:
        answers: of those that were answered.
        lost: how many were not, or not with all of the audio.
        seconds: that it took.
    """

    answers: list[Answer]
    lost: int
    seconds: float

    def quantile(self, share: float) -> float:
        """Seconds to the last byte that this share of requests did not exceed."""
        times = sorted(answer.whole for answer in self.answers)
        return times[min(len(times) - 1, int(share * len(times)))]


def load(
    served: ServedProcess, clients: int, requests: int | None = None, seconds: float | None = None
) -> LoadResult:
    """Clients that ask one request after the other, so many in all or for so long."""
    text = text_of(15)
    expected = ask(served, text).bytes
    answers: list[Answer] = []
    end = None if seconds is None else time.monotonic() + seconds
    numbers = iter(range(requests or sys.maxsize))
    lock = threading.Lock()

    def client() -> None:
        while end is None or time.monotonic() < end:
            with lock:
                if next(numbers, None) is None:
                    return
            answer = ask(served, text)
            with lock:
                answers.append(answer)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = [answer for answer in answers if answer.bytes == expected]
    return LoadResult(whole, len(answers) - len(whole), time.perf_counter() - begun)


def first_byte(served: ServedProcess, words: int, repeat: int) -> tuple[float, float]:
    """Median seconds to the first byte, and how many times faster than speech the whole is."""
    text = text_of(words)
    ask(served, text)
    first = statistics.median(ask(served, text).first for _ in range(repeat))
    whole = [ask(served, text, "pcm") for _ in range(max(1, repeat // 3))]
    spoken = whole[0].bytes / 2 / 24000
    return first, spoken / statistics.median(answer.whole for answer in whole)


@contextlib.contextmanager
def voices(size: str, given: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """A bundle, and the checkpoint that it was made of."""
    if given is not None:
        yield given, None
        return
    from myxtts.config.config import XTTSConfig
    from myxtts.models.checkpoint import save_checkpoint
    from myxtts.models.create import create_model

    with tempfile.TemporaryDirectory() as folder:
        checkpoint, bundle = Path(folder) / "checkpoint-voice", Path(folder) / "bundle-voice"
        config = XTTSConfig(size=size)
        save_checkpoint(checkpoint, create_model(config), config)
        command = [sys.executable, "-m", "myxtts", "export", "--checkpoint", checkpoint, "--output", bundle, "-q"]
        subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
        yield bundle, checkpoint


def measure(name: str, arguments: Sequence[object], repeat: int) -> dict[str, Any]:
    """Start, memory, first byte and speed of one way to serve."""
    with ServedProcess(arguments) as served:
        started = served.resident_bytes()
        ten, speed_of_ten = first_byte(served, 10, repeat)
        many, speed_of_many = first_byte(served, 120, repeat)
        return {
            "name": name,
            "start_seconds": served.start_seconds,
            "resident_bytes": served.resident_bytes(),
            "resident_at_start": started,
            "first_byte_10": ten,
            "first_byte_120": many,
            "real_time_10": speed_of_ten,
            "real_time_120": speed_of_many,
        }


def piper() -> dict[str, Any] | None:
    """Start and memory of piper's server, which would then load a voice; there is none here."""
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", PIPER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                return None
            taken = time.perf_counter() - begun
            memory = psutil.Process(process.pid).memory_info().rss
            return {"name": "piper, without a voice", "start_seconds": taken, "resident_bytes": memory}
        finally:
            process.kill()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", default="tiny", choices=("tiny", "base"))
    options.add_argument("--bundle", type=Path, help="serve this one, and no checkpoint")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="to compare")
    options.add_argument("--requests", type=int, default=1000, help="over which memory is watched")
    options.add_argument("--per-client", type=int, default=20, help="requests of each client")
    options.add_argument("--repeat", type=int, default=15)
    given = options.parse_args()

    with voices(given.size, given.bundle) as (bundle, checkpoint):
        ways = [measure("bundle (ONNX Runtime)", [bundle], given.repeat)]
        if checkpoint is not None:
            ways.append(measure("checkpoint (TensorFlow)", [checkpoint], given.repeat))
        peer = piper()
        loads: list[dict[str, Any]] = []
        for workers in given.workers:
            with ServedProcess([bundle, "--workers", workers, "--queue", 100]) as served:
                load(served, 1, requests=5)
                loads += [
                    _load_row(workers, clients, load(served, clients, requests=clients * given.per_client))
                    for clients in (1, 4, 16)
                ]
        with ServedProcess([bundle, "--queue", 100]) as served:
            load(served, 4, requests=given.requests // 10)
            before = served.resident_bytes()
            watched = load(served, 4, requests=given.requests)
            after = served.resident_bytes()

    print(describe_machine())
    _print_ways(ways, peer)
    _print_loads(loads)
    lost = watched.lost + sum(row["lost"] for row in loads)
    bounds = [
        ("first byte of ten words within 150 ms", ways[0]["first_byte_10"] <= FIRST_BYTE_BOUND),
        ("first byte of 120 words within 150 ms", ways[0]["first_byte_120"] <= FIRST_BYTE_BOUND),
        ("no request lost", lost == 0),
        (f"memory flat over {given.requests:,} requests", after - before <= FLAT_BYTES),
    ]
    print(f"memory: {before / 1e6:.0f} MB, after {given.requests:,} more requests {after / 1e6:.0f} MB")
    for what, met in bounds:
        print(f"must show: {what}: {'yes' if met else 'NO'}")
    results = {"ways": ways, "piper": peer, "loads": loads, "resident_before": before, "resident_after": after}
    write_json(given.json, {"size": given.size, **results, "bounds": dict(bounds)})


def _load_row(workers: int, clients: int, result: LoadResult) -> dict[str, Any]:
    return {
        "workers": workers,
        "clients": clients,
        "requests_per_second": len(result.answers) / result.seconds,
        "first_p50": statistics.median(answer.first for answer in result.answers),
        "p50": result.quantile(0.5),
        "p99": result.quantile(0.99),
        "lost": result.lost,
    }


def _print_ways(ways: list[dict[str, Any]], peer: dict[str, Any] | None) -> None:
    base = ways[0]
    rows = []
    for way in ways:
        first = [f"{1000 * way[key]:.0f}" for key in ("first_byte_10", "first_byte_120")]
        speed = [f"{way[key]:.1f}" for key in ("real_time_10", "real_time_120")]
        ratio = f"{way['first_byte_10'] / base['first_byte_10']:.2f}"
        memory = f"{way['resident_bytes'] / 1e6:.0f}"
        rows.append([way["name"], f"{way['start_seconds']:.1f}", memory, *first, ratio, *speed])
    if peer is not None:
        memory = f"{peer['resident_bytes'] / 1e6:.0f}"
        rows.append([peer["name"], f"{peer['start_seconds']:.1f}", memory, "", "", "", "", ""])
    else:
        rows.append(["piper", "not installed", "", "", "", "", "", ""])
    columns = ["served", "start s", "MB", "first ms, 10 words", "120 words", "ratio", "× real time, 10", "120"]
    print_table("One client", columns, rows)


def _print_loads(loads: list[dict[str, Any]]) -> None:
    rows = [
        [
            f"{row['workers']} workers, {row['clients']} clients",
            f"{row['requests_per_second']:.1f}",
            f"{row['requests_per_second'] / loads[0]['requests_per_second']:.2f}",
            f"{1000 * row['first_p50']:.0f}",
            f"{1000 * row['p50']:.0f}",
            f"{1000 * row['p99']:.0f}",
            str(row["lost"]),
        ]
        for row in loads
    ]
    columns = ["", "requests/s", "ratio", "first ms, p50", "whole ms, p50", "p99", "lost"]
    print_table("Clients at once, 15 words each, mp3", columns, rows)


if __name__ == "__main__":
    main()
