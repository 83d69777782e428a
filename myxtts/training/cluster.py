"""Which processes train together, and where each listens: by this machine, `TF_CONFIG`, Slurm or a host list.

A rank is one process, with one device, and its number among all. Rank r listens at address r.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from myxtts.errors import TrainingError, UsageError

TF_CONFIG, SLURM = "tf-config", "slurm"
FIRST_PORT = 29400
LOST_TIMEOUT = 10.0

# Two jobs on a Slurm node must not meet: each has so many ports of its own, by its number.
_PORTS_OF_JOB = 32
_JOBS = 1000


class RankLostError(TrainingError):
    """Another process has ended, or does not answer.

    Attributes:
        rank: its number, or None if it is not known.
    """

    def __init__(self, rank: int | None) -> None:
        super().__init__("another process is gone" if rank is None else f"rank {rank} is gone")
        self.rank = rank


@dataclass(frozen=True)
class Rank:
    """One of the processes that train together.

    Attributes:
        number: from 0; 0 is the one that writes, validates and reports.
        addresses: `host:port` of every rank.
        on_machine: its number among the ranks of its machine, which is also its GPU.
        of_machine: how many those are.
        lost_timeout: seconds of silence after which a rank counts as lost.
    """

    number: int
    addresses: tuple[str, ...]
    on_machine: int = 0
    of_machine: int = 1
    lost_timeout: float = LOST_TIMEOUT

    def name(self, number: int) -> str:
        """What messages call a rank."""
        return f"rank {number} ({self.addresses[number]})"


@dataclass(frozen=True)
class Cluster:
    """All ranks, and those that are started here.

    Attributes:
        addresses: `host:port` of every rank.
        here: the ranks to start on this machine.
        first_device: number on the machine of the first of them.
        lost_timeout: seconds of silence after which a rank counts as lost.
    """

    addresses: tuple[str, ...]
    here: tuple[int, ...]
    first_device: int = 0
    lost_timeout: float = LOST_TIMEOUT

    def ranks(self) -> list[Rank]:
        """The ranks to start here."""
        last = self.first_device + len(self.here)
        return [
            Rank(number, self.addresses, device, last, self.lost_timeout)
            for device, number in enumerate(self.here, start=self.first_device)
        ]


def find_cluster(devices: int, described: str | None, environment: Mapping[str, str] = os.environ) -> Cluster:
    """The cluster that `--devices` and `--cluster` ask for.

    Args:
        devices: processes to start on this machine.
        described: `tf-config`, `slurm`, or hosts separated by commas, each with a port if need be; None: this machine
            alone.
        environment: variables of `TF_CONFIG` and Slurm.

    Raises:
        UsageError: it cannot be understood, or this machine is not in it.
    """
    if devices < 1:
        raise UsageError(f"--devices {devices}: should be 1 or more")
    if described is None:
        return on_this_machine(devices)
    if described in (TF_CONFIG, SLURM) and devices != 1:
        raise UsageError(f"--cluster {described} starts one process for each rank; leave --devices out")
    if described == TF_CONFIG:
        return _from_tf_config(environment)
    if described == SLURM:
        return _from_slurm(environment)
    return _from_hosts(described, devices)


def on_this_machine(devices: int) -> Cluster:
    """Ranks that listen on free ports of the loopback address."""
    sockets = [socket.socket() for _ in range(devices)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = tuple(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    finally:
        for one in sockets:
            one.close()
    return Cluster(addresses, tuple(range(devices)))


def _from_tf_config(environment: Mapping[str, str]) -> Cluster:
    text = environment.get("TF_CONFIG")
    if text is None:
        raise UsageError("--cluster tf-config: the environment variable TF_CONFIG is not set")
    try:
        config = json.loads(text)
        addresses = tuple(str(one) for one in config["cluster"]["worker"])
        kind, number = config["task"]["type"], int(config["task"]["index"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            "--cluster tf-config: TF_CONFIG should be "
            '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}} '
            f"({type(error).__name__}: {error})"
        ) from None
    if kind != "worker" or set(config["cluster"]) != {"worker"}:
        raise UsageError("--cluster tf-config: TF_CONFIG has other kinds of tasks than worker")
    if not 0 <= number < len(addresses):
        raise UsageError(f"--cluster tf-config: task {number} of {len(addresses)} workers in TF_CONFIG")
    same_host = [rank for rank, one in enumerate(addresses) if _host(one) == _host(addresses[number])]
    return Cluster(addresses, (number,), same_host.index(number))


def _from_slurm(environment: Mapping[str, str]) -> Cluster:
    try:
        number, tasks = int(environment["SLURM_PROCID"]), int(environment["SLURM_NTASKS"])
        device, job = int(environment["SLURM_LOCALID"]), int(environment["SLURM_JOB_ID"])
        hosts = expand_hosts(environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"])
        counts = expand_counts(environment.get("SLURM_STEP_TASKS_PER_NODE") or environment["SLURM_TASKS_PER_NODE"])
    except KeyError as error:
        raise UsageError(f"--cluster slurm: {error.args[0]} is not set; start it with srun") from None
    except ValueError as error:
        raise UsageError(f"--cluster slurm: Slurm's variables cannot be read ({error})") from None
    first = FIRST_PORT - _PORTS_OF_JOB * _JOBS // 2 + _PORTS_OF_JOB * (job % _JOBS)
    places = [(host, place) for host, count in zip(hosts, counts, strict=False) for place in range(count)]
    if len(places) != tasks or places[number][1] != device:
        raise UsageError("--cluster slurm: tasks should follow one another on each node; srun --distribution=block")
    return Cluster(tuple(f"{host}:{first + place}" for host, place in places), (number,), device)


def expand_hosts(text: str) -> list[str]:
    """The hosts of Slurm's short form: `gpu[01-03,7],login` are gpu01, gpu02, gpu03, gpu7 and login."""
    hosts = []
    for name, inside, after in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?([^,\[\]]*)(?:,|$)", text):
        for part in inside.split(",") if inside else [""]:
            first, dash, last = part.partition("-")
            numbers = range(int(first), int(last) + 1) if dash else ()
            written = [f"{number:0{len(first)}d}" for number in numbers] if dash else [part]
            hosts += [name + number + after for number in written]
    if not hosts:
        raise ValueError(f"no host in {text!r}")
    return hosts


def expand_counts(text: str) -> list[int]:
    """Tasks per node in Slurm's short form: `2(x3),1` are 2, 2, 2 and 1."""
    counts = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if found is None:
            raise ValueError(f"{text!r} is not a list of counts")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def _from_hosts(text: str, devices: int) -> Cluster:
    hosts = [one.strip() for one in text.split(",")]
    if not all(hosts) or len(set(hosts)) != len(hosts):
        raise UsageError(
            f"--cluster {text}: should be tf-config, slurm, or each host once, separated by commas: a,b or a:4000,b"
        )
    addresses: list[str] = []
    for host in hosts:
        name, _, port = host.partition(":")
        if port and not port.isdecimal():
            raise UsageError(f"--cluster {text}: {port!r} is not a port")
        addresses += [f"{name}:{int(port or FIRST_PORT) + device}" for device in range(devices)]
    here = [place for place, host in enumerate(hosts) if _is_this_machine(host.partition(":")[0])]
    if len(here) != 1:
        what = "is none of these hosts" if not here else "is more than one of these hosts"
        raise UsageError(f"--cluster {text}: this machine ({socket.gethostname()}) {what}; use --cluster tf-config")
    first = here[0] * devices
    return Cluster(tuple(addresses), tuple(range(first, first + devices)))


def _is_this_machine(host: str) -> bool:
    """Whether an address of this machine has that name: a socket can be bound to it."""
    if host == socket.gethostname():
        return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as one:
            try:
                one.bind((address[0], 0))
            except OSError:
                continue
            return True
    return False


def not_listening(addresses: Sequence[str], seconds: float = 1.0) -> list[int]:
    """The ranks at whose addresses nobody listens."""
    silent = []
    for number, address in enumerate(addresses):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), seconds).close()
        except OSError:
            silent.append(number)
    return silent


def _host(address: str) -> str:
    return address.rpartition(":")[0]
