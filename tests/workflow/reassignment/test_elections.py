"""Job `elect` through the whole chain on a simulated cluster, and what every election heeds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.cluster.with_zookeeper import ZooKeeperCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import WriteError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.rebalance.elect_leaders import elect_leaders
from kafka_rebalance.rebalance.verify import verify
from kafka_rebalance.run import stop_and_cancel_requests
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs import rebalance_run
from support.runs.simulated_cluster import RATE, TOPICS, SimulatedCluster, SimulatedRun, batches, freeze
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN

STATE = "/brokers/topics/{}/partitions/{}/state"
LED_ELSEWHERE = {("orders", 0): 2, ("orders", 1): 2, ("orders", 2): 3, ("audit", 0): 1, ("idle", 0): 3}


@pytest.fixture(params=["2.0", "2.8"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Every partition is led by its second replica."""
    made = SimulatedCluster(monkeypatch, TOPICS, request.param)
    for (topic, partition), leader in LED_ELSEWHERE.items():
        lead(made, topic, partition, leader)
    return made


def lead(cluster: SimulatedCluster, topic: str, partition: int, leader: int) -> None:
    path = STATE.format(topic, partition)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": leader})


def elected(cluster: SimulatedCluster) -> list[int]:
    """How many partitions each election asked for."""
    return [len(asked) for asked in cluster.elections]


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """Approved, with two leader changes a batch."""
    made = SimulatedRun(tmp_path, cluster, monkeypatch)
    made.policy_file.write_text(rebalance_run.POLICY + "leader_changes_per_batch: 2\n")
    made.plan(job="elect")
    made.approve("leaders_only", RATE)
    return made


def test_leaders_are_elected_batch_by_batch_and_no_list_is_touched(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    lists = {topic: cluster.replicas(topic) for topic in TOPICS}
    assert [len(batch.moves) for batch in run.candidate.batches] == [2, 2, 1]
    run.hold()
    assert run.request() is None, "nobody has to follow an election"
    assert elected(cluster) == [2, 2, 1]
    assert not cluster.requests
    assert [batch["state"] for batch in batches(run)] == ["done"] * 3
    assert run.finish()["passed"]
    assert {topic: cluster.replicas(topic) for topic in TOPICS} == lists
    assert {topic: cluster.leaders(topic) for topic in TOPICS} == {
        topic: {partition: replicas[0] for partition, replicas in of.items()} for topic, of in TOPICS.items()
    }
    assert cluster.leftovers() == []


def test_only_the_chosen_topics_are_elected(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan(job="elect", topics_in=["aud*"])
    run.approve("leaders_only", RATE)
    run.hold()
    run.request()
    run.finish()
    assert cluster.leaders("audit") == {0: 2}
    assert cluster.leaders("orders") == {0: 2, 1: 2, 2: 3}


def test_a_stop_between_two_batches_of_elections_is_heeded(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    real = ZooKeeperCluster.elect_leaders

    def then_stop(*arguments: Any, **options: Any) -> Any:
        stop_and_cancel_requests.ask_stop(run.folder, "uma")
        return real(*arguments, **options)

    monkeypatch.setattr(ZooKeeperCluster, "elect_leaders", then_stop)
    with pytest.raises(AirflowFailException, match=r"uma at .* asked.* 1 of 3 batches"):
        run.request()
    assert elected(cluster) == [2]


def test_no_leader_is_elected_once_the_window_is_over(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    run.approve_within(finish_by=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    with pytest.raises(AirflowFailException, match="finish_by"):
        run.request()
    with pytest.raises(AirflowFailException, match=r"No further leader was elected: .*finish_by"):
        run_step(elect_leaders, run.dag_run, run.decision)
    assert elected(cluster) == []


def test_who_cannot_be_elected_ends_its_batch_and_fails_the_verification_by_name(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.plan(job="elect")
    run.approve("leaders_only", RATE)
    path = STATE.format("audit", 0)
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [1]})  # the preferred leader, 2, lags
    run.hold()
    assert run.request() is None
    assert [batch["not_elected"] for batch in batches(run)] == [["audit-0"]]
    assert run.request() is None, "it is not asked again and again"
    assert elected(cluster) == [4]
    run.release()
    with pytest.raises(Exception, match="audit-0"):
        run_step(verify, run.dag_run, run.decision)


def test_the_next_batch_of_elections_waits_until_the_partitions_are_in_sync(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    path = STATE.format("orders", 2)
    run.hold()
    cluster.fake.put_json(path, {**cluster.fake.json(path), "isr": [3]})
    assert run.request() is None
    assert run.deferred is not None
    assert elected(cluster) == [2]


def test_leaders_that_kafka_elects_meanwhile_are_no_drift(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    for topic, partition in LED_ELSEWHERE:
        lead(cluster, topic, partition, TOPICS[topic][partition][0])
    run.hold()
    assert run.request() is None
    assert elected(cluster) == []
    assert run.finish()["passed"]


@pytest.mark.parametrize("step", ["reassign", "elect_leaders"])
def test_a_frozen_worker_elects_nobody_after_somebody_took_over(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run.hold()
    owner = ZooKeeperLock(cluster.fake).read()
    assert owner is not None

    def taken_over() -> None:
        ZooKeeperLock(cluster.fake).release(owner)
        ZooKeeperLock(cluster.fake).acquire(LockOwner("kafka_rebalance/two", "f" * 64, "another", ""))

    freeze(monkeypatch, ZooKeeperCluster, "elect_leaders", taken_over)
    with pytest.raises(WriteError, match=r"No leader was elected|Clear|held by"):
        run.request() if step == "reassign" else run_step(elect_leaders, run.dag_run, run.decision)
    assert elected(cluster) == []
    assert ELECTION not in cluster.fake.znodes


def test_no_leader_is_elected_while_another_run_holds_the_cluster(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    ZooKeeperLock(cluster.fake).acquire(LockOwner("kafka_rebalance/two", "f" * 64, "another", ""))
    with pytest.raises(AirflowFailException, match="kafka_rebalance/two"):
        run_step(elect_leaders, run.dag_run, run.decision)
    assert elected(cluster) == []


def test_an_expired_approval_elects_nobody_though_some_leaders_are_in_place(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    lead(cluster, "audit", 0, 2)
    decision = json_files.read_json(run.folder, json_files.DECISION)
    old = (datetime.now(UTC) - timedelta(days=30)).isoformat()
    run.decision["decision_digest"] = json_files.write_json(
        run.folder, json_files.DECISION, {**decision, "approved_at": old}
    )
    with pytest.raises(AirflowFailException, match="has expired"):
        run.hold()
    assert elected(cluster) == []


def test_leaders_of_moved_partitions_are_elected_no_more_than_the_limit_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = SimulatedCluster(monkeypatch, TOPICS, "2.8")
    run = SimulatedRun(tmp_path, cluster, monkeypatch)
    run.policy_file.write_text(rebalance_run.POLICY + "leader_changes_per_batch: 3\n")
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    run.approve("light", RATE)
    run.hold()
    run.reassign()
    for topic in ("orders", "audit"):
        for partition, replicas in cluster.replicas(topic).items():
            lead(cluster, topic, partition, replicas[1])
    cluster.elections.clear()
    assert run_step(elect_leaders, run.dag_run, run.decision) == []
    assert elected(cluster) == [3, 1]
    assert REASSIGN not in cluster.fake.znodes
