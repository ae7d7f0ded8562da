"""What each Kafka release does differently."""

from __future__ import annotations

import pytest

from kafka_rebalance.errors import InputError
from kafka_rebalance.kafka.versions import behaviour, major_minor


@pytest.mark.parametrize(
    ("version", "expected"), [("2.0", (2, 0)), ("2.0.1", (2, 0)), ("3.9.2-rc1", (3, 9)), ("10.11-x", (10, 11))]
)
def test_features_come_with_minor_releases(version: str, expected: tuple[int, int]) -> None:
    assert major_minor(version) == expected


@pytest.mark.parametrize("text", ["", "2", "2.x", "v2.0", "2.0 ", "two"])
def test_a_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a Kafka version"):
        behaviour(text)


@pytest.mark.parametrize(
    ("version", "znode", "marks", "throttles"),
    [
        ("2.0.1", 1, False, False),
        ("2.3.1", 1, False, False),
        ("2.4.0", 2, True, False),
        ("2.5.1", 2, True, False),
        ("2.6.0", 2, True, True),
        ("2.7.2", 2, True, True),
        ("2.8.0", 3, True, True),
        ("2.10", 3, True, True),
        ("3.9.2", 3, True, True),
    ],
)
def test_each_change_begins_with_its_release(version: str, znode: int, marks: bool, throttles: bool) -> None:
    found = behaviour(version)
    assert found.topic_znode_version == znode
    assert found.marks_moves_in_topic_znode is marks
    assert found.throttles_every_planned_partition is throttles
