"""Throttles without ZooKeeper, on real brokers: entries of others stay, and what was there before comes back."""

from __future__ import annotations

from functools import partial

import pytest

from kafka_rebalance.admin.configs import merge_configs, read_broker_configs, read_topic_configs
from kafka_rebalance.admin.wire import Wire
from kafka_rebalance.errors import ConfigChangedError, WriteError
from kafka_rebalance.kafka.throttles import FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from support.kafka.on_versions import without_zookeeper

LIVE = {1, 2}
NO_BOUND = partial(float, "inf")


cluster = without_zookeeper(brokers=2)


def set_on(wire: Wire, topic: str) -> dict[str, str]:
    return read_topic_configs(wire, [topic])[topic]


def merge(wire: Wire, topic: str, value: str | None, decided_on: dict[str, str] | None = None) -> None:
    write(wire, f"topics/{topic}", {LEADER_REPLICAS: value}, decided_on or {})


def write(wire: Wire, entity: str, changes: dict[str, str | None], decided_on: dict[str, str]) -> None:
    merge_configs(wire, {entity: changes}, decided_on={entity: decided_on}, registered=LIVE, bound=NO_BOUND)


def test_a_list_is_set_and_removed_as_if_it_had_never_been(wire: Wire, topic: str) -> None:
    lists: dict[str, str | None] = {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:2"}
    write(wire, f"topics/{topic}", lists, {})
    assert set_on(wire, topic) == lists
    write(wire, f"topics/{topic}", lists, {})
    held = set_on(wire, topic)
    write(wire, f"topics/{topic}", dict.fromkeys(lists), held)
    assert set_on(wire, topic) == {}


def test_entries_that_somebody_adds_meanwhile_stay(wire: Wire, topic: str) -> None:
    merge(wire, topic, "0:1", {})
    held = set_on(wire, topic)
    merge(wire, topic, "0:1,1:2", held)  # somebody else
    merge(wire, topic, "0:1,0:2", held)
    assert set(set_on(wire, topic)[LEADER_REPLICAS].split(",")) == {"0:1", "0:2", "1:2"}
    merge(wire, topic, None, {LEADER_REPLICAS: "0:1,0:2"})
    assert set_on(wire, topic) == {LEADER_REPLICAS: "1:2"}


def test_a_list_comes_back_in_its_order(wire: Wire, topic: str) -> None:
    before = "1:2,0:1"
    merge(wire, topic, before, {})
    assert set_on(wire, topic) == {LEADER_REPLICAS: before}
    merge(wire, topic, "1:2,0:1,0:2", {LEADER_REPLICAS: before})
    held = set_on(wire, topic)
    merge(wire, topic, before, held)
    assert set_on(wire, topic) == {LEADER_REPLICAS: before}


def test_a_star_that_somebody_has_set_since_stays(wire: Wire, topic: str) -> None:
    merge(wire, topic, "*", {})
    with pytest.raises(ConfigChangedError, match=LEADER_REPLICAS):
        merge(wire, topic, "0:1", {})
    assert set_on(wire, topic) == {LEADER_REPLICAS: "*"}
    merge(wire, topic, None, {LEADER_REPLICAS: "*"})
    assert set_on(wire, topic) == {}


def test_a_rate_that_somebody_has_changed_since_stays(wire: Wire) -> None:
    def rate(value: str | None, decided_on: dict[str, str]) -> None:
        write(wire, "brokers/1", {LEADER_RATE: value}, decided_on)

    rate("1000", {})
    rate("1000", {})  # the answer was lost, and the task tries again
    assert read_broker_configs(wire, [1])[1] == {LEADER_RATE: "1000"}
    with pytest.raises(ConfigChangedError, match=LEADER_RATE):
        rate("3000", {LEADER_RATE: "2000"})
    rate(None, {LEADER_RATE: "1000"})
    assert read_broker_configs(wire, [1])[1] == {}


@pytest.mark.parametrize(
    ("entity", "changes", "said"),
    [
        ("brokers/3", {LEADER_RATE: "1"}, "is away"),
        ("brokers/1", {LEADER_RATE: "-1"}, "whole bytes"),
        ("brokers/1", {"log.retention.ms": "1"}, "is not a throttle key"),
        ("brokers/<default>", {LEADER_RATE: "1"}, "neither brokers/ID nor topics/NAME"),
        ("topics/no such topic", {LEADER_REPLICAS: "0:1"}, "neither brokers/ID nor topics/NAME"),
        ("topics/absent", {LEADER_REPLICAS: "0:1"}, "UnknownTopicOrPartition"),
        ("topics/absent", {LEADER_REPLICAS: "all"}, "partition:broker pairs"),
    ],
)
def test_what_is_no_throttle_is_not_written(wire: Wire, entity: str, changes: dict[str, str | None], said: str) -> None:
    with pytest.raises(WriteError, match=said):
        write(wire, entity, changes, {})


def test_what_kafka_refuses_holds_up_no_other_topic_of_the_request(wire: Wire, topic: str) -> None:
    listed = {LEADER_REPLICAS: "0:1"}
    with pytest.raises(WriteError, match="Kafka refused the change of the throttle of topics/absent"):
        merge_configs(
            wire,
            {"topics/absent": listed, f"topics/{topic}": listed},
            decided_on={},
            registered=LIVE,
            bound=NO_BOUND,
        )
    assert set_on(wire, topic) == listed


def test_nothing_is_written_where_somebody_has_changed_one_of_them(wire: Wire, topic: str) -> None:
    merge(wire, topic, "*", {})
    with pytest.raises(ConfigChangedError, match=f"topics/{topic}"):
        merge_configs(
            wire,
            {"brokers/1": {LEADER_RATE: "1000"}, f"topics/{topic}": {LEADER_REPLICAS: "0:1"}},
            decided_on={},
            registered=LIVE,
            bound=NO_BOUND,
        )
    assert read_broker_configs(wire, [1])[1] == {}
    merge(wire, topic, None, {LEADER_REPLICAS: "*"})
