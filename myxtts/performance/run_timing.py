"""The timing file of a training run, read while the run writes it."""

from __future__ import annotations

import json
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.performance.rank_times import RankTimes, mean_times
from myxtts.performance.stall import input_verdict

TIMING_FILE = "timing.jsonl"

# Seconds of steps that a reading covers: the trainer writes about once a second, and a step may take some.
DEFAULT_WINDOW_SECONDS = 10.0


@dataclass(frozen=True)
class RunReading:
    """The recent steps of a run, without those that were compiled.

    Attributes:
        batch: number of the last step.
        time: when it completed, in seconds since 1970.
        steps: how many there are; 0: the run has only compiled so far.
        stall_share: of step time, 0 to 1.
        step_ms: milliseconds per step, stalls included.
        clips_per_second: clips trained.
        ranks: the times of every process, if several train together.
    """

    batch: int
    time: float
    steps: int
    stall_share: float
    step_ms: float
    clips_per_second: float
    ranks: tuple[RankTimes, ...] = ()

    @property
    def verdict(self) -> str:
        return input_verdict(self.stall_share)

    def values(self) -> dict[str, float | None]:
        """All numbers by name, beside those of `sampling.MachineReading.values`."""
        return {
            "run_batch": self.batch,
            "run_stall_percent": 100 * self.stall_share if self.steps else None,
            "run_step_ms": self.step_ms if self.steps else None,
            "run_clips_per_s": self.clips_per_second if self.steps else None,
        }


NO_RUN_VALUES: dict[str, float | None] = dict.fromkeys(
    ("run_batch", "run_stall_percent", "run_step_ms", "run_clips_per_s")
)


class RunTiming:
    """Follows the timing file of a run: reads what was added, and a new file if a resumed run has replaced it.

    A reading covers the last `window` seconds.
    """

    def __init__(self, folder: str | Path, window: float = DEFAULT_WINDOW_SECONDS) -> None:
        self.path = Path(folder) / TIMING_FILE
        self._window = window
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._rest = b""
        self._recent: deque[dict[str, Any]] = deque()
        self._last: dict[str, Any] | None = None

    def read(self) -> RunReading | None:
        """The steps of the last seconds in the file; None before there is a step."""
        for line in self._new_lines():
            self._take(line)
        if self._last is None:
            return None
        steps = len(self._recent)
        milliseconds = sum(one["step_ms"] for one in self._recent)
        stall = sum(one["stall_ms"] for one in self._recent)
        clips = sum(one["clips"] for one in self._recent)
        return RunReading(
            batch=int(self._last["batch"]),
            time=float(self._last["time"]),
            steps=steps,
            stall_share=stall / milliseconds if milliseconds else 0.0,
            step_ms=milliseconds / steps if steps else 0.0,
            clips_per_second=1e3 * clips / milliseconds if milliseconds else 0.0,
            ranks=tuple(mean_times([one["ranks"] for one in self._recent if one["ranks"]])),
        )

    def _new_lines(self) -> list[bytes]:
        """Whole lines added since the last call; an unfinished last line waits for the next call."""
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                if (status.st_dev, status.st_ino) != self._file or status.st_size < self._offset:
                    self._file, self._offset, self._rest = (status.st_dev, status.st_ino), 0, b""
                    self._recent.clear()
                file.seek(self._offset)
                added = file.read()
        except OSError:  # not there yet, or not readable at the moment
            return []
        self._offset += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        return lines

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            whole = {name: record[name] for name in ("batch", "time", "step_ms", "stall_ms", "clips", "compiled")}
            whole["ranks"] = [RankTimes(**one) for one in record.get("ranks", ())]
        except (ValueError, KeyError, TypeError):
            return  # a run that was killed may have left half a line
        self._last = whole
        if not whole["compiled"]:
            self._recent.append(whole)
        while self._recent and self._recent[0]["time"] < whole["time"] - self._window:
            self._recent.popleft()
