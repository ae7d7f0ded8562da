"""Whether Kafka elects preferred leaders by itself, by what its brokers say."""

from __future__ import annotations

from kafka_rebalance.run.checks.cluster_ready import ENABLED, INTERVAL, automatic_elections
from support.documents.as_in_a_file import in_json


def told(enabled: str | None = None, seconds: str | None = None) -> dict[str, tuple[str | None, str]]:
    values = {ENABLED: enabled, INTERVAL: seconds}
    return {key: (value, "DEFAULT_CONFIG") for key, value in values.items() if value is not None}


def test_a_broker_that_has_it_elects_and_the_shortest_interval_counts() -> None:
    found = automatic_elections({10: told("true", "300"), 9: told("true", "60"), 3: told("false", "1")})
    assert in_json(found) == {"brokers": [9, 10], "check_seconds": 60}


def test_a_broker_that_does_not_tell_has_kafkas_default() -> None:
    assert in_json(automatic_elections({1: told(), 2: told("false")})) == {"brokers": [1], "check_seconds": None}


def test_nobody_elects_where_every_broker_says_false() -> None:
    assert in_json(automatic_elections({1: told("false", "300")})) == {"brokers": [], "check_seconds": None}
