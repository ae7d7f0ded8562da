"""What keeps a run from writing although all is as approved: seen before each write, and named with a remedy."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin.log_dirs import BrokerDisks, LogDir
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, ReadError, RebalanceError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, given_run
from support.zookeeper.fake_zookeeper import put_topic

STATE = "/brokers/topics/orders/partitions/{}/state"


def upgrade(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.broker_settings[4] = {"inter.broker.protocol.version": "3.9-IV0"}


def upgrade_software(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.upgraded.add(1)


def install_cruise_control(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    put_topic(cluster.fake, "__CruiseControlMetrics", {0: (1, 3)}, version="2.8")


def fill_disks(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cluster._log_dirs

    def full(kafka: object, brokers: list[int]) -> BrokerDisks:
        return BrokerDisks(read(kafka, brokers).replicas, dict.fromkeys(brokers, (LogDir("/data", 10**9, 1000),)))

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", full)


def start_a_storm(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cluster._log_dirs

    def storm(kafka: object, brokers: list[int]) -> BrokerDisks:
        cluster.fake.znodes["/controller_epoch"].data = b"40"
        return read(kafka, brokers)

    monkeypatch.setattr("kafka_rebalance.admin.log_dirs.read_log_dirs", storm)


HAZARDS = [
    (upgrade, r"different inter\.broker\.protocol\.version: 2\.8-IV1 on broker 1, 2, 3; 3\.9-IV0 on broker 4"),
    (upgrade_software, r"they run different software: broker 1; broker 2, 3, 4 speak"),
    (install_cruise_control, "it works on this cluster"),
    (fill_disks, r"log directory /data has 1000 B left and may get \d of \d new replicas"),
    (start_a_storm, r"epoch grew from \d+ to 40"),
]


@pytest.mark.parametrize(("happens", "named"), HAZARDS, ids=[happens.__name__ for happens, _ in HAZARDS])
@pytest.mark.parametrize("step", ["hold", "second batch"])
def test_what_makes_a_write_dangerous_is_named_and_nothing_is_written(
    run: SimulatedRun,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[SimulatedCluster, pytest.MonkeyPatch], None],
    named: str,
    step: str,
) -> None:
    if step == "second batch":
        run.hold()
        assert run.request() == 1
        cluster.controller.run()
    happens(cluster, monkeypatch)
    writes = len(cluster.fake.writes)
    with pytest.raises(ClusterNotReadyError, match=named):
        run.hold() if step == "hold" else run.request()
    assert len(cluster.fake.writes) == writes


def test_a_partition_below_min_isr_waits_for_its_replicas(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    cluster.fake.put_json(STATE.format(1), {**cluster.fake.json(STATE.format(1)), "isr": []})
    with pytest.raises(RebalanceError, match=r"orders-1 lacks \[3\]"):  # broker 2 is to be emptied
        run.hold()


@pytest.mark.parametrize("step", ["hold", "second batch"])
def test_lists_that_a_raised_min_isr_would_leave_too_short_are_not_written(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It was 1 when the plan was approved; today it is 2, and the plan goes down to one replica."""
    lists = {TopicPartition("orders", 0): [1], TopicPartition("orders", 1): [3]}
    run = given_run(tmp_path, cluster, monkeypatch, lists)
    if step == "second batch":
        run.hold()
        assert run.request() == 1
        cluster.controller.run()
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": {"min.insync.replicas": "2"}})
    with (
        cluster.unchanged(),
        pytest.raises(ClusterNotReadyError, match=r"orders-\d goes from 2 to 1, and min.insync.replicas is 2"),
    ):
        run.hold() if step == "hold" else run.request()


def test_the_policy_may_allow_cruise_control_beside(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    put_topic(cluster.fake, "__CruiseControlMetrics", {0: (1, 3)}, version="2.8")
    with pytest.raises(RebalanceError, match="Cruise Control: it works on this cluster"):
        run.plan()
    run.policy_file.write_text(POLICY + "beside_cruise_control: true\n")
    run.plan(job="drain", drain=[2], topics_out=["idle"])
    run.approve("light", 2_000_000)
    run.hold()
    assert run.request() == 1


@pytest.mark.parametrize("may_list", [True, False], ids=["asked of the controller", "read from znodes"])
@pytest.mark.parametrize("step", ["hold", "first batch", "second batch"])
def test_partitions_that_another_tool_moves_by_kafkas_api_are_seen_in_every_topic_before_every_batch(
    run: SimulatedRun, cluster: SimulatedCluster, step: str, may_list: bool
) -> None:
    cluster.may_list_reassignments = may_list
    if step != "hold":
        run.hold()
    if step == "second batch":
        assert run.request() == 1
        cluster.controller.run()
    idle = cluster.fake.json("/brokers/topics/idle")
    cluster.fake.put_json("/brokers/topics/idle", {**idle, "adding_replicas": {"0": [4]}, "removing_replicas": {}})
    with (
        cluster.unchanged(),
        pytest.raises(ClusterNotReadyError, match=r"replicas are being added or removed \(idle-0\)"),
    ):
        run.hold() if step == "hold" else run.request()
    cluster.fake.put_json("/brokers/topics/idle", idle)
    if step == "hold":
        run.hold()
    assert run.request() == (2 if step == "second batch" else 1), "it goes on when that has ended"


def test_nothing_is_requested_while_nobody_can_tell_what_else_is_reassigned(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: object) -> None:
        raise ReadError("Kafka cannot be read")

    run.hold()
    monkeypatch.setattr("kafka_rebalance.admin.reassignments.read_reassignments", unreachable)
    with pytest.raises(ReadError, match="cannot be read"):
        run.request()
    assert cluster.requests == []


def test_without_the_way_back_nothing_is_written(run: SimulatedRun) -> None:
    (run.folder / json_files.REASSIGNMENTS / "light-rollback.json").unlink()
    with pytest.raises(ClusterNotReadyError, match=r"lists to go back to are not in the run's folder"):
        run.hold()


@pytest.mark.parametrize("step", ["hold", "request"])
def test_brokers_of_another_cluster_than_zookeepers_get_no_write(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Somebody edits the connection's bootstrap_servers while the request waits, or between two batches."""
    if step == "request":
        run.hold()
    before = cluster.tree()
    monkeypatch.setattr("kafka_rebalance.admin.cluster_view.read_cluster_id", lambda _: "another-cluster-000002")
    with pytest.raises(AirflowFailException, match="names two clusters"):
        getattr(run, step)()
    assert cluster.tree() == before


def test_a_plan_beyond_the_policy_is_not_begun_whatever_made_it(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a planner that does not heed the limit it was given."""
    real = Policy.tighten
    heedless = lambda policy, asked, **about: dataclasses.replace(real(policy, asked, **about), max_bytes=None)  # noqa: E731
    monkeypatch.setattr(Policy, "tighten", heedless)
    run = given_run(tmp_path, cluster, monkeypatch, {TopicPartition("idle", 0): (4, 3)}, policy="max_bytes: 5\n")
    with (
        cluster.unchanged(),
        pytest.raises(AirflowFailException, match=r"goes beyond the policy: 1000000 bytes to copy are more than 5"),
    ):
        run.hold()


def test_a_stricter_policy_of_another_connection_to_the_cluster_stops_an_approved_plan_before_its_first_write(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_run(tmp_path, cluster, monkeypatch, {TopicPartition("idle", 0): (4, 3)})
    own = json.loads(os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"])
    monkeypatch.setenv("AIRFLOW_CONN_SAME", json.dumps(own))
    run.policy_file.with_name("same.yaml").write_text(f"{POLICY}max_bytes: 5\n")
    with (
        cluster.unchanged(),
        pytest.raises(AirflowFailException, match=r"goes beyond the policy: 1000000 bytes to copy are more than 5"),
    ):
        run.hold()


def test_a_plan_that_fills_a_broker_that_may_not_receive_is_not_begun_whatever_made_it(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_rebalance.planning.given_plan._kept_out", lambda *_: [])
    run = given_run(tmp_path, cluster, monkeypatch, {TopicPartition("idle", 0): (4, 3)}, brokers_in=[1])
    with (
        cluster.unchanged(),
        pytest.raises(AirflowFailException, match=r"idle-0 to broker 4, but by brokers_in only broker 1 may receive"),
    ):
        run.hold()
