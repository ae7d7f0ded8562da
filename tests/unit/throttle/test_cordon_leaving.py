"""Which brokers a run cordons while it empties them, and what Kafka says of the others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_rebalance.documents.snapshot import Cordon
from kafka_rebalance.model.cluster_view import BY_ADMIN_API
from kafka_rebalance.model.connection import ClusterConnection, KafkaConnection
from kafka_rebalance.throttle import cordon_leaving
from support.kafka.small_clusters import view

CONNECTION = ClusterConnection("c", None, KafkaConnection("nowhere:9092"))


def test_a_kafka_with_zookeeper_is_not_asked_and_cannot_cordon() -> None:
    assert cordon_leaving.cordon_of(CONNECTION, view({}), [2, 9]) == Cordon((), {"2": ""})


def test_brokers_that_are_away_are_neither_asked_nor_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Sequence[int]]()
    words = "The feature is off"

    def answers(_: KafkaConnection, brokers: Sequence[int]) -> dict[int, str]:
        asked.append(brokers)
        return {3: words}

    monkeypatch.setattr(cordon_leaving, "read_cannot_cordon", answers)
    now = view({}, traits=BY_ADMIN_API)
    assert cordon_leaving.cordon_of(CONNECTION, now, [9, 3, 2]) == Cordon((2,), {"3": words})
    assert cordon_leaving.cordon_of(CONNECTION, now, [9]) is None
    assert asked == [[2, 3]]
