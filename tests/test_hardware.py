"""What the process may use, from real files in the layouts of both cgroup versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from myxtts import hardware


@pytest.fixture
def membership(tmp_path: Path) -> Path:
    return tmp_path / "membership"


def test_the_affinity_limits_the_cpus() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert hardware.usable_cpus() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_a_quota_of_one_and_a_half_cpus_keeps_two_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(hardware, "cgroup_cpu_quota", lambda: 1.5)
    assert hardware.usable_cpus() == 2


def test_version_2_takes_the_tightest_limit_on_the_way_up(tmp_path: Path, membership: Path) -> None:
    membership.write_text("0::/user/job\n")
    job = tmp_path / "user" / "job"
    job.mkdir(parents=True)
    (tmp_path / "user" / "cpu.max").write_text("150000 100000\n")
    (job / "cpu.max").write_text("400000 100000\n")
    (job / "memory.max").write_text("1048576\n")
    assert hardware.cgroup_cpu_quota(tmp_path, membership) == 1.5
    assert hardware.memory_limit_bytes(tmp_path, membership) == 1048576


def test_version_1_has_its_controllers_in_folders(tmp_path: Path, membership: Path) -> None:
    membership.write_text("4:memory:/job\n3:cpu,cpuacct:/job\n")
    cpu, memory = tmp_path / "cpu,cpuacct" / "job", tmp_path / "memory" / "job"
    cpu.mkdir(parents=True)
    memory.mkdir(parents=True)
    (cpu / "cpu.cfs_quota_us").write_text("250000\n")
    (cpu / "cpu.cfs_period_us").write_text("100000\n")
    (memory / "memory.limit_in_bytes").write_text("2097152\n")
    assert hardware.cgroup_cpu_quota(tmp_path, membership) == 2.5
    assert hardware.memory_limit_bytes(tmp_path, membership) == 2097152


def test_no_limit_and_no_cgroup_are_no_quota(tmp_path: Path, membership: Path) -> None:
    assert hardware.cgroup_cpu_quota(tmp_path, membership) is None
    membership.write_text("0::/\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert hardware.cgroup_cpu_quota(tmp_path, membership) is None
    assert hardware.memory_limit_bytes(tmp_path, membership) == hardware.psutil.virtual_memory().total


def test_without_a_driver_there_are_no_gpus() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has an NVIDIA driver")
    assert hardware.gpus() == []
