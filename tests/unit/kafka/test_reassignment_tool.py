"""What kafka-reassign-partitions proposes with --generate."""

from __future__ import annotations

import random

import pytest

from kafka_rebalance.errors import KafkaRuleError
from kafka_rebalance.kafka.assignment import assign_replicas
from kafka_rebalance.kafka.reassign_tool_files import (
    format_reassignment,
    generate,
    parse_reassignment,
    parse_topics_to_move,
)
from kafka_rebalance.model.partition import TopicPartition

# The documentation's example, as in the seed.
TOPICS_TO_MOVE = '{"topics": [{"topic": "foo1"},{"topic": "foo2"}],\n"version":1\n}'
CURRENT = """{"version":1,
"partitions":[{"topic":"foo1","partition":2,"replicas":[1,2]},
              {"topic":"foo1","partition":0,"replicas":[3,4]},
              {"topic":"foo2","partition":2,"replicas":[1,2]},
              {"topic":"foo2","partition":0,"replicas":[3,4]},
              {"topic":"foo1","partition":1,"replicas":[2,3]},
              {"topic":"foo2","partition":1,"replicas":[2,3]}]
}"""
LIVE = dict.fromkeys(range(1, 7))


def proposal(seed: int = 0, brokers: tuple[int, ...] = (5, 6)) -> dict[TopicPartition, tuple[int, ...]]:
    topics, existing = parse_topics_to_move(TOPICS_TO_MOVE), parse_reassignment(CURRENT)
    return generate(topics, existing, brokers, LIVE, random.Random(seed))


def test_reassignment_topics_to_move_file() -> None:
    """Seed 001, row 2: topics-to-move file, 2 topics, version 1."""
    assert parse_topics_to_move(TOPICS_TO_MOVE) == ("foo1", "foo2")


def test_reassignment_current_assignment_of_the_example() -> None:
    """Seed 001, row 4: current: foo1/foo2 p0 [3,4], p1 [2,3], p2 [1,2]."""
    assert parse_reassignment(CURRENT) == {
        (topic, partition): replicas
        for topic in ("foo1", "foo2")
        for partition, replicas in {0: (3, 4), 1: (2, 3), 2: (1, 2)}.items()
    }


def test_reassignment_partitions_may_come_in_any_order() -> None:
    """Seed 001, row 9: partitions are listed in arbitrary order."""
    assert list(parse_reassignment(CURRENT))[:3] == [("foo1", 2), ("foo1", 0), ("foo2", 2)]
    assert parse_reassignment(format_reassignment(dict(sorted(parse_reassignment(CURRENT).items())))) == (
        parse_reassignment(CURRENT)
    )


def test_reassignment_generate_proposes_the_listed_brokers_for_all_six() -> None:
    """Seed 001, row 5: proposed: all six on {5,6}; with two brokers and two replicas the leaders alternate."""
    for seed in range(20):
        proposed = proposal(seed)
        assert proposed.keys() == parse_reassignment(CURRENT).keys()
        assert {frozenset(replicas) for replicas in proposed.values()} == {frozenset({5, 6})}
        for topic in ("foo1", "foo2"):
            leaders = [proposed[TopicPartition(topic, partition)][0] for partition in range(3)]
            assert leaders in ([5, 6, 5], [6, 5, 6])


def test_generate_leaves_what_it_is_given_as_it_is() -> None:
    existing = parse_reassignment(CURRENT)
    generate(["foo1"], existing, [5, 6], LIVE, random.Random(0))
    assert existing == parse_reassignment(CURRENT)


def test_each_topic_is_assigned_anew_with_its_own_random_start_and_shift() -> None:
    rng = random.Random(7)
    brokers = (1, 2, 3, 4, 5, 6)
    expected = {topic: assign_replicas(brokers, 3, 2, rng=rng) for topic in ("foo1", "foo2")}
    assert proposal(7, brokers[::-1]) == {
        TopicPartition(topic, partition): replicas
        for topic, lists in expected.items()
        for partition, replicas in lists.items()
    }


def test_topics_that_do_not_exist_and_brokers_that_are_not_live_are_left_out_silently() -> None:
    existing = {TopicPartition("a", 0): (1, 2)}
    proposed = generate(["nowhere", "a"], existing, [9, 2, 1], LIVE, random.Random(0))
    assert proposed.keys() == {TopicPartition("a", 0)}
    assert set(proposed[TopicPartition("a", 0)]) == {1, 2}


def test_racks_are_respected_as_in_creation() -> None:
    existing = {TopicPartition("a", p): (1, 2) for p in range(12)}
    racks = {1: "r1", 2: "r1", 3: "r2", 4: "r2"}
    proposed = generate(["a"], existing, [1, 2, 3, 4], racks, random.Random(3))
    assert all({racks[broker] for broker in replicas} == {"r1", "r2"} for replicas in proposed.values())
    rackless = generate(["a"], existing, [1, 2, 3, 4], None, random.Random(3))
    assert any(len({racks[broker] for broker in replicas}) == 1 for replicas in rackless.values())


@pytest.mark.parametrize(
    ("topics", "brokers", "racks", "message"),
    [
        (["a"], [2, 1, 2, 1], LIVE, "Broker list contains duplicate entries: 2,1"),
        (["a", "b", "a"], [1, 2], LIVE, "List of topics to reassign contains duplicate entries: a"),
        (["a", "a"], [1, 1], LIVE, "Broker list contains duplicate entries: 1"),
        (["a"], [1, 7], LIVE, "Replication factor: 2 larger than available brokers: 1."),
        (
            ["a"],
            [1, 2],
            {1: "r", 2: None},
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information.",
        ),
    ],
)
def test_what_generate_refuses_is_refused_with_its_message(
    topics: list[str], brokers: list[int], racks: dict[int, str | None], message: str
) -> None:
    with pytest.raises(KafkaRuleError) as refused:
        generate(topics, {TopicPartition("a", 0): (1, 2)}, brokers, racks, random.Random(0))
    assert refused.value.kafka_message == message


def test_the_replication_factor_is_that_of_the_lowest_partition_and_ids_are_counted() -> None:
    existing = {TopicPartition("a", 5): (1,), TopicPartition("a", 3): (1, 2)}
    proposed = generate(["a"], existing, [1, 2, 3], None, random.Random(0))
    assert {partition: len(replicas) for (_, partition), replicas in proposed.items()} == {0: 2, 1: 2}
