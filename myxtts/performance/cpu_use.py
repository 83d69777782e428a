"""Whether the threads of this process get what they need to run: a CPU, and Python's interpreter lock.

The CPU is read from the kernel's counters. A thread that could run and does not is waiting in a run queue; Linux adds
that time up per thread, beside what others did on the same CPUs, what a hypervisor took, and how long a quota held
the cgroup back. Where the kernel does not say (not Linux), these values are 0.

The lock is measured by asking for it all the time. A thread sleeps a millisecond and looks how late it wakes up. To
run again it needs a CPU and the lock. Compared with how late it is while nothing else runs in Python, the rest is the
lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.hardware import CGROUP_ROOT, cgroup_folders, usable_cpu_numbers

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_NAP = 1e-3


@dataclass(frozen=True)
class CpuUse:
    """A period of time. All values are seconds, of all threads or CPUs together.

    Attributes:
        wall: its length.
        own: CPU time of this process, and of those that work for it.
        queued: time that threads of this process could have run and did not get a CPU.
        others: CPU time of all others on the CPUs that this process may use, other guests of its host included.
        throttled: time that the process's cgroup was held back by its quota.
        cpus: CPUs that the process may use.
        machine_cpus: CPUs that the machine has.
    """

    wall: float
    own: float = 0.0
    queued: float = 0.0
    others: float = 0.0
    throttled: float = 0.0
    cpus: int = 1
    machine_cpus: int = 1

    @property
    def denied_share(self) -> float:
        """Of the time in which this process wanted a CPU, the share it was kept from one by others, 0 to 1.

        Time in the queue is blamed on others only as far as they used the CPUs, so threads of this process that
        wait for each other do not count.
        """
        if self.own + self.queued <= 0 or self.wall <= 0:
            return 0.0
        by_others = self.others / (self.others + self.own) if self.others + self.own > 0 else 0.0
        queued = self.queued / (self.own + self.queued) * by_others
        throttled = min(1.0, self.throttled / self.wall)
        return 1 - (1 - queued) * (1 - throttled)

    def __str__(self) -> str:
        mine, theirs = self.own / self.wall, self.others / self.wall
        text = (
            f"of {self.cpus} CPU{'s' * (self.cpus != 1)} this process used {mine:.2f} and others {theirs:.2f}; "
            f"its threads could run but were queued for {self.queued / self.wall:.2f} s per second"
        )
        if self.throttled:
            text += (
                f"; its cgroup's quota held it back {100 * min(1.0, self.throttled / self.wall):.0f} % of the time"
            )
        if self.cpus < self.machine_cpus:
            text += f"; the machine has {self.machine_cpus} CPUs"
        return text


class CpuMeter:
    """Measures from `start` (or from its creation) to `read`.

    The thread with the number `without` does not count: it belongs to the measurement. `processes` are the ids of
    others that work for this one, such as a loader's workers, and count with it.
    """

    def __init__(self, without: int | None = None, processes: Sequence[int] = ()) -> None:
        self._without = str(without)
        self._processes = processes
        self.start()

    def start(self) -> None:
        """Starts again."""
        self._cpus = usable_cpu_numbers()
        self._wall = time.perf_counter()
        self._own = time.process_time()
        self._threads = self._read_threads()
        self._busy = _busy_seconds(self._cpus)
        self._throttled = _throttled_seconds()

    def read(self) -> CpuUse:
        """What has happened since `start`."""
        own = time.process_time() - self._own
        queued = 0.0
        for key, (worked, waited) in self._read_threads().items():
            worked_before, waited_before = self._threads.get(key, (0.0, 0.0))
            process, thread = key
            if process is not None:
                own += worked - worked_before
            if thread != self._without:
                queued += waited - waited_before
        busy = _busy_seconds(self._cpus) - self._busy
        return CpuUse(
            wall=max(time.perf_counter() - self._wall, 1e-9),
            own=own,
            queued=max(0.0, queued),
            others=max(0.0, busy - own),
            throttled=max(0.0, _throttled_seconds() - self._throttled),
            cpus=len(self._cpus),
            machine_cpus=os.cpu_count() or 1,
        )

    def _read_threads(self) -> dict[tuple[int | None, str], tuple[float, float]]:
        found: dict[tuple[int | None, str], tuple[float, float]] = {}
        for process in (None, *self._processes):
            of_process = thread_seconds(Path(f"/proc/{'self' if process is None else process}/task"))
            found |= {(process, thread): seconds for thread, seconds in of_process.items()}
        return found


def thread_seconds(folder: Path = Path("/proc/self/task")) -> dict[str, tuple[float, float]]:
    """Seconds on a CPU and in the run queue, of each thread that lives, by its number."""
    seconds = {}
    try:
        threads = os.listdir(folder)
    except OSError:
        return {}
    for thread in threads:
        try:
            fields = (folder / thread / "schedstat").read_text().split()
        except OSError:  # ended meanwhile
            continue
        if len(fields) >= 2:
            seconds[thread] = int(fields[0]) / 1e9, int(fields[1]) / 1e9
    return seconds


def _busy_seconds(cpus: frozenset[int], path: Path = Path("/proc/stat")) -> float:
    """Seconds that these CPUs have been busy, for any process."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0.0
    busy = 0
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _, _, irq, soft_irq, steal = (int(field) for field in fields[:8])
            busy += user + nice + system + irq + soft_irq + steal
    return busy / _TICK


def _throttled_seconds(root: Path = CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> float:
    """Seconds that a quota has held this process's cgroups back; the most of any of them."""
    most = 0.0
    for group in cgroup_folders(root, membership, "cpu"):
        try:
            lines = (group / "cpu.stat").read_text().splitlines()
        except OSError:
            continue
        values = dict(line.split(maxsplit=1) for line in lines if " " in line)
        if "throttled_usec" in values:  # version 2
            most = max(most, int(values["throttled_usec"]) / 1e6)
        elif "throttled_time" in values:  # version 1
            most = max(most, int(values["throttled_time"]) / 1e9)
    return most


class LockProbe:
    """Asks for the interpreter lock while its block runs.

    Example:
        >>> with LockProbe() as probe:
        ...     time.sleep(0.02)
        >>> probe.late < 1.0
        True

    Attributes:
        thread: the number of its thread, while the block runs.
        late: mean seconds that the thread woke up late, once the block is left.
    """

    def __init__(self) -> None:
        self.late = 0.0
        self.thread: int | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="lock-probe", daemon=True)

    def __enter__(self) -> LockProbe:
        self._thread.start()
        self.thread = self._thread.native_id
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        naps, began = 0, time.perf_counter()
        while not self._stop.is_set():
            time.sleep(_NAP)
            naps += 1
        self.late = max(0.0, (time.perf_counter() - began) / max(1, naps) - _NAP)


def held_share(late: float, late_otherwise: float) -> float:
    """The share of the time that the lock was held, 0 to 1, from the lateness with and without that load."""
    by_lock = max(0.0, late - late_otherwise)
    return by_lock / (by_lock + _NAP + late_otherwise)
