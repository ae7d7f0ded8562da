"""The topic of the lock's log: made once, and checked before it is written."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka.protocol.admin import CreateTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_rebalance.admin.cluster_view import read_live
from kafka_rebalance.admin.set_configs import read_topic_configs
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, Wire, check_read
from kafka_rebalance.errors import WriteDeniedError, WriteError
from kafka_rebalance.kafka.topics import LOCK_TOPIC
from kafka_rebalance.model.cluster_writes import Kind, note

_REPLICAS, _IN_SYNC = 3, 2
_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",  # the order of the records is their meaning, so nothing is compacted
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",  # the cluster's clock, not that of a worker
}
_EXISTS, _UNKNOWN_TOPIC = 36, 3
_TIMEOUT_MS = 30_000
_LEADER_SECONDS = 30.0


def ensure_lock_topic(wire: Wire) -> None:
    """Makes the topic if it does not exist, and waits for its leader. Raises WriteError if it must not be used."""
    live = sorted(read_live(wire))
    if _LED not in {_standing(wire, broker) for broker in live}:
        _create(wire, len(live))
        give_up = time.monotonic() + _LEADER_SECONDS
        while any(_standing(wire, broker) != _LED for broker in live) and time.monotonic() < give_up:
            time.sleep(0.1)
    found = read_topic_configs(wire, [LOCK_TOPIC])[LOCK_TOPIC]
    wrong = [f"{key} = {found.get(key)}" for key, value in _SETTINGS.items() if found.get(key) != value]
    if wrong:
        raise WriteError(
            f"The topic {LOCK_TOPIC} holds the lock of this cluster, and somebody has changed its configs: "
            f"{', '.join(wrong)}. Nothing was written. Set {', '.join(f'{k}={v}' for k, v in _SETTINGS.items())}."
        )


def lock_topic_exists(wire: Wire) -> bool:
    """Whether any live broker knows the topic. Raises ReadError."""
    return any(_standing(wire, broker) != _ABSENT for broker in read_live(wire))


_ABSENT, _THERE, _LED = "absent", "there", "led"


def _standing(wire: Wire, broker: int) -> str:
    asked = MetadataRequest.MetadataRequestTopic(name=LOCK_TOPIC)
    (topic,) = wire.read(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), broker).topics
    if topic.error_code == _UNKNOWN_TOPIC:
        return _ABSENT
    if topic.error_code in NOT_AUTHORIZED:
        check_read(f"The topic {LOCK_TOPIC}", f"Describe on the topic {LOCK_TOPIC}", topic.error_code)
    return _LED if topic.partitions and topic.partitions[0].leader_id >= 0 else _THERE


def _create(wire: Wire, live: int) -> None:
    new = CreateTopicsRequest.CreatableTopic
    replicas = min(_REPLICAS, live)
    settings = {**_SETTINGS, "min.insync.replicas": str(min(_IN_SYNC, replicas))}
    configs = [new.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topic = new(name=LOCK_TOPIC, num_partitions=1, replication_factor=replicas, assignments=[], configs=configs)
    what = f"the creation of topic {LOCK_TOPIC}"
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=False)
    answer = wire.write(request, what, Kind.TOPIC, LOCK_TOPIC).topics[0]
    if answer.error_code in NOT_AUTHORIZED:
        raise WriteDeniedError(
            f"Kafka refused {what}. Nothing was written. Grant the Kafka user Create on that topic, or make the topic "
            f"with one partition and {', '.join(f'{key}={value}' for key, value in settings.items())}."
        )
    if answer.error_code not in (0, _EXISTS):
        raise WriteError(f"Kafka refused {what} ({answer.error_message}). Nothing was written. Clear this task.")
    if not answer.error_code:
        note(Kind.TOPIC, LOCK_TOPIC)
