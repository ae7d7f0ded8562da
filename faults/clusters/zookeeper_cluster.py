"""The cluster of the cases with three ZooKeepers."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoNodeError

from faults.clusters.fault_cluster import BEFORE, FaultCluster, Truth, is_throttle
from kafka_rebalance.local_cluster import LocalCluster, zookeeper_topics

_quiet = logging.getLogger("faults.kazoo")  # lost connections are expected here
_quiet.setLevel(logging.CRITICAL)
REASSIGN, LOCK = "/admin/reassign_partitions", "/kafka_rebalance/run"


class ZooKeeperFaultCluster(FaultCluster):
    has_zookeeper = True

    def __init__(self, local: LocalCluster, disks: Path) -> None:
        super().__init__(local, disks)
        # A session that outlives the faults, because they must not end our watching.
        self.client = KazooClient(local.zookeeper, timeout=30, logger=_quiet)
        self.client.start(timeout=30)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.stop()
            self.client.close()

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

    def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Sets an entity's whole config and notifies the brokers."""
        data = json.dumps({"version": 1, "config": dict(config)}).encode()
        self.client.ensure_path(f"/config/{entity}")
        self.client.set(f"/config/{entity}", data)
        change = json.dumps({"version": 2, "entity_path": entity}).encode()
        self.client.create("/config/changes/config_change_", change, sequence=True)

    def elect_controller(self) -> None:
        """Deletes `/controller`, so that some broker becomes the next controller."""
        with contextlib.suppress(NoNodeError):
            self.client.delete("/controller")
        self.wait("there is a controller", lambda: self.controller() is not None)

    def registered(self) -> frozenset[int]:
        return zookeeper_topics.read_registered(self.client)

    def controller(self) -> int | None:
        return zookeeper_topics.read_controller(self.client)

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

    def throttles(self) -> dict[str, dict[str, str]]:
        """{entity: {key: value}} of every config key that throttles replication."""
        found = {}
        for kind in ("brokers", "topics"):
            for name in self.client.get_children(f"/config/{kind}"):
                config = (self._json(f"/config/{kind}/{name}") or {}).get("config", {})
                if values := {key: value for key, value in config.items() if is_throttle(key)}:
                    found[f"{kind}/{name}"] = values
        return found

    def _json(self, path: str) -> Any:
        try:
            return json.loads(self.client.get(path)[0])
        except NoNodeError:
            return None
