"""What Kafka refuses of the lists that a cancel sends to restore their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.errors import ExecutionError
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.partition import TopicPartition
from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.simulated_cluster import batched_run


def test_kafkas_words_are_told_at_once_where_it_refuses_the_order_of_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the Admin API does, which names each partition that it refuses; the copies are back by then."""
    cluster = cancellable_cluster(monkeypatch, "2.8")
    begin(batched_run(tmp_path, cluster, monkeypatch), cluster)
    canceller = CancelRun(monkeypatch)
    canceller.approved()
    asked: list[Batch] = []

    def refusing(_: Any, batch: Batch, *__: Any, **___: Any) -> dict[TopicPartition, str]:
        asked.append(batch)
        return {move.topic_partition: "InvalidReplicaAssignmentError: broker 3 is cordoned" for move in batch.moves}

    monkeypatch.setattr(ZooKeeperCluster, "request_moves", refusing)
    said = (
        r"Kafka refuses the original order of \d+ lists: .*-\d \(InvalidReplicaAssignmentError: broker 3 is cordoned\)"
    )
    with pytest.raises(ExecutionError, match=said):
        canceller.cancel()
    assert len(asked) == 1
