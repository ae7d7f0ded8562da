"""The policy's limits, computed from approved moves alone: each is told, and no plan of the planner's breaks one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import NothingToDoError, PlanningError, PolicyError, SettingsError
from kafka_rebalance.kafka.topics import BY_NAME, KafkasOwn
from kafka_rebalance.model.candidate import OFFERED, Batch, Move
from kafka_rebalance.model.cluster_view import BrokerRegistration, ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks import limits
from kafka_rebalance.run.checks.limits import (
    ZNODE_BYTES,
    beyond_limit,
    check_names,
    check_within_policy,
    held_replicas,
    too_large_znodes,
    too_many_now,
)
from kafka_rebalance.zookeeper.znodes import decode_topic, encode_reassignment
from support.kafka.small_clusters import batches, move, partition, tp, view
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of

SIZE = 100
RATE = 2_000_000
RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
ORDERS, AUDIT = "orders", "audit"


def small(partition: int, before: Sequence[int], after: Sequence[int], topic: str = ORDERS, batch: int = 1) -> Move:
    return Move(TopicPartition(topic, partition), tuple(before), tuple(after), 1, batch)  # says of itself: 1 byte


def check(
    moves: Sequence[Move],
    rate: int = RATE,
    racks: Mapping[int, str | None] = RACKS,
    told: frozenset[str] = frozenset(),
    held: Mapping[int, int] | None = None,
    **limits: Any,
) -> None:
    policy = Policy.from_mapping({"approvers": ["uma"], "max_bytes_share": 1.0, **limits}, "test")
    batches = [
        Batch(number, tuple(one for one in moves if one.batch == number), "digest")
        for number in sorted({one.batch for one in moves})
    ]
    check_within_policy(
        batches,
        policy,
        sizes={one.topic_partition: SIZE for one in moves},
        cluster_bytes=10_000,
        held_replicas={} if held is None else held,
        racks=racks,
        throttle_bytes_per_second=rate,
        kafkas_own=KafkasOwn(told),
    )


TWO = [small(0, [1, 2], [3, 2]), small(1, [1, 2], [3, 4])]  # three copies, two new leaders


@pytest.mark.parametrize(
    ("moves", "limits", "said"),
    [
        (TWO, {"max_bytes": 299}, "300 bytes to copy are more than 299"),
        (TWO, {"max_bytes_share": 0.02}, "300 bytes to copy are more than 200"),
        (TWO, {"partitions_per_batch": 1}, r"batch 1 has 2, the policy allows 1 \(partitions_per_batch\)"),
        (TWO, {"leader_changes_per_batch": 1}, r"batch 1 has 2, the policy allows 1 \(leader_changes_per_batch\)"),
        (TWO, {"copies_per_broker": 1}, r"batch 1 has 2, the policy allows 1 \(copies_per_broker, on broker [13]\)"),
        (TWO, {"topics_out": ["ord*"]}, "topics_out keeps out orders-0, orders-1"),
        (TWO, {"brokers_out": [4]}, "brokers_out keeps out orders-1"),
        (TWO, {"brokers_out": [1]}, "brokers_out keeps out orders-0, orders-1"),
        (TWO, {"broker_pools": [{"topics": ["orders"], "brokers": [1, 2, 3]}]}, "broker_pools keeps out orders-1"),
        (TWO, {"broker_pools": [{"topics": ["other"], "brokers": [4]}]}, "broker_pools keeps out orders-1"),
        (TWO, {"pinned_topics": ["orders"]}, "pinned_topics keeps out orders-0, orders-1"),
        ([small(0, [1, 2], [4, 2])], {"rack_pinned_topics": ["orders"]}, "rack_pinned_topics keeps out orders-0"),
        ([small(0, [1], [3], "__consumer_offsets")], {}, "internal_topics keeps out __consumer_offsets-0"),
    ],
)
def test_every_limit_that_is_broken_is_named(moves: list[Move], limits: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=f"goes beyond the policy: .*{said}"):
        check(moves, **limits)


@pytest.mark.parametrize("rate", [999_999, 100_000_001])
def test_a_throttle_outside_the_policys_range_is_named(rate: int) -> None:
    with pytest.raises(PolicyError, match=rf"a throttle of {rate} bytes/s is outside"):
        check(TWO, rate)


@pytest.mark.parametrize(
    ("moves", "limits"),
    [
        (TWO, {"max_bytes": 300}),
        ([small(0, [1, 2], [2, 1])], {"pinned_topics": ["*"], "rack_pinned_topics": ["*"], "max_bytes": 1}),
        ([small(0, [1, 2], [3, 2])], {"rack_pinned_topics": ["*"]}),
        ([small(0, [1], [1, 4])], {"rack_pinned_topics": ["*"]}),  # a replica more, in whichever rack
        ([small(0, [1], [3], "__audit")], {}),
        ([small(0, [1], [3], "__consumer_offsets")], {"internal_topics": True}),
        ([small(0, [1], [1, 2, 3, 4])], {"copies_per_broker": 2}),  # a partition that alone needs more
    ],
)
def test_what_the_policy_allows_is_not_refused(moves: list[Move], limits: dict[str, Any]) -> None:
    check(moves, **limits)


def test_no_broker_may_be_brought_beyond_replicas_per_broker() -> None:
    with pytest.raises(
        PolicyError, match=r"broker 3 would hold 7 replicas, the policy allows 6 \(replicas_per_broker\)"
    ):
        check(TWO, held={3: 5}, replicas_per_broker=6)
    check(TWO, held={3: 4}, replicas_per_broker=6)


def test_a_broker_beyond_replicas_per_broker_may_exchange_replicas_and_not_grow() -> None:
    exchange = [small(0, [1, 2], [3, 2]), small(1, [3, 4], [1, 4])]
    check(exchange, held={1: 9, 3: 9}, replicas_per_broker=6)
    with pytest.raises(PolicyError, match="broker 1 would hold 10 replicas"):
        check([*exchange, small(2, [3, 4], [1, 4])], held={1: 9, 3: 9}, replicas_per_broker=6)


def test_a_topic_that_only_the_brokers_call_internal_is_kept_out() -> None:
    with pytest.raises(PolicyError, match="internal_topics keeps out orders-0"):
        check(TWO, told=frozenset({ORDERS}))
    check(TWO, told=frozenset({ORDERS}), internal_topics=True)


def test_a_partition_that_the_snapshot_does_not_have_is_named() -> None:
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    with pytest.raises(PolicyError, match="the snapshot does not have orders-0"):
        check_within_policy(
            [Batch(1, (small(0, [1], [3]),), "digest")],
            policy,
            sizes={},
            cluster_bytes=1,
            held_replicas={},
            racks=RACKS,
            throttle_bytes_per_second=RATE,
            kafkas_own=BY_NAME,
        )


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_plan_of_the_planners_breaks_a_limit(data: st.DataObject) -> None:
    """With whatever limits: where the planner offers a candidate at all, its moves keep them."""
    brokers = data.draw(st.integers(3, 6))
    ids = list(range(1, brokers + 1))
    lists = data.draw(st.lists(st.permutations(ids).map(lambda order: order[:2]), min_size=2, max_size=14))
    sizes = data.draw(st.lists(st.integers(0, 1000), min_size=len(lists), max_size=len(lists)))
    limits = data.draw(
        st.fixed_dictionaries(
            {
                "max_bytes": st.integers(1, 6000),
                "partitions_per_batch": st.integers(1, 5),
                "leader_changes_per_batch": st.integers(1, 3),
                "copies_per_broker": st.integers(1, 3),
                "replicas_per_broker": st.integers(1, 12),
                "brokers_out": st.lists(st.sampled_from(ids), max_size=1),
                "pinned_topics": st.sampled_from([[], ["orders"]]),
                "rack_pinned_topics": st.sampled_from([[], ["orders"]]),
            }
        )
    )
    policy = Policy.from_mapping({"approvers": ["uma"], "max_bytes_share": 1.0, **limits}, "test")
    racks = {broker: f"r{broker % 3}" for broker in ids}
    cluster_bytes = 2 * sum(sizes)
    asked = policy.tighten(Settings(), cluster_bytes=cluster_bytes, brokers=3)
    settings_given = {key: getattr(asked, key) for key in limits} | {"max_bytes": asked.max_bytes}
    try:
        name = data.draw(st.sampled_from(["light", "balanced", "leaders_only"]))
        plan = plan_of(broker_rows(ids, racks), partition_rows(lists, size_bytes=sizes), name, **settings_given)
    except PlanningError:
        return
    if plan.candidate.status not in OFFERED:
        return
    check_within_policy(
        plan.candidate.batches,
        policy,
        sizes={TopicPartition("orders", number): size for number, size in enumerate(sizes)},
        cluster_bytes=cluster_bytes,
        held_replicas=Counter(broker for replicas in lists for broker in replicas),
        racks=racks,
        throttle_bytes_per_second=policy.max_throttle_bytes_per_second,
        kafkas_own=BY_NAME,
    )


def test_copies_of_one_broker_are_counted_over_all_of_its_partitions() -> None:
    three = [small(number, [sender], [4]) for number, sender in enumerate((1, 2, 3))]
    with pytest.raises(PolicyError, match=r"batch 1 has 3, the policy allows 2 \(copies_per_broker, on broker 4\)"):
        check(three, copies_per_broker=2)
    check(three, copies_per_broker=3)
    spread = [small(number, [1], [receiver]) for number, receiver in enumerate((2, 3, 4))]
    with pytest.raises(PolicyError, match=r"batch 1 has 3, the policy allows 2 \(copies_per_broker, on broker 1\)"):
        check(spread, copies_per_broker=2)


# Brokers and topics that the settings name and the cluster has not, before anything is planned.


PARTITIONS = {"orders-0": partition((1, 2)), "audit-0": partition((3, 9))}  # broker 9 is not registered


def cluster_with(racks: Mapping[int, str | None]) -> ClusterView:
    brokers = {broker: BrokerRegistration(broker, (), rack=rack) for broker, rack in racks.items()}
    return replace(view(PARTITIONS), brokers=brokers)


CLUSTER = cluster_with({1: "a", 2: "a", 3: "b", 4: "b"})
NO_TOPICS = view({})


def refusal(cluster: ClusterView = CLUSTER, **asked: Any) -> str:
    with pytest.raises(SettingsError) as refused:
        check_names(Settings.from_mapping(asked), cluster)
    said = str(refused.value)
    assert said.startswith("The settings do not fit this cluster: ")
    return said.removeprefix("The settings do not fit this cluster: ")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"job": "drain", "drain": [9]},
        {"job": "replace", "replace": {"9": 4}},
        {"brokers_out": [9], "brokers_in": [1, 4]},
        {"topics_in": ["orders"]},
        {"topics_in": ["*"], "topics_out": ["audit"]},
        {"job": "replication_factor", "replication_factor": 2},
        {"job": "replication_factor", "replication_factor": 4, "more_replicas_than_racks": True},
        {"broker_pools": [{"topics": ["audit"], "brokers": [3, 9]}]},
    ],
)
def test_what_is_there_may_be_named(asked: dict[str, Any]) -> None:
    check_names(Settings.from_mapping(asked), CLUSTER)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"job": "drain", "drain": [8, 7, 1]},
            "drain names broker 7, 8, which does not exist. Brokers are 1, 2, 3, 4, 9.",
        ),
        ({"job": "replace", "replace": {"8": 4}}, "replace names broker 8, which does not exist. Brokers are"),
        ({"brokers_out": [7]}, "brokers_out names broker 7, which does not exist. Brokers are"),
        (
            {"broker_pools": [{"topics": ["audit"], "brokers": [3, 8, 7]}]},
            "broker_pools of the policy names broker 7, 8, which does not exist. Brokers are",
        ),
        (
            {"job": "replace", "replace": {"1": 9}},
            "replace puts replicas on broker 9, which is not registered. Brokers are",
        ),
        ({"brokers_in": [9, 8, 1]}, "brokers_in puts replicas on broker 8, 9, which is not registered. Brokers are"),
        (
            {"topics_in": ["odrers"], "topics_out": ["x"]},
            "topics_in ['odrers'] less topics_out ['x'] matches none of 2 topics. Brokers are",
        ),
        (
            {"job": "replication_factor", "replication_factor": 5},
            "replication_factor 5 is larger than the 4 brokers that stay. Brokers are",
        ),
        (
            {"job": "replication_factor", "replication_factor": 3},
            "replication_factor 3 is larger than the 2 racks (the policy's more_replicas_than_racks may allow it). Br",
        ),
        (
            {"job": "drain", "drain": [7], "brokers_in": [8]},
            "drain names broker 7, which does not exist; brokers_in puts replicas on broker 8, which is not regis",
        ),
    ],
)
def test_what_is_not_there_is_named(asked: dict[str, Any], said: str) -> None:
    assert refusal(**asked).startswith(said)


def test_brokers_that_leave_count_neither_as_brokers_nor_with_their_racks() -> None:
    for factor, larger in ((3, "the 2 brokers that stay"), (2, "the 1 racks")):
        with pytest.raises(SettingsError, match=f"replication_factor {factor} is larger than {larger}"):
            check_names(Settings(drain=(3, 4), replication_factor=factor), CLUSTER)
    check_names(Settings(drain=(2, 4), replication_factor=2), CLUSTER)


def test_without_racks_the_brokers_alone_limit_the_factor() -> None:
    check_names(Settings(replication_factor=4), cluster_with(dict.fromkeys((1, 2, 3, 4))))
    some = cluster_with({1: "a", 2: "a", 3: "a", 4: None})
    check_names(Settings(replication_factor=4), some)


def test_a_cluster_without_topics_has_nothing_to_do_unless_topics_are_named() -> None:
    with pytest.raises(NothingToDoError) as nothing:
        check_names(Settings(), NO_TOPICS)
    assert str(nothing.value) == f"Cluster {NO_TOPICS.cluster_id} has no topics, so there is nothing to do."
    assert "matches none of 0 topics" in refusal(NO_TOPICS, topics_in=["orders"])
    plan = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}'
    assert "matches none of 0 topics" in refusal(NO_TOPICS, plan=plan)


# Replicas of each broker against `replicas_per_broker`, after what a plan still brings.


HELD = {tp("orders-0"): (1, 2), tp("orders-1"): (1, 2), tp("others-0"): (1, 4), tp("others-1"): (4,)}
MOVES = (move("orders-0", (1, 2), (1, 4)), move("orders-1", (1, 2), (4, 1)))
HERE = (1, 2, 3, 4)


def told(limit: int | None, lying: object = HELD, brokers: object = HERE) -> list[str]:
    return [f"{one.subject}: {one.problem}" for one in too_many_now(MOVES, lying, brokers, limit)]  # type: ignore[arg-type]


def test_replicas_are_counted_by_broker() -> None:
    assert held_replicas(HELD.values()) == {1: 3, 2: 2, 4: 2}


def test_a_broker_that_gets_more_than_it_gives_ends_beyond_the_limit() -> None:
    assert beyond_limit(MOVES, {1: 3, 2: 2, 4: 2}, 3) == {4: 4}
    assert beyond_limit(MOVES, {1: 3, 2: 2, 4: 2}, 4) == {}
    assert beyond_limit(MOVES, {1: 9, 2: 9}, 1) == {4: 2}
    assert beyond_limit((*MOVES, move("others-0", (1, 4), (1, 3))), {4: 2}, 2) == {4: 3}


def test_what_the_plan_still_brings_counts_with_what_lies_there_today() -> None:
    assert told(3) == [
        "broker 4: 2 replicas lie there today. With what the approved plan still brings it would hold 4, and "
        "replicas_per_broker of the policy is 3"
    ]
    assert told(4) == []
    assert told(None) == []


def test_what_is_in_place_or_in_motion_is_counted_once() -> None:
    arrived = HELD | {tp("orders-0"): (1, 2, 4)}
    assert told(3, arrived)[0].startswith(
        "broker 4: 3 replicas lie there today. With what the approved plan still brings"
    )
    assert "would hold 4" in told(3, arrived)[0]
    assert told(4, arrived) == []
    done = HELD | {tp("orders-0"): (1, 4), tp("orders-1"): (4, 1)}
    assert told(1, done) == [], "nothing comes any more"


def test_a_replica_that_goes_makes_room() -> None:
    goes = (*MOVES, move("others-1", (4,), (3,)), move("others-0", (1, 4), (1, 3)))
    assert [one.subject for one in too_many_now(goes, HELD, HERE, 2)] == []
    assert [one.subject for one in too_many_now(goes, HELD, HERE, 1)] == ["broker 3"]


def test_a_broker_that_does_not_tell_what_it_holds_is_not_judged() -> None:
    assert told(3, HELD, (1, 2, 3)) == []
    unknown = {tp("others-0"): (1, 4)}
    assert [one.split(":")[0] for one in told(2, unknown)] == ["broker 1", "broker 4"], "who told of one replica"


def test_a_broker_that_holds_too_many_already_and_ends_with_no_more_is_no_finding() -> None:
    swaps = (move("orders-0", (1, 2), (1, 4)), move("others-1", (4,), (3,)))
    assert [one.subject for one in too_many_now(swaps, HELD, HERE, 1)] == []


# What ZooKeeper would not take is found before it is asked for.


@pytest.mark.slow
def test_a_topic_that_outgrows_zookeeper_in_the_midst_of_a_batch_is_found() -> None:
    count = 30_000
    lists = {f"t-{number}": partition([1001, 1002, 1003]) for number in range(count)}
    small = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1002, 1003, 1004]) for number in range(10)))
    assert list(too_large_znodes(small, view(lists))) == []
    large = batches(*(move(f"t-{number}", [1001, 1002, 1003], [1004, 1005, 1006]) for number in range(9_000)))
    (finding,) = too_large_znodes(large, view(lists))
    assert finding.subject == "topic t"
    assert f"of {ZNODE_BYTES:,} bytes in batch 1" in finding.problem
    assert "topics_out" in finding.remedy
    assert "-Djute.maxbuffer in SERVER_JVMFLAGS of every ZooKeeper server" in finding.remedy
    assert "KAFKA_OPTS of every broker" in finding.remedy


def test_a_request_that_zookeeper_would_not_take_is_found() -> None:
    topic = "a" * 249
    many = batches(*(move(f"{topic}{n % 9}-{n}", [1001, 1002], [1002, 1001]) for n in range(4_000)))
    found = list(too_large_znodes(many, view({})))
    assert found[0].subject == "batch 1"
    assert "its request has 1,210,918 of" in found[0].problem


def sizes_of(moves: tuple[Move, ...], lists: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The bytes that are found for the request and for each topic's znode, by subject."""
    monkeypatch.setattr(limits, "ZNODE_BYTES", 0)
    found = too_large_znodes(batches(*moves), view({name: partition(replicas) for name, replicas in lists.items()}))
    return {one.subject: int(re.findall(r"([\d,]+) of 0 bytes", one.problem)[0].replace(",", "")) for one in found}


def test_a_request_is_as_long_as_the_one_that_will_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = (move("t-0", [1, 2], [2, 3]), move("u-12", [1001, 2], [2, 7]))
    written = encode_reassignment({one.topic_partition: one.after for one in moves})
    assert sizes_of(moves, {}, monkeypatch)["batch 1"] == len(written)


def test_a_topics_znode_is_as_long_as_kafka_2_8_writes_it_in_the_midst_of_a_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moves = (move("t-0", [1, 2], [2, 13]), move("t-1", [1, 2], [2]))
    in_the_midst = (
        b'{"version":3,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":{"0":[2,13,1],"1":[2,1],"7":[5,6]},'
        b'"adding_replicas":{"0":[13],"1":[]},"removing_replicas":{"0":[1],"1":[1]}}'
    )
    assert decode_topic(in_the_midst).adding == {0: (13,), 1: ()}
    lists = {"t-0": [1, 2], "t-1": [1, 2], "t-7": [5, 6]}
    assert sizes_of(moves, lists, monkeypatch)["topic t"] == len(in_the_midst)


def test_a_topics_znode_in_motion_has_each_list_as_kafka_keeps_it_until_the_end() -> None:
    """Target first, then what goes; partitions that do not move stay as they are."""
    moves = [move("t-0", [1, 2], [2, 13]), move("t-1", [1, 2], [2]), move("t-3", [5], [5, 6])]
    assert limits._in_motion({"0": [1, 2], "1": [1, 2], "7": [5, 6]}, moves) == {
        "version": 3,
        "topic_id": "x" * 22,
        "partitions": {"0": [2, 13, 1], "1": [2, 1], "3": [5, 6], "7": [5, 6]},
        "adding_replicas": {"0": [13], "1": [], "3": [6]},
        "removing_replicas": {"0": [1], "1": [1], "3": []},
    }


def test_what_exactly_fits_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    moves = (move("t-0", [1, 2], [2, 3]),)
    sizes = sizes_of(moves, {"t-0": [1, 2]}, monkeypatch)
    assert sizes.keys() == {"batch 1", "topic t"}
    for subject, size in sizes.items():
        for limit, is_found in ((size, False), (size - 1, True)):
            monkeypatch.setattr(limits, "ZNODE_BYTES", limit)
            found = list(too_large_znodes(batches(*moves), view({"t-0": partition([1, 2])})))
            assert (subject in {one.subject for one in found}) == is_found
            assert all(one.remedy.startswith("Start a new Dag run with") for one in found)
