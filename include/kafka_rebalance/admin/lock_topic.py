"""The topic of the lock's log and that of Kafka's transactions: made once, before a snapshot, and checked when opened.

What a run itself makes must not be on a broker that it empties, and must be in its snapshot. So both topics are made
with lists that leave these brokers out, and not by Kafka at the first transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.metadata import FindCoordinatorRequest

from kafka_rebalance.admin.cluster_view import read_moves, read_racks
from kafka_rebalance.admin.configs import (
    BROKER,
    TOPIC,
    alter_configs,
    describe_configs,
    read_topic_configs,
    set_or_delete,
)
from kafka_rebalance.admin.quorum import read_fresh
from kafka_rebalance.admin.reassignments import request_moves
from kafka_rebalance.admin.topic_writes import new_topic
from kafka_rebalance.admin.wire import NOT_AUTHORIZED, UNKNOWN_TOPIC, Wire, check_read, error_in_words, metadata_of
from kafka_rebalance.errors import ClusterNotReadyError, ReadError, WriteDeniedError, WriteError
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.kafka.topics import LOCK_TOPIC, TRANSACTION_TOPIC, TRANSACTIONAL_ID
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.partition import TopicPartition

log = logging.getLogger(__name__)

_TRANSACTION = 1  # FindCoordinator's type of a transactional id
_REPLICAS, _IN_SYNC = 3, 2
_SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",  # the order of the records is their meaning, so nothing is compacted
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "LogAppendTime",  # the cluster's clock, not that of a worker
    "compression.type": "producer",  # which does not compress: every client can read the log
}
_MIN_IN_SYNC = "min.insync.replicas"
# Of TransactionStateManager.transactionTopicConfigs, by the config of the brokers that gives the value.
_OF_TRANSACTIONS = {
    _MIN_IN_SYNC: "transaction.state.log.min.isr",
    "segment.bytes": "transaction.state.log.segment.bytes",
}
_FACTOR, _PARTITIONS = "transaction.state.log.replication.factor", "transaction.state.log.num.partitions"
_ALWAYS_OF_TRANSACTIONS = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "unclean.leader.election.enable": "false",
}
_EXISTS, _INVALID_ASSIGNMENT = 36, 39
_LEADER_SECONDS, _ANSWER_SECONDS, _PAUSE_SECONDS = 30.0, 2.0, 0.1
_LOG = TopicPartition(LOCK_TOPIC, 0)


def make_topics(wire: Wire, leaving: Collection[int] = ()) -> bool:
    """Makes both topics if they do not exist, on no broker that leaves, and mends the configs of the lock's.

    Returns whether it has made one. Raises ClusterNotReadyError if Kafka has too few brokers for its transactions, and
    WriteError if a topic cannot be made or must not be used.
    """
    there = _read_topics(wire)
    missing = {LOCK_TOPIC, TRANSACTION_TOPIC} - there.keys()
    if missing:
        racks = read_racks(wire)
        if TRANSACTION_TOPIC in missing:
            _make_transaction_topic(wire, racks, leaving)
        if LOCK_TOPIC in missing:
            _make_lock_topic(wire, racks, leaving)
        _wait_until_known(wire, missing, racks)
        there = _read_topics(wire)
    if LOCK_TOPIC in there:
        _mend_configs(wire, len(there[LOCK_TOPIC].partitions[0].replica_nodes))
    return bool(missing)


def find_leader(wire: Wire) -> int | None:
    """The broker that leads the lock's log; -1: none does now. None: the topic does not exist. Raises ReadError."""
    topic = _read_topics(wire, [LOCK_TOPIC]).get(LOCK_TOPIC)
    if topic is None:
        return None
    return int(topic.partitions[0].leader_id) if topic.partitions else -1


def add_replicas(wire: Wire, leaving: Collection[int] = ()) -> bool:
    """Gives the lock's topic the replicas that it lacks: of a cluster that was smaller, or made by somebody else.

    Returns whether it has. Call it only while nobody holds the cluster. Raises WriteError.
    """
    topic = _read_topics(wire).get(LOCK_TOPIC)
    if topic is None or len(topic.partitions[0].replica_nodes) >= _REPLICAS:
        return False
    racks = read_racks(wire)
    now = tuple(topic.partitions[0].replica_nodes)
    wanted = min(_REPLICAS, len(set(racks) - set(leaving)))
    if len(now) >= wanted or _LOG in read_moves(wire):
        return False
    used = {racks.get(broker) for broker in now}
    others = sorted(set(racks) - set(now) - set(leaving), key=lambda broker: (racks[broker] in used, broker))
    target = (*now, *others[: wanted - len(now)])
    log.warning("Topic %s has too few replicas %s. It gets %s", LOCK_TOPIC, list(now), list(target))
    refused = request_moves(wire, {_LOG: target}, registered=racks, not_later_than=time.monotonic() + _ANSWER_SECONDS)
    give_up = time.monotonic() + _LEADER_SECONDS
    while not refused and _LOG in read_moves(wire):
        if time.monotonic() > give_up:
            refused = {_LOG: f"the copy has not ended after {_LEADER_SECONDS:.0f} s"}
            break
        time.sleep(_PAUSE_SECONDS)
    if refused:
        raise WriteError(
            f"The topic {LOCK_TOPIC} holds the lock of this cluster and has the replicas {list(now)} alone, so the "
            f"lock is lost with {'this broker' if len(now) == 1 else 'these brokers'}. It was asked to have "
            f"{list(target)}, and Kafka says: {refused[_LOG]}. Nothing else was written. Give it {wanted} replicas "
            "with kafka-reassign-partitions, then clear this task."
        )
    _mend_configs(wire, len(target))
    return True


def _read_topics(wire: Wire, names: Collection[str] = (LOCK_TOPIC, TRANSACTION_TOPIC)) -> dict[str, Any]:
    """Those of these topics that exist, as Metadata has them. Raises ReadError.

    A topic is absent only if a broker says so that has applied all that the controllers have written by now.
    """
    for anew in (False, True):
        there = _there(read_fresh(wire, metadata_of(names), anew=anew))
        if len(there) == len(names):
            break
    return there


def _there(answer: Any) -> dict[str, Any]:
    found = {}
    for topic in answer.topics:
        if topic.error_code in NOT_AUTHORIZED:
            check_read(f"The topic {topic.name}", f"Describe on the topic {topic.name}", topic.error_code)
        if topic.error_code != UNKNOWN_TOPIC:
            found[topic.name] = topic
    return found


def _wait_until_known(wire: Wire, names: Collection[str], racks: Collection[int]) -> None:
    """Until each broker that answers knows their leaders: librdkafka may ask any. One that is silent is not awaited."""
    give_up, waiting = time.monotonic() + _LEADER_SECONDS, set(racks)
    while waiting and time.monotonic() < give_up:
        for broker in sorted(waiting):
            try:
                answer = wire.read(metadata_of(names), broker, repeat_seconds=0, answer_seconds=_ANSWER_SECONDS)
            except ReadError as silent:
                log.info("%s", silent)
                waiting.discard(broker)
                continue
            there = _there(answer).values()
            if len(there) == len(names) and all(
                partition.leader_id >= 0 for topic in there for partition in topic.partitions
            ):
                waiting.discard(broker)
        if waiting:
            time.sleep(_PAUSE_SECONDS)


def _make_lock_topic(wire: Wire, racks: Mapping[int, str | None], leaving: Collection[int]) -> None:
    stay = sorted(set(racks) - set(leaving)) or sorted(racks)
    replicas = min(_REPLICAS, len(stay))
    settings = {**_SETTINGS, _MIN_IN_SYNC: str(min(_IN_SYNC, replicas))}
    lists = _lists(stay, racks, 1, replicas) if leaving else {}
    answer = _create(wire, LOCK_TOPIC, 1, replicas, lists, settings)
    if answer.error_code == _INVALID_ASSIGNMENT and lists:  # a broker that takes nothing now; Kafka knows others
        answer = _create(wire, LOCK_TOPIC, 1, replicas, {}, settings)
    what = f"the creation of topic {LOCK_TOPIC}"
    if answer.error_code in NOT_AUTHORIZED:
        raise WriteDeniedError(
            f"Kafka refused {what}. Grant the Kafka user Create on that topic, or make the topic "
            f"with one partition and {_listed(settings)}."
        )
    if answer.error_code not in (0, _EXISTS):
        raise WriteError(f"Kafka refused {what} ({error_in_words(answer)}). Clear this task.")


def _make_transaction_topic(wire: Wire, racks: Mapping[int, str | None], leaving: Collection[int]) -> None:
    """As Kafka itself makes it, but on brokers that stay.

    Kafka makes it by its own rights if the user lacks Create on it, and then on brokers of its choice.
    """
    configs = _read_configs_of_any(wire, racks)
    factor, partitions = int(configs[_FACTOR]), int(configs[_PARTITIONS])
    _check_enough_for_transactions(factor, racks)
    stay, leave = sorted(set(racks) - set(leaving)), sorted(set(racks) & set(leaving))
    on = [*stay, *leave[: max(0, factor - len(stay))]]
    settings = {**_ALWAYS_OF_TRANSACTIONS, **{key: configs[name] for key, name in _OF_TRANSACTIONS.items()}}
    answer = _create(wire, TRANSACTION_TOPIC, partitions, factor, _lists(on, racks, partitions, factor), settings)
    if answer.error_code in (0, _EXISTS):
        return
    log.warning("%s was not created by request (%s), so Kafka makes it", TRANSACTION_TOPIC, error_in_words(answer))
    give_up = time.monotonic() + _LEADER_SECONDS
    while TRANSACTION_TOPIC not in _read_topics(wire) and time.monotonic() < give_up:
        wire.read(who_coordinates_transactions())
        time.sleep(_PAUSE_SECONDS)


def who_coordinates_transactions() -> FindCoordinatorRequest:
    """Of the lock. A broker that is asked makes the topic of transactions if there is none."""
    return FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=_TRANSACTION, coordinator_keys=[TRANSACTIONAL_ID])


def _check_enough_for_transactions(factor: int, brokers: Collection[int]) -> None:
    """Raises ClusterNotReadyError if Kafka cannot make the topic of its transactions on so few brokers."""
    if factor > len(brokers):
        raise ClusterNotReadyError(
            f"The lock of this cluster is written in transactions, and Kafka keeps those in {TRANSACTION_TOPIC}, which "
            f"does not exist yet. It gets {factor} replicas ({_FACTOR}), and only {len(brokers)} brokers are live. "
            f"Start more brokers, or set {_FACTOR}={len(brokers)} in server.properties of every "
            "broker and restart them, then clear this task."
        )


def _lists(
    brokers: Collection[int], racks: Mapping[int, str | None], partitions: int, factor: int
) -> dict[int, tuple[int, ...]]:
    known = {broker: racks[broker] for broker in brokers}
    return assign_replicas(
        sorted(brokers), partitions, factor, racks=None if None in known.values() else known, start_index=0
    )


def _create(
    wire: Wire,
    name: str,
    partitions: int,
    factor: int,
    lists: Mapping[int, tuple[int, ...]],
    settings: Mapping[str, str],
) -> Any:
    request = new_topic(name, lists, settings, numbers=(-1, -1) if lists else (partitions, factor))
    answer = wire.write(request, f"the creation of topic {name}", Kind.TOPIC, name).topics[0]
    if not answer.error_code:
        note(Kind.TOPIC, name)
    return answer


def _mend_configs(wire: Wire, replicas: int) -> None:
    """Sets what the lock's topic needs and somebody has changed, or has never set."""
    wanted = {**_SETTINGS, _MIN_IN_SYNC: str(min(_IN_SYNC, replicas))}
    found = read_topic_configs(wire, [LOCK_TOPIC])[LOCK_TOPIC]
    wrong = {key: found.get(key) for key, value in wanted.items() if found.get(key) != value}
    if not wrong or (wrong.keys() == {_MIN_IN_SYNC} and _LOG in read_moves(wire)):
        return  # while it moves it has more replicas than it will have
    if _LOG in read_moves(wire):
        wrong.pop(_MIN_IN_SYNC, None)
    request = alter_configs(TOPIC, {LOCK_TOPIC: [set_or_delete(key, wanted[key]) for key in sorted(wrong)]})
    what, subject = f"the change of the configs of topic {LOCK_TOPIC}", f"topics/{LOCK_TOPIC}"
    answer = wire.write(request, what, Kind.CONFIG, subject).responses[0]
    if answer.error_code:
        error = WriteDeniedError if answer.error_code in NOT_AUTHORIZED else WriteError
        raise error(
            f"The topic {LOCK_TOPIC} holds the lock of this cluster, and its configs are not those that it needs: "
            f"{_listed(wrong)}. Kafka refused their change ({error_in_words(answer)}). Set "
            f"{_listed({key: wanted[key] for key in wrong})} on it, or grant the Kafka user AlterConfigs on it."
        )
    note(Kind.CONFIG, subject)
    log.warning("Topic %s had other configs (%s). They are set as the lock needs them", LOCK_TOPIC, _listed(wrong))


def _read_configs_of_any(wire: Wire, brokers: Collection[int]) -> dict[str, str]:
    """What applies on the first live broker that answers."""
    keys = [_FACTOR, _PARTITIONS, *_OF_TRANSACTIONS.values()]
    silent: ReadError | None = None
    for broker in sorted(brokers):
        request = describe_configs(BROKER, [str(broker)], keys)
        try:
            result = wire.read(request, broker, repeat_seconds=0, answer_seconds=_ANSWER_SECONDS).results[0]
        except ReadError as away:
            silent = away
            continue
        check_read(f"The configs of broker {broker}", "DescribeConfigs on the cluster", result.error_code)
        return {config.name: config.value for config in result.configs}
    raise silent or ReadError("No broker tells its configs. Check that the brokers are up.")


def _listed(values: Mapping[str, str | None]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
