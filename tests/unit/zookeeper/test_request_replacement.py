"""The one transaction that deletes the request and the controller: what it needs, and what stops it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.errors import ApprovalError, WriteError
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.cancel_plan import CancelPlan, CancelWay
from kafka_rebalance.zookeeper.controller_deletion import ask_for_original_lists
from kafka_rebalance.zookeeper.znodes import encode_reassignment
from support.kafka.recordings.cancelled_moves import fail_over
from support.zookeeper.fake_zookeeper import REASSIGN, SimulatedController, fake_cluster

CLUSTER = "simulated-cluster-0001"
MOVES = (
    Move(TopicPartition("orders", 0), (1, 2), (3, 4), 100),
    Move(TopicPartition("orders", 1), (2, 1), (4, 1), 100),
    Move(TopicPartition("audit", 0), (1, 2), (3, 2), 100),
)
PLAN = CancelPlan("kafka_rebalance/one", CLUSTER, "d" * 64, CancelWay.ZNODE, MOVES)


@pytest.fixture
def fake() -> Any:
    """Two of three partitions are in motion on a cluster of 2.0, the third has not begun."""
    made = fake_cluster({"orders": {0: (1, 2), 1: (2, 1)}, "audit": {0: (1, 2)}, "idle": {0: (1, 2)}}, version="2.0")
    made.controller = SimulatedController(made, "2.0")  # type: ignore[attr-defined]
    fail_over(made, made.controller)
    made.create(REASSIGN, encode_reassignment({move.topic_partition: move.after for move in MOVES[:2]}))
    assert made.controller.step()
    made.writes.clear()
    return made


def lists(fake: Any, topic: Any) -> Any:
    return {int(p): replicas for p, replicas in fake.json(f"/brokers/topics/{topic}")["partitions"].items()}


def take_back(fake: Any, plan: Any = PLAN, consent: Any = PLAN.consent) -> Any:
    return ask_for_original_lists(fake, plan, consent)


def untouched(fake: Any) -> Any:
    return fake.writes == [] and fake.json("/controller")["brokerid"] == 1


def test_exactly_what_is_in_flight_goes_back_and_a_new_controller_does_it(fake: Any) -> None:
    assert lists(fake, "orders") == {0: [3, 4, 1, 2], 1: [4, 1, 2]}
    assert take_back(fake) == MOVES[:2]
    assert fake.json(REASSIGN)["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [1, 2]},
        {"topic": "orders", "partition": 1, "replicas": [2, 1]},
    ]
    assert int(fake.get("/controller_epoch")[0]) == 2
    fake.controller.run()
    assert lists(fake, "orders") == {0: [1, 2], 1: [2, 1]}
    assert REASSIGN not in fake.znodes
    assert take_back(fake) == ()  # asked again, nothing is in flight


def test_without_the_sentence_nothing_is_written(fake: Any) -> None:
    for consent in (None, "", "yes", dataclasses.replace(PLAN, run="another").consent):
        with pytest.raises(ApprovalError, match="word for word"):
            take_back(fake, consent=consent)
    assert untouched(fake)


def test_another_clusters_plan_and_a_plan_for_2_4_are_refused(fake: Any) -> None:
    other = dataclasses.replace(PLAN, cluster_id="another")
    with pytest.raises(WriteError, match="this is cluster simulated-cluster-0001"):
        take_back(fake, other, other.consent)
    with pytest.raises(WriteError, match=r"that cancels only below Kafka 2\.4"):
        take_back(fake, dataclasses.replace(PLAN, way=CancelWay.API), "")
    assert untouched(fake)


def in_sync(fake: Any, partition: int, isr: list[int]) -> None:
    path = f"/brokers/topics/orders/partitions/{partition}/state"
    fake.put_json(path, {**fake.json(path), "isr": isr})


def marks_its_moves(fake: Any) -> None:
    fake.put_json("/brokers/topics/orders", {**fake.json("/brokers/topics/orders"), "adding_replicas": {"0": [3, 4]}})


def also_asks_for_anothers(fake: Any) -> None:
    entries = [*fake.json(REASSIGN)["partitions"], {"topic": "idle", "partition": 0, "replicas": [3, 4]}]
    fake.put_json(REASSIGN, {"version": 1, "partitions": entries})


def goes_back_already(fake: Any) -> None:
    in_sync(fake, 0, [1, 2])
    document = fake.json(REASSIGN)
    document["partitions"][0]["replicas"] = [1, 2]
    fake.put_json(REASSIGN, document)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (marks_its_moves, r"controller runs Kafka 2\.4 or later"),  # it is asked through the API
        (also_asks_for_anothers, r"also asks for idle-0 on \[3, 4\]"),
        # Taken out of the request, the interim list of this partition would be its assignment for good.
        (lambda fake: in_sync(fake, 1, [1]), r"orders-1 its original replicas \[2\] are not in sync"),
        (lambda fake: in_sync(fake, 0, [1, 2, 3, 4]), "orders-0 its new replicas are all in sync"),
        (goes_back_already, "orders-0 is going back already"),
        (lambda fake: fake.delete("/brokers/ids/2"), "not in sync"),
    ],
)
def test_one_partition_that_must_not_go_back_stops_all(fake: Any, change: Callable[[Any], None], why: str) -> None:
    change(fake)
    fake.writes.clear()
    with pytest.raises(WriteError, match=why):
        take_back(fake)
    assert untouched(fake)


def test_original_lists_pass_the_validated_encoder() -> None:
    made = fake_cluster({"orders": {0: (1, 2)}}, version="2.0")
    made.create(REASSIGN, encode_reassignment({TopicPartition("orders", 0): (3, 4)}))
    made.writes.clear()
    plan = dataclasses.replace(PLAN, moves=(Move(TopicPartition("orders", 0), (1, 1), (3, 4), 1),))
    with pytest.raises(WriteError):
        ask_for_original_lists(made, plan, plan.consent)
    assert made.writes == []


def test_a_request_that_somebody_deleted_is_asked_for_the_original_lists_all_the_same(fake: Any) -> None:
    """The old controller goes on from memory; its successor only knows what is written."""
    fake.delete(REASSIGN)
    assert take_back(fake) == MOVES[:2]
    fake.controller.run()
    assert lists(fake, "orders") == {0: [1, 2], 1: [2, 1]}


def test_without_a_controller_nothing_is_written(fake: Any) -> None:
    fake.after_write.clear()
    fake.delete("/controller")
    fake.writes.clear()
    with pytest.raises(WriteError, match="there is no controller"):
        take_back(fake)
    assert fake.writes == []


@pytest.mark.parametrize(
    "path",
    [
        REASSIGN,
        "/controller",
        "/controller_epoch",
        "/brokers/topics/orders",
        "/brokers/topics/orders/partitions/0/state",
        "/brokers/topics/orders/partitions/1/state",
    ],
)
def test_what_changed_since_it_was_read_undoes_the_whole_transaction_and_is_read_again(fake: Any, path: Any) -> None:
    """Somebody writes the znode between our reading and our transaction."""
    commit, seen = fake.transaction, []

    def slip_in() -> Any:
        if not seen:
            fake.set(path, fake.get(path)[0])
            fake.writes.clear()
        seen.append(path)
        return commit()

    fake.transaction = slip_in
    assert take_back(fake) == MOVES[:2]
    assert seen == [path, path], "the first transaction wrote nothing"
    assert fake.writes.count(("delete", "/controller")) == 1
    fake.controller.run()
    assert lists(fake, "orders") == {0: [1, 2], 1: [2, 1]}


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_lost_connection_is_no_reason_to_do_it_twice(fake: Any, took_effect: bool) -> None:
    fake.fail_next("commit", REASSIGN, took_effect=took_effect)
    take_back(fake)
    assert fake.writes.count(("delete", "/controller")) == 1
    assert int(fake.get("/controller_epoch")[0]) == 2
    fake.controller.run()
    assert lists(fake, "orders") == {0: [1, 2], 1: [2, 1]}
