"""What the first task's document says of the cluster's tiered topics."""

from __future__ import annotations

from typing import Any

from kafka_rebalance.documents.snapshot import TieredTopic, TieredTopics, tiered_topics
from support.kafka.small_clusters import tp


def row(topic: str, size_bytes: int | None, local: int | None = None, remote: int | None = None) -> dict[str, Any]:
    return {"topic": topic, "tiered": True, "size_bytes": size_bytes, "local_records": local, "remote_records": remote}


def test_tiered_topics_are_summed_up_the_largest_first_and_what_is_untold_says_why() -> None:
    rows = [row("a", 10, 1, 5), row("a", None, 2, 6), row("b", 70), row("c", 1), {"topic": "d", "tiered": False}]
    assert tiered_topics(rows, {tp("b-0"): "broker 3 is away"}) == TieredTopics(
        topics=3,
        unknown=2,
        largest=(
            TieredTopic("b", 70, untold="broker 3 is away"),
            TieredTopic("a", 10, 3, 11),
            TieredTopic("c", 1, untold="the leader of a partition does not tell its offsets"),
        ),
    )
    assert tiered_topics(rows[-1:], {}) is None
