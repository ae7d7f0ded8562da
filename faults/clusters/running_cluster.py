"""Starts the cluster for the cases of one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from faults.cases import without_suffix
from faults.clusters.fault_cluster import (
    BROKERS,
    CONFIG,
    CONTROLLERS,
    DISK_BYTES,
    LOG_DIRS,
    SESSION_SECONDS,
    TARGET,
    ZOOKEEPERS,
    FaultCluster,
)
from faults.clusters.file_systems import own_file_system
from faults.clusters.kraft_cluster import KraftFaultCluster
from faults.clusters.zookeeper_cluster import ZooKeeperFaultCluster
from kafka_rebalance.local_cluster import LocalCluster


@contextmanager
def running(
    version: str,
    folder: Path,
    *,
    own_quorum: bool = False,
    disk_bytes: int = DISK_BYTES,
    log_dirs: Sequence[str] = LOG_DIRS[:2],
) -> Iterator[FaultCluster]:
    """Starts the cluster of one version. Each broker has these log dirs; somebody else has throttled one broker.

    `own_quorum`: its controllers are no brokers; without ZooKeeper alone. `disk_bytes`: of the target's file system.
    """
    disks = folder.with_name(f"{folder.name}-disks")
    kafka = without_suffix(version)
    kraft = kafka != version
    session = "broker.session.timeout.ms" if kraft else "zookeeper.session.timeout.ms"
    config: dict[str, str | int] = {
        **CONFIG,
        "log.dirs": ",".join(f"{disks}/{{id}}/{name}" for name in log_dirs),
        session: SESSION_SECONDS * 1000,
    }
    with (
        own_file_system(disks / str(TARGET), disk_bytes),
        LocalCluster(
            kafka,
            brokers=len(BROKERS),
            racks=3,
            zookeepers=1 if kraft else len(ZOOKEEPERS),
            kraft=kraft,
            controllers=len(CONTROLLERS) if own_quorum else 0,
            one_jvm=False,
            folder=folder,
            broker_config=config,
        ) as local,
        closing((KraftFaultCluster if kraft else ZooKeeperFaultCluster)(local, disks)) as cluster,
    ):
        cluster.throttle_before()
        yield cluster
