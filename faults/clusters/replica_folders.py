"""In which log dir each replica of a topic lies, by the brokers' own folders; and the tool that sends it elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import NoError

from faults.clusters.fault_cluster import BROKERS, FaultCluster, Truth

Replica = tuple[int, int]  # partition, broker
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)(?P<is_future>\.[0-9a-f]+-future)?")
_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class DirsTruth:
    """Where the replicas of a topic lie, and what a run has left, read without any code of the product."""

    lying: Mapping[Replica, str]  # the name of each replica's log dir
    coming: Mapping[Replica, str]  # the log dir of each copy that is to take its replica's place
    cluster: Truth
    leased: bool  # the run has not given its rates back


def settled_dirs(cluster: FaultCluster, topic: str, runs: Path) -> DirsTruth:
    """Waits while nobody answers. `runs`: the folder `runs_url`."""
    whole = cluster.settled(topic)
    future = {replica: folder.parent.name for replica, folder in coming(cluster, topic).items()}
    return DirsTruth(lying(cluster, topic), future, whole, _has_open_lease(runs))


def _has_open_lease(runs: Path) -> bool:
    latest = [max(leases.glob("*.json")) for leases in (runs / "leases").iterdir()]
    return any(json.loads(lease.read_text(encoding="utf-8"))["released_at"] is None for lease in latest)


def lying(cluster: FaultCluster, topic: str) -> dict[Replica, str]:
    """The name of each replica's log dir."""
    return {replica: folder.parent.name for replica, folder in _folders(cluster, topic, is_future=False).items()}


def coming(cluster: FaultCluster, topic: str) -> dict[Replica, Path]:
    """The folder of each copy that is to take its replica's place: a future replica."""
    return _folders(cluster, topic, is_future=True)


def bytes_in(folder: Path) -> int:
    """Bytes of its segments; 0 if the folder is gone."""
    found = 0
    with suppress(OSError):
        found = sum(segment.stat().st_size for segment in folder.glob("*.log"))
    return found


def alter(cluster: FaultCluster, topic: str, wanted: Mapping[Replica, str]) -> None:
    """Asks the brokers as `kafka-reassign-partitions` does. Raises RuntimeError if one refuses."""
    targets = {(topic, *replica): str(cluster.disk(replica[1]) / name) for replica, name in wanted.items()}
    servers = cluster.local.bootstrap_servers.split(",")
    with closing(KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=_TIMEOUT_MS)) as tool:
        refused = {one: why for one, why in tool.alter_replica_log_dirs(targets).items() if why is not NoError}
    if refused:
        raise RuntimeError(f"log dirs were not altered: {refused}")


def gather(cluster: FaultCluster, topic: str, name: str) -> None:
    """Sends every replica of the topic into the log dir of this name on its broker, and waits until it lies there."""
    alter(cluster, topic, dict.fromkeys(lying(cluster, topic), name))
    cluster.wait(
        f"every replica of {topic} lies in {name}",
        lambda: not coming(cluster, topic) and set(lying(cluster, topic).values()) == {name},
    )


def _folders(cluster: FaultCluster, topic: str, *, is_future: bool) -> dict[Replica, Path]:
    found = {}
    for broker in BROKERS:
        for folder in cluster.disk(broker).glob(f"*/{topic}-*"):
            named = _FOLDER.fullmatch(folder.name)
            if named and named["topic"] == topic and bool(named["is_future"]) is is_future:
                found[int(named["partition"]), broker] = folder
    return found
