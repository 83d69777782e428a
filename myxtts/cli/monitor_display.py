"""A reading of the machine as text: bars for a terminal, or one line."""

from __future__ import annotations

import time

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from myxtts.performance.gpu_metrics import GpuReading
from myxtts.performance.rank_times import RankTimes, find_slow_rank
from myxtts.performance.run_timing import RunReading
from myxtts.performance.sampling import GIB, MachineReading

_BAR = 24
_NOTHING = "–"
# After so many seconds without a step, say so: the run saves, compiles, or has ended.
_NO_STEP_SECONDS = 15.0


def plain_line(reading: MachineReading, run: RunReading | None, with_run: bool) -> str:
    """One reading in one line."""
    host = reading.host
    parts = [time.strftime("%H:%M:%S", time.localtime(reading.time))]
    parts += [f"GPU{gpu.index} {_percent(gpu.utilization)}  {_gpu_details(gpu)}" for gpu in reading.gpus]
    parts += [
        f"CPU {_percent(host.cpu)}",
        f"memory {_of(host.memory_used, host.memory_total)}",
        f"disk {_rate(host.disk_read)} read {_rate(host.disk_write)} written",
    ]
    if with_run:
        parts.append(_run_text(run, reading.time))
    for number, times in enumerate(() if run is None else run.ranks):
        parts.append(f"rank {number} stall {_percent(times.stall_share)} {_rank_text(times)}")
    return "  ".join(parts)


def live_view(reading: MachineReading, run: RunReading | None, with_run: bool) -> RenderableType:
    """One reading as bars."""
    host = reading.host
    table = Table.grid(padding=(0, 2))
    if with_run:
        stall = None if run is None or not run.steps else run.stall_share
        table.add_row("stall", _bar(stall), _percent(stall), _run_text(run, reading.time))
        for number, times in enumerate(() if run is None else run.ranks):
            table.add_row(f"rank {number}", _bar(times.stall_share), _percent(times.stall_share), _rank_text(times))
    for gpu in reading.gpus:
        table.add_row(f"GPU {gpu.index}", _bar(gpu.utilization), _percent(gpu.utilization), gpu.name)
        table.add_row("", _bar(gpu.memory_share), _percent(gpu.memory_share), _gpu_details(gpu))
        for process in gpu.processes:
            memory = "" if process.memory_bytes is None else f"  {process.memory_bytes / GIB:.1f} GiB"
            table.add_row("", "", "", f"{process.pid} {process.name}{memory}")
    waits = f"waiting for disks {_percent(host.iowait)}, stolen {_percent(host.steal)}"
    table.add_row("CPU", _bar(host.cpu), _percent(host.cpu), waits)
    table.add_row(
        "memory", _bar(host.memory_share), _percent(host.memory_share), _of(host.memory_used, host.memory_total)
    )
    table.add_row("disk", "", "", f"{_rate(host.disk_read)} read, {_rate(host.disk_write)} written")
    table.add_row("network", "", "", f"{_rate(host.network_received)} received, {_rate(host.network_sent)} sent")
    return Group(table, Text("Ctrl-C ends", style="dim"))


def _run_text(run: RunReading | None, now: float) -> str:
    if run is None:
        return "run: no step yet"
    parts = [f"batch {run.batch:,}"]
    if run.steps:
        parts += [
            f"stall {100 * run.stall_share:.1f} % ({run.verdict})",
            f"step {run.step_ms:.0f} ms",
            f"{run.clips_per_second:,.1f} clips/s",
        ]
    if (slow := find_slow_rank(run.ranks)) is not None:
        parts.append(str(slow))
    if now - run.time > _NO_STEP_SECONDS:
        parts.append(f"no step for {now - run.time:,.0f} s")
    return "  ".join(parts)


def _rank_text(times: RankTimes) -> str:
    return f"all-reduce {times.all_reduce_ms:.0f} ms, {times.clips_per_second:,.1f} clips/s"


def _gpu_details(gpu: GpuReading) -> str:
    memory = _of(gpu.memory_used, gpu.memory_total)
    heat = _NOTHING if gpu.temperature is None else f"{gpu.temperature:.0f} °C"
    power = _NOTHING if gpu.power is None else f"{gpu.power:.0f} W"
    if gpu.power is not None and gpu.power_limit is not None:
        power = f"{gpu.power:.0f} of {gpu.power_limit:.0f} W"
    clocks = " / ".join(_NOTHING if clock is None else f"{clock:.0f}" for clock in (gpu.sm_clock, gpu.memory_clock))
    return f"{memory}  {heat}  {power}  {clocks} MHz"


def _bar(share: float | None) -> RenderableType:
    return ProgressBar(total=1.0, completed=share or 0.0, width=_BAR)


def _percent(share: float | None) -> str:
    return _NOTHING if share is None else f"{100 * share:.0f} %"


def _of(used: int | None, total: int | None) -> str:
    if used is None or total is None:
        return _NOTHING
    return f"{used / GIB:.1f} of {total / GIB:.1f} GiB"


def _rate(bytes_per_second: float | None) -> str:
    return _NOTHING if bytes_per_second is None else f"{bytes_per_second / 1e6:.1f} MB/s"
