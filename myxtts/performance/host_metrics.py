"""What the machine is doing: CPUs, memory, disks, network.

A reading is the difference between the operating system's counters now and at the reading before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil


@dataclass(frozen=True)
class HostReading:
    """The whole machine since the reading before. What the system does not report is None.

    Attributes:
        cpu: share of the time of all CPUs that they were busy, 0 to 1.
        iowait: share in which a CPU had nothing to do but wait for a disk.
        steal: share in which the host gave this virtual machine's CPU to another.
        memory_used, memory_total: bytes; what can be freed at once, such as the page cache, does not count as used.
        disk_read, disk_write: bytes per second, all disks.
        network_received, network_sent: bytes per second, all interfaces.
    """

    cpu: float | None
    iowait: float | None
    steal: float | None
    memory_used: int
    memory_total: int
    disk_read: float | None
    disk_write: float | None
    network_received: float | None
    network_sent: float | None

    @property
    def memory_share(self) -> float:
        return self.memory_used / self.memory_total


class HostCounters(NamedTuple):
    """What the system has counted since it started. CPU times in seconds, the others in bytes."""

    time: float
    busy: float
    idle: float
    iowait: float
    steal: float
    disk_read: int | None
    disk_write: int | None
    network_received: int | None
    network_sent: int | None

    @classmethod
    def now(cls) -> HostCounters:
        cpu = psutil.cpu_times()
        iowait, steal = getattr(cpu, "iowait", 0.0), getattr(cpu, "steal", 0.0)
        # A guest's time is counted in the user's as well.
        guest = getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0)
        disk, network = _counters(psutil.disk_io_counters), _counters(psutil.net_io_counters)
        return cls(
            time=time.perf_counter(),
            busy=sum(cpu) - guest - cpu.idle - iowait - steal,
            idle=cpu.idle,
            iowait=iowait,
            steal=steal,
            disk_read=None if disk is None else disk.read_bytes,
            disk_write=None if disk is None else disk.write_bytes,
            network_received=None if network is None else network.bytes_recv,
            network_sent=None if network is None else network.bytes_sent,
        )


class HostReader:
    """Reads the machine; the first reading covers the time since the reader was made."""

    def __init__(self) -> None:
        self._before = HostCounters.now()

    def read(self) -> HostReading:
        now = HostCounters.now()
        memory = psutil.virtual_memory()
        before, self._before = self._before, now
        return host_reading(before, now, memory.total - memory.available, memory.total)


def _counters(ask: Callable[[], Any]) -> Any:
    """What the system has counted; None in a container that does not show it."""
    try:
        return ask()
    except (OSError, NotImplementedError, RuntimeError):
        return None


def host_reading(before: HostCounters, now: HostCounters, memory_used: int, memory_total: int) -> HostReading:
    """What two readings of the counters say of the time between them."""
    passed = (now.busy - before.busy) + (now.idle - before.idle)
    passed += (now.iowait - before.iowait) + (now.steal - before.steal)
    seconds = now.time - before.time

    def share(one: float, other: float) -> float | None:
        # The kernel corrects its count of idle time, also downwards.
        return min(1.0, max(0.0, (other - one) / passed)) if passed > 0 else None

    def rate(one: int | None, other: int | None) -> float | None:
        return max(0, other - one) / seconds if one is not None and other is not None and seconds > 0 else None

    return HostReading(
        cpu=share(before.busy, now.busy),
        iowait=share(before.iowait, now.iowait),
        steal=share(before.steal, now.steal),
        memory_used=memory_used,
        memory_total=memory_total,
        disk_read=rate(before.disk_read, now.disk_read),
        disk_write=rate(before.disk_write, now.disk_write),
        network_received=rate(before.network_received, now.network_received),
        network_sent=rate(before.network_sent, now.network_sent),
    )
