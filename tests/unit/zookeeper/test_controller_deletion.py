"""The one transaction that deletes `/controller` alone: over what it is approved, and what stops it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from kafka_rebalance.errors import ApprovalError, ArtifactError, WriteError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.stuck_request import ElectionPlan, EntryState
from kafka_rebalance.zookeeper import controller_deletion
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from kafka_rebalance.zookeeper.controller_deletion import delete_controller, plan_election
from kafka_rebalance.zookeeper.znodes import encode_reassignment
from support.kafka.recordings.cancelled_moves import fail_over
from support.zookeeper.fake_zookeeper import REASSIGN, FakeZooKeeper, SimulatedController, fake_cluster, put_topic

GONE, OTHER = TopicPartition("gone", 0), TopicPartition("orders", 0)
US = LockOwner("kafka_rebalance/one", "d" * 64, "http://airflow")
THEM = dataclasses.replace(US, run="kafka_rebalance/two")


@pytest.fixture
def fake() -> FakeZooKeeper:
    """A request of a topic that is gone, of which the controller does not think any more."""
    made = fake_cluster({"orders": {0: (1, 2)}}, version="2.8")
    made.controller = SimulatedController(made, "2.8")  # type: ignore[attr-defined]
    fail_over(made, made.controller)  # type: ignore[attr-defined]
    made.create(REASSIGN, encode_reassignment({GONE: (3, 4)}))
    made.controller._taken = made.znodes[REASSIGN].czxid  # type: ignore[attr-defined]
    return made


def planned(fake: FakeZooKeeper) -> ElectionPlan:
    found = plan_election(fake)
    assert found is not None
    fake.writes.clear()
    return found[0]


def controller(fake: FakeZooKeeper) -> tuple[int, int]:
    return fake.json("/controller")["brokerid"], int(fake.get("/controller_epoch")[0])


def test_another_controller_drops_what_is_gone_and_the_request_with_it(fake: Any) -> None:
    plan = planned(fake)
    assert (plan.broker, plan.epoch, plan.holder) == (1, 1, "")
    assert plan.requested == {GONE: ((3, 4), EntryState.GONE)}
    assert ElectionPlan.from_mapping(plan.to_mapping()) == plan
    assert delete_controller(fake, plan, plan.consent) is True
    assert controller(fake) == (4, 2)
    fake.controller.run()
    assert REASSIGN not in fake.znodes
    assert delete_controller(fake, plan, plan.consent) is False, "asked again, nothing is deleted twice"
    assert controller(fake) == (4, 2)


@pytest.mark.parametrize(("isr", "state"), [((1, 2, 3), "in_sync"), ((1, 2), "moving")])
def test_a_move_whose_copies_are_all_in_sync_waits_for_another_controller(
    fake: Any, isr: tuple[int, ...], state: str
) -> None:
    topic = fake.json("/brokers/topics/orders")
    moving = {"partitions": {"0": [3, 2, 1]}, "adding_replicas": {"0": [3]}, "removing_replicas": {"0": [1]}}
    fake.put_json("/brokers/topics/orders", topic | moving)
    path = "/brokers/topics/orders/partitions/0/state"
    fake.put_json(path, fake.json(path) | {"isr": list(isr)})
    fake.delete(REASSIGN)
    fake.create(REASSIGN, encode_reassignment({OTHER: (3, 2)}))
    plan = planned(fake)
    assert plan.requested == {OTHER: ((3, 2), EntryState(state))}
    if state == "moving":
        with pytest.raises(WriteError, match=r"orders-0 is moving.*/controller was not deleted"):
            delete_controller(fake, plan, plan.consent)
    else:
        assert delete_controller(fake, plan, plan.consent) is True


def test_without_the_sentence_nothing_is_deleted(fake: Any) -> None:
    plan = planned(fake)
    for consent in (None, "", "yes", dataclasses.replace(plan, epoch=7).consent):
        with pytest.raises(ApprovalError, match="word for word"):
            delete_controller(fake, plan, consent)  # type: ignore[arg-type]
    assert fake.writes == []


def test_a_controller_that_was_elected_meanwhile_is_not_made_to_stand_down(fake: Any) -> None:
    plan = planned(fake)
    fake.delete("/controller")
    fake.writes.clear()
    assert delete_controller(fake, plan, plan.consent) is False
    assert fake.writes == []
    fake.after_write.clear()
    fake.delete("/controller")
    fake.writes.clear()
    assert delete_controller(fake, plan, plan.consent) is False, "while one is being elected"
    assert fake.writes == []


def between_the_look_and_the_deletion(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` happens once, when everything is found as it was shown."""
    real = controller_deletion._check_as_shown

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(controller_deletion, "_check_as_shown", real)
        real(*arguments)
        act()

    monkeypatch.setattr(controller_deletion, "_check_as_shown", overtaken)


def test_a_controller_that_is_elected_between_the_look_and_the_deletion_stays(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(fake)
    between_the_look_and_the_deletion(monkeypatch, lambda: fake.delete("/controller"))
    assert delete_controller(fake, plan, plan.consent) is False
    assert controller(fake) == (4, 2)


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_connection_that_is_lost_over_it_deletes_one_controller_only(fake: Any, took_effect: bool) -> None:
    plan = planned(fake)
    fake.fail_next("commit", "/controller", took_effect=took_effect, error=ConnectionLoss())
    assert delete_controller(fake, plan, plan.consent) is not took_effect
    assert controller(fake) == (4, 2)


def _another_request(fake: FakeZooKeeper) -> None:
    fake.delete(REASSIGN)
    fake.create(REASSIGN, encode_reassignment({GONE: (3, 4)}))


def _more_requested(fake: FakeZooKeeper) -> None:
    fake.set(REASSIGN, encode_reassignment({GONE: (3, 4), OTHER: (3, 4)}))


def _kraft(fake: FakeZooKeeper) -> None:
    data = {**fake.json("/controller"), "version": 2, "kraftControllerEpoch": 3}
    fake.put_json("/controller", data)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_another_request, "is gone, or is not the one that was shown"),
        (lambda fake: fake.delete(REASSIGN), "is gone, or is not the one that was shown"),
        (_more_requested, "orders-0 is no longer as it was shown"),
        (lambda fake: put_topic(fake, "gone", {0: (1, 2)}), "gone-0 is no longer as it was shown"),
        (_kraft, "a KRaft controller owns the cluster"),
        (lambda fake: fake.put_json("/cluster/id", {"version": "1", "id": "other"}), "this is cluster other"),
        (
            lambda fake: ZooKeeperLock(fake).acquire(THEM),
            "the cluster is now held by run kafka_rebalance/two of http://airflow",
        ),
    ],
)
def test_what_is_not_as_it_was_shown_stops_it(fake: Any, change: Callable[[FakeZooKeeper], object], why: str) -> None:
    plan = planned(fake)
    change(fake)
    before = controller(fake)
    with pytest.raises(WriteError, match=f"{why}.*/controller was not deleted"):
        delete_controller(fake, plan, plan.consent)
    assert controller(fake) == before


def test_the_run_that_holds_the_cluster_keeps_it_and_who_takes_it_meanwhile_stops_the_election(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ZooKeeperLock(fake).acquire(US)
    plan = planned(fake)
    assert plan.holder == US.name

    def taken_by_them() -> None:
        ZooKeeperLock(fake).release(US)
        ZooKeeperLock(fake).acquire(THEM)

    between_the_look_and_the_deletion(monkeypatch, taken_by_them)
    with pytest.raises(WriteError, match="now held by run kafka_rebalance/two"):
        delete_controller(fake, plan, plan.consent)
    assert controller(fake) == (1, 1)
    ZooKeeperLock(fake).release(THEM)
    ZooKeeperLock(fake).acquire(US)
    assert delete_controller(fake, plan, plan.consent) is True
    assert ZooKeeperLock(fake).read() == US


def test_no_controller_is_deleted_while_a_requested_partition_moves() -> None:
    made = fake_cluster({"orders": {0: (1, 2), 1: (3, 4)}}, version="2.8")
    made.create(REASSIGN, encode_reassignment(dict.fromkeys([TopicPartition("orders", p) for p in (0, 1)], (3, 4))))
    path = "/brokers/topics/orders/partitions/1/state"
    made.put_json(path, {**made.json(path), "isr": [3]})
    plan = planned(made)
    with pytest.raises(WriteError, match="orders-1 is moving"):
        delete_controller(made, plan, plan.consent)


def test_nothing_requested_and_no_controller() -> None:
    made = fake_cluster({"orders": {0: (1, 2)}})
    assert plan_election(made) is None
    made.create(REASSIGN, encode_reassignment({GONE: (3, 4)}))
    made.delete("/controller")
    with pytest.raises(WriteError, match="there is no controller now"):
        plan_election(made)


def test_a_plan_that_cannot_be_read_is_an_error_of_our_own() -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        ElectionPlan.from_mapping({"cluster_id": "one"})
