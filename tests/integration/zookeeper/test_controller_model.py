"""A move of a real controller, recorded now, is still what the model of the controller does."""

from __future__ import annotations

from collections.abc import Callable

from kafka_rebalance.local_cluster import LocalCluster
from support.kafka.recordings.move_recordings import Scenario, record_move
from support.kafka.recordings.recorded_moves import replay


def test_a_move_recorded_now_is_one_of_the_model(cluster: LocalCluster, fresh_topic_name: Callable[[], str]) -> None:
    scenario = Scenario("replace-one", {0: (1, 2), 1: (3, 2)}, {0: (2, 3), 1: (2, 3)})
    recording = record_move(cluster, scenario, fresh_topic_name())
    assert recording["steps"][-1] == ["request", None]
    replay(recording, "2.0" if cluster.version == "2.0.1" else "2.8")
