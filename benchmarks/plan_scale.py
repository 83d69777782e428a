"""What a training of so many hours on so many GPUs needs, and what breaks first: on paper, from what was measured.

    .venv/bin/python benchmarks/plan_scale.py --hours 1000000 --hosts 32 --gpus-per-host 8 [--json plan.json]

Nothing is run. `MEASURED` has the figures that the plan is made from and the program that measures each; measure them
on your machine and give yours. docs/scaling.md shows a plan, and a test keeps it as this program prints it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from common import parser, print_table, write_json

from myxtts.config.config import DataConfig
from myxtts.data.batches.window_plan import WINDOW_CLIPS
from myxtts.data.store.folder import readable_bytes
from myxtts.data.store.index import INDEX_COLUMNS

GB = 1e9
LARGEST_EXT4_FILE = 16 * 2**40
RANK_MEMORY = 8 * GB  # what a rank may take of its host, besides the page cache
START_SECONDS = 60.0  # what a start may take


class Figure(NamedTuple):
    """A measured figure."""

    value: float
    unit: str
    program: str


MEASURED = {
    "clip_seconds": Figure(6.6, "s of audio in a clip (LJSpeech)", "bench_data_set.py"),
    "precompute_ms": Figure(7.1, "CPU ms to precompute a clip", "bench_precompute.py"),
    "load_ms": Figure(0.031, "CPU ms to load a clip from the store", "bench_loading.py"),
    "metadata_bytes": Figure(1400, "bytes of metadata of a clip in memory", "bench_scale.py"),
    "metadata_us": Figure(31, "µs to read the metadata of a clip", "bench_scale.py"),
    "plan_bytes": Figure(376, "bytes of table and plan of a clip", "bench_store_scale.py"),
    "order_us": Figure(0.6, "µs to deal out a clip of a window, its table included", "bench_scale.py"),
    "window_bytes": Figure(550, "bytes of a clip of a window, three windows at a time", "bench_scale.py"),
    "program_bytes": Figure(0.41e9, "bytes of a rank without clips", "bench_scale.py"),
}
HOP_SECONDS = 50e-6  # from one rank to the next; assumed for a data centre, and measured nowhere here


@dataclass(frozen=True)
class Cluster:
    """What there is.

    Attributes:
        hours: of audio.
        hosts: machines.
        gpus_per_host: GPUs of each.
        cores_per_host: CPUs of each.
        memory_per_host: bytes.
        disk_bytes_per_second: that a host reads, from its own disk or a file server.
        network_bytes_per_second: that a host sends, and receives at the same time.
        clips_per_second: that a GPU trains on.
        batch_size: clips of each GPU.
        parameters: of the model.
    """

    hours: float = 1_000_000
    hosts: int = 32
    gpus_per_host: int = 8
    cores_per_host: int = 64
    memory_per_host: float = 512 * GB
    disk_bytes_per_second: float = 3 * GB
    network_bytes_per_second: float = 12.5 * GB
    clips_per_second: float = 200
    batch_size: int = 32
    parameters: float = 25e6

    @property
    def gpus(self) -> int:
        return self.hosts * self.gpus_per_host


@dataclass(frozen=True)
class ScalePlan:
    """What training takes. Sizes are in bytes, times in seconds unless they say otherwise."""

    clips: int
    store_bytes: float
    index_bytes: float
    precompute_core_hours: float
    precompute_hours: float
    epoch_hours: float
    read_per_host: float
    read_in_total: float
    load_cores_per_host: float
    rank_memory_whole: float
    rank_start_whole: float
    rank_memory_parts: float
    window_seconds: float
    window_order_seconds: float
    allreduce_seconds: float
    step_seconds: float
    allreduce_share: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Limit(NamedTuple):
    """Something that is used up.

    Attributes:
        name: of what.
        share: of it that is used; above 1 it breaks.
        remedy: what to do then.
    """

    name: str
    share: float
    remedy: str

    def hours(self, hours: float) -> float:
        """Of audio at which it is used up, where it grows with the data."""
        return hours / self.share if self.share else float("inf")


def make_plan(cluster: Cluster) -> ScalePlan:
    """The plan for a cluster."""
    figure = {name: one.value for name, one in MEASURED.items()}
    data = DataConfig()
    clips = round(cluster.hours * 3600 / figure["clip_seconds"])
    mel_bytes = figure["clip_seconds"] * data.sample_rate / data.hop_length * data.n_mels * 2
    index_bytes = clips * sum(dtype.itemsize for dtype in INDEX_COLUMNS.values())
    precompute_core_hours = clips * figure["precompute_ms"] / 3.6e6
    rate = cluster.gpus * cluster.clips_per_second
    gradient = 4 * cluster.parameters
    ring = 2 * (cluster.gpus - 1)
    allreduce = ring / cluster.gpus * gradient / cluster.network_bytes_per_second + ring * HOP_SECONDS
    step = cluster.batch_size / cluster.clips_per_second
    return ScalePlan(
        clips=clips,
        store_bytes=clips * mel_bytes,
        index_bytes=index_bytes,
        precompute_core_hours=precompute_core_hours,
        precompute_hours=precompute_core_hours / (cluster.hosts * cluster.cores_per_host),
        epoch_hours=clips / rate / 3600,
        read_per_host=cluster.gpus_per_host * cluster.clips_per_second * mel_bytes,
        read_in_total=rate * mel_bytes,
        load_cores_per_host=cluster.gpus_per_host * cluster.clips_per_second * figure["load_ms"] / 1e3,
        rank_memory_whole=figure["program_bytes"] + clips * (figure["metadata_bytes"] + figure["plan_bytes"]),
        rank_start_whole=clips * figure["metadata_us"] / 1e6,
        rank_memory_parts=figure["program_bytes"] + min(clips, WINDOW_CLIPS) * figure["window_bytes"],
        window_seconds=WINDOW_CLIPS / rate,
        window_order_seconds=WINDOW_CLIPS * figure["order_us"] / 1e6,
        allreduce_seconds=allreduce if cluster.gpus > 1 else 0.0,
        step_seconds=step,
        allreduce_share=allreduce / step if cluster.gpus > 1 else 0.0,
    )


def limits_of_data(cluster: Cluster, plan: ScalePlan) -> list[Limit]:
    """What grows with the hours where one store is used whole and every rank reads the metadata, the first to break
    first."""
    figure = {name: one.value for name, one in MEASURED.items()}
    parts = "a store in parts, trust_store"
    memory = cluster.gpus_per_host * plan.clips
    return _sorted(
        Limit("start of a rank: reading metadata", plan.rank_start_whole / START_SECONDS, parts),
        Limit("memory of a rank: metadata", plan.clips * figure["metadata_bytes"] / RANK_MEMORY, parts),
        Limit("memory of a rank: table and plan", plan.clips * figure["plan_bytes"] / RANK_MEMORY, parts),
        Limit("size of one file (ext4)", plan.store_bytes / LARGEST_EXT4_FILE, parts),
        Limit(
            "memory of a host: metadata, table and plan",
            memory * (figure["metadata_bytes"] + figure["plan_bytes"]) / cluster.memory_per_host,
            parts,
        ),
        Limit(
            "page cache of a host",
            plan.store_bytes / cluster.memory_per_host,
            "none needed: the disk is read, see the speed below",
        ),
    )


def limits_of_speed(cluster: Cluster, plan: ScalePlan) -> list[Limit]:
    """What does not grow with the hours: what the GPUs ask of a host, the first to break first."""
    return _sorted(
        Limit("reading, per host", plan.read_per_host / cluster.disk_bytes_per_second, "parts on local NVMe"),
        Limit("loading, cores of a host", plan.load_cores_per_host / cluster.cores_per_host, "more cores"),
        Limit("dealing out a window", plan.window_order_seconds / plan.window_seconds, "larger windows"),
        Limit("all-reduce, share of a step", plan.allreduce_share, "larger batches, or a faster network"),
        Limit(
            "memory of the ranks of a host",
            cluster.gpus_per_host * plan.rank_memory_parts / cluster.memory_per_host,
            "more memory",
        ),
    )


def _sorted(*limits: Limit) -> list[Limit]:
    return sorted(limits, key=lambda limit: -limit.share)


def describe(cluster: Cluster) -> list[tuple[str, str]]:
    """The plan in words and figures, a line for each."""
    plan = make_plan(cluster)
    each, whole = readable_bytes(plan.read_per_host), readable_bytes(plan.rank_memory_whole)
    return [
        ("hours of audio", f"{cluster.hours:,.0f}"),
        ("GPUs", f"{cluster.gpus} on {cluster.hosts} hosts, {cluster.clips_per_second:g} clips/s each"),
        ("model", f"{cluster.parameters / 1e6:g} M parameters, {1e3 * plan.step_seconds:.0f} ms a step"),
        ("clips", f"{plan.clips / 1e6:,.0f} million"),
        ("store, float16", readable_bytes(plan.store_bytes)),
        ("its indexes", readable_bytes(plan.index_bytes)),
        ("precompute", f"{plan.precompute_core_hours:,.0f} core-hours, {plan.precompute_hours:.2g} h on these hosts"),
        ("an epoch", f"{plan.epoch_hours:.2g} h"),
        ("reading", f"{each}/s per host, {readable_bytes(plan.read_in_total)}/s in total"),
        ("loading", f"{plan.load_cores_per_host:.2g} cores per host"),
        ("a rank, one store", f"{whole}, starts in {plan.rank_start_whole / 3600:.2g} h"),
        ("a rank, store in parts", readable_bytes(plan.rank_memory_parts)),
        (
            "a window",
            f"lasts {plan.window_seconds:.2g} s, is dealt out in {plan.window_order_seconds:.2g} s",
        ),
        (
            "all-reduce",
            f"{1e3 * plan.allreduce_seconds:.0f} ms, {100 * plan.allreduce_share:.0f} % of a step",
        ),
    ]


def limit_rows(cluster: Cluster) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Rows of both tables of limits."""
    plan = make_plan(cluster)
    data = [
        (one.name, f"{one.hours(cluster.hours):,.0f}", one.remedy if one.share > 1 else "")
        for one in limits_of_data(cluster, plan)
    ]
    speed = [
        (one.name, f"{100 * one.share:.1f}", one.remedy if one.share > 1 else "")
        for one in limits_of_speed(cluster, plan)
    ]
    return data, speed


def read_arguments(given: Sequence[str] | None = None) -> tuple[Cluster, argparse.Namespace]:
    options = parser(__doc__)
    default = Cluster()
    options.add_argument("--hours", type=float, default=default.hours, help="of audio")
    options.add_argument("--hosts", type=int, default=default.hosts)
    options.add_argument("--gpus-per-host", type=int, default=default.gpus_per_host)
    options.add_argument("--cores-per-host", type=int, default=default.cores_per_host)
    options.add_argument("--memory-gb", type=float, default=default.memory_per_host / GB, help="of a host")
    options.add_argument(
        "--disk-gb", type=float, default=default.disk_bytes_per_second / GB, help="a host reads per s"
    )
    options.add_argument("--network-gb", type=float, default=default.network_bytes_per_second / GB, help="sent per s")
    options.add_argument("--clips-per-second", type=float, default=default.clips_per_second, help="of a GPU")
    options.add_argument("--batch-size", type=int, default=default.batch_size, help="clips of a GPU")
    options.add_argument("--parameters", type=float, default=default.parameters, help="of the model")
    chosen = options.parse_args(given)
    cluster = Cluster(
        hours=chosen.hours,
        hosts=chosen.hosts,
        gpus_per_host=chosen.gpus_per_host,
        cores_per_host=chosen.cores_per_host,
        memory_per_host=chosen.memory_gb * GB,
        disk_bytes_per_second=chosen.disk_gb * GB,
        network_bytes_per_second=chosen.network_gb * GB,
        clips_per_second=chosen.clips_per_second,
        batch_size=chosen.batch_size,
        parameters=chosen.parameters,
    )
    return cluster, chosen


def main() -> None:
    cluster, chosen = read_arguments()
    print_table("A plan, from measured figures; nothing was run", ("what", "how much"), describe(cluster))
    data, speed = limit_rows(cluster)
    print_table("\nWith one store and its metadata in every rank: breaks at", ("what", "hours", "remedy"), data)
    print_table("\nWith a store in parts: used", ("what", "%", "remedy"), speed)
    print_table(
        "\nMeasured",
        ("what", "value", "by"),
        [(one.unit, f"{one.value:g}", one.program) for one in MEASURED.values()],
    )
    result = make_plan(cluster).to_dict()
    write_json(chosen.json, {"benchmark": "plan_scale", "cluster": asdict(cluster), "plan": result})


if __name__ == "__main__":
    main()
