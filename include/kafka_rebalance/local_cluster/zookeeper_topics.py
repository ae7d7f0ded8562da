"""Creates topics through ZooKeeper, as Kafka's own tools below 2.2 do, and reads their state."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafka_rebalance.local_cluster.errors import LocalClusterError

# kazoo warns about every refused connection. Here the server has often not started yet.
_log = logging.getLogger("kafka_rebalance.local_cluster.kazoo")
_log.setLevel(logging.CRITICAL)

_REQUEST_SECONDS = 10


@contextmanager
def open_client(zookeeper: str, options: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """A kazoo client, started. `options` are kazoo's."""
    client = KazooClient(zookeeper, timeout=10, logger=_log, **(options or {}))
    try:
        client.start(timeout=15)
        yield client
    except (KazooTimeoutError, KazooException) as error:
        raise LocalClusterError(
            f"ZooKeeper {zookeeper} does not answer: {type(error).__name__} {error}. Does the cluster still run?"
        ) from error
    finally:
        client.stop()
        client.close()


def read_registered(client: Any) -> frozenset[int]:
    """The ids of the registered brokers."""
    try:
        return frozenset(int(name) for name in client.get_children("/brokers/ids"))
    except NoNodeError:
        return frozenset()


def read_controller(client: Any) -> int | None:
    """The controller's broker id; None while there is no controller."""
    try:
        return int(json.loads(client.get("/controller")[0])["brokerid"])
    except NoNodeError:
        return None


def write_topic(client: Any, topic: str, replicas: Mapping[int, Sequence[int]], config: Mapping[str, str]) -> None:
    """Write a topic's two znodes, with the rights of those of other topics.

    Its config comes first, because the controller acts as soon as it sees the second.
    """
    if client.exists(f"/brokers/topics/{topic}"):
        raise LocalClusterError(f"Topic {topic} is already there. It was not changed. Choose another name.")
    document, rights = _encode({"version": 1, "config": dict(config)}), client.get_acls("/config/topics")[0]
    try:
        client.create(f"/config/topics/{topic}", document, acl=rights)
    except NodeExistsError:  # left from an earlier topic of this name
        client.set(f"/config/topics/{topic}", document)
    partitions = {str(partition): list(ids) for partition, ids in replicas.items()}
    client.create(f"/brokers/topics/{topic}", _encode({"version": 1, "partitions": partitions}), acl=rights)


def read_leaderless(client: Any, topic: str, partitions: Collection[int]) -> frozenset[int]:
    """The partitions that no broker leads yet."""
    paths = {partition: f"/brokers/topics/{topic}/partitions/{partition}/state" for partition in partitions}
    answers = {partition: client.get_async(path) for partition, path in paths.items()}
    leaderless = set()
    for partition, answer in answers.items():
        try:
            if json.loads(answer.get()[0])["leader"] < 0:
                leaderless.add(partition)
        except NoNodeError:
            leaderless.add(partition)
    return frozenset(leaderless)


def read_unaware(bootstrap_servers: str, topic: str, brokers: Collection[int]) -> frozenset[int]:
    """The brokers that do not answer, or do not show the topic to clients. ZooKeeper has its leaders a moment earlier.

    A broker that shows the topic has its replicas too: the controller sends LeaderAndIsr before UpdateMetadata.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource

    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "broker.address.family": "v4",
            "allow.auto.create.topics": False,
            "log_level": 0,
        }
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    # A client can send this request to one named broker, and a broker that does not know the topic refuses it.
    asked = {
        broker: admin.describe_configs([resource], broker=broker, request_timeout=_REQUEST_SECONDS)[resource]
        for broker in brokers
    }
    unaware = set()
    for broker, answer in asked.items():
        try:
            answer.result()
        except KafkaException:
            unaware.add(broker)
    return frozenset(unaware)


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
