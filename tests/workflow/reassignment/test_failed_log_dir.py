"""A log dir that fails on a living broker while copies go there: who follows the batch names it, and what to do."""

from __future__ import annotations

from kafka_rebalance.documents import json_files
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun


def test_the_follower_names_a_log_dir_that_failed_on_a_living_target(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    run.hold()
    batch = run.request()
    assert batch is not None
    moves = next(one.moves for one in run.candidate.batches if one.number == batch)
    target = moves[0].added[0]
    _, lines = run.follow(batch, until=cluster.step)  # the controller has taken it up
    cluster.failed_dirs[target] = "/data/1"
    looks: list[None] = []
    _, lines = run.follow(batch, until=lambda: looks.append(None) or len(looks) > 1)  # type: ignore[func-returns-value]
    (told,) = [line for line in lines if "/data/1" in line]
    assert f"Broker {target} has lost the log dir /data/1" in told
    assert str(moves[0].topic_partition) in told
    assert f"restart broker {target}" in told
    progress = json_files.read_json(run.folder, json_files.PROGRESS)
    assert told in progress["anomalies"]
    assert any(told in event["text"] for event in progress["events"])
