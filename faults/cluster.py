"""One cluster a version for all of its cases: three ZooKeepers and four brokers in three racks, each a JVM."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NoNodeError

from faults.file_systems import own_file_system
from local_cluster import LocalCluster

BROKERS, ZOOKEEPERS = (1, 2, 3, 4), (1, 2, 3)
TARGET, RACK = 4, (1, 4)
BEFORE = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
AFTER = {0: (4, 2, 3), 1: (3, 2, 4), 2: (3, 4, 2), 3: (4, 3, 2)}  # approved: 4 takes the place of 1
BULK_BYTES = 3_000_000  # of a partition, before the load
RATE = 2_000_000  # bytes per second of the throttle: the copies take about six seconds
PRIOR_ENTITY = "brokers/2"  # was throttled by somebody before the run, and must be so again afterwards
PRIOR = {"leader.replication.throttled.rate": "77000000"}
SESSION_SECONDS = 6
_quiet = logging.getLogger("faults.kazoo")  # lost connections are what is tested
_quiet.setLevel(logging.CRITICAL)
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"
WAIT_SECONDS = 90
DISK_BYTES = 400_000_000  # of the target, where it has a file system of its own; a deleted topic stays for a minute
CONFIG = {
    "zookeeper.session.timeout.ms": SESSION_SECONDS * 1000,
    "replica.lag.time.max.ms": 3000,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "replica.high.watermark.checkpoint.interval.ms": 500,  # a log dir that is gone is noticed when it is written
}


@dataclass(frozen=True, slots=True)
class Truth:
    """What ZooKeeper holds, read by nothing of the product."""

    replicas: Mapping[int, tuple[int, ...]]
    isr: Mapping[int, frozenset[int]]
    leaders: Mapping[int, int]
    marked: bool  # adding_replicas or removing_replicas name anything
    reassigning: bool
    throttles: Mapping[str, Mapping[str, str]]
    locked: bool

    @property
    def as_approved(self) -> bool:
        """Replicas in order, all of them and nobody else in sync, led by the first, and nothing in motion."""
        return (
            self.is_placed
            and all(self.isr[partition] == set(after) for partition, after in AFTER.items())
            and all(self.leaders[partition] == after[0] for partition, after in AFTER.items())
        )

    @property
    def is_placed(self) -> bool:
        """Replicas in order, and nothing in motion; whoever is in sync."""
        placed = all(self.replicas.get(partition) == after for partition, after in AFTER.items())
        return placed and not (self.marked or self.reassigning)


@contextmanager
def running(version: str, folder: Path) -> Iterator[FaultCluster]:
    """The cluster of one version, with one broker throttled by somebody else. Each broker has two log dirs."""
    disks = folder.with_name(f"{folder.name}-disks")
    config = CONFIG | {"log.dirs": f"{disks}/{{id}}/a,{disks}/{{id}}/b"}
    with (
        own_file_system(disks / str(TARGET), DISK_BYTES),
        LocalCluster(
            version, brokers=4, racks=3, zookeepers=3, one_jvm=False, folder=folder, broker_config=config
        ) as local,
    ):
        # A session that outlives the faults: what we watch with must not be what fails.
        client = KazooClient(local.zookeeper, timeout=30, logger=_quiet)
        client.start(timeout=30)
        try:
            cluster = FaultCluster(local, client, disks)
            cluster.throttle_before()
            yield cluster
        finally:
            with contextlib.suppress(Exception):
                client.stop()
                client.close()


class FaultCluster:
    """What cases do to the cluster, and read of it."""

    def __init__(self, local: LocalCluster, client: KazooClient, disks: Path) -> None:
        self.local, self.client, self.disks = local, client, disks

    def make_topic(self, topic: str) -> None:
        self.local.create_topic(topic, BEFORE, {"min.insync.replicas": 2})
        self.wait("all replicas are in sync", lambda: self.read(topic).isr == {p: set(r) for p, r in BEFORE.items()})

    def delete_topic(self, topic: str) -> None:
        self.request_deletion(topic)
        self.wait_deleted(topic)

    def request_deletion(self, topic: str) -> None:
        if self.client.exists(f"/brokers/topics/{topic}"):
            self.client.create(f"/admin/delete_topics/{topic}")

    def wait_deleted(self, topic: str) -> None:
        paths = f"/brokers/topics/{topic}", f"/admin/delete_topics/{topic}"
        self.wait(f"topic {topic} is gone", lambda: not any(self.client.exists(path) for path in paths))

    def add_partitions(self, topic: str, added: Mapping[int, tuple[int, ...]]) -> None:
        """Writes the topic's znode with everything else that it holds, unless somebody writes it meanwhile."""
        path = f"/brokers/topics/{topic}"
        while True:
            content, stat = self.client.get(path)
            document = json.loads(content)
            document["partitions"] |= {str(partition): list(replicas) for partition, replicas in added.items()}
            with contextlib.suppress(BadVersionError):
                self.client.set(path, json.dumps(document).encode(), stat.version)
                return

    def remove_rates(self) -> None:
        """The throttle's rates of every broker that is registered."""
        for broker in sorted(self.registered()):
            config = (self._json(f"/config/brokers/{broker}") or {}).get("config", {})
            self.configure(f"brokers/{broker}", {k: v for k, v in config.items() if not k.endswith("throttled.rate")})

    def throttle_before(self) -> None:
        self.configure(PRIOR_ENTITY, PRIOR)

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Sets an entity's whole config and tells the brokers."""
        data = json.dumps({"version": 1, "config": dict(config)}).encode()
        self.client.ensure_path(f"/config/{entity}")
        self.client.set(f"/config/{entity}", data)
        change = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.client.create("/config/changes/config_change_", change, sequence=True)

    def disk(self, broker: int) -> Path:
        """What its log dirs lie on; the target's is a file system of its own where that may be mounted."""
        return self.disks / str(broker)

    def log_dirs(self, broker: int) -> tuple[Path, Path]:
        return self.disk(broker) / "a", self.disk(broker) / "b"

    def pid(self, broker: int) -> int:
        """Of the broker's JVM, which is started with a file of that name."""
        name = str(self.local.folder / f"broker-{broker}.properties").encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if name in (process / "cmdline").read_bytes().split(b"\0"):
                    return int(process.name)
        raise RuntimeError(f"broker {broker} does not run")

    def restart(self, broker: int) -> None:
        """Ends it, if it has not ended itself, and starts it with its data."""
        if self.local.is_running(broker):
            self.local.kill_broker(broker)
        self.local.start_broker(broker)

    def elect_controller(self) -> None:
        """Makes the controller stand down, for any broker to follow it."""
        with contextlib.suppress(NoNodeError):
            self.client.delete("/controller")
        self.wait("there is a controller", lambda: self.controller() is not None)

    def registered(self) -> frozenset[int]:
        return frozenset(map(int, self.client.get_children("/brokers/ids")))

    def controller(self) -> int | None:
        document = self._json("/controller")
        return None if document is None else int(document["brokerid"])

    def move_controller(self, away_from: int) -> None:
        """Makes another broker the controller."""
        for _ in range(20):
            if self.controller() not in (None, away_from):
                return
            self.elect_controller()
        raise RuntimeError(f"broker {away_from} stays the controller")

    def zookeeper_leader(self) -> int:
        """The server that leads the ensemble, by its own word (`srvr`)."""
        for server, port in enumerate(self.local.zookeeper.split(","), 1):
            host, _, number = port.partition(":")
            try:
                with socket.create_connection((host, int(number)), timeout=2) as asked:
                    asked.sendall(b"srvr")
                    if b"Mode: leader" in b"".join(iter(lambda: asked.recv(4096), b"")):
                        return server
            except OSError:
                continue
        raise RuntimeError("no ZooKeeper says that it leads")

    def bytes_on(self, broker: int, topic: str) -> int:
        """Bytes of the topic's segments in a broker's folder."""
        found = 0
        for folder in self.disk(broker).glob(f"?/{topic}-[0-9]"):
            with contextlib.suppress(OSError):
                found += sum(segment.stat().st_size for segment in folder.glob("*.log"))
        return found

    def reassignment(self) -> int | None:
        """The zxid that created the reassignment znode, None where there is none."""
        stat = self.client.exists(REASSIGN)
        return stat.czxid if stat else None

    def is_locked(self) -> bool:
        """Whether a run of ours has the cluster."""
        return self.client.exists(LOCK) is not None

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        document = self._json(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return frozenset(document["isr"]) if document else frozenset()

    def read(self, topic: str) -> Truth:
        document = self._json(f"/brokers/topics/{topic}") or {"partitions": {}}
        partitions = {*BEFORE, *map(int, document["partitions"])}  # somebody may have added some
        states = {p: self._json(f"/brokers/topics/{topic}/partitions/{p}/state") or {} for p in partitions}
        return Truth(
            replicas={int(p): tuple(replicas) for p, replicas in document["partitions"].items()},
            isr={p: frozenset(state.get("isr", ())) for p, state in states.items()},
            leaders={p: state.get("leader", -1) for p, state in states.items()},
            marked=bool(document.get("adding_replicas") or document.get("removing_replicas")),
            reassigning=self.client.exists(REASSIGN) is not None,
            throttles=self.throttles(),
            locked=self.is_locked(),
        )

    def settled(self, topic: str) -> Truth:
        """The same, waiting for a ZooKeeper that is away."""
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return self.read(topic)
            except KazooException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

    def throttles(self) -> dict[str, dict[str, str]]:
        """Every config key that throttles replication, by entity."""
        found = {}
        for kind in ("brokers", "topics"):
            for name in self.client.get_children(f"/config/{kind}"):
                config = (self._json(f"/config/{kind}/{name}") or {}).get("config", {})
                if values := {key: value for key, value in config.items() if "throttled" in key}:
                    found[f"{kind}/{name}"] = values
        return found

    def healthy(self, topic: str) -> bool:
        """Whether all brokers are there and every replica of the topic is in sync."""
        truth = self.read(topic)
        return self.registered() == set(BROKERS) and all(truth.isr[p] == set(r) for p, r in truth.replicas.items())

    def wait(self, what: str, holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        give_up = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > give_up:
                raise TimeoutError(f"after {seconds:.0f} s it does not hold that {what}")
            time.sleep(0.05)

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self.client.get(path)[0])
        except NoNodeError:
            return None
