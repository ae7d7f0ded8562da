"""A request of `kafka_topics` that is too large is refused before a worker begins to work on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.topics import plan
from support.runs.simulated_cluster import TOPICS, SimulatedCluster
from support.runs.topic_run import TopicRun


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "create", "topic": "new", "partitions": 30_000_000, "replication_factor": 2},
        {"action": "create", "topic": "new", "replica_assignment": ",".join(["1:2"] * 1001)},
        {"action": "alter", "topic": "orders", "partitions": 30_000_000},
    ],
)
def test_a_request_beyond_the_policy_is_refused_before_a_partition_is_placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    """30,000,000 typed for 30 would take gigabytes of the worker."""
    cluster: Any = SimulatedCluster(monkeypatch, TOPICS)

    def place(*_: object, **__: object) -> None:
        raise MemoryError

    for name in ("assign_replicas", "add_partitions", "place_partitions"):
        monkeypatch.setattr(plan, name, place)
    with pytest.raises(AirflowFailException, match="are more than the policy's partitions_per_topic 1000"):
        TopicRun(tmp_path, cluster, monkeypatch).request(**asked)


def test_a_total_that_is_no_increase_is_refused_with_kafkas_text_whatever_the_policy_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = SimulatedCluster(monkeypatch, TOPICS)
    run = TopicRun(tmp_path, cluster, monkeypatch, "approvers: [uma]\npartitions_per_topic: 1\n")
    with pytest.raises(AirflowFailException, match="can only be increased"):
        run.request(action="alter", topic="orders", partitions=2)
