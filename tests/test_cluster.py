"""Which processes train together: from this machine, TF_CONFIG, Slurm's variables, a host list."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from myxtts.errors import UsageError
from myxtts.training.cluster import FIRST_PORT, Cluster, expand_counts, expand_hosts, find_cluster, not_listening

SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_JOB_ID": "500",
    "SLURM_STEP_NODELIST": "gpu[01-02]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


def tf_config(index: Any = 1, **changes: Any) -> dict[str, str]:
    config = {"cluster": {"worker": ["a:1", "b:1", "b:2"]}, "task": {"type": "worker", "index": index}}
    return {"TF_CONFIG": json.dumps(config | changes)}


def test_processes_of_one_machine_listen_on_different_free_ports() -> None:
    cluster = find_cluster(3, None)
    assert cluster.here == (0, 1, 2)
    assert len(set(cluster.addresses)) == 3
    assert [(rank.number, rank.on_machine, rank.of_machine) for rank in cluster.ranks()] == [
        (0, 0, 3),
        (1, 1, 3),
        (2, 2, 3),
    ]
    assert not_listening(cluster.addresses) == [0, 1, 2]


def test_tf_config_names_this_process_and_its_place_on_its_host() -> None:
    cluster = find_cluster(1, "tf-config", tf_config(2))
    assert cluster == Cluster(("a:1", "b:1", "b:2"), (2,), first_device=1)
    assert cluster.ranks()[0].on_machine == 1


def test_slurm_names_this_task_its_node_and_its_gpu() -> None:
    first = FIRST_PORT
    cluster = find_cluster(1, "slurm", SLURM)
    assert cluster.addresses == (f"gpu01:{first}", f"gpu01:{first + 1}", f"gpu02:{first}", f"gpu02:{first + 1}")
    assert (cluster.here, cluster.first_device) == ((3,), 1)
    other = find_cluster(1, "slurm", SLURM | {"SLURM_JOB_ID": "501"})
    assert not set(other.addresses) & set(cluster.addresses)


def test_a_host_list_starts_as_many_processes_on_each_host() -> None:
    cluster = find_cluster(2, f"no-such-host.invalid:4000,{socket.gethostname()}")
    assert cluster.addresses == (
        "no-such-host.invalid:4000",
        "no-such-host.invalid:4001",
        f"{socket.gethostname()}:{FIRST_PORT}",
        f"{socket.gethostname()}:{FIRST_PORT + 1}",
    )
    assert cluster.here == (2, 3)


@pytest.mark.parametrize(
    ("devices", "described", "environment", "message"),
    [
        (0, None, {}, "should be 1 or more"),
        (2, "slurm", SLURM, "leave --devices out"),
        (1, "tf-config", {}, "TF_CONFIG is not set"),
        (1, "tf-config", {"TF_CONFIG": "{"}, "TF_CONFIG should be"),
        (1, "tf-config", {"TF_CONFIG": "[]"}, "TF_CONFIG should be"),
        (1, "tf-config", tf_config(3), "task 3 of 3 workers"),
        (1, "tf-config", tf_config("x"), "TF_CONFIG should be"),
        (1, "tf-config", tf_config(task={"type": "ps", "index": 0}), "other kinds of tasks"),
        (1, "slurm", {}, "is not set; start it with srun"),
        (1, "slurm", SLURM | {"SLURM_STEP_TASKS_PER_NODE": "two"}, "cannot be read"),
        (1, "slurm", SLURM | {"SLURM_LOCALID": "0"}, "--distribution=block"),
        (1, "a.invalid,a.invalid", {}, "each host once"),
        (1, "a.invalid,,b.invalid", {}, "each host once"),
        (1, "a.invalid:x", {}, "is not a port"),
        (1, "a.invalid,b.invalid", {}, "is none of these hosts"),
        (1, "127.0.0.1:1,127.0.0.1:2", {}, "is more than one of these hosts"),
    ],
)
def test_a_wrong_cluster_is_refused_in_one_line(
    devices: int, described: str | None, environment: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        find_cluster(devices, described, environment)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login", ["login"]),
        ("a,b", ["a", "b"]),
        ("gpu[08-10]", ["gpu08", "gpu09", "gpu10"]),
        ("gpu[1,3-4]-ib,x2", ["gpu1-ib", "gpu3-ib", "gpu4-ib", "x2"]),
    ],
)
def test_slurm_s_short_form_of_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


def test_slurm_s_short_form_of_counts() -> None:
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]
