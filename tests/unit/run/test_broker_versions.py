"""A rolling upgrade and a Kafka below 2.2 show in protocols and in the requests that brokers speak."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.run.checks.cluster_ready import ELECT_LEADERS, PROTOCOL, harmed_by_copies_within, mixed_versions


def configs(protocol: Any = "2.8-IV1") -> Any:
    return {PROTOCOL: (protocol, "STATIC_BROKER_CONFIG")}


SPOKEN = {0: (0, 9), 18: (0, 3)}


def test_brokers_of_one_version_are_no_upgrade() -> None:
    assert list(mixed_versions({1: configs(), 2: configs()}, {1: SPOKEN, 2: dict(SPOKEN)})) == []
    assert list(mixed_versions({1: {}, 2: configs()}, {})) == []


def test_different_protocols_are_a_rolling_upgrade_and_name_the_brokers() -> None:
    (finding,) = mixed_versions({1: configs(), 2: configs("3.9-IV0"), 3: configs()}, {})
    assert finding.problem == f"they run different {PROTOCOL}: 2.8-IV1 on broker 1, 3; 3.9-IV0 on broker 2"
    assert "Wait until the rolling upgrade has ended" in finding.remedy


@pytest.mark.parametrize("other", [{0: (0, 9), 18: (0, 4)}, {**SPOKEN, 60: (0, 0)}])
def test_software_of_different_versions_under_one_protocol_is_told_by_what_brokers_speak(other: Any) -> None:
    same = {broker: configs() for broker in (1, 2, 3)}
    (finding,) = mixed_versions(same, {1: SPOKEN, 2: other, 3: SPOKEN})
    assert "different software: broker 1, 3; broker 2 speak different versions of 1 of Kafka's" in finding.problem


def test_both_findings_are_about_the_brokers_and_say_to_wait() -> None:
    (protocols,) = mixed_versions({1: configs(), 2: configs("3.9-IV0")}, {})
    (software,) = mixed_versions({1: configs(), 2: configs()}, {1: SPOKEN, 2: {0: (0, 9), 18: (0, 4)}})
    for finding in (protocols, software):
        assert finding.subject == "brokers"
        assert finding.remedy == "Wait until the rolling upgrade has ended, then clear this task"


def test_a_broker_below_2_2_is_named_where_replicas_would_move_between_its_log_dirs() -> None:
    newer = {**SPOKEN, ELECT_LEADERS: (0, 0)}
    assert list(harmed_by_copies_within({1: newer, 2: newer})) == []
    (finding,) = harmed_by_copies_within({3: SPOKEN, 1: newer, 2: SPOKEN})
    assert finding.subject == "broker 2, 3"
    assert "below 2.2" in finding.problem
    assert "Upgrade" in finding.remedy
