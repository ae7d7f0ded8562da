"""The view of a cluster: what is there, what is not, and what could not be read are three different answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, SessionExpiredError
from kazoo.retry import KazooRetry

from kafka_rebalance.errors import ClusterNotReadyError, CorruptZnodeError, ReadError
from kafka_rebalance.model.cluster_view import DEFAULT_BROKER
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import client as client_module
from kafka_rebalance.zookeeper.reader import (
    check_controller_stable,
    read_broker_configs,
    read_cluster_view,
    read_topic_configs,
)
from support.zookeeper.fake_zookeeper import fake_cluster, put_topic

CONTROLLER = {"brokerid": 1, "timestamp": "1"}
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def fake() -> Any:
    return fake_cluster({"orders": {0: [1, 2], 1: [2, 3]}, "audit": {0: [3]}}, brokers={1: "a", 2: "b", 3: "a"})


def test_a_view_holds_brokers_controller_and_every_partition(fake: Any) -> None:
    view = read_cluster_view(fake)
    assert view.cluster_id == "simulated-cluster-0001"
    assert (view.controller.broker, view.controller.epoch) == (1, 1)
    assert view.racks == {1: "a", 2: "b", 3: "a"}
    assert view.brokers[2].czxid == fake.znodes["/brokers/ids/2"].czxid
    assert set(view.partitions) == {ORDERS_0, ORDERS_1, TopicPartition("audit", 0)}
    partition = view.partitions[ORDERS_1]
    assert (partition.replicas, partition.leader, partition.isr) == ((2, 3), 2, (2, 3))
    assert partition.topic_czxid == fake.znodes["/brokers/topics/orders"].czxid
    assert partition.topic_znode_version == 0


def test_an_absent_request_is_none_and_an_empty_one_is_not(fake: Any) -> None:
    view = read_cluster_view(fake)
    assert view.reassignments is None
    assert view.elections is None
    assert view.deletions == frozenset()
    fake.put_json("/admin/reassign_partitions", {"version": 1, "partitions": []})
    fake.put_json(
        "/admin/preferred_replica_election", {"version": 1, "partitions": [{"topic": "orders", "partition": 1}]}
    )
    fake.create("/admin/delete_topics/audit")
    view = read_cluster_view(fake)
    assert view.reassignments == {}
    assert view.elections == {ORDERS_1}
    assert view.deletions == {"audit"}


def test_what_is_requested_of_topics_that_are_gone_or_were_made_again_since_is_told(fake: Any) -> None:
    asked = [
        {"topic": topic, "partition": number, "replicas": [1]}
        for topic, number in (("gone", 0), ("audit", 0), ("orders", 0), ("orders", 7))
    ]
    fake.put_json("/admin/reassign_partitions", {"version": 1, "partitions": asked})
    gone, missing, again = TopicPartition("gone", 0), TopicPartition("orders", 7), TopicPartition("audit", 0)
    view = read_cluster_view(fake, ["orders"])
    assert (view.requested_gone, view.requested_again) == ({gone, missing}, set())
    fake.delete("/brokers/topics/audit", recursive=True)
    put_topic(fake, "audit", {0: [3]})
    view = read_cluster_view(fake, ["orders"])
    assert (view.requested_gone, view.requested_again) == ({gone, missing, again}, {again})
    document = fake.json("/brokers/topics/audit")
    fake.put_json("/brokers/topics/audit", document | {"adding_replicas": {"0": [1]}})
    assert again not in read_cluster_view(fake).requested_gone, "the controller moves it"


def test_what_is_in_motion_is_read_from_the_topic(fake: Any) -> None:
    document = fake.json("/brokers/topics/orders")
    document["partitions"]["0"] = [3, 1, 2]
    fake.put_json("/brokers/topics/orders", document | {"adding_replicas": {"0": [3]}, "removing_replicas": {"0": [2]}})
    view = read_cluster_view(fake)
    assert (view.partitions[ORDERS_0].adding, view.partitions[ORDERS_0].removing) == ((3,), (2,))
    assert (view.partitions[ORDERS_1].adding, view.partitions[ORDERS_1].removing) == ((), ())
    assert view.partitions[ORDERS_0].topic_znode_version == 1


def test_only_the_topics_named_are_read_and_one_that_does_not_exist_is_absent(fake: Any) -> None:
    view = read_cluster_view(fake, ["orders", "no-such-topic"])
    assert {topic_partition.topic for topic_partition in view.partitions} == {"orders"}
    assert read_cluster_view(fake, []).partitions == {}


def test_a_partition_without_state_has_no_leader_and_no_isr(fake: Any) -> None:
    fake.delete("/brokers/topics/orders/partitions/1/state")
    partition = read_cluster_view(fake).partitions[ORDERS_1]
    assert (partition.state, partition.leader, partition.isr) == (None, -1, ())


def test_a_topic_deleted_between_listing_and_reading_is_left_out(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = fake.get_children

    def stale(path: Any) -> Any:
        return [*listing(path), "gone"] if path == "/brokers/topics" else listing(path)

    monkeypatch.setattr(fake, "get_children", stale)
    assert {topic_partition.topic for topic_partition in read_cluster_view(fake).partitions} == {"orders", "audit"}


@pytest.mark.parametrize("created_again", [False, True])
def test_a_topic_deleted_between_reading_it_and_its_states_is_left_out(
    fake: Any, monkeypatch: pytest.MonkeyPatch, created_again: bool
) -> None:
    reading = fake.get

    def deleting(path: Any) -> Any:
        if path.startswith("/brokers/topics/audit/") and "/brokers/topics/audit" in fake.znodes:
            fake.delete("/brokers/topics/audit", recursive=True)
            if created_again:
                fake.put_json("/brokers/topics/audit", {"version": 1, "partitions": {"0": [1]}})
        return reading(path)

    monkeypatch.setattr(fake, "get", deleting)
    assert {topic_partition.topic for topic_partition in read_cluster_view(fake).partitions} == {"orders"}


def test_a_broker_that_leaves_while_it_is_read_is_not_registered(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = fake.get_children
    monkeypatch.setattr(
        fake, "get_children", lambda path: [*listing(path), "9"] if path == "/brokers/ids" else listing(path)
    )
    assert set(read_cluster_view(fake).brokers) == {1, 2, 3}


def test_the_server_is_synced_before_anything_is_read(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("sync", "get", "get_children"):
        real = getattr(fake, name)
        monkeypatch.setattr(fake, name, lambda path, name=name, real=real: calls.append(name) or real(path))
    read_cluster_view(fake)
    assert calls[0] == "sync"
    assert calls.count("sync") == 1


def test_the_request_is_read_before_the_topics_so_that_gone_means_they_are_final(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reading = [], fake.get
    monkeypatch.setattr(fake, "get", lambda path: read.append(path) or reading(path))
    read_cluster_view(fake)
    topics = [path for path in read if path.startswith("/brokers/topics")]
    assert read.index("/admin/reassign_partitions") < min(map(read.index, topics))


def test_partitions_are_requested_by_the_window_and_not_one_by_one(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "WINDOW", 50)
    put_topic(fake, "wide", {partition: [1, 2] for partition in range(120)})
    in_flight, largest = 0, 0

    class Counting:
        def __init__(self, answer: Any) -> None:
            nonlocal in_flight, largest
            in_flight += 1
            largest = max(largest, in_flight)
            self.answer = answer

        def get(self, timeout: Any = None) -> Any:
            nonlocal in_flight
            in_flight -= 1
            return self.answer.get(timeout=timeout)

    real = fake.get_async
    monkeypatch.setattr(fake, "get_async", lambda path: Counting(real(path)), raising=False)
    assert len(read_cluster_view(fake, ["wide"]).partitions) == 120
    assert largest == 50


@pytest.mark.parametrize(
    "path", ["/brokers/topics/orders", "/brokers/topics/orders/partitions/0/state", "/brokers/ids/2"]
)
def test_a_connection_lost_for_a_moment_is_read_through(fake: Any, path: str) -> None:
    fake.fail_next("get", path, took_effect=False, error=ConnectionLoss())
    assert len(read_cluster_view(fake).partitions) == 3


@pytest.mark.parametrize(
    ("call", "path", "error", "named"),
    [
        ("get", "/brokers/topics/orders/partitions/0/state", ConnectionLoss, "/brokers/topics/"),
        ("get", "/brokers/topics/orders/partitions/0/state", SessionExpiredError, "/brokers/topics/"),
        ("get_children", "/brokers/ids", ConnectionLoss, "fake:2181"),
        ("sync", "/", ConnectionLoss, "fake:2181"),
    ],
)
def test_what_cannot_be_read_is_an_error_and_never_absent(
    fake: Any, monkeypatch: pytest.MonkeyPatch, call: str, path: str, error: Any, named: str
) -> None:
    monkeypatch.setattr(client_module, "KazooRetry", functools.partial(KazooRetry, sleep_func=lambda _: None))
    for _ in range(20):
        fake.fail_next(call, path, took_effect=False, error=error())
    with pytest.raises(ReadError, match=named):
        read_cluster_view(fake)


def test_a_znode_that_may_not_be_read_is_a_read_error_naming_it(fake: Any) -> None:
    fake.fail_next("get", "/config/brokers/1", took_effect=False, error=NoAuthError())
    with pytest.raises(ReadError, match=r"/config/brokers/1.*may not read"):
        read_broker_configs(fake, [1])


def test_a_corrupt_znode_stops_the_reading_and_is_named(fake: Any) -> None:
    fake.put_json("/brokers/topics/orders", {"version": 1, "partitions": {"0": ["1", "2"]}})
    with pytest.raises(CorruptZnodeError, match=r"^/brokers/topics/orders: "):
        read_cluster_view(fake)


def test_a_chroot_without_kafka_is_not_an_empty_cluster(fake: Any) -> None:
    fake.delete("/cluster/id")
    with pytest.raises(ReadError, match="/cluster/id does not exist"):
        read_cluster_view(fake)


def test_configs_are_what_is_set_and_empty_where_nothing_is(fake: Any) -> None:
    fake.put_json("/config/topics/orders", {"version": 1, "config": {"segment.bytes": "1000"}})
    fake.put_json("/config/brokers/<default>", {"version": 1, "config": {"log.roll.ms": "5"}})
    assert read_topic_configs(fake, ["orders", "audit", "none"]) == {
        "orders": {"segment.bytes": "1000"},
        "audit": {},
        "none": {},
    }
    assert read_broker_configs(fake, [1, 2]) == {1: {}, 2: {}, DEFAULT_BROKER: {"log.roll.ms": "5"}}


# --- the controller ---


def test_a_settled_controller_is_returned_after_one_pause(fake: Any) -> None:
    pauses = []
    settled = check_controller_stable(fake, lambda: pauses.append(1))
    assert settled.controller.broker == 1
    assert settled.epochs == (1, 1)
    assert pauses == [1]


@pytest.mark.parametrize(("later", "storm"), [(2, False), (4, False), (5, True), (300, True)])
def test_an_epoch_that_races_is_an_election_storm_and_an_ordinary_failover_is_not(
    fake: Any, later: int, storm: bool
) -> None:
    def pause() -> None:
        fake.set("/controller_epoch", str(later).encode())

    if not storm:
        settled = check_controller_stable(fake, pause)
        assert settled.controller.epoch == later
        assert settled.epochs == (1, later)
        return
    with pytest.raises(ClusterNotReadyError, match=f"from 1 to {later}"):
        check_controller_stable(fake, pause)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda fake: fake.delete("/controller"), "no controller"),
        (lambda fake: fake.delete("/brokers/ids/1"), "broker 1, which is not registered"),
        (lambda fake: setattr(fake.znodes["/brokers/ids/1"], "owner", 2), "not registered in its session"),
        (lambda fake: fake.put_json("/controller", {**CONTROLLER, "version": 2, "kraftControllerEpoch": 0}), "KRaft"),
    ],
)
def test_a_cluster_without_a_live_controller_of_its_own_is_not_ready(
    fake: Any, change: Callable[[Any], object], why: str
) -> None:
    change(fake)
    with pytest.raises(ClusterNotReadyError, match=why):
        check_controller_stable(fake, lambda: None)


def test_a_controller_that_goes_during_the_pause_is_none(fake: Any) -> None:
    with pytest.raises(ClusterNotReadyError, match="no controller"):
        check_controller_stable(fake, lambda: fake.delete("/controller"))


@pytest.mark.parametrize("name", ["2147483648", "9" * 5000, "one", "-1", "\u0663", "1 "])
def test_a_registration_under_what_is_no_broker_id_is_named(fake: Any, name: Any) -> None:
    fake.create(f"/brokers/ids/{name}")
    with pytest.raises(ReadError, match="is not a broker id"):
        read_cluster_view(fake)


def test_the_largest_broker_id_a_rack_with_markup_and_ten_thousand_brokers_are_read_as_they_are() -> None:
    racks = dict.fromkeys(range(10_000), "rack") | {2**31 - 1: '<script>alert("%2F")</script>'}
    fake = fake_cluster({"orders": {0: [2**31 - 1, 1]}}, brokers=racks)
    view = read_cluster_view(fake)
    assert view.racks == racks
    assert view.partitions[ORDERS_0].replicas == (2**31 - 1, 1)
