"""KRaft mode: controllers that are brokers too (combined), or a quorum of nodes of their own. There is no ZooKeeper."""

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jvms.server_settings import kraft_settings
from kafka_rebalance.local_cluster.machine.ports import accepts_connections, free_ports
from kafka_rebalance.local_cluster.mode import Layout, Properties, Replicas

FIRST_CONTROLLER = 101  # the node ids of a quorum of its own
_COMBINED = 3  # brokers that are controllers too, at most
_REQUEST_SECONDS = 10
_ATTEMPTS = 4
_LOOK_SECONDS = 2  # the client may ask a broker that was just stopped, and is asked again


class KraftMode:
    """See `Mode`. Without `controllers` of their own, the first three brokers are controllers too."""

    def __init__(self, controllers: int = 0, state: Mapping[str, Any] | None = None) -> None:
        self._own = controllers
        self.controller_ports: dict[int, int] = {}
        self.cluster_id = _new_cluster_id()
        if state is not None:
            self.cluster_id = state["cluster_id"]
            self.controller_ports = {int(node): port for node, port in state["controllers"].items()}

    @property
    def name(self) -> str:
        return "the quorum of controllers"

    @property
    def ports(self) -> Collection[int]:
        return self.controller_ports.values()

    @property
    def quorum(self) -> frozenset[int]:
        """The nodes that are controllers alone."""
        return frozenset(node for node in self.controller_ports if node >= FIRST_CONTROLLER)

    def plan(self, brokers: Collection[int]) -> None:
        if self._own:
            nodes = range(FIRST_CONTROLLER, FIRST_CONTROLLER + self._own)
        else:
            nodes = range(1, min(_COMBINED, len(brokers)) + 1)
        self.controller_ports = dict(zip(nodes, free_ports(len(nodes)), strict=True))

    def settings(self, broker: int, port: int | None, folder: Path) -> Properties:
        return kraft_settings(broker, port, self.controller_ports, folder / f"metadata-{broker}")

    def start(self, layout: Layout, folder: Path, brokers: Mapping[int, Properties]) -> None:
        """Format everybody's folders, and start the quorum where it has nodes of its own."""
        alone = {node: self.controller_properties(node, folder) for node in self.quorum}
        self.join(layout, {**alone, **brokers})
        if alone:
            layout.start_brokers(alone)

    def join(self, layout: Layout, brokers: Mapping[int, Properties]) -> None:
        """Format the folders of nodes that are new."""
        new = {broker: values for broker, values in brokers.items() if not Path(values["metadata.log.dir"]).exists()}
        if new:
            layout.format_storage(self.cluster_id, new)

    def controller_properties(self, node: int, folder: Path) -> Properties:
        return {**self.settings(node, None, folder), "log.dirs": str(folder / f"data-{node}")}

    def is_up(self) -> bool:
        return any(accepts_connections(port) for port in self.controller_ports.values())

    @contextmanager
    def open(self, bootstrap_servers: str) -> Iterator["KraftRegistry"]:
        yield KraftRegistry(bootstrap_servers)

    def to_state(self) -> dict[str, Any]:
        return {"cluster_id": self.cluster_id, "controllers": self.controller_ports}


class KraftRegistry:
    """See `Registry`. Asks any broker; a broker that is fenced is not named."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka.admin import AdminClient

        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap_servers,
                "broker.address.family": "v4",
                "allow.auto.create.topics": False,
                "log_level": 0,
            }
        )

    def read_registered(self) -> frozenset[int]:
        from confluent_kafka import KafkaException

        # Metadata, not an admin request: librdkafka may end the whole process when the answer to one of those comes
        # after its time (its issue 4605), and servers that start are slow.
        try:
            return frozenset(self._admin.list_topics(timeout=_LOOK_SECONDS).brokers)
        except KafkaException:  # no broker answers yet
            return frozenset()

    def read_racks(self) -> dict[int, str | None]:
        """The rack of each registered broker."""
        nodes = self._admin.describe_cluster(request_timeout=_REQUEST_SECONDS).result().nodes
        return {node.id: node.rack for node in nodes}

    def read_topics(self) -> frozenset[str]:
        return frozenset(self._admin.list_topics(timeout=_REQUEST_SECONDS).topics)

    def have_joined(self, brokers: Collection[int]) -> bool:
        """A broker has a session only while there is a controller, whose id no client is told."""
        return self.read_registered().issuperset(brokers)

    def has_left(self, broker: int) -> bool:
        return broker not in self.read_registered()

    def create_topic(self, topic: str, replicas: Replicas, config: Mapping[str, str]) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        lists = [list(replicas[partition]) for partition in sorted(replicas)]
        new = NewTopic(topic, len(lists), replica_assignment=lists, config=dict(config))
        for attempt in range(_ATTEMPTS):
            try:
                self._admin.create_topics([new], request_timeout=_REQUEST_SECONDS)[topic].result()
            except KafkaException as error:
                reason = error.args[0]
                if attempt and reason.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return  # by the request whose answer was lost
                # Below 0 are the client's own: it drops a connection when it hears of another controller, and in
                # KRaft mode each broker names another one.
                if reason.code() >= 0 or attempt + 1 == _ATTEMPTS:
                    raise LocalClusterError(f"Topic {topic} was not created: {error}.") from error
            else:
                return

    def read_leaderless(self, topic: str, partitions: Collection[int]) -> frozenset[int]:
        found = self._admin.list_topics(topic, timeout=_REQUEST_SECONDS).topics[topic].partitions
        return frozenset(one for one in partitions if one not in found or found[one].leader < 0)


def _new_cluster_id() -> str:
    """22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
