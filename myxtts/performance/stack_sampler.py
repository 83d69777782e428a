"""Where the threads of this process are, a thousand times a second.

A sample counts for the time since the one before: while a function keeps the interpreter lock, no sample can be
taken, and the next one, still in that function, counts for all of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType, FrameType
from typing import TypeVar

_INTERVAL = 1e-3
_MOST = 0.5
# Functions in these files wait for another thread or process.
_WAITING_FILES = ("threading.py", "queue.py", "selectors.py", "connection.py", "popen_fork.py")
_WAITING_FUNCTIONS = (("thread.py", "_worker"),)

Frame = TypeVar("Frame")
Stack = tuple[CodeType, ...]  # from the outermost function to the innermost


@dataclass(frozen=True)
class FunctionShare:
    """A function and the share of the time that is spent in it, or in what it calls, 0 to 1."""

    name: str
    share: float


class StackSampler:
    """Samples the stacks of all other threads while its block runs.

    Example:
        >>> with StackSampler() as sampler:
        ...     time.sleep(0.02)
        >>> threading.get_ident() in sampler.stacks()
        True
    """

    def __init__(self) -> None:
        # By the numbers of code objects: their own hash is computed from all that they consist of.
        self._seconds: dict[int, dict[tuple[int, ...], float]] = defaultdict(lambda: defaultdict(float))
        self._stacks: dict[tuple[int, ...], Stack] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="stack-sampler", daemon=True)

    def __enter__(self) -> StackSampler:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def stacks(self) -> dict[int, dict[Stack, float]]:
        """Of each thread by its identifier, the seconds that it was seen in each stack."""
        return {
            thread: {self._stacks[stack]: seconds for stack, seconds in seen.items()}
            for thread, seen in self._seconds.items()
        }

    def _sample(self) -> None:
        own, before = threading.get_ident(), time.perf_counter()
        seen: dict[int, tuple[int, int, int, tuple[int, ...]]] = {}
        while not self._stop.is_set():
            time.sleep(_INTERVAL)
            now = time.perf_counter()
            for thread, frame in sys._current_frames().items():
                if thread == own:
                    continue
                # A thread that is still where it was need not be followed to its outermost function again.
                where = (id(frame), id(frame.f_back), frame.f_lasti)
                if thread not in seen or seen[thread][:3] != where:
                    seen[thread] = (*where, self._stack_of(frame))
                self._seconds[thread][seen[thread][3]] += now - before
            before = now

    def _stack_of(self, innermost: FrameType) -> tuple[int, ...]:
        codes = []
        frame: FrameType | None = innermost
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        stack = tuple(map(id, codes))
        if stack not in self._stacks:
            self._stacks[stack] = tuple(reversed(codes))
        return stack


def busiest_thread(stacks: Mapping[int, Mapping[Stack, float]], otherwise: int) -> int:
    """The thread that is seen most outside of waiting for another one; `otherwise` if none is."""
    busy = {
        thread: sum(seconds for stack, seconds in seen.items() if not _waits_for_others(stack[-1]))
        for thread, seen in stacks.items()
    }
    most = max(busy, key=lambda thread: busy[thread], default=otherwise)
    return most if busy.get(most) else otherwise


def main_function(stacks: Mapping[Stack, float], below: Sequence[str] = ()) -> FunctionShare | None:
    """The innermost function in which at least half of the time is spent; None if there is none.

    Args:
        stacks: seconds by stack.
        below: files whose functions, and all that are called before them, do not count.
    """
    cut: dict[Stack, float] = defaultdict(float)
    for stack, seconds in stacks.items():
        inner = [place for place, code in enumerate(stack) if code.co_filename in below]
        cut[stack[inner[-1] + 1 :] if inner else stack] += seconds
    found = deepest_common(cut)
    return None if found is None else FunctionShare(_name(found[0]), found[1])


def deepest_common(stacks: Mapping[tuple[Frame, ...], float]) -> tuple[Frame, float] | None:
    """The innermost frame that at least half of all stacks have in common, and their share; None if there is none.

    Stacks are weighted, and go from the outermost frame to the innermost.
    """
    left, total, depth = dict(stacks), sum(stacks.values()), 0
    found: tuple[Frame, float] | None = None
    while total:
        called: dict[Frame, float] = defaultdict(float)
        for stack, weight in left.items():
            if len(stack) > depth:
                called[stack[depth]] += weight
        frame = max(called, key=lambda one: called[one], default=None)
        if frame is None or called[frame] < _MOST * total:
            break
        found = frame, called[frame] / total
        left = {stack: weight for stack, weight in left.items() if len(stack) > depth and stack[depth] == frame}
        depth += 1
    return found


def _waits_for_others(code: CodeType) -> bool:
    file = PurePath(code.co_filename).name
    return file in _WAITING_FILES or (file, code.co_name) in _WAITING_FUNCTIONS


def _name(code: CodeType) -> str:
    function = getattr(code, "co_qualname", code.co_name)
    return f"{function} ({PurePath(code.co_filename).name}:{code.co_firstlineno})"
