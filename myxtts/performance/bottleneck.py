"""What limits the speed of steps, judged by their times and the load of the machine.

This uses only what a monitor has measured anyway, so it is a hint; `myxtts diagnose` measures the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from myxtts.performance.stall import MODERATELY_INPUT_BOUND, input_verdict
from myxtts.performance.statistics import Summary, variation_verdict

NO_STEPS = "no steps yet"

# Percent. From here on the CPUs are full, wait for a disk, or lose time to another virtual machine, or memory is
# short. Below the last one, a GPU that does not wait for data has too little to do.
BUSY_CPU = 90.0
SLOW_DISK_IOWAIT = 20.0
STOLEN_CPU = 10.0
FULL_MEMORY = 95.0
IDLE_GPU = 70.0


@dataclass(frozen=True)
class CacheUse:
    """How much of a store existed already.

    Attributes:
        reused: clips whose features were in the store.
        computed: clips whose features had to be computed.
    """

    reused: int
    computed: int

    @property
    def efficiency(self) -> float:
        """Share that was reused, 0 to 1; 0 for no clips."""
        total = self.reused + self.computed
        return self.reused / total if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"efficiency": self.efficiency}

    def __str__(self) -> str:
        total = self.reused + self.computed
        return f"{self.reused:,} of {total:,} clips were in the store ({100 * self.efficiency:.0f} %)"


@dataclass(frozen=True)
class BottleneckAnalysis:
    """Where the time of the steps went.

    Attributes:
        verdict: `not input-bound`, `moderately input-bound`, `highly input-bound`, or `no steps yet`.
        shares: of step time, 0 to 1: `input` (waiting for data) and `compute` (the rest).
        evidence: what was measured, a line each.
        recommendations: what to do about it, the most promising first.
    """

    verdict: str
    shares: Mapping[str, float]
    evidence: tuple[str, ...]
    recommendations: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "verdict": self.verdict,
            "shares": dict(self.shares),
            "evidence": list(self.evidence),
            "recommendations": list(self.recommendations),
        }

    def __str__(self) -> str:
        lines = [f"verdict: {self.verdict}"]
        lines += [f"  {line}" for line in self.evidence]
        lines += [f"  do: {line}" for line in self.recommendations]
        return "\n".join(lines)


def analyse(
    stall_share: float, step: Summary, machine: Mapping[str, Summary], cache: CacheUse | None = None
) -> BottleneckAnalysis:
    """Judges steps by their times and by the machine's load while they ran.

    Args:
        stall_share: share of step time spent waiting for data.
        step: times of the steps, in seconds.
        machine: statistics of `MachineReading.values`; empty if the machine was not sampled.
        cache: what the store held, if that is known.
    """
    if not step.count:
        return BottleneckAnalysis(NO_STEPS, {"input": 0.0, "compute": 0.0}, (), ())
    waits = stall_share >= MODERATELY_INPUT_BOUND
    evidence = _evidence(stall_share, step, machine, cache)
    advice = _when_waiting(machine) if waits else _when_not_waiting(machine)
    if _mean(machine, "memory_percent") >= FULL_MEMORY:
        advice.append("memory is nearly full: lower prefetch_buffer_size or num_workers before the system swaps")
    if waits and cache is not None and cache.efficiency < 1:
        advice.append("the store was not complete: 'myxtts precompute' before training")
    return BottleneckAnalysis(
        input_verdict(stall_share),
        {"input": stall_share, "compute": 1.0 - stall_share},
        tuple(evidence),
        tuple(advice),
    )


def _evidence(stall_share: float, step: Summary, machine: Mapping[str, Summary], cache: CacheUse | None) -> list[str]:
    lines = [f"input: {100 * stall_share:.1f} % of step time over {step.count:,} steps"]
    spread = step.std / step.mean if step.mean else 0.0
    lines.append(f"step time: {1e3 * step.mean:.1f} ms, std/mean {100 * spread:.0f} % ({variation_verdict(spread)})")
    loads = {"cpu_percent": "CPUs", "memory_percent": "memory", "iowait_percent": "waiting for disks"}
    for name, label in loads.items():
        if name in machine:
            load = machine[name]
            lines.append(f"{label}: {load.mean:.0f} % on average, {load.p95:.0f} % at the 95th percentile")
    for name, load in machine.items():
        if name.endswith("_utilization_percent"):
            lines.append(f"{name.partition('_')[0].upper()}: {load.mean:.0f} % utilization on average")
    if cache is not None:
        lines.append(f"store: {cache}")
    return lines


def _when_waiting(machine: Mapping[str, Summary]) -> list[str]:
    advice = []
    if _mean(machine, "iowait_percent") >= SLOW_DISK_IOWAIT:
        advice.append(
            "the CPUs wait for disks: use a local SSD, or enable_memory_mapping: false if the store fits memory"
        )
    if _mean(machine, "steal_percent") >= STOLEN_CPU:
        advice.append("other virtual machines take CPU time from this one: ask for dedicated CPUs")
    if _mean(machine, "cpu_percent") >= BUSY_CPU:
        advice.append("the CPUs are full: with preprocessing_mode precompute they have nothing to compute per batch")
    elif not advice:
        advice.append("the machine has room: raise num_workers and prefetch_buffer_size ('myxtts tune' finds them)")
    advice.append("'myxtts diagnose' names the cause")
    return advice


def _when_not_waiting(machine: Mapping[str, Summary]) -> list[str]:
    # Training uses one GPU; the others may be idle, or work for somebody else.
    loads = [load.mean for name, load in machine.items() if name.endswith("_utilization_percent")]
    if loads and max(loads) < IDLE_GPU:
        reason = f"the GPU is {max(loads):.0f} % utilized and not waiting for data"
        return [f"{reason}: larger batches (--auto-batch), and enable_xla_compilation"]
    return ["the input does not slow the steps down: stop tuning it"]


def _mean(machine: Mapping[str, Summary], name: str) -> float:
    return machine[name].mean if name in machine else 0.0
