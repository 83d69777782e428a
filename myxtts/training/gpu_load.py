"""How busy the GPU is and how much of its memory is in use, as its driver says."""

from __future__ import annotations

from dataclasses import dataclass

import pynvml


@dataclass(frozen=True)
class GpuLoad:
    """One reading. `utilization` says that some kernel ran of late, not that the GPU was full: that is the stall's
    business."""

    utilization: float  # 0 to 1
    memory_used: int  # bytes
    memory_total: int

    def __str__(self) -> str:
        gib = 1 << 30
        return (
            f"GPU {100 * self.utilization:.0f} %  {self.memory_used / gib:.1f} of {self.memory_total / gib:.1f} GiB"
        )


class GpuLoadReader:
    """Reads the first GPU's load. Without a driver, or once the driver refuses, there is nothing to read."""

    def __init__(self) -> None:
        self._handle: object | None = None
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        except pynvml.NVMLError:
            pass

    def read(self) -> GpuLoad | None:
        if self._handle is None:
            return None
        try:
            rates = pynvml.nvmlDeviceGetUtilizationRates(self._handle)
            memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle)
        except pynvml.NVMLError:
            self._handle = None
            return None
        return GpuLoad(rates.gpu / 100, int(memory.used), int(memory.total))
