"""Runs in which only some brokers receive replicas, and runs of clusters with fewer racks than replicas."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.planning.tables.result_tables import read_candidate
from support.runs.rebalance_run import POLICY
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun

TWO_ZONES = {1: "a", 2: "b", 3: "a", 4: "b", 5: "a", 6: "b"}
FACTOR_3: dict[str, Any] = {"job": "replication_factor", "replication_factor": 3}


@pytest.mark.parametrize(
    ("receivers", "words"),
    [([4], "new replicas on broker 4 only"), (["new"], "new replicas on brokers without replicas only")],
)
def test_a_run_brings_replicas_to_the_receivers_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receivers: list[Any], words: str
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    before = {topic: run.cluster.replicas(topic) for topic in TOPICS}
    run.plan(candidates=["balanced"], brokers_in=receivers)
    assert words in (run.folder / json_files.REPORT).read_text()
    run.approve("balanced", RATE)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    after = {topic: run.cluster.replicas(topic) for topic in TOPICS}
    gained = [set(after[topic][one]) - set(before[topic][one]) for topic in after for one in after[topic]]
    assert set().union(*gained) == {4}


def test_a_factor_above_the_racks_needs_the_policys_key_and_is_spread_evenly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS, racks=TWO_ZONES), monkeypatch)
    with pytest.raises(AirflowFailException, match=r"replication_factor 3 is larger than the 2 racks .* may allow it"):
        run.plan(**FACTOR_3)
    run.policy_file.write_text(f"{POLICY}more_replicas_than_racks: true\n")
    run.plan(candidates=["light"], **FACTOR_3)
    moves = read_candidate(run.folder, "light").moves
    assert len(moves) == 5
    for move in moves:
        assert sorted(Counter(TWO_ZONES[broker] for broker in move.after).values()) == [1, 2]
    assert "Partitions may have more replicas than there are racks" in (run.folder / json_files.REPORT).read_text()


def test_a_run_brings_a_topic_into_the_pool_of_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    topic, *others = TOPICS
    pool = f"broker_pools: [{{topics: [{topic}], brokers: [3, 4"
    run.policy_file.write_text(f"{POLICY}{pool}, 77]}}]\n")
    with pytest.raises(AirflowFailException, match="broker_pools of the policy names broker 77, which does not exist"):
        run.plan(candidates=["balanced"])
    run.policy_file.write_text(f"{POLICY}{pool}]}}]\n")
    run.plan(candidates=["balanced"])
    assert f"only brokers 3, 4 may hold topics {topic}" in (run.folder / json_files.REPORT).read_text()
    run.approve("balanced", RATE)
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert {broker for replicas in run.cluster.replicas(topic).values() for broker in replicas} == {3, 4}
    for other in others:
        assert not {3, 4} & {broker for replicas in run.cluster.replicas(other).values() for broker in replicas}
