"""Step times of simulated GPUs, from stated assumptions.

    step time = arithmetic of the step / (peak of the GPU × 0.4), and at least 1 ms

Peaks are from NVIDIA's data sheets: dense tensor throughput in float16 or bfloat16 with float32 accumulation. Four
tenths of that is more than convolutional models of this size reach, and alignment, optimizer and launching kernels
are left out. A real GPU is slower, so whatever feeds the simulated one feeds the real one. The reverse does not
follow; if you know the real step time, give that.
"""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.errors import UsageError

ASSUMED_SHARE_OF_PEAK = 0.4
SHORTEST_STEP_SECONDS = 1e-3

# Name on the command line: name for people, peak in TFLOP/s.
_GPUS: dict[str, tuple[str, float]] = {
    "t4": ("T4", 65.0),
    "v100": ("V100", 125.0),
    "rtx3060": ("RTX 3060", 25.6),
    "rtx3080": ("RTX 3080", 59.5),
    "rtx3090": ("RTX 3090", 71.0),
    "rtx4080": ("RTX 4080", 97.5),
    "rtx4090": ("RTX 4090", 165.2),
    "rtx5090": ("RTX 5090", 209.5),
    "l4": ("L4", 121.0),
    "a10": ("A10", 125.0),
    "a100": ("A100", 312.0),
    "h100": ("H100", 989.0),
}


@dataclass(frozen=True)
class KnownGpu:
    """A GPU by its data sheet.

    Attributes:
        name: for people.
        peak_teraflops: dense tensor throughput, float16 in and float32 accumulated.
    """

    name: str
    peak_teraflops: float

    def step_seconds(self, step_flops: float) -> float:
        """How long a step of so many floating-point operations is assumed to take."""
        return max(SHORTEST_STEP_SECONDS, step_flops / (1e12 * self.peak_teraflops * ASSUMED_SHARE_OF_PEAK))


def known_gpu(name: str) -> KnownGpu:
    """The GPU of that name; case, blanks and dashes do not matter.

    Raises:
        UsageError: it is not known.
    """
    key = name.lower().replace(" ", "").replace("-", "").replace("nvidia", "").replace("geforce", "")
    if key not in _GPUS:
        raise UsageError(f"'{name}' is none of {', '.join(_GPUS)}; --simulate-step-ms gives a step time directly")
    return KnownGpu(*_GPUS[key])
