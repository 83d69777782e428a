"""What the machine and its GPUs say: NVML's real error, recorded values, the kernel's counters, the verdict."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pynvml
import pytest

from myxtts.performance.bottleneck import NO_STEPS, CacheUse, analyse
from myxtts.performance.gpu_metrics import GpuReader
from myxtts.performance.host_metrics import HostCounters, HostReader, host_reading
from myxtts.performance.monitor import PerformanceMonitor
from myxtts.performance.sampling import MachineReader, MachineSampler, NumberStatistics
from myxtts.performance.statistics import RunningStatistics, Summary

PATIENCE = 1800.0  # seconds; a busy host may need long, and only a hang needs longer

MIB = 1 << 20


class RecordedNvml:
    """Answers as NVML's Python functions do, in NVML's own structures, with an RTX 4090's values: load, memory, heat
    and power as its users published them, clocks as in its data sheet."""

    def __init__(self, refused: tuple[str, ...] = ()) -> None:
        self.refused = refused
        self.shut_down = 0

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in object.__getattribute__(self, "refused"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None:
        self.shut_down += 1

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA GeForce RTX 4090"

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return pynvml.c_nvmlUtilization_t(gpu=3, memory=1)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return pynvml.c_nvmlMemory_t(total=24564 * MIB, free=4755 * MIB, used=19809 * MIB)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 55

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 162_000

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 450_000

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        return {pynvml.NVML_CLOCK_SM: 2520, pynvml.NVML_CLOCK_MEM: 10251}[clock]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [
            SimpleNamespace(pid=os.getpid(), usedGpuMemory=19_000 * MIB),
            SimpleNamespace(pid=2**30, usedGpuMemory=None),
        ]


# GPUs


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has an NVIDIA driver")
def test_without_a_driver_nvml_says_why_and_there_is_nothing_to_read() -> None:
    reader = GpuReader()
    assert reader.unavailable in ("NVML Shared Library Not Found", "Driver Not Loaded")
    assert reader.read() == ()
    reader.close()


def test_recorded_values_are_read_in_plain_units() -> None:
    reader = GpuReader(RecordedNvml())
    (gpu,) = reader.read()
    assert (gpu.name, gpu.utilization, gpu.temperature) == ("NVIDIA GeForce RTX 4090", 0.03, 55)
    assert (gpu.power, gpu.power_limit) == (162.0, 450.0)
    assert (gpu.sm_clock, gpu.memory_clock) == (2520, 10251)
    assert gpu.memory_share == pytest.approx(0.8064, abs=1e-4)
    ours, nobody = gpu.processes
    assert ours.pid == os.getpid()
    assert ours.name != "?"
    assert (nobody.name, nobody.memory_bytes) == ("?", None)
    json.dumps(gpu.to_dict())


def test_what_a_gpu_does_not_support_is_none_and_the_rest_is_read() -> None:
    refused = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses")
    (gpu,) = GpuReader(RecordedNvml(refused)).read()
    assert (gpu.power, gpu.memory_used, gpu.memory_share, gpu.processes) == (None, None, None, ())
    assert (gpu.temperature, gpu.power_limit) == (55, 450.0)


def test_a_driver_without_gpus_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = RecordedNvml()
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 0)
    reader = GpuReader(nvml)
    assert (reader.unavailable, reader.read()) == ("the driver knows none", ())


def test_closing_gives_nvml_back_once() -> None:
    nvml = RecordedNvml()
    reader = GpuReader(nvml)
    reader.close()
    reader.close()
    assert (nvml.shut_down, reader.read()) == (1, ())


# The host


def test_the_kernels_counters_become_shares_and_rates() -> None:
    before = HostCounters(10.0, 100.0, 50.0, 5.0, 1.0, 1_000_000, 0, 0, None)
    now = HostCounters(12.0, 102.0, 51.0, 5.8, 1.2, 5_000_000, 2_000_000, 500, None)
    reading = host_reading(before, now, 6 << 30, 24 << 30)
    assert (reading.cpu, reading.iowait, reading.steal) == pytest.approx((0.5, 0.2, 0.05))
    assert (reading.disk_read, reading.disk_write) == (2_000_000, 1_000_000)
    assert (reading.network_received, reading.network_sent) == (250, None)
    assert reading.memory_share == 0.25


def test_counters_that_stand_still_or_go_back_give_no_nonsense() -> None:
    before = HostCounters(10.0, 100.0, 50.0, 5.0, 1.0, 1_000, 0, 0, 0)
    assert host_reading(before, before, 1, 2).cpu is None
    back = before._replace(time=11.0, busy=101.0, iowait=4.9, disk_read=10)
    reading = host_reading(before, back, 1, 2)
    assert (reading.cpu, reading.iowait, reading.disk_read) == (1.0, 0.0, 0.0)


def test_a_container_that_hides_its_disks_is_read_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> None:
        raise NotImplementedError("/proc/diskstats is not there")

    monkeypatch.setattr(psutil, "disk_io_counters", hidden)
    reading = HostReader().read()
    assert (reading.disk_read, reading.disk_write) == (None, None)


def test_this_machine_can_be_read() -> None:
    reader = HostReader()
    deadline = time.monotonic() + PATIENCE
    while (reading := reader.read()).cpu is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert reading.cpu is not None
    assert 0 <= reading.cpu <= 1
    assert 0 < reading.memory_share < 1


# Sampling


def machine_with_gpu() -> MachineReader:
    return MachineReader(GpuReader(RecordedNvml()))


def test_a_reading_names_every_number_with_its_unit() -> None:
    values = machine_with_gpu().read().values()
    assert {"cpu_percent", "memory_used_gib", "disk_read_mb_s", "network_sent_mb_s"} < values.keys()
    assert values["gpu0_utilization_percent"] == pytest.approx(3)
    assert values["gpu0_power_w"] == 162.0


def test_numbers_that_are_missing_are_not_counted() -> None:
    numbers = NumberStatistics()
    numbers.add({"a": 1.0, "b": None})
    numbers.add({"a": 3.0, "b": 5.0})
    summary = numbers.summary()
    assert (summary["a"].count, summary["a"].mean, summary["b"].count) == (2, 2.0, 1)


def test_the_sampler_reads_until_it_is_stopped_and_keeps_what_it_read() -> None:
    sampler = MachineSampler(0.05, machine_with_gpu())
    deadline = time.monotonic() + PATIENCE
    while "gpu0_temperature_c" not in sampler.summary() and time.monotonic() < deadline:
        time.sleep(0.02)
    sampler.stop()
    counted = sampler.summary()["gpu0_temperature_c"]
    assert counted.mean == 55
    assert sampler.summary()["gpu0_temperature_c"] == counted
    assert not sampler._thread.is_alive()


def test_a_reader_that_fails_ends_sampling_and_not_the_program(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = machine_with_gpu()
    monkeypatch.setattr(reader, "read", lambda: 1 / 0)
    sampler = MachineSampler(0.05, reader)
    sampler._thread.join(PATIENCE)
    sampler.stop()
    assert "no longer sampled: ZeroDivisionError" in caplog.text
    assert sampler.summary() == {}


@pytest.mark.parametrize("interval", [0.0, -1.0, float("nan")])
def test_an_interval_that_cannot_be_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        MachineSampler(interval, machine_with_gpu())


def test_a_monitor_samples_the_machine_while_steps_run() -> None:
    monitor = PerformanceMonitor()
    monitor.start_sampling(0.05)
    deadline = time.monotonic() + PATIENCE
    while not monitor.get_summary().machine and time.monotonic() < deadline:
        monitor.log_step_timing(0.0, 0.01, 4)
        time.sleep(0.02)
    monitor.stop_sampling()
    summary = monitor.get_summary()
    assert summary.machine["memory_percent"].mean > 0
    assert monitor.latest_reading is not None
    assert monitor.latest_reading.host.memory_used > 0
    assert "memory_percent" in json.loads(json.dumps(summary.to_dict()))["machine"]
    assert "the machine" in monitor.get_summary_report()
    monitor.reset()
    assert monitor.get_summary().machine == {}


# The verdict


def numbers(*values: float) -> Summary:
    statistics = RunningStatistics()
    for value in values:
        statistics.add(value)
    return statistics.summary()


def test_no_steps_no_verdict() -> None:
    assert PerformanceMonitor().get_bottleneck_analysis().verdict == NO_STEPS


def test_steps_that_do_not_wait_are_told_to_stop_tuning_input() -> None:
    analysis = analyse(0.01, numbers(0.1, 0.1, 0.1), {"cpu_percent": numbers(99)})
    assert analysis.verdict == "not input-bound"
    assert analysis.shares == {"input": 0.01, "compute": 0.99}
    assert analysis.recommendations == ("the input does not slow the steps down: stop tuning it",)


def test_a_gpu_with_little_to_do_that_is_not_waiting_gets_larger_batches() -> None:
    loads = {"gpu0_utilization_percent": numbers(30, 34), "gpu1_utilization_percent": numbers(0, 0)}
    (advice,) = analyse(0.01, numbers(0.1), loads).recommendations
    assert "32 % utilized and not waiting for data: larger batches" in advice
    loads["gpu1_utilization_percent"] = numbers(95)
    assert "stop tuning" in analyse(0.01, numbers(0.1), loads).recommendations[0]


@pytest.mark.parametrize(
    ("machine", "advice"),
    [
        ({"cpu_percent": 97.0}, "preprocessing_mode precompute"),
        ({"cpu_percent": 30.0}, "raise num_workers"),
        ({"cpu_percent": 30.0, "iowait_percent": 45.0}, "local SSD"),
        ({"cpu_percent": 60.0, "steal_percent": 25.0}, "dedicated CPUs"),
    ],
)
def test_waiting_steps_are_explained_by_the_machines_load(machine: dict[str, float], advice: str) -> None:
    loads = {name: numbers(value, value) for name, value in machine.items()}
    analysis = analyse(0.30, numbers(0.1, 0.1), loads)
    assert analysis.verdict == "highly input-bound"
    assert advice in analysis.recommendations[0]
    assert analysis.recommendations[-1] == "'myxtts diagnose' names the cause"


def test_the_evidence_has_the_variation_of_step_times_and_the_store() -> None:
    analysis = analyse(0.30, numbers(0.1, 0.5), {}, CacheUse(reused=30, computed=10))
    assert "step time: 300.0 ms, std/mean 67 % (high)" in analysis.evidence
    assert "store: 30 of 40 clips were in the store (75 %)" in analysis.evidence
    assert "the store was not complete: 'myxtts precompute' before training" in analysis.recommendations
    assert json.loads(json.dumps(analysis.to_dict()))["shares"]["input"] == 0.3


def test_cache_use_is_logged_and_reported() -> None:
    monitor = PerformanceMonitor()
    monitor.log_cache_use(reused=60, computed=0)
    monitor.log_step_timing(0.0, 0.01, 4)
    assert monitor.get_summary().to_dict()["cache"] == {"reused": 60, "computed": 0, "efficiency": 1.0}
    assert "store: 60 of 60 clips were in the store (100 %)" in monitor.get_summary_report()
    assert CacheUse(0, 0).efficiency == 0.0
