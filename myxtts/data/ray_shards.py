"""Computes the shards of a store as tasks of a Ray cluster, or of Ray on this machine.

Ray only decides where a shard is computed, and starts it again where a worker or a machine dies; a shard continues
from its journal. All machines see the data set and the store under the same path. Ray is imported when it is used.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from myxtts.config.config import DataConfig
from myxtts.data.clips.metadata import Metadata
from myxtts.data.precompute import NoProgress, Shard, WorkProgress, precompute_shard
from myxtts.data.store.shards import journaled_mels
from myxtts.data.store.target import Target
from myxtts.errors import DataError, MissingExtraError, MyXTTSError, UsageError

logger = logging.getLogger(__name__)

RETRIES = 3  # of a task whose worker died
_LEAST_CLIPS = 64  # of a shard: below, starting it takes longer than computing it
_POLL_SECONDS = 0.5
_CONNECT_SECONDS = 10.0
# Enough for Ray; shards return a few numbers.
_OBJECT_STORE_BYTES = 80 << 20


def compute_shards(
    config: DataConfig,
    metadata: Metadata,
    address: str | None = None,
    progress: WorkProgress | None = None,
    shards: int | None = None,
) -> list[str]:
    """Computes the clips that the store of a configuration does not have, in shards; `precompute` then makes it.

    Args:
        config: the data set, its audio and text settings, where the store is.
        metadata: of the data set.
        address: of a Ray cluster, `host:port` or `auto`; None starts Ray on this machine, on `num_workers` CPUs.
        progress: watches the work.
        shards: how many; None: one per CPU.

    Returns:
        One line for each shard that was given up because its workers kept dying. What it lacks is missing.

    Raises:
        MissingExtraError: Ray is not installed.
        UsageError: there is no such cluster.
        DataError: a shard cannot be computed: what `precompute_shard` raises.
    """
    progress = progress or NoProgress()
    with _connected(address, config.workers) as ray:
        clips = len(metadata.clips)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        count = shards or max(1, min(cpus, clips // _LEAST_CLIPS))
        task = ray.remote(_compute_shard).options(num_cpus=1, max_retries=RETRIES)
        settings, folder = config.model_dump(), os.getcwd()
        numbers = {task.remote(settings, folder, number, count): number for number in range(1, count + 1)}
        targets = [] if config.in_parts else Target.candidates(config)
        progress.stage("mels", clips)
        watched, waiting, given_up = 0, list(numbers), []
        while waiting:
            finished, waiting = ray.wait(waiting, num_returns=1, timeout=_POLL_SECONDS)
            done = max([watched, *map(journaled_mels, targets)])
            progress.advance(done - watched)
            watched = done
            for one in finished:
                try:
                    mistake = ray.get(one)
                except ray.exceptions.RayError as error:
                    given_up.append(f"shard {Shard(numbers[one], count)} was given up: {_first_line(error)}")
                else:
                    if mistake is not None:
                        raise DataError(f"shard {Shard(numbers[one], count)}: {mistake}")
        return given_up


def _compute_shard(settings: dict[str, Any], folder: str, number: int, count: int) -> str | None:
    """What runs in a worker of Ray; returns a user's mistake as text."""
    try:
        os.chdir(folder)  # paths may be relative to where the program was started
    except OSError as error:
        return f"{folder}: {error.strerror} on {os.uname().nodename}; all machines need the same folders"
    try:
        precompute_shard(DataConfig(**settings), Shard(number, count), num_workers=1)
    except MyXTTSError as error:
        return str(error)
    return None


@contextmanager
def _connected(address: str | None, cpus: int) -> Iterator[Any]:
    """Ray, connected to a cluster or started here, and left or stopped afterwards."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("--ray", "ray") from None
    settings: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        settings |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
        settings |= {"object_store_memory": _OBJECT_STORE_BYTES, "_node_ip_address": "127.0.0.1"}
    else:
        _require_listening(address)
        settings["address"] = address
    try:
        ray.init(**settings)
    except Exception as error:  # of many types; what it says is for people
        ray.shutdown()
        what = "Ray cannot be started here" if address is None else f"--ray {address}"
        raise UsageError(f"{what}: {_first_line(error)}") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_listening(address: str) -> None:
    """Where nobody listens, Ray tries for a quarter of an hour before it says so."""
    match = re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:([0-9]+)", address)
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise UsageError(f"--ray {address}: no Ray cluster there ({error.strerror or error})") from None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
