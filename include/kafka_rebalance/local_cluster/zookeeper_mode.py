"""ZooKeeper mode: one ZooKeeper, or an ensemble, beside the brokers."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster import zookeeper_topics
from kafka_rebalance.local_cluster.jvms.server_settings import Peer, zookeeper_settings
from kafka_rebalance.local_cluster.machine.ports import accepts_connections, free_ports
from kafka_rebalance.local_cluster.mode import Layout, Properties, Replicas
from kafka_rebalance.local_cluster.security.server_security import ServerSecurity


class ZooKeeperMode:
    """See `Mode`. Servers are numbered from 1."""

    def __init__(
        self, servers: int = 1, ports: Mapping[int, int] | None = None, security: ServerSecurity | None = None
    ) -> None:
        self._servers = servers
        self._security = security
        self.server_ports = dict(ports or {})
        self.ensemble: dict[int, Peer] = {}  # empty if there is one ZooKeeper

    @property
    def name(self) -> str:
        return "ZooKeeper"

    @property
    def ports(self) -> Collection[int]:
        return {*self.server_ports.values(), *(port for peer in self.ensemble.values() for port in peer)}

    @property
    def connect(self) -> str:
        """`host:port` of every server, stopped ones too."""
        return ",".join(f"127.0.0.1:{port}" for port in self.server_ports.values())

    def plan(self, brokers: Collection[int]) -> None:
        taken = free_ports(3 * self._servers)
        numbers = range(1, self._servers + 1)
        self.server_ports = dict(zip(numbers, taken, strict=False))
        peers = (Peer(*taken[at : at + 2]) for at in range(self._servers, len(taken), 2))
        self.ensemble = dict(zip(numbers, peers, strict=True)) if self._servers > 1 else {}

    def settings(self, broker: int, port: int, folder: Path) -> Properties:
        return zookeeper_settings(broker, self.connect)

    def start(self, layout: Layout, folder: Path, brokers: Mapping[int, Properties]) -> None:
        self.start_servers(layout, self.server_ports)

    def start_servers(self, layout: Layout, ports: Mapping[int, int]) -> None:
        """Some of its servers, by number."""
        layout.start_zookeepers(ports, self.ensemble, tls=self._security is not None)

    def join(self, layout: Layout, brokers: Mapping[int, Properties]) -> None:
        """A broker that starts registers by itself."""

    def is_up(self) -> bool:
        return any(accepts_connections(port) for port in self.server_ports.values())

    @contextmanager
    def open(self, bootstrap_servers: str) -> Iterator["ZooKeeperRegistry"]:
        with zookeeper_topics.open_client(self.connect, self.client_options) as client:
            yield ZooKeeperRegistry(client)

    @property
    def client_options(self) -> Mapping[str, Any]:
        """kazoo's, beside the address."""
        return {} if self._security is None else self._security.kazoo_options

    def to_state(self) -> dict[str, Any]:
        return {"zookeeper_port": self.server_ports[1]}


class ZooKeeperRegistry:
    """See `Registry`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def read_registered(self) -> frozenset[int]:
        return zookeeper_topics.read_registered(self._client)

    def have_joined(self, brokers: Collection[int]) -> bool:
        return self.read_registered().issuperset(brokers) and zookeeper_topics.read_controller(self._client) is not None

    def has_left(self, broker: int) -> bool:
        registered, controller = self.read_registered(), zookeeper_topics.read_controller(self._client)
        return broker not in registered and controller != broker and (controller is not None or not registered)

    def create_topic(self, topic: str, replicas: Replicas, config: Mapping[str, str]) -> None:
        zookeeper_topics.write_topic(self._client, topic, replicas, config)

    def read_leaderless(self, topic: str, partitions: Collection[int]) -> frozenset[int]:
        return zookeeper_topics.read_leaderless(self._client, topic, partitions)
