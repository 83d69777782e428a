"""Figures of a running server, in Prometheus' text format."""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from collections.abc import Iterator, Mapping

import psutil

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """What has happened since the start. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answered: Counter[tuple[str, int]] = Counter()
        self._characters = 0
        self._speech_seconds = 0.0
        self._first_piece_seconds = 0.0
        self._first_piece = [0] * (len(_BUCKETS) + 1)
        self._process = psutil.Process()

    def answered(self, route: str, status: int) -> None:
        """A request got its answer, or its connection ended; `status` is 499 if the client left before the end."""
        with self._lock:
            self._answered[route, status] += 1

    def spoken(self, characters: int, seconds: float, first_piece: float | None) -> None:
        """A text was spoken, so many seconds long; its first sound was ready so long after the request."""
        with self._lock:
            self._characters += characters
            self._speech_seconds += seconds
            if first_piece is not None:
                self._first_piece[bisect.bisect_left(_BUCKETS, first_piece)] += 1
                self._first_piece_seconds += first_piece

    def text(self, now: Mapping[str, tuple[str, float]]) -> str:
        """All figures.

        Args:
            now: by name, what the figures mean that are as they are at this moment, and their values.
        """
        with self._lock:
            return "\n".join([*self._lines(), *self._gauges(now), ""])

    def _lines(self) -> Iterator[str]:
        yield from _head("requests_total", "counter", "Requests that were answered; 499: the client left.")
        for (route, status), count in sorted(self._answered.items()):
            yield f'myxtts_requests_total{{route="{route}",status="{status}"}} {count}'
        yield from _head("characters_total", "counter", "Characters of the texts that were spoken.")
        yield f"myxtts_characters_total {self._characters}"
        yield from _head("speech_seconds_total", "counter", "Seconds of speech.")
        yield f"myxtts_speech_seconds_total {self._speech_seconds:.3f}"
        yield from _head("first_piece_seconds", "histogram", "From a request to its first sound.")
        count = 0
        for bound, number in zip((*map(str, _BUCKETS), "+Inf"), self._first_piece, strict=True):
            count += number
            yield f'myxtts_first_piece_seconds_bucket{{le="{bound}"}} {count}'
        yield f"myxtts_first_piece_seconds_sum {self._first_piece_seconds:.3f}"
        yield f"myxtts_first_piece_seconds_count {count}"

    def _gauges(self, now: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        for name, (meaning, value) in now.items():
            yield from _head(name, "gauge", meaning)
            yield f"myxtts_{name} {value:g}"
        yield "# TYPE process_resident_memory_bytes gauge"
        yield f"process_resident_memory_bytes {self._process.memory_info().rss}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP myxtts_{name} {meaning}"
    yield f"# TYPE myxtts_{name} {kind}"
