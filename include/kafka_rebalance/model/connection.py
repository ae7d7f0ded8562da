"""How to reach one cluster: what the Airflow connection holds, checked. Secrets never show in a repr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ZooKeeperConnection:
    """`hosts` is ZooKeeper's connect string with its chroot: `zk1:2181,zk2:2181/kafka`."""

    hosts: str
    sasl_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # kazoo's: mechanism, username, password
    tls_options: Mapping[str, object] = field(default_factory=dict, repr=False)  # kazoo's: use_ssl, ca, certfile, ...
    session_timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """`security` has librdkafka's names: `security.protocol`, `sasl.mechanism`, `sasl.username`, `ssl.ca.location`."""

    bootstrap_servers: str
    security: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class BrokerCapacity:
    """What an operator states about one broker, None where unknown."""

    disk_bytes: int | None = None
    nic_in_bytes_per_second: float | None = None
    nic_out_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """One Airflow connection of type `kafka_zookeeper`."""

    connection_id: str
    zookeeper: ZooKeeperConnection
    kafka: KafkaConnection
    expected_cluster_id: str | None = None
    capacities: Mapping[int, BrokerCapacity] = field(default_factory=dict)
