"""The policy's limits, computed from approved moves alone: each is told, and no plan of the planner's breaks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_rebalance.errors import PlanningError, PolicyError
from kafka_rebalance.kafka.topics import BY_NAME, KafkasOwn
from kafka_rebalance.model.candidate import OFFERED, Batch, Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.run.checks.limits import check_within_policy
from support.plans.small_snapshots import broker_rows, partition_rows, plan_of

SIZE = 100
RATE = 2_000_000
RACKS = {1: "a", 2: "b", 3: "a", 4: "b"}
ORDERS, AUDIT = "orders", "audit"


def move(partition: int, before: Sequence[int], after: Sequence[int], topic: str = ORDERS, batch: int = 1) -> Move:
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


TWO = [move(0, [1, 2], [3, 2]), move(1, [1, 2], [3, 4])]  # three copies, two new leaders


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
        ([move(0, [1, 2], [4, 2])], {"rack_pinned_topics": ["orders"]}, "rack_pinned_topics keeps out orders-0"),
        ([move(0, [1], [3], "__consumer_offsets")], {}, "internal_topics keeps out __consumer_offsets-0"),
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
        ([move(0, [1, 2], [2, 1])], {"pinned_topics": ["*"], "rack_pinned_topics": ["*"], "max_bytes": 1}),
        ([move(0, [1, 2], [3, 2])], {"rack_pinned_topics": ["*"]}),
        ([move(0, [1], [1, 4])], {"rack_pinned_topics": ["*"]}),  # a replica more, in whichever rack
        ([move(0, [1], [3], "__audit")], {}),
        ([move(0, [1], [3], "__consumer_offsets")], {"internal_topics": True}),
        ([move(0, [1], [1, 2, 3, 4])], {"copies_per_broker": 2}),  # a partition that alone needs more
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
    exchange = [move(0, [1, 2], [3, 2]), move(1, [3, 4], [1, 4])]
    check(exchange, held={1: 9, 3: 9}, replicas_per_broker=6)
    with pytest.raises(PolicyError, match="broker 1 would hold 10 replicas"):
        check([*exchange, move(2, [3, 4], [1, 4])], held={1: 9, 3: 9}, replicas_per_broker=6)


def test_a_topic_that_only_the_brokers_call_internal_is_kept_out() -> None:
    with pytest.raises(PolicyError, match="internal_topics keeps out orders-0"):
        check(TWO, told=frozenset({ORDERS}))
    check(TWO, told=frozenset({ORDERS}), internal_topics=True)


def test_a_partition_that_the_snapshot_does_not_have_is_named() -> None:
    policy = Policy.from_mapping({"approvers": ["uma"]}, "test")
    with pytest.raises(PolicyError, match="the snapshot does not have orders-0"):
        check_within_policy(
            [Batch(1, (move(0, [1], [3]),), "digest")],
            policy,
            sizes={},
            cluster_bytes=1,
            held_replicas={},
            racks=RACKS,
            throttle_bytes_per_second=RATE,
            kafkas_own=BY_NAME,
        )


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
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
    three = [move(number, [sender], [4]) for number, sender in enumerate((1, 2, 3))]
    with pytest.raises(PolicyError, match=r"batch 1 has 3, the policy allows 2 \(copies_per_broker, on broker 4\)"):
        check(three, copies_per_broker=2)
    check(three, copies_per_broker=3)
    spread = [move(number, [1], [receiver]) for number, receiver in enumerate((2, 3, 4))]
    with pytest.raises(PolicyError, match=r"batch 1 has 3, the policy allows 2 \(copies_per_broker, on broker 1\)"):
        check(spread, copies_per_broker=2)
