"""Readings of the machine at set intervals, each as named numbers, and a thread that takes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from myxtts.performance.gpu_metrics import GpuReader, GpuReading
from myxtts.performance.host_metrics import HostReader, HostReading
from myxtts.performance.statistics import DEFAULT_WINDOW, RunningStatistics, Summary

logger = logging.getLogger(__name__)

GIB = 1 << 30
DEFAULT_INTERVAL = 1.0
SHORTEST_INTERVAL = 0.05


@dataclass(frozen=True)
class MachineReading:
    """The machine and its GPUs at one moment.

    Attributes:
        time: seconds since 1970.
        host: since the reading before.
        gpus: now.
    """

    time: float
    host: HostReading
    gpus: tuple[GpuReading, ...]

    def values(self) -> dict[str, float | None]:
        """All numbers by name, with the unit at the end of the name; None where the machine does not report one."""
        host = self.host
        values: dict[str, float | None] = {
            "cpu_percent": _percent(host.cpu),
            "iowait_percent": _percent(host.iowait),
            "steal_percent": _percent(host.steal),
            "memory_percent": _percent(host.memory_share),
            "memory_used_gib": host.memory_used / GIB,
            "disk_read_mb_s": _millions(host.disk_read),
            "disk_write_mb_s": _millions(host.disk_write),
            "network_received_mb_s": _millions(host.network_received),
            "network_sent_mb_s": _millions(host.network_sent),
        }
        for gpu in self.gpus:
            values |= {
                f"gpu{gpu.index}_utilization_percent": _percent(gpu.utilization),
                f"gpu{gpu.index}_memory_percent": _percent(gpu.memory_share),
                f"gpu{gpu.index}_memory_used_gib": None if gpu.memory_used is None else gpu.memory_used / GIB,
                f"gpu{gpu.index}_temperature_c": gpu.temperature,
                f"gpu{gpu.index}_power_w": gpu.power,
                f"gpu{gpu.index}_sm_clock_mhz": gpu.sm_clock,
                f"gpu{gpu.index}_memory_clock_mhz": gpu.memory_clock,
            }
        return values


class MachineReader:
    """Takes readings of the machine and of its GPUs, if there are any.

    Attributes:
        gpu_unavailable: why there is no GPU to read, or None.
    """

    def __init__(self, gpus: GpuReader | None = None) -> None:
        self._host = HostReader()
        self._gpus = gpus if gpus is not None else GpuReader()
        self.gpu_unavailable = self._gpus.unavailable

    def read(self) -> MachineReading:
        return MachineReading(time.time(), self._host.read(), self._gpus.read())

    def close(self) -> None:
        self._gpus.close()


class NumberStatistics:
    """Statistics of named numbers, in bounded memory. Safe to use from several threads."""

    def __init__(self, window: int = DEFAULT_WINDOW) -> None:
        self._window = window
        self._lock = threading.Lock()
        self._numbers: dict[str, RunningStatistics] = {}

    def add(self, values: Mapping[str, float | None]) -> None:
        """Adds numbers; None is not counted."""
        with self._lock:
            for name, value in values.items():
                if value is not None:
                    self._numbers.setdefault(name, RunningStatistics(self._window)).add(value)

    def summary(self) -> dict[str, Summary]:
        """By name, in the order in which the names first came."""
        with self._lock:
            return {name: numbers.summary() for name, numbers in self._numbers.items()}


class MachineSampler:
    """A thread that reads the machine until it is stopped.

    Args:
        interval: seconds between readings.
        reader: of the machine; closed when sampling stops.

    Attributes:
        latest: the last reading, or None before the first.
    """

    def __init__(self, interval: float = DEFAULT_INTERVAL, reader: MachineReader | None = None) -> None:
        if not interval >= SHORTEST_INTERVAL:
            raise ValueError(f"interval is {interval}; it must be at least {SHORTEST_INTERVAL} seconds")
        self._interval = interval
        self._reader = reader if reader is not None else MachineReader()
        self._statistics = NumberStatistics()
        self.latest: MachineReading | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="performance-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Its statistics stay."""
        self._stop.set()
        self._thread.join()

    def reset(self) -> None:
        """Clears the statistics."""
        self._statistics = NumberStatistics()

    def summary(self) -> dict[str, Summary]:
        """Statistics of `MachineReading.values` so far."""
        return self._statistics.summary()

    def _sample(self) -> None:
        try:
            while not self._stop.wait(self._interval):
                self.latest = self._reader.read()
                self._statistics.add(self.latest.values())
        except Exception as error:
            # An error of the measurement must not end what it measures.
            logger.warning("the machine is no longer sampled: %s: %s", type(error).__name__, error)
        finally:
            self._reader.close()


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _millions(count: float | None) -> float | None:
    return None if count is None else count / 1e6
