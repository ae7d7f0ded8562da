"""Who reads what before and after an expansion."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.model.consumer_groups import ConsumerGroup, GroupMember
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.topics.forecast import forecast_groups
from support.documents.as_in_a_file import in_json


def member(name: Any, *topics: Any, assigned: Any = (), instance: Any = None) -> Any:
    partitions = tuple(TopicPartition(topic, partition) for topic, partition in assigned)
    return GroupMember(f"{name}-uuid", name, "/127.0.0.1", topics, partitions, instance)


def group(*members: Any, assignor: Any = "range", committed: Any = (0,)) -> Any:
    return ConsumerGroup("billing", "Stable" if members else "Empty", assignor if members else "", members, committed)


def one(after: Any, reading: Any, **partitions: Any) -> Any:
    (forecast,) = forecast_groups("t", after, [reading], partitions)
    return forecast


def by_member(forecast: Any, assignor: Any) -> Any:
    (found,) = [each for each in forecast.assignors if each.assignor == assignor]
    return {each.client_id: (each.before, each.after) for each in found.members}


def test_each_member_has_its_partitions_before_and_after_under_both_assignors() -> None:
    forecast = one(10, group(*(member(name, "t") for name in "abc")), t=4)
    assert by_member(forecast, "range") == {
        "a": ((0, 1), (0, 1, 2, 3)),
        "b": ((2,), (4, 5, 6)),
        "c": ((3,), (7, 8, 9)),
    }
    assert by_member(forecast, "roundrobin") == {
        "a": ((0, 3), (0, 3, 6, 9)),
        "b": ((1,), (1, 4, 7)),
        "c": ((2,), (2, 5, 8)),
    }
    range_, round_robin = forecast.assignors
    assert (range_.imbalance_before, range_.imbalance_after) == (2 / (4 / 3), 4 / (10 / 3))
    assert range_.in_use
    assert not round_robin.in_use


def test_more_partitions_put_idle_members_to_work() -> None:
    forecast = one(6, group(*(member(name, "t") for name in "abcd")), t=2)
    for assignor in forecast.assignors:
        assert (assignor.idle_before, assignor.idle_after) == (2, 0)


def test_range_lets_the_first_members_accumulate_over_topics_and_round_robin_does_not() -> None:
    reading = group(member("a", "t", "u"), member("b", "t", "u"))
    forecast = one(3, reading, t=2, u=3)
    range_, round_robin = forecast.assignors
    assert range_.imbalance_after == 4 / 3
    assert round_robin.imbalance_after == 1
    assert [each.all_after for each in range_.members] == [4, 2]
    assert by_member(forecast, "range")["a"] == ((0,), (0, 1))


def test_the_imbalance_now_is_of_the_real_assignment_whatever_the_assignor() -> None:
    reading = group(member("a", "t", assigned=[("t", 0), ("t", 1), ("t", 2)]), member("b", "t"), assignor="sticky")
    forecast = one(6, reading, t=3)
    assert forecast.imbalance_now == 2
    assert not any(assignor.in_use for assignor in forecast.assignors)


def test_topics_that_had_the_same_number_of_partitions_no_longer_match() -> None:
    reading = group(member("a", "t", "clicks"), member("b", "t", "views", "gone"))
    assert one(6, reading, t=3, clicks=3, views=6).no_longer_matching == ("clicks",)
    assert one(3, reading, t=3, clicks=3, views=6).no_longer_matching == ()


def test_a_group_without_members_still_shows_what_it_has_committed() -> None:
    forecast = one(6, group(committed=(0, 2)), t=3)
    assert (forecast.members, forecast.committed, forecast.imbalance_now, forecast.assignors) == (0, (0, 2), None, ())


def test_a_group_whose_members_are_still_joining_has_no_assignment_to_compare() -> None:
    joining = ConsumerGroup("billing", "PreparingRebalance", "", (member("a"), member("b")), ())
    forecast = one(6, joining, t=3)
    assert (forecast.members, forecast.imbalance_now, forecast.assignors) == (2, None, ())


def test_static_members_come_first_by_their_instance_id() -> None:
    """AbstractPartitionAssignor.MemberInfo.compareTo (2.3+)."""
    reading = group(member("a", "t"), member("z", "t", instance="2"), member("y", "t", instance="1"))
    assert by_member(one(3, reading, t=1), "range") == {"y": ((0,), (0,)), "z": ((), (1,)), "a": ((), (2,))}


def test_the_forecast_is_plain_json() -> None:
    forecast = one(6, group(member("a", "t", assigned=[("t", 0)])), t=3)
    assert in_json(forecast)["assignors"][0]["members"][0]["after"] == [0, 1, 2, 3, 4, 5]


def test_a_topic_whose_partitions_are_not_known_cannot_be_forecast() -> None:
    with pytest.raises(KeyError):
        one(6, group(member("a", "t")), u=3)
