"""What NVIDIA's driver reports of its GPUs: load, memory, temperature, power, clocks, and who uses them.

Utilization means that some kernel ran in the last sixth of a second to second, not that the GPU was full. It does not
say whether the GPU waited for data; the stall does (`myxtts.performance.stall`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import psutil
import pynvml

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU. `name` is `?` and `memory_bytes` None where they are unknown."""

    pid: int
    name: str
    memory_bytes: int | None


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment. What this GPU or its driver does not report is None.

    Attributes:
        index: the driver's number.
        name: e.g. `NVIDIA GeForce RTX 4090`.
        utilization: 0 to 1.
        memory_used, memory_total: bytes.
        temperature: °C.
        power, power_limit: watts.
        sm_clock, memory_clock: MHz.
        processes: that compute on it.
    """

    index: int
    name: str
    utilization: float | None
    memory_used: int | None
    memory_total: int | None
    temperature: float | None
    power: float | None
    power_limit: float | None
    sm_clock: float | None
    memory_clock: float | None
    processes: tuple[GpuProcess, ...]

    @property
    def memory_share(self) -> float | None:
        if self.memory_used is None or not self.memory_total:
            return None
        return self.memory_used / self.memory_total

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


class GpuReader:
    """Reads all GPUs that the driver knows, with the functions of `pynvml`.

    Attributes:
        unavailable: why there is nothing to read, in NVML's words, or None.
    """

    def __init__(self, nvml: Any = pynvml) -> None:
        self._nvml = nvml
        self._handles: list[Any] = []
        self._initialised = False
        self.unavailable: str | None = None
        try:
            nvml.nvmlInit()
            self._initialised = True
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            if not self._handles:
                self.unavailable = "the driver knows none"
        except pynvml.NVMLError as error:
            self._handles = []
            self.unavailable = str(error)

    def read(self) -> tuple[GpuReading, ...]:
        """All GPUs now; empty if there are none."""
        return tuple(self._read_one(index, handle) for index, handle in enumerate(self._handles))

    def close(self) -> None:
        if self._initialised:
            self._initialised = False
            self._handles = []
            self._nvml.nvmlShutdown()

    def _read_one(self, index: int, handle: Any) -> GpuReading:
        nvml = self._nvml
        name = _ask(lambda: nvml.nvmlDeviceGetName(handle))
        rates = _ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = _ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        milliwatts = _ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        limit = _ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
        running = _ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
        return GpuReading(
            index=index,
            name=name.decode() if isinstance(name, bytes) else name or "unknown GPU",
            utilization=None if rates is None else rates.gpu / 100,
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            temperature=_ask(lambda: nvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
            power=None if milliwatts is None else milliwatts / 1e3,
            power_limit=None if limit is None else limit / 1e3,
            sm_clock=_ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            memory_clock=_ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            processes=tuple(GpuProcess(one.pid, _process_name(one.pid), one.usedGpuMemory) for one in running),
        )


def _ask(question: Callable[[], _Value]) -> _Value | None:
    """The answer; None from a GPU that does not support the question, or has disappeared."""
    try:
        return question()
    except pynvml.NVMLError:
        return None


def _process_name(pid: int) -> str:
    # The driver uses the host's process numbers; in a container there may be no such process, or no permission.
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "?"
