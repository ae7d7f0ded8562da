"""What each znode holds: path, decoder and encoder, as in Kafka's ZkData.scala.

Decoders accept any order of keys, unknown keys and unknown higher versions. For everything else they raise
`CorruptZnodeError`, which names the path. Encoders raise `WriteError` instead of encoding what would harm the cluster.
docs/tables.md promises `decode_broker`, `decode_topic`, `decode_partition_state` and `encode_reassignment` to scripts.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeGuard

from kafka_rebalance.errors import CorruptZnodeError, WriteError
from kafka_rebalance.kafka.given_json import INT_MAX, LONG_MAX, refuse_constant
from kafka_rebalance.kafka.versions import behaviour
from kafka_rebalance.model.cluster_view import BrokerRegistration, Controller, Endpoint
from kafka_rebalance.model.partition import PartitionState, TopicAssignment, TopicPartition, replica_list_problem

# The paths of the znodes (Kafka's ZkData.scala). A chroot is part of the connect string, never of these paths.


BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
ADMIN = "/admin"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"  # ZooKeeper appends ten digits
DEFAULT_ENTITY = "<default>"  # /config/brokers/<default>: dynamic values for all brokers
RUN_LOCK_PARENT = "/kafka_rebalance"
RUN_LOCK = "/kafka_rebalance/run"
LEASE = "/kafka_rebalance/lease"
LEASE_PART_PREFIX = "/kafka_rebalance/lease-"
ANNOUNCED_PREFIX = "/kafka_rebalance/announced-"
CLOCK = "/kafka_rebalance/clock"


def broker_path(broker: int) -> str:
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(topic_partition: TopicPartition) -> str:
    topic, partition = topic_partition
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def deletion_path(topic: str) -> str:
    """The marker that asks the controller to delete the topic."""
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity: str) -> str:
    """`entity` is `topics/T`, `brokers/N` or `brokers/<default>`."""
    return f"{CONFIG}/{entity}"


def lease_part_path(generation: str, number: int) -> str:
    """The znode for a part of a lease's record that does not fit into `LEASE`; paths sort by generation."""
    return f"{LEASE_PART_PREFIX}{generation}-{number:03d}"


# Reads checked values from a znode's bytes. Whatever Kafka would not write raises `CorruptZnodeError`.


# Topic.validate (clients): ASCII letters, digits, dot, underscore, hyphen; at most 249 characters.
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)


def _corrupt(path: str, wrong: str) -> CorruptZnodeError:
    return CorruptZnodeError(
        f"{path}: {wrong}. It was left as it is. "
        f"Look at it with `zookeeper-shell.sh HOSTS get {path}` and repair it before going on."
    )


def shortened(value: object) -> str:
    """The value for an error text. It is cut, because a corrupt znode can hold a megabyte."""
    return reprlib.repr(value)


def parse_object(path: str, data: bytes | None) -> dict[str, object]:
    """The JSON object in a znode. Unknown keys stay, because later Kafka versions add some."""
    if not data:
        raise _corrupt(path, "it is empty, but Kafka writes a JSON object")
    try:
        document = json.loads(data.decode("utf-8"), parse_constant=refuse_constant)
    except UnicodeDecodeError:
        raise _corrupt(path, f"it is not UTF-8: {shortened(data)}") from None
    except (ValueError, RecursionError) as bad:
        # An integer of more than 4,300 digits also raises ValueError.
        raise _corrupt(path, f"it is not JSON ({shortened(str(bad))}): {shortened(data)}") from None
    if not isinstance(document, dict):
        raise _corrupt(path, f"it must be a JSON object, not {shortened(document)}")
    return document


def parse_version(path: str, fields: Mapping[str, object], *, required: bool = False) -> int:
    """The `version`; if it is absent and not `required`, it is 1. Unknown higher versions are read like the newest."""
    return _json_integer(path, "version", fields.get("version", None if required else 1), least=1)


def _json_integer(path: str, name: str, value: object, *, least: int = 0) -> int:
    """A JSON integer of 32 bits, never a text, float or boolean. A text id costs the cluster its controller."""
    if type(value) is not int:
        raise _corrupt(path, f"{name} must be a JSON integer, not {shortened(value)}")
    if not least <= value <= INT_MAX:
        raise _corrupt(path, f"{name} must be from {least} to {INT_MAX}, not {shortened(value)}")
    return value


def parse_text(path: str, name: str, value: object) -> str:
    """A JSON string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _corrupt(path, f"{name} must be a text, not {shortened(value)}")
    return value


def _parse_object_field(path: str, name: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _corrupt(path, f"{name} must be a JSON object, not {shortened(value)}")
    return value


def _parse_list(path: str, name: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise _corrupt(path, f"{name} must be a list, not {shortened(value)}")
    return value


def _parse_brokers(path: str, name: str, value: object) -> tuple[int, ...]:
    """A list of broker ids, which may be empty or repeat an id.

    Kafka stores such lists after a bad reassignment, and the cluster must stay readable. `replica_list_problem` names
    them.
    """
    return tuple(_json_integer(path, f"each broker id of {name}", broker) for broker in _parse_list(path, name, value))


def _parse_milliseconds(path: str, name: str, value: object) -> int | None:
    """A time that Kafka writes as a text of milliseconds; None if it is absent."""
    if value is None:
        return None
    text = str(value) if type(value) is int and 0 <= value <= LONG_MAX else value
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise _corrupt(path, f"{name} must be a text of milliseconds, not {shortened(value)}")
    return int(text)


def _parse_partition_key(path: str, name: str, key: str) -> int:
    """A partition id as a key of a JSON object: `"7"`, never `"07"` or `"+7"`."""
    if not _DECIMAL.fullmatch(key) or int(key) > INT_MAX:
        raise _corrupt(path, f"{name} has the key {shortened(key)}, which is not a partition id")
    return int(key)


def is_topic_name(name: object) -> TypeGuard[str]:
    """Whether Kafka accepts this name for a topic."""
    return isinstance(name, str) and bool(_TOPIC_NAME.fullmatch(name)) and name not in {".", ".."}


def _list_problem(replicas: object) -> str | None:
    """Why this replica list must not be written, or None."""
    if not isinstance(replicas, list | tuple):
        return "the replicas are not a list of broker ids"
    over = [broker for broker in replicas if type(broker) is int and broker > INT_MAX]
    return f"broker {over[0]} is beyond the largest broker id" if over else replica_list_problem(replicas)


def compact_json(document: Mapping[str, object]) -> bytes:
    """JSON without blanks, as Kafka writes it. It is ASCII, because a config may hold half a surrogate pair."""
    return json.dumps(document, separators=(",", ":")).encode()


# The znodes of the cluster itself: broker registrations, controller, controller epoch, cluster id.


# EndPoint.scala: `LISTENER://host:port`, IPv6 in brackets, an empty host means all interfaces.
_ENDPOINT = re.compile(r"[^:/]+://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,10})", re.ASCII)
_PORT_MAX = 65535


def decode_broker(broker_id: int, data: bytes | None, czxid: int | None = None) -> BrokerRegistration:
    """`/brokers/ids/N`, versions 1 to 5 and later (BrokerIdZNode).

    Only version 1 is read by `host` and `port` at top level: later, they are null and -1 on a secured cluster.
    """
    path = broker_path(broker_id)
    fields = parse_object(path, data)
    version = parse_version(path, fields, required=True)
    rack = fields.get("rack")
    if rack is not None and not isinstance(rack, str):
        raise _corrupt(path, f"rack must be a text, not {shortened(rack)}")
    if version > 1:
        listeners = _parse_list(path, "endpoints", fields.get("endpoints"))
        endpoints = tuple(_endpoint(path, listener) for listener in listeners)
    else:
        host = fields.get("host")
        if not isinstance(host, str):
            raise _corrupt(path, f"host must be a text, not {shortened(host)}")
        endpoints = (Endpoint(host, _port(path, fields.get("port"))),)
    return BrokerRegistration(broker_id, endpoints, rack, czxid)


def _endpoint(path: str, listener: object) -> Endpoint:
    match = _ENDPOINT.fullmatch(listener) if isinstance(listener, str) else None
    if match is None:
        raise _corrupt(path, f"an endpoint must read LISTENER://host:port, not {shortened(listener)}")
    return Endpoint(match[1], _port(path, int(match[2])))


def _port(path: str, value: object) -> int:
    port = _json_integer(path, "port", value)
    if port > _PORT_MAX:
        raise _corrupt(path, f"port must be at most {_PORT_MAX}, not {port}")
    return port


def decode_controller(data: bytes | None, epoch: int) -> Controller:
    """`/controller`, versions 1 and 2 (ControllerZNode), with the number in `/controller_epoch`.

    Broker -1 means that there is no controller.
    """
    path = CONTROLLER
    fields = parse_object(path, data)
    parse_version(path, fields)
    kraft_epoch = fields.get("kraftControllerEpoch")
    return Controller(
        broker=_json_integer(path, "brokerid", fields.get("brokerid"), least=-1),
        epoch=epoch,
        since_ms=_parse_milliseconds(path, "timestamp", fields.get("timestamp")),
        kraft_epoch=_json_integer(path, "kraftControllerEpoch", -1 if kraft_epoch is None else kraft_epoch, least=-1),
    )


def decode_controller_epoch(data: bytes | None) -> int:
    """`/controller_epoch`: a decimal number as text, not JSON."""
    if not data or not re.fullmatch(rb"[0-9]{1,10}", data):
        raise _corrupt(CONTROLLER_EPOCH, f"it must be a decimal number, not {shortened(data)}")
    return _json_integer(CONTROLLER_EPOCH, "the epoch", int(data))


def decode_cluster_id(data: bytes | None) -> str:
    """`/cluster/id` (ClusterIdZNode), whose version is a text."""
    return parse_text(CLUSTER_ID, "id", parse_object(CLUSTER_ID, data).get("id"))


# The znodes of topics: the assignment, and the state of each partition.


_LEADER_DURING_DELETE = -2  # LeaderAndIsr.LeaderDuringDelete: no leader either


def decode_topic(data: bytes | None, topic: str = "TOPIC") -> TopicAssignment:
    """`/brokers/topics/T`, versions 1 to 3 and later (TopicZNode), partitions in numeric order.

    `topic` is for the error text. Do not write the result back, since it lacks unknown fields: see
    `encode_added_partitions`.
    """
    path = topic_path(topic)
    fields = parse_object(path, data)
    parse_version(path, fields)
    topic_id = fields.get("topic_id")
    return TopicAssignment(
        partitions=_replica_lists(path, "partitions", fields, required=True),
        adding=_replica_lists(path, "adding_replicas", fields),
        removing=_replica_lists(path, "removing_replicas", fields),
        topic_id=None if topic_id is None else parse_text(path, "topic_id", topic_id),
        marks_moves="adding_replicas" in fields or "removing_replicas" in fields,
    )


def _replica_lists(
    path: str, name: str, fields: Mapping[str, object], *, required: bool = False
) -> dict[int, tuple[int, ...]]:
    value = fields.get(name)
    if value is None and not required:
        return {}
    lists = {
        _parse_partition_key(path, name, key): _parse_brokers(path, f"{name}[{key[:20]}]", replicas)
        for key, replicas in _parse_object_field(path, name, value).items()
    }
    return dict(sorted(lists.items()))


def encode_topic(topic: str, partitions: Mapping[int, Sequence[int]], *, version: str) -> bytes:
    """The document for a new topic, as the tool of this Kafka version writes it (TopicZNode). Raises WriteError.

    It has no topic id. The tool of 2.8 leaves the id to the controller too, which knows whether the cluster uses ids.
    The name must be legal, partitions must count from 0 without gaps, and all lists must have the same number of
    distinct non-negative integers. Kafka would store anything else, and then could not serve it.
    """
    _check_lists(topic, partitions)
    lengths = {len(replicas) for replicas in partitions.values()}
    if len(lengths) != 1:
        raise _refused(topic, f"its partitions have different numbers of replicas: {shortened(sorted(lengths))}")
    known = behaviour(version)
    document: dict[str, object] = {"version": known.topic_znode_version, "partitions": _plain(partitions)}
    if known.marks_moves_in_topic_znode:
        document |= {"adding_replicas": {}, "removing_replicas": {}}
    return compact_json(document)


def encode_added_partitions(topic: str, data: bytes | None, added: Mapping[int, Sequence[int]]) -> bytes:
    """The document in `data` with these partitions added; version, topic id and unknown fields stay as they are.

    Raises WriteError if partitions would not count from 0 without gaps, if Kafka cannot serve a new list, or if a new
    list is not as long as that of partition 0.
    """
    existing = decode_topic(data, topic).partitions
    again = sorted(existing.keys() & added.keys())
    if not added or again:
        raise _refused(topic, f"partition {again[0]} is there already" if again else "no new partition is named")
    _check_lists(topic, {**existing, **added})
    factor = len(existing.get(0, ()))
    for partition, replicas in added.items():
        if len(replicas) != factor:
            raise _refused(topic, f"partition {partition} has {len(replicas)} replicas, partition 0 has {factor}")
    document = parse_object(topic_path(topic), data)
    return compact_json({**document, "partitions": _plain({**existing, **added})})


def _check_lists(topic: object, partitions: Mapping[int, Sequence[int]]) -> None:
    if not is_topic_name(topic):
        raise WriteError(f"{shortened(topic)} is not a topic name.")
    if not partitions or set(map(type, partitions)) != {int} or set(partitions) != set(range(len(partitions))):
        raise _refused(topic, f"its partitions must be numbered from 0 without gaps, not {shortened(list(partitions))}")
    for partition, replicas in partitions.items():
        problem = _list_problem(replicas)
        if problem is not None:
            raise _refused(topic, f"partition {partition}: {problem} (replicas {shortened(replicas)})")


def _refused(topic: str, problem: str) -> WriteError:
    return WriteError(f"topic {topic}: {problem}. {topic_path(topic)} was not written. Start a new Dag run.")


def _plain(partitions: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(partition): list(replicas) for partition, replicas in sorted(partitions.items())}


def decode_partition_state(data: bytes | None, topic_partition: TopicPartition | None = None) -> PartitionState:
    """`/brokers/topics/T/partitions/P/state` (TopicPartitionStateZNode); the ISR is in no particular order.

    `topic_partition` is for the error text. `leader_recovery_state` (3.2+) is passed over: only brokers need it.
    """
    path = state_path(topic_partition or TopicPartition("TOPIC", 0))
    fields = parse_object(path, data)
    parse_version(path, fields)
    leader = _json_integer(path, "leader", fields.get("leader"), least=_LEADER_DURING_DELETE)
    return PartitionState(
        leader=max(leader, -1),
        leader_epoch=_json_integer(path, "leader_epoch", fields.get("leader_epoch")),
        isr=_parse_brokers(path, "isr", fields.get("isr")),
    )


# The znodes of dynamic configs, and the notification that tells brokers of a change.


def decode_config(data: bytes | None, entity: str = "ENTITY") -> dict[str, str]:
    """`/config/topics/T`, `/config/brokers/N` (ConfigEntityZNode); an empty znode holds no config, as for Kafka.

    `entity` ("topics/T", "brokers/N") is for the error text. Every value must be a text: brokers cannot load others.
    """
    if not data:
        return {}
    path = config_path(entity)
    fields = parse_object(path, data)
    parse_version(path, fields)
    config = _parse_object_field(path, "config", fields.get("config"))
    values = {key: value for key, value in config.items() if isinstance(value, str)}
    if len(values) < len(config):
        # The value itself stays out of the text: a broker's dynamic config may hold a password.
        wrong = sorted(shortened(key) for key in config.keys() - values.keys())
        raise _corrupt(path, f"every value must be a text; {', '.join(wrong[:5])} is not")
    return values


def encode_config(config: Mapping[str, str]) -> bytes:
    """The document of one entity, keys in the order given. Raises WriteError if a key or value is not a text."""
    for key, value in config.items():
        if not isinstance(key, str) or not key or not isinstance(value, str):
            raise WriteError(f"config {shortened(key)}: key and value must be texts.")
    return compact_json({"version": 1, "config": dict(config)})


def encode_config_change(entity: str) -> bytes:
    """The notification in `/config/changes`. Without it, brokers see a change only after a restart."""
    return compact_json({"version": 2, "entity_path": entity})


# The znodes that request something from the controller: reassignments and preferred leader elections.


def decode_reassignment(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    """`/admin/reassign_partitions` (ReassignPartitionsZNode): the target of each partition; the last entry wins."""
    path = REASSIGN_PARTITIONS
    return {tp: _parse_brokers(path, f"replicas of {tp}", entry.get("replicas")) for tp, entry in _entries(path, data)}


def decode_election(data: bytes | None) -> frozenset[TopicPartition]:
    """`/admin/preferred_replica_election` (PreferredReplicaElectionZNode)."""
    return frozenset(topic_partition for topic_partition, _ in _entries(PREFERRED_ELECTION, data))


def _entries(path: str, data: bytes | None) -> Iterator[tuple[TopicPartition, dict[str, object]]]:
    fields = parse_object(path, data)
    parse_version(path, fields)
    for value in _parse_list(path, "partitions", fields.get("partitions")):
        entry = _parse_object_field(path, "each entry of partitions", value)
        topic = entry.get("topic")
        if not is_topic_name(topic):
            raise _corrupt(path, f"topic must be a topic name, not {shortened(topic)}")
        yield TopicPartition(topic, _json_integer(path, f"partition of {topic}", entry.get("partition"))), entry


def encode_reassignment(assignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """The document for `/admin/reassign_partitions`, partitions in order. Raises WriteError.

    An entry has only `topic`, `partition` and `replicas`: with one key more, the controller discards the document.
    Broker ids must be distinct non-negative integers. The controller copies a text id into the topic's znode, and after
    the next failover no broker can become controller. An empty list destroys the partition (seen on 2.0.1 and 2.8.2).
    """
    _check_partitions(assignment, REASSIGN_PARTITIONS)
    for (topic, partition), replicas in assignment.items():
        problem = _list_problem(replicas)
        if problem:
            raise WriteError(
                f"{topic}-{partition}: {problem} (replicas {shortened(replicas)}). "
                f"{REASSIGN_PARTITIONS} was not written. Start a new Dag run to plan again."
            )
    entries = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(assignment.items())
    ]
    return compact_json({"version": 1, "partitions": entries})


def encode_election(partitions: Collection[TopicPartition]) -> bytes:
    """The document for `/admin/preferred_replica_election`, partitions in order. Raises WriteError."""
    _check_partitions(partitions, PREFERRED_ELECTION)
    entries = [{"topic": topic, "partition": partition} for topic, partition in sorted(frozenset(partitions))]
    return compact_json({"version": 1, "partitions": entries})


def _check_partitions(partitions: Collection[TopicPartition], path: str) -> None:
    if not partitions:
        raise WriteError(
            f"{path} was not written: it would name no partition, and from Kafka 2.4 on that blocks all later requests."
        )
    for key in partitions:
        shaped = isinstance(key, tuple) and len(key) == 2
        if not shaped or not is_topic_name(key[0]) or type(key[1]) is not int or not 0 <= key[1] <= INT_MAX:
            raise WriteError(
                f"{shortened(key)} is not a topic name and a partition id. {path} was not written. "
                "Start a new Dag run to plan again."
            )
