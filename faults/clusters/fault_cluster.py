"""The cluster for all cases of one version: four brokers in three racks, with three ZooKeepers, or with controllers.

Each server has its own JVM.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka.errors import KafkaError
from kazoo.exceptions import KazooException

from kafka_rebalance.local_cluster import LocalCluster

BROKERS, ZOOKEEPERS, CONTROLLERS = (1, 2, 3, 4), (1, 2, 3), (101, 102, 103)
TARGET, RACK = 4, (1, 4)
COPYING = 1  # the broker whose copies between log dirs a fault strikes
LOG_DIRS = ("a", "b", "c")  # of each broker in the cases between log dirs
BEFORE = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
AFTER = {0: (4, 2, 3), 1: (3, 2, 4), 2: (3, 4, 2), 3: (4, 3, 2)}  # the approved lists: 4 replaces 1
BULK_BYTES = 3_000_000  # in each partition, before the load
RATE = 2_000_000  # the throttle's bytes per second: the copies take about six seconds
PRIOR_ENTITY = "brokers/2"  # somebody else has throttled it before the run, and its throttle must come back
PRIOR = {"leader.replication.throttled.rate": "77000000"}
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
SESSION_SECONDS = 6
AWAY = (KazooException, KafkaError, OSError)  # nobody answers now, because the fault has struck it
WAIT_SECONDS = 90
DISK_BYTES = 400_000_000  # of the target's own file system; a deleted topic stays on it for a minute
CONFIG: dict[str, str | int] = {
    "replica.lag.time.max.ms": 3000,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "replica.high.watermark.checkpoint.interval.ms": 500,  # a broker notices a lost log dir when it writes to it
}


def is_throttle(key: str) -> bool:
    """Whether this key of a config slows copies, between brokers or between log dirs."""
    return "throttled" in key or key == LOG_DIR_RATE


@dataclass(frozen=True, slots=True)
class Truth:
    """The state of the cluster, read without any code of the product."""

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


class FaultCluster(ABC):
    """Reads and changes the cluster for the cases."""

    has_zookeeper: bool

    def __init__(self, local: LocalCluster, disks: Path) -> None:
        self.local, self.disks = local, disks

    def make_topic(self, topic: str) -> None:
        self.local.create_topic(topic, BEFORE, {"min.insync.replicas": 2})
        self.wait("all replicas are in sync", lambda: self.read(topic).isr == {p: set(r) for p, r in BEFORE.items()})

    def delete_topic(self, topic: str) -> None:
        self.request_deletion(topic)
        self.wait_deleted(topic)

    def throttle_before(self) -> None:
        self.configure(PRIOR_ENTITY, PRIOR)

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

    def bytes_on(self, broker: int, topic: str) -> int:
        """Bytes of the topic's segments in the broker's log dirs."""
        found = 0
        for folder in self.disk(broker).glob(f"?/{topic}-[0-9]"):
            with contextlib.suppress(OSError):
                found += sum(segment.stat().st_size for segment in folder.glob("*.log"))
        return found

    def settled(self, topic: str) -> Truth:
        """Like `read`, but waits while nobody answers."""
        give_up = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return self.read(topic)
            except AWAY:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

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

    def move_controller(self, away_from: int) -> None:
        """Elects until another broker is the controller."""
        for _ in range(20):
            if self.controller() not in (None, away_from):
                return
            self.elect_controller()
        raise RuntimeError(f"broker {away_from} is still the controller after 20 elections")

    @abstractmethod
    def request_deletion(self, topic: str) -> None: ...

    @abstractmethod
    def wait_deleted(self, topic: str) -> None: ...

    @abstractmethod
    def add_partitions(self, topic: str, added: Mapping[int, tuple[int, ...]]) -> None: ...

    @abstractmethod
    def remove_rates(self) -> None:
        """Removes the throttle's rates of every live broker."""

    @abstractmethod
    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Sets an entity's whole config."""

    @abstractmethod
    def elect_controller(self) -> None:
        """Lets some broker become the next controller."""

    def zookeeper_leader(self) -> int:
        """The server that says that it leads the ensemble."""
        raise RuntimeError("there is no ZooKeeper")

    @abstractmethod
    def registered(self) -> frozenset[int]:
        """The live brokers."""

    @abstractmethod
    def controller(self) -> int | None:
        """The active controller's node id."""

    @abstractmethod
    def reassignment(self) -> int | None:
        """What tells one request to move replicas from another; None if nothing is requested."""

    @abstractmethod
    def is_locked(self) -> bool:
        """Whether a run holds the cluster."""

    @abstractmethod
    def isr(self, topic: str, partition: int) -> frozenset[int]: ...

    @abstractmethod
    def read(self, topic: str) -> Truth: ...

    @abstractmethod
    def throttles(self) -> dict[str, dict[str, str]]:
        """{entity: {key: value}} of every config key that throttles replication."""
