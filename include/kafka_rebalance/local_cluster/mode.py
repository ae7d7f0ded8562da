"""What the brokers of a cluster register with: ZooKeeper, or the controllers of KRaft."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.locked_jars import KRAFT_VERSIONS, VERSIONS, WITHOUT_PEM
from kafka_rebalance.local_cluster.jvms.one_jvm import OneJvm
from kafka_rebalance.local_cluster.jvms.separate_jvms import SeparateJvms

Layout = OneJvm | SeparateJvms
Properties = Mapping[str, str]
Replicas = Mapping[int, Sequence[int]]  # by partition, the preferred leader first


class Registry(Protocol):
    """An open connection to it."""

    def read_registered(self) -> frozenset[int]:
        """The brokers that have a session."""

    def have_joined(self, brokers: Collection[int]) -> bool:
        """Whether all of them have a session, and there is a controller."""

    def has_left(self, broker: int) -> bool:
        """Whether it has no session any more, and another broker is controller where brokers are left."""

    def create_topic(self, topic: str, replicas: Replicas, config: Mapping[str, str]) -> None:
        """Returns before the topic has leaders."""

    def read_leaderless(self, topic: str, partitions: Collection[int]) -> frozenset[int]:
        """The partitions that no broker leads yet."""


class Mode(Protocol):
    """One of the two: its own servers, and what brokers have to know of it."""

    @property
    def name(self) -> str:
        """As an error or a line of progress says it."""

    @property
    def ports(self) -> Collection[int]:
        """That its own servers take."""

    def plan(self, brokers: Collection[int]) -> None:
        """Choose ports, before anything starts."""

    def settings(self, broker: int, port: int, folder: Path) -> Properties:
        """What the broker's server.properties has of it."""

    def start(self, layout: Layout, folder: Path, brokers: Mapping[int, Properties]) -> None:
        """Start its own servers. `brokers` are the properties of the first brokers, which start afterwards."""

    def join(self, layout: Layout, brokers: Mapping[int, Properties]) -> None:
        """Prepare brokers that start later."""

    def is_up(self) -> bool:
        """Whether any server of it takes connections."""

    def open(self, bootstrap_servers: str) -> AbstractContextManager[Registry]:
        """Raises LocalClusterError where it does not answer."""

    def to_state(self) -> dict[str, Any]:
        """What `cluster.json` keeps of it."""


def check_placed(topic: str, replicas: Replicas, brokers: Collection[int]) -> None:
    """Raises where a list names a broker that is none, or one twice."""
    unknown = sorted({broker for ids in replicas.values() for broker in ids} - set(brokers))
    if unknown or not replicas or any(not ids or len(set(ids)) != len(ids) for ids in replicas.values()):
        raise LocalClusterError(
            f"Topic {topic} cannot be placed on {dict(replicas)}: "
            + (f"there is no broker {unknown}" if unknown else "each partition needs different brokers, at least one")
            + f". The cluster has {sorted(brokers)}. The topic was not created."
        )


def check_possible(
    version: str,
    brokers: int,
    racks: int,
    zookeepers: int,
    kraft: bool,
    controllers: int,
    *,
    one_jvm: bool,
    detached: bool,
) -> None:
    """Raises where `LocalCluster` cannot be what was asked for."""
    if brokers < 1 or racks < 0:
        raise LocalClusterError(
            f"A cluster cannot have {brokers} brokers in {racks} racks. Nothing was started. "
            "Ask for at least 1 broker, and for 0 racks or more."
        )
    if zookeepers < 1 or (zookeepers > 1 and (one_jvm or detached)):
        raise LocalClusterError(
            f"A cluster cannot have {zookeepers} ZooKeepers with {one_jvm=} and {detached=}. Nothing was started. "
            "Ask for 1 ZooKeeper, or for more with one_jvm=False and without detached."
        )
    if (kraft and version not in KRAFT_VERSIONS) or (controllers and not kraft) or (kraft and zookeepers > 1):
        raise LocalClusterError(
            f"Kafka {version} cannot have {kraft=}, {controllers=} and {zookeepers=}. Nothing was started. "
            f"KRaft runs with {', '.join(KRAFT_VERSIONS)}, ZooKeeper with {', '.join(VERSIONS)}."
        )


def check_securable(version: str, *, detached: bool) -> None:
    """Raises where `LocalCluster` cannot have `security`."""
    if detached or version in WITHOUT_PEM:
        raise LocalClusterError(
            f"Kafka {version} with {detached=} cannot be secured. Nothing was started. Ask for 2.8 or later, without "
            "detached."
        )
