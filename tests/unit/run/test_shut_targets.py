"""Brokers that Kafka gives no new replica any more, and the approved moves that would bring them some."""

from __future__ import annotations

import pytest

from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.run.checks.drift import (
    Baseline,
    BrokerThen,
    Drift,
    MoveDrift,
    PartitionThen,
    check_no_conflict,
    drifts,
)
from support.kafka.small_clusters import move, partition, view

MOVES = [
    move("t-0", [1, 2], [2, 3], batch=1),
    move("t-1", [1, 2], [3, 1], batch=2),
    move("u-0", [1, 2], [2, 4], batch=2),
]
THEN = Baseline(
    topics={"t": TopicIdentity(1, 10), "u": TopicIdentity(1, 10)},
    brokers={broker: BrokerThen(100 + broker) for broker in (1, 2, 3, 4)},
    partitions={one.topic_partition: PartitionThen((1, 2), frozenset({1, 2}), 1) for one in MOVES},
)
NOW = dict.fromkeys(("t-0", "t-1", "u-0"), partition([1, 2]))


def in_conflict(found: tuple[MoveDrift, ...]) -> list[str]:
    return [str(one.move.topic_partition) for one in found if one.drift is Drift.CONFLICT]


def test_a_broker_that_was_cordoned_since_conflicts_with_what_it_would_receive() -> None:
    found = drifts(MOVES, view(NOW), THEN, shut={4: Shut.CORDONED, 1: Shut.OFFLINE})
    assert in_conflict(found) == ["u-0"]  # t-1 keeps a replica on broker 1, and puts none there
    with pytest.raises(StaleProposalError, match=r"broker 4: it is to receive replicas and is cordoned .*\(u-0\)"):
        check_no_conflict(found, begun=False)


def test_a_new_list_conflicts_with_a_cordoned_broker_where_a_replica_lies_already() -> None:
    found = drifts(MOVES, view(NOW), THEN, shut={1: Shut.CORDONED})
    assert in_conflict(found) == ["t-1"]
    with pytest.raises(StaleProposalError, match="broker 1: new lists name it and it is cordoned"):
        check_no_conflict(found, begun=False)
    elects = [move("t-0", [1, 2], [1, 2])]
    assert (
        in_conflict(drifts(elects, view(NOW | {"t-0": partition([1, 2], leader=2)}), THEN, shut={1: Shut.CORDONED}))
        == []
    )


def test_what_is_on_its_way_there_goes_on() -> None:
    moving = NOW | {"t-0": partition([2, 3, 1], [1, 2], 1, version=2, adding=[3], removing=[1])}
    assert in_conflict(drifts(MOVES, view(moving), THEN, batches_touched={1}, shut={3: Shut.CORDONED})) == ["t-1"]


@pytest.mark.parametrize("why", Shut)
def test_every_reason_why_a_broker_receives_nothing_is_told_in_words(why: Shut) -> None:
    (conflict,) = [one for one in drifts(MOVES, view(NOW), THEN, shut={4: why}) if one.drift is Drift.CONFLICT]
    assert str(conflict.why[0]) == f"broker 4: it is to receive replicas and {shut_in_words(why)}"
