"""The cluster for all cases of one version: three ZooKeepers and four brokers in three racks, each in its own JVM."""

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
from local_cluster import LocalCluster, zookeeper_topics

BROKERS, ZOOKEEPERS = (1, 2, 3, 4), (1, 2, 3)
TARGET, RACK = 4, (1, 4)
BEFORE = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
AFTER = {0: (4, 2, 3), 1: (3, 2, 4), 2: (3, 4, 2), 3: (4, 3, 2)}  # the approved lists: 4 replaces 1
BULK_BYTES = 3_000_000  # in each partition, before the load
RATE = 2_000_000  # the throttle's bytes per second: the copies take about six seconds
PRIOR_ENTITY = "brokers/2"  # somebody else has throttled it before the run, and its throttle must come back
PRIOR = {"leader.replication.throttled.rate": "77000000"}
SESSION_SECONDS = 6
_quiet = logging.getLogger("faults.kazoo")  # lost connections are expected here
_quiet.setLevel(logging.CRITICAL)
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"
WAIT_SECONDS = 90
DISK_BYTES = 400_000_000  # of the target's own file system; a deleted topic stays on it for a minute
CONFIG = {
    "zookeeper.session.timeout.ms": SESSION_SECONDS * 1000,
    "replica.lag.time.max.ms": 3000,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "replica.high.watermark.checkpoint.interval.ms": 500,  # a broker notices a lost log dir when it writes to it
}


@dataclass(frozen=True, slots=True)
class Truth:
    """The state in ZooKeeper, read without any code of the product."""

    replicas: Mapping[int, tuple[int, ...]]
    isr: Mapping[int, frozenset[int]]
    leaders: Mapping[int, int]
    marked: bool  # adding_replicas or removing_replicas are not empty
    reassigning: bool
    throttles: Mapping[str, Mapping[str, str]]
    locked: bool

    @property
    def as_approved(self) -> bool:
        """Approved lists in order, in sync without any other replica, led by the first; nothing in motion."""
        return (
            self.is_placed
            and all(self.isr[partition] == set(after) for partition, after in AFTER.items())
            and all(self.leaders[partition] == after[0] for partition, after in AFTER.items())
        )

    @property
    def is_placed(self) -> bool:
        """Approved lists in order, and nothing in motion. The ISR may be incomplete."""
        placed = all(self.replicas.get(partition) == after for partition, after in AFTER.items())
        return placed and not (self.marked or self.reassigning)


@contextmanager
def running(version: str, folder: Path) -> Iterator[FaultCluster]:
    """Starts the cluster of one version. Each broker has two log dirs; somebody else has throttled one broker."""
    disks = folder.with_name(f"{folder.name}-disks")
    config = CONFIG | {"log.dirs": f"{disks}/{{id}}/a,{disks}/{{id}}/b"}
    with (
        own_file_system(disks / str(TARGET), DISK_BYTES),
        LocalCluster(
            version, brokers=4, racks=3, zookeepers=3, one_jvm=False, folder=folder, broker_config=config
        ) as local,
    ):
        # A session that outlives the faults, because they must not end our watching.
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
    """Reads and changes the cluster for the cases."""

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
        """Adds partitions to the topic's znode and keeps its other content. Tries again if somebody else writes it."""
        path = f"/brokers/topics/{topic}"
        while True:
            content, stat = self.client.get(path)
            document = json.loads(content)
            document["partitions"] |= {str(partition): list(replicas) for partition, replicas in added.items()}
            with contextlib.suppress(BadVersionError):
                self.client.set(path, json.dumps(document).encode(), stat.version)
                return

    def remove_rates(self) -> None:
        """Removes the throttle's rates of every registered broker."""
        for broker in sorted(self.registered()):
            config = (self._json(f"/config/brokers/{broker}") or {}).get("config", {})
            self.configure(f"brokers/{broker}", {k: v for k, v in config.items() if not k.endswith("throttled.rate")})

    def throttle_before(self) -> None:
        self.configure(PRIOR_ENTITY, PRIOR)

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Sets an entity's whole config and notifies the brokers."""
        data = json.dumps({"version": 1, "config": dict(config)}).encode()
        self.client.ensure_path(f"/config/{entity}")
        self.client.set(f"/config/{entity}", data)
        change = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.client.create("/config/changes/config_change_", change, sequence=True)

    def disk(self, broker: int) -> Path:
        """The folder of the broker's log dirs. The target's is its own file system, if this machine may mount one."""
        return self.disks / str(broker)

    def log_dirs(self, broker: int) -> tuple[Path, Path]:
        return self.disk(broker) / "a", self.disk(broker) / "b"

    def pid(self, broker: int) -> int:
        """The pid of the broker's JVM, which has its properties file on its command line."""
        name = str(self.local.folder / f"broker-{broker}.properties").encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if name in (process / "cmdline").read_bytes().split(b"\0"):
                    return int(process.name)
        raise RuntimeError(f"broker {broker} does not run")

    def restart(self, broker: int) -> None:
        """Kills the broker if it still runs, and starts it with its data."""
        if self.local.is_running(broker):
            self.local.kill_broker(broker)
        self.local.start_broker(broker)

    def elect_controller(self) -> None:
        """Deletes `/controller`, so that some broker becomes the next controller."""
        with contextlib.suppress(NoNodeError):
            self.client.delete("/controller")
        self.wait("there is a controller", lambda: self.controller() is not None)

    def registered(self) -> frozenset[int]:
        return zookeeper_topics.read_registered(self.client)

    def controller(self) -> int | None:
        return zookeeper_topics.read_controller(self.client)

    def move_controller(self, away_from: int) -> None:
        """Elects until another broker is the controller."""
        for _ in range(20):
            if self.controller() not in (None, away_from):
                return
            self.elect_controller()
        raise RuntimeError(f"broker {away_from} is still the controller after 20 elections")

    def zookeeper_leader(self) -> int:
        """The server that says that it leads the ensemble (`srvr`)."""
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
        """Bytes of the topic's segments in the broker's log dirs."""
        found = 0
        for folder in self.disk(broker).glob(f"?/{topic}-[0-9]"):
            with contextlib.suppress(OSError):
                found += sum(segment.stat().st_size for segment in folder.glob("*.log"))
        return found

    def reassignment(self) -> int | None:
        """The zxid that created the reassignment znode; None if there is none."""
        stat = self.client.exists(REASSIGN)
        return stat.czxid if stat else None

    def is_locked(self) -> bool:
        """Whether a run holds the cluster."""
        return self.client.exists(LOCK) is not None

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        document = self._json(f"/brokers/topics/{topic}/partitions/{partition}/state")
        return frozenset(document["isr"]) if document else frozenset()

    def read(self, topic: str) -> Truth:
        document = self._json(f"/brokers/topics/{topic}") or {"partitions": {}}
        partitions = {*BEFORE, *map(int, document["partitions"])}  # somebody may have added partitions
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
        """Like `read`, but waits while ZooKeeper does not answer."""
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return self.read(topic)
            except KazooException:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

    def throttles(self) -> dict[str, dict[str, str]]:
        """{entity: {key: value}} of every config key that throttles replication."""
        found = {}
        for kind in ("brokers", "topics"):
            for name in self.client.get_children(f"/config/{kind}"):
                config = (self._json(f"/config/{kind}/{name}") or {}).get("config", {})
                if values := {key: value for key, value in config.items() if "throttled" in key}:
                    found[f"{kind}/{name}"] = values
        return found

    def healthy(self, topic: str) -> bool:
        """Whether all brokers are registered and every replica of the topic is in sync."""
        truth = self.read(topic)
        return self.registered() == set(BROKERS) and all(truth.isr[p] == set(r) for p, r in truth.replicas.items())

    def wait(self, what: str, holds: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        give_up = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > give_up:
                raise TimeoutError(f"this has not come true within {seconds:.0f} s: {what}")
            time.sleep(0.05)

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self.client.get(path)[0])
        except NoNodeError:
            return None
