"""The CPUs, memory and GPUs that this process may use.

A container or a batch scheduler may give a process fewer CPUs than the machine has. The affinity mask and the cgroup
show it, `os.cpu_count()` does not. All code that chooses a number of workers asks here.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

CGROUP_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Gpu:
    """An NVIDIA GPU as its driver describes it; TensorFlow may not be able to use it.

    Attributes:
        name: e.g. `NVIDIA GeForce RTX 4090`.
        memory_bytes: 0 if unknown.
    """

    name: str
    memory_bytes: int


def usable_cpus() -> int:
    """The number of CPUs this process may use, by its affinity mask and its cgroup's quota; at least 1."""
    cpus = len(usable_cpu_numbers())
    quota = cgroup_cpu_quota()
    if quota is not None:
        cpus = min(cpus, math.ceil(quota))
    return max(1, cpus)


def usable_cpu_numbers() -> frozenset[int]:
    """The CPUs that the calling thread may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cpu_features(information: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name and the instructions that it knows, as the system describes them."""
    described = (_read(information) or "").splitlines()
    lines = {line for line in described if line.startswith(("model name", "flags", "Features"))}
    return "\n".join(sorted(lines)) or f"{platform.machine()} {platform.processor()}"


def cgroup_cpu_quota(root: Path = CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> float | None:
    """The smallest quota of this process's cgroups, in CPUs; None without a limit."""
    quotas = []
    for group in cgroup_folders(root, membership, "cpu"):
        limit = _read(group / "cpu.max")  # v2: "<quota|max> <period>"
        if limit is not None:
            fields = limit.split()
            if len(fields) == 2 and fields[0] != "max":
                quotas.append(int(fields[0]) / int(fields[1]))
            continue
        quota, period = _read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")  # v1
        if quota is not None and period is not None and int(quota) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = CGROUP_ROOT, membership: Path = Path("/proc/self/cgroup")) -> int:
    """The memory this process may use: the machine's, or the limit of its cgroup if that is lower."""
    limits = [psutil.virtual_memory().total]
    for group in cgroup_folders(root, membership, "memory"):
        limit = _read(group / "memory.max") or _read(group / "memory.limit_in_bytes")
        if limit is not None and limit != "max":
            limits.append(int(limit))
    return min(limits)


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that the driver lists. Empty without a driver; never raises."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name = pynvml.nvmlDeviceGetName(handle)
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total
            found.append(Gpu(name if isinstance(name, str) else name.decode(), int(memory)))
        return found
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def cgroup_folders(root: Path, membership: Path, controller: str) -> Iterator[Path]:
    """This process's cgroup for `controller` and its parents, in version 1 and version 2 layouts."""
    for line in (_read(membership) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top = root
        elif controller in controllers.split(","):
            top = root / controllers
        else:
            continue
        # In a container the path may be one of the host: skip folders that do not exist here.
        folder = top / path.lstrip("/")
        while True:
            if folder.is_dir():
                yield folder
            if folder == top or top not in folder.parents:
                break
            folder = folder.parent


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
