"""The plan for many hours and GPUs, and what docs/scaling.md says of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
import plan_scale
from plan_scale import Cluster, describe, limit_rows, limits_of_data, limits_of_speed, make_plan

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "scaling.md"


def test_the_document_says_what_the_program_prints() -> None:
    cluster, _ = plan_scale.read_arguments(["--hours", "1000000", "--hosts", "32", "--gpus-per-host", "8"])
    data, speed = limit_rows(cluster)
    shown = [*describe(cluster), *(row[:2] for row in (*data, *speed))]
    missing = [row for row in shown if f"| {row[0]} | {row[1]} |" not in DOCUMENT.read_text(encoding="utf-8")]
    assert not missing


def test_every_figure_names_a_program_that_exists() -> None:
    for figure in plan_scale.MEASURED.values():
        assert (ROOT / "benchmarks" / figure.program).is_file()


def test_what_grows_with_the_hours_does_and_what_does_not_does_not() -> None:
    small, large = make_plan(Cluster(hours=100_000)), make_plan(Cluster(hours=1_000_000))
    assert large.store_bytes == pytest.approx(10 * small.store_bytes, rel=1e-6)
    assert large.precompute_hours == pytest.approx(10 * small.precompute_hours, rel=1e-6)
    for same in ("read_per_host", "rank_memory_parts", "window_seconds", "allreduce_seconds", "load_cores_per_host"):
        assert getattr(large, same) == getattr(small, same)


def test_hosts_share_the_work() -> None:
    one, many = make_plan(Cluster(hosts=1)), make_plan(Cluster(hosts=8))
    assert one.precompute_hours == pytest.approx(8 * many.precompute_hours)
    assert one.epoch_hours == pytest.approx(8 * many.epoch_hours)
    assert one.read_per_host == many.read_per_host


def test_one_gpu_reduces_nothing() -> None:
    assert make_plan(Cluster(hosts=1, gpus_per_host=1)).allreduce_seconds == 0


def test_what_breaks_first_comes_first() -> None:
    cluster = Cluster()
    plan = make_plan(cluster)
    for limits in (limits_of_data(cluster, plan), limits_of_speed(cluster, plan)):
        shares = [limit.share for limit in limits]
        assert shares == sorted(shares, reverse=True)
    slow = replace(cluster, disk_bytes_per_second=0.1e9)
    assert limits_of_speed(slow, make_plan(slow))[0].name == "reading, per host"
    slow = replace(cluster, network_bytes_per_second=0.1e9)
    assert limits_of_speed(slow, make_plan(slow))[0].name == "all-reduce, share of a step"


def test_a_limit_is_reached_at_the_hours_it_names() -> None:
    cluster = Cluster()
    first = limits_of_data(cluster, make_plan(cluster))[0]
    there = replace(cluster, hours=first.hours(cluster.hours))
    assert limits_of_data(there, make_plan(there))[0].share == pytest.approx(1, rel=1e-3)
