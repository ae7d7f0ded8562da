"""Moves of replicas without ZooKeeper: requested, listed, cancelled, and leaders elected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaError,
    NoReassignmentInProgressError,
)
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from kafka_rebalance.admin.clients import open_kafka_python, unreachable
from kafka_rebalance.admin.cluster_view import read_moves
from kafka_rebalance.admin.wire import Wire, error_in_words, refused_at_all
from kafka_rebalance.errors import ReadError, WriteDeniedError, WriteError
from kafka_rebalance.model.cluster_writes import Kind, note
from kafka_rebalance.model.connection import KafkaConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import TopicPartition, replica_list_problem
from kafka_rebalance.moves.run_position import WhoMoves, how_it_ends, nobody_known

# Requests to move replicas, to cancel moves and to elect preferred leaders, without ZooKeeper.
#
# Every request to move replicas is encoded and checked here. Kafka takes a dead broker as target and waits for it for
# ever. From 4.3 on, another target for a partition in flight never ends either (KAFKA-19975). So neither is sent.


# Partitions in a request. The controller answers within two seconds: 1.0 s on 4.4.0, 1.3 s on 3.9.2, 1.7 s on 4.2.2.
MOST_AT_ONCE = 1000
_TIMEOUT_MS = 30_000
_ALTER_CLUSTER = "Alter on the cluster"
_PREFERRED = 0
_NOTHING_TO_CANCEL = 85  # NO_REASSIGNMENT_IN_PROGRESS
_LEADS_ALREADY = 84  # ELECTION_NOT_NEEDED

Targets = Mapping[TopicPartition, tuple[int, ...]]


def check_targets(targets: Targets, registered: Collection[int]) -> None:
    """Raises WriteError for a list that must not be requested. `registered` are the live brokers."""
    for tp, replicas in sorted(targets.items()):
        problem = replica_list_problem(replicas, registered)
        if problem:
            raise WriteError(
                f"{tp}: {problem}; Kafka would wait for it for ever. Nothing was requested. Start the broker, or start "
                "a new Dag run that plans without it."
            )


def read_targets(wire: Wire) -> dict[TopicPartition, tuple[int, ...]]:
    """The target of every partition that the controller moves. Raises ReadError."""
    return {
        tp: tuple(broker for broker in one.replicas if broker not in one.removing_replicas)
        for tp, one in read_moves(wire).items()
    }


def request_moves(
    wire: Wire,
    targets: Targets,
    *,
    registered: Collection[int],
    not_later_than: float,
    who_moves: WhoMoves = nobody_known,
    keeps_factors: bool = False,
) -> dict[TopicPartition, str]:
    """One request, for `MOST_AT_ONCE` partitions at most. Returns {partition: why Kafka refused it}.

    `keeps_factors`: no target is longer or shorter than its partition's list was. Then Kafka from 4.1 on refuses each
    that is by now (KIP-860); earlier versions are not told.

    Kafka carries out the others. A partition that is on its way to its target already is left out. After
    `not_later_than`, a time of `time.monotonic`, nothing is sent. Raises WriteError if a list must not be requested, or
    if somebody else moves one of the partitions. Raises LockLostError if it is too late, and ReadError if there is no
    answer.
    """
    check_targets(targets, registered)
    if len(targets) > MOST_AT_ONCE:
        raise WriteError(f"{len(targets)} partitions in one request are more than {MOST_AT_ONCE}.")
    flying = read_targets(wire)
    elsewhere = sorted(tp for tp, after in targets.items() if flying.get(tp, after) != after)
    if elsewhere:
        raise WriteError(
            f"{some(elsewhere)}: somebody else moves it elsewhere, and Kafka would not end another move of it. Nothing "
            f"was requested. {how_it_ends(elsewhere, who_moves)}. Then clear this task."
        )
    asked = {tp: list(after) for tp, after in targets.items() if tp not in flying}
    if not asked:
        return {}
    what = f"the reassignment of {len(asked)} partitions"
    answer = wire.write(
        _request(asked, keeps_factors=keeps_factors), what, Kind.REASSIGNMENT, "", not_later_than=not_later_than
    )
    refused_at_all(what, _ALTER_CLUSTER, answer)
    refused = {tp: error_in_words(one) for tp, one in _each(answer) if one.error_code}
    if len(refused) < len(asked):
        note(Kind.REASSIGNMENT)
    return refused


def cancel_moves(wire: Wire, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Cancels exactly these, and returns those that were being moved. The others had ended meanwhile.

    Raises WriteError naming every partition that Kafka refused to cancel; the others are cancelled. Raises ReadError if
    there was no answer.
    """
    cancelled, refused = set[TopicPartition](), dict[TopicPartition, str]()
    for some_of_them in _chunks(sorted(partitions)):
        what = f"the cancelling of {len(some_of_them)} reassignments"
        answer = wire.write(_request(dict.fromkeys(some_of_them)), what, Kind.CANCEL, "")
        refused_at_all(what, _ALTER_CLUSTER, answer)
        for tp, one in _each(answer):
            if not one.error_code:
                cancelled.add(tp)
                note(Kind.CANCEL, str(tp))
            elif one.error_code != _NOTHING_TO_CANCEL:
                refused[tp] = error_in_words(one)
    if refused:
        shown = ", ".join(f"{tp} ({why})" for tp, why in sorted(refused.items())[:10])
        raise WriteError(
            f"Kafka did not cancel {len(refused)} of {len(partitions)} reassignments: {shown}. The others are "
            "cancelled. Clear this task to ask again; the controller's log has the reason."
        )
    return frozenset(cancelled)


def elect_leaders(
    wire: Wire, partitions: Collection[TopicPartition], *, bound: Callable[[], float] | None = None
) -> dict[TopicPartition, str]:
    """Elects preferred leaders. Returns {partition: why it was not elected}; a leader that leads already is fine.

    `bound` is asked before each request for the time of `time.monotonic` after which it is not sent: LockLostError.
    Raises WriteError if Kafka refuses the whole request, ReadError if there is no answer.
    """
    left: dict[TopicPartition, str] = {}
    for some_of_them in _chunks(sorted(partitions)):
        by_topic: dict[str, list[int]] = {}
        for tp in some_of_them:
            by_topic.setdefault(tp.topic, []).append(tp.partition)
        of_topic = ElectLeadersRequest.TopicPartitions
        asked = [of_topic(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=asked, timeout_ms=_TIMEOUT_MS)
        what = f"the election of {len(some_of_them)} preferred leaders"
        answer = wire.write(request, what, Kind.ELECTION, "", not_later_than=None if bound is None else bound())
        refused_at_all(what, _ALTER_CLUSTER, answer)
        for topic in answer.replica_election_results:
            for one in topic.partition_result:
                if one.error_code not in (0, _LEADS_ALREADY):
                    left[TopicPartition(topic.topic, one.partition_id)] = error_in_words(one)
        note(Kind.ELECTION)
    return left


def _request(
    asked: Mapping[TopicPartition, list[int] | None], *, keeps_factors: bool = False
) -> AlterPartitionReassignmentsRequest:
    """None cancels. `keeps_factors` is left out of a request of the first version, which has no place for it."""
    of_topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    by_topic: dict[str, list[Any]] = {}
    for tp, replicas in asked.items():
        one = of_topic.ReassignablePartition(partition_index=tp.partition, replicas=replicas)
        by_topic.setdefault(tp.topic, []).append(one)
    topics = [of_topic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    return AlterPartitionReassignmentsRequest(
        timeout_ms=_TIMEOUT_MS, topics=topics, allow_replication_factor_change=not keeps_factors
    )


def _each(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition


def _chunks(partitions: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for start in range(0, len(partitions), MOST_AT_ONCE):
        yield partitions[start : start + MOST_AT_ONCE]


# Reads the controller's own list of reassignments, and cancels single ones (KIP-455, 2.4+).


def can_cancel(kafka: KafkaConnection) -> bool:
    """Whether this cluster takes requests to cancel a reassignment: 2.4+. Raises ReadError."""
    with _opened(kafka) as client:
        try:
            client.list_partition_reassignments([])
        except IncompatibleBrokerVersion:
            return False
    return True


def read_reassignments(kafka: KafkaConnection) -> Mapping[TopicPartition, tuple[int, ...]] | None:
    """Every partition that is being reassigned, whoever requested it, with its target list.

    This is one request to the controller, however large the cluster is. Below 2.4 the result is empty, because only the
    request znode reassigns there. None: this user may not ask (DESCRIBE on the cluster); then only the topics' znodes
    show what is in motion. Raises ReadError.
    """
    with _opened(kafka) as client:
        try:
            found = client.list_partition_reassignments()
        except IncompatibleBrokerVersion:
            return {}
        except ClusterAuthorizationFailedError:
            return None
    return {
        TopicPartition(*one): tuple(broker for broker in lists["replicas"] if broker not in lists["removing_replicas"])
        for one, lists in found.items()
    }


@contextmanager
def _opened(kafka: KafkaConnection) -> Iterator[KafkaAdminClient]:
    with open_kafka_python(kafka) as client:
        try:
            yield client
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise unreachable(kafka, failed) from failed


def cancel_reassignments(kafka: KafkaConnection, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Cancels exactly these, and returns those that were being reassigned. The others had ended meanwhile.

    Raises WriteDeniedError without the permission, and WriteError naming every partition that Kafka refused to cancel,
    with Kafka's name of the error; the others are cancelled. Raises ReadError if there was no answer: the outcome is
    unknown, and the request may be repeated.
    """
    wanted = {KafkaTopicPartition(*topic_partition): None for topic_partition in sorted(partitions)}
    if not wanted:
        return frozenset()
    with open_kafka_python(kafka) as client:
        try:
            answers = client.alter_partition_reassignments(wanted)
        except IncompatibleBrokerVersion as old:
            raise WriteError("The controller is below Kafka 2.4 and cannot cancel a reassignment by request.") from old
        except ClusterAuthorizationFailedError as denied:
            raise WriteDeniedError(
                f"Kafka refused the cancelling of {len(wanted)} reassignments: the Kafka user needs Alter on the "
                "cluster. Nothing was cancelled. Grant it, then clear this task."
            ) from denied
        except (KafkaError, OSError, RuntimeError) as failed:  # RuntimeError: no controller was found
            raise ReadError(
                f"Kafka {kafka.bootstrap_servers} did not answer the request to cancel {len(wanted)} reassignments "
                f"({type(failed).__name__}), so whether Kafka cancelled them is unknown. Clear this task: it looks "
                "and asks again for what is still in flight."
            ) from failed
    names = {one: error and error.__name__ for one, error in answers.items()}
    errors = {TopicPartition(*one): names.get(one, "no answer") for one in wanted}
    cancelled = frozenset(tp for tp, error in errors.items() if error is None)
    for tp in sorted(cancelled):
        note(Kind.CANCEL, str(tp))
    refused = {tp: error for tp, error in errors.items() if error not in (None, NoReassignmentInProgressError.__name__)}
    if refused:
        shown = ", ".join(f"{tp} ({error})" for tp, error in sorted(refused.items())[:10])
        more = f" and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise WriteError(
            f"Kafka did not cancel {len(refused)} of {len(wanted)} reassignments: {shown}{more}. The others are "
            "cancelled. Clear this task to ask again; the broker that is controller logs the reason."
        )
    return cancelled
