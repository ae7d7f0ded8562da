"""Znodes recorded from real brokers decode to what they were made from (`tests/data/record_znodes.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper.znodes import (
    decode_broker,
    decode_cluster_id,
    decode_config,
    decode_controller,
    decode_controller_epoch,
    decode_partition_state,
    decode_reassignment,
    decode_topic,
    encode_config,
    encode_reassignment,
)

FOLDER = Path(__file__).parents[3] / "data" / "znodes"
MOVING = TopicPartition("moving", 0)


@pytest.fixture(params=["2.0.1", "2.8.2", "3.9.2"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def recorded(version: Any) -> Any:
    return lambda name: (FOLDER / version / name).read_bytes()


def test_a_recorded_broker(recorded: Any) -> None:
    broker = decode_broker(1, recorded("brokers.ids.1.json"))
    assert broker.rack == "rack-0"
    (endpoint,) = broker.endpoints
    assert endpoint.host == "127.0.0.1"


def test_a_recorded_idle_topic(recorded: Any, version: Any) -> None:
    topic = decode_topic(recorded("brokers.topics.idle.json"), "idle")
    assert topic.partitions == {p: (1 + p % 4, 1 + (p + 1) % 4) for p in range(11)}
    assert list(topic.partitions) == list(range(11))
    assert (topic.adding, topic.removing) == ({}, {})
    assert (topic.topic_id is None) == (version == "2.0.1")


def test_a_recorded_topic_in_motion(recorded: Any, version: Any) -> None:
    topic = decode_topic(recorded("brokers.topics.moving.json"), "moving")
    assert topic.partitions == {0: (3, 4, 1, 2)}
    in_motion = {} if version == "2.0.1" else {0: (3, 4)}
    leaving = {} if version == "2.0.1" else {0: (1, 2)}
    assert (topic.adding, topic.removing) == (in_motion, leaving)


def test_a_recorded_state(recorded: Any) -> None:
    state = decode_partition_state(recorded("brokers.topics.idle.partitions.10.state.json"))
    assert (state.leader, state.leader_epoch, state.isr) == (3, 0, (3, 4))


def test_a_recorded_state_in_motion(recorded: Any) -> None:
    state = decode_partition_state(recorded("brokers.topics.moving.partitions.0.state.json"), MOVING)
    assert (state.leader, state.leader_epoch, set(state.isr)) == (1, 1, {1, 2})


def test_a_recorded_controller(recorded: Any) -> None:
    epoch = decode_controller_epoch(recorded("controller_epoch.txt"))
    controller = decode_controller(recorded("controller.json"), epoch)
    assert controller.broker in {1, 2, 3, 4}
    assert (controller.epoch, controller.kraft_epoch) == (1, -1)
    assert controller.since_ms > 1_700_000_000_000


def test_a_recorded_cluster_id(recorded: Any) -> None:
    assert len(decode_cluster_id(recorded("cluster.id.json"))) == 22


def test_a_recorded_request_as_the_controller_left_it_is_what_we_would_write(recorded: Any) -> None:
    data = recorded("admin.reassign_partitions.json")
    assert decode_reassignment(data) == {MOVING: (3, 4)}
    assert encode_reassignment({MOVING: (3, 4)}) == data


@pytest.mark.parametrize("entity", ["brokers/1", "topics/idle", "topics/moving"])
def test_a_recorded_config_is_what_we_would_write(recorded: Any, entity: str) -> None:
    data = recorded(f"config.{entity.replace('/', '.')}.json")
    assert encode_config(decode_config(data, entity)) == data
