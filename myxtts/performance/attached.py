"""What a process that trains does, seen from outside: its stacks and those of its workers, and the kernel's counters.

py-spy reads the stacks without stopping the process and without changing it. That tells how often the training thread
is in its loader, in which function, and what the workers do meanwhile. It does not tell what `diagnose` measures by
running steps itself: whether a GPU still had work while the host waited, and what another setting is worth.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from myxtts.errors import MyXTTSError, UsageError
from myxtts.performance.cpu_use import thread_seconds
from myxtts.performance.culprits import CULPRITS
from myxtts.performance.diagnosis import NONE
from myxtts.performance.facts import MOSTLY
from myxtts.performance.gpu_metrics import GpuReader
from myxtts.performance.stack_sampler import deepest_common
from myxtts.performance.stall import MODERATELY_INPUT_BOUND, input_verdict

_RATE = 100
_LOOK_SECONDS = 2
_BUSY = 0.7

# Where a training loop asks for its next batch, by function and file.
_LOADER_CALLS = (
    ("__next__", "torch/utils/data/dataloader.py"),
    ("__iter__", "torch/utils/data/dataloader.py"),
    ("__next__", "tensorflow/python/data/ops/iterator_ops.py"),
    ("__next__", "grain/_src/python/data_loader.py"),
    ("__next__", "grain/_src/python/dataset/dataset.py"),
)
_WORKER = "_worker_loop"
_FETCH = "Fetcher.fetch (torch/utils/data/_utils/fetch.py"
_COLLATE = re.compile(r"collate", re.IGNORECASE)
_PROCESS = re.compile(r'(?:^|;)process (\d+):"')
_STACK = re.compile(r"(?:^|;)thread \((\w+)\)(?:: [^;]*?)?((?:;.*)?) (\d+)$")
_LINE = re.compile(r":\d+\)$")


class AttachError(MyXTTSError):
    """A process cannot be observed."""


@dataclass(frozen=True)
class SampledStack:
    """Stacks of one thread that were alike.

    Attributes:
        process: its id.
        thread: its number.
        frames: `function (file:line)`, from the outermost to the innermost.
        count: how often it was seen.
    """

    process: int
    thread: str
    frames: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class WorkerUse:
    """What a loader's worker did. Shares are of the time that it was observed, 0 to 1.

    Attributes:
        process: its id.
        busy: making batches; otherwise it waits to be asked for one, or for its batch to be taken.
        computing: on a CPU.
        function: in which it spends most of the time that it is busy; empty if it never is.
    """

    process: int
    busy: float
    computing: float
    function: str


@dataclass(frozen=True)
class ProcessFindings:
    """What was seen of a process that trains.

    Attributes:
        process: its id.
        samples: of its training thread.
        waiting: share of them in which it waits for its loader, 0 to 1.
        loop: the line that asks for batches.
        function: in which it waits.
        workers: of its loader.
        gpu: mean utilization of the GPUs, 0 to 1; None without any.
    """

    process: int
    samples: int
    waiting: float
    loop: str
    function: str
    workers: tuple[WorkerUse, ...] = ()
    gpu: float | None = None

    @property
    def verdict(self) -> str:
        return input_verdict(self.waiting)

    @property
    def culprit(self) -> str:
        """The name in `culprits` that fits what was seen; nothing was tried, so it is a suspicion."""
        if self.waiting < MODERATELY_INPUT_BOUND:
            return NONE
        if not self.workers:
            return "too-few-workers"
        busy = sum(worker.busy for worker in self.workers) / len(self.workers)
        if busy < _BUSY:
            return "hand-over"
        computing = sum(worker.computing for worker in self.workers) / len(self.workers)
        if computing < MOSTLY * busy:
            return "too-few-workers"
        collating = sum(bool(_COLLATE.search(worker.function)) for worker in self.workers)
        return "slow-collate" if collating > len(self.workers) / 2 else "per-clip-work"

    def __str__(self) -> str:
        rows = [
            ("VERDICT", f"{self.verdict}: {100 * self.waiting:.1f} % of the time the training thread waits for data")
        ]
        rows.append(("SEEN", f"{self.samples:,} stacks of process {self.process}"))
        if self.loop:
            rows.append(("LOOP", f"asks for batches in {self.loop}, and waits in {self.function}"))
        for worker in self.workers:
            doing = f"{100 * worker.busy:.0f} % busy, {100 * worker.computing:.0f} % computing"
            rows.append(
                ("WORKER", f"{worker.process}: {doing}{', in ' + worker.function if worker.function else ''}")
            )
        if self.gpu is not None:
            rows.append(("GPU", f"{100 * self.gpu:.0f} % utilization, which says that some kernel ran"))
        rows.append(("SUSPECT", f"{self.culprit}, not tried" if self.culprit != NONE else NONE))
        if self.culprit != NONE:
            fix = CULPRITS[self.culprit]
            rows += [("FIX", fix.remedy), *(("", line) for line in fix.iterable)]
            rows.append(("NEXT", "diagnose(loader, step) in the script measures what a change is worth"))
        return "\n".join(f"{name:<10}{text}" for name, text in rows)


def observe(process: int, seconds: float, report: Callable[[str], None] = lambda what: None) -> ProcessFindings:
    """Observes a process that trains, and its workers.

    Args:
        process: its id, or that of a program that started it.
        seconds: to observe it.
        report: called with what is being done.

    Raises:
        UsageError: py-spy is not installed.
        AttachError: the process cannot be read, has ended, or asks no loader for batches.
    """
    report(f"observing process {process}")
    before: dict[int, float] = {}
    began, readings, gpus = time.perf_counter(), list[float](), GpuReader()

    def look() -> None:
        if not before:
            before.update(_cpu_seconds([process, *_descendants(process)]))
        readings.extend(one.utilization for one in gpus.read() if one.utilization is not None)

    try:
        stacks = record_stacks(process, seconds, meanwhile=look)
    finally:
        gpus.close()
    lasted = time.perf_counter() - began
    after = _cpu_seconds(before)
    computing = {one: min(1.0, (after.get(one, then) - then) / lasted) for one, then in before.items()}
    return judge_stacks(stacks, process, computing, sum(readings) / len(readings) if readings else None)


def observe_program(
    program: Sequence[str], seconds: float, report: Callable[[str], None] = lambda what: None
) -> ProcessFindings:
    """Starts a program, observes it once it asks a loader for batches, and ends it.

    Raises:
        UsageError: py-spy is not installed, or the program cannot be started.
        AttachError: it cannot be read, or has ended before that.
    """
    _find_py_spy()
    try:
        child = subprocess.Popen(program)
    except OSError as error:
        raise UsageError(f"{program[0]}: cannot be started ({error.strerror})") from None
    try:
        report("waiting for the program to ask its loader for batches")
        while not any(_loader_call(stack.frames) is not None for stack in _record_quietly(child)):
            if child.poll() is not None:
                ended = f"ended with code {child.returncode} before it asked a loader for batches"
                raise AttachError(f"{' '.join(program)}: {ended}; PyTorch's, tf.data's and Grain's are known")
        return observe(child.pid, seconds, report)
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _record_quietly(child: subprocess.Popen[bytes]) -> list[SampledStack]:
    """Stacks of a program that may not have begun to run Python yet, or has just ended."""
    try:
        return record_stacks(child.pid, _LOOK_SECONDS)
    except AttachError:
        if child.poll() is None:
            time.sleep(0.5)
        return []


def record_stacks(process: int, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> list[SampledStack]:
    """The stacks of a process and of those that it started, idle ones included.

    Raises:
        UsageError: py-spy is not installed.
        AttachError: it could not read the process.
    """
    if not psutil.pid_exists(process):
        raise AttachError(f"process {process}: there is no such process")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "stacks.txt"
        command = [
            _find_py_spy(), "record", "--pid", str(process), "--duration", str(max(1, round(seconds))),
            "--rate", str(_RATE), "--format", "raw", "--idle", "--threads", "--subprocesses", "--nonblocking",
            "--output", str(raw),
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as spy:
            while spy.poll() is None:
                meanwhile()
                time.sleep(0.5)
            said = spy.stderr.read() if spy.stderr is not None else ""
        if spy.returncode or not raw.exists():
            raise AttachError(f"process {process}: cannot be observed ({_reason(said)})")
        return parse_stacks(raw.read_text(encoding="utf-8").splitlines(), process)


def parse_stacks(lines: Iterable[str], process: int) -> list[SampledStack]:
    """The stacks of py-spy's raw format: processes, a thread, frames and a count. `process` is the outermost one.

    A process is written with its command line, which may have any character in it, new lines as well.
    """
    stacks, before = [], ""
    for line in lines:
        found = _STACK.search(line)
        if found is None:
            before += line + "\n"
            continue
        owners = _PROCESS.findall(before + line[: found.start()])
        thread, frames, count = found.groups()
        owner = int(owners[-1]) if owners else process
        stacks.append(SampledStack(owner, thread, tuple(frames.split(";")[1:]), int(count)))
        before = ""
    return stacks


def judge_stacks(
    stacks: Sequence[SampledStack], process: int, computing: Mapping[int, float], gpu: float | None = None
) -> ProcessFindings:
    """Draws the conclusions from stacks, and from each process's share of the time on a CPU.

    Raises:
        AttachError: no thread was seen asking a loader for batches.
    """
    of_workers = [stack for stack in stacks if any(_function(frame) == _WORKER for frame in stack.frames)]
    worker_ids = {stack.process for stack in of_workers}
    waits: dict[tuple[int, str], int] = defaultdict(int)
    for stack in stacks:
        if stack.process not in worker_ids and _loader_call(stack.frames) is not None:
            waits[stack.process, stack.thread] += stack.count
    if not waits:
        advice = "it may not be training yet, or use a loader that is not known; diagnose(loader, step) judges any"
        raise AttachError(f"process {process}: no thread was seen asking a loader for batches; {advice}")
    trainer, thread = max(waits, key=lambda one: waits[one])
    own = [stack for stack in stacks if (stack.process, stack.thread) == (trainer, thread)]
    samples = sum(stack.count for stack in own)
    asking = {stack.frames: stack.count for stack in own if _loader_call(stack.frames) is not None}
    loop: dict[str, int] = defaultdict(int)
    inside: dict[tuple[str, ...], float] = defaultdict(float)
    for frames, count in asking.items():
        at = _loader_call(frames)
        assert at is not None
        loop[frames[at - 1] if at else ""] += count
        inside[tuple(map(_without_line, frames[at:]))] += count
    found = deepest_common(inside)
    return ProcessFindings(
        process=trainer,
        samples=samples,
        waiting=waits[trainer, thread] / samples,
        loop=max(loop, key=lambda one: loop[one]),
        function=found[0] if found else "",
        workers=tuple(_worker_use(one, of_workers, computing.get(one, 0.0)) for one in sorted(worker_ids)),
        gpu=gpu,
    )


def _worker_use(process: int, stacks: Iterable[SampledStack], computing: float) -> WorkerUse:
    total, busy, inside = 0, 0, defaultdict[tuple[str, ...], float](float)
    for stack in stacks:
        if stack.process != process:
            continue
        total += stack.count
        fetches = [place for place, frame in enumerate(stack.frames) if _FETCH in frame]
        if fetches:
            busy += stack.count
            inside[tuple(map(_without_line, stack.frames[fetches[0] :]))] += stack.count
    found = deepest_common(inside)
    return WorkerUse(process, busy / total if total else 0.0, computing, found[0] if found else "")


def _loader_call(frames: Sequence[str]) -> int | None:
    """The place of the first frame that asks a loader for a batch."""
    for place, frame in enumerate(frames):
        name = _function(frame)
        if any(name.endswith(function) and f"({file}" in frame for function, file in _LOADER_CALLS):
            return place
    return None


def _function(frame: str) -> str:
    return frame.partition(" (")[0]


def _without_line(frame: str) -> str:
    return _LINE.sub(")", frame)


def _find_py_spy() -> str:
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise UsageError("observing a process needs py-spy: pip install 'myxtts[attach]'")
    return found


def _reason(said: str) -> str:
    """What py-spy said, in one line."""
    text = said.lower()
    if "permission denied" in text or "not permitted" in text:
        return "the system refuses it: run as the same user or as root, or let 'myxtts diagnose -- PROGRAM' start it"
    if "no python processes" in text or "find python version" in text:
        return "it does not run Python, or the system hides it from other users"
    return next(
        (line.removeprefix("Error: ") for line in said.splitlines() if line.startswith("Error")), "py-spy failed"
    )


def _descendants(process: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    except psutil.Error:
        return []


def _cpu_seconds(processes: Iterable[int]) -> dict[int, float]:
    """Seconds on a CPU of all threads of each process."""
    return {one: sum(worked for worked, _ in thread_seconds(Path(f"/proc/{one}/task")).values()) for one in processes}
