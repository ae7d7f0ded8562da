"""The janitor: what it takes off, what it keeps, whom it alerts, and what it leaves alone. The cluster is simulated."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.dags.kafka_throttle_janitor_dag import DAG as JANITOR
from kafka_rebalance.documents.janitor_report import JanitorReport
from kafka_rebalance.errors import ThrottleError, UnwatchedError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.run.approved_plan import read_approved
from kafka_rebalance.run.run_lock import lock_owner
from kafka_rebalance.throttle import release_throttle
from kafka_rebalance.throttle.janitor import look_after_cluster, sweep
from kafka_rebalance.throttle.throttle_in_force import check_throttle_in_force
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import step_inputs
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.janitor_run import Airflow, last_report, silent, tend, write_report
from support.runs.rebalance_run import CONNECTION, open_lease
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, lease_file
from support.zookeeper.fake_zookeeper import REASSIGN

CLUSTER = "simulated-cluster-0001"
LOCK = "/kafka_rebalance/run"
LEADER_RATE = "leader.replication.throttled.rate"


def in_flight(run: SimulatedRun, cluster: SimulatedCluster) -> dict[str, dict[str, str]]:
    """Throttled, requested and taken up; returns the throttles."""
    run.hold()
    run.request()
    cluster.step()
    return cluster.throttles()


def test_a_run_at_work_is_left_alone(run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow) -> None:
    held = in_flight(run, cluster)
    report = tend()
    assert report["alerts"] == []
    assert "3 partitions copy" in report["lines"][0]
    assert cluster.throttles() == held
    assert report["lock"].startswith("kafka_rebalance/one of airflow (")


@pytest.mark.parametrize("fate", ["deleted", "failed", "success"])
def test_the_throttle_of_a_run_that_is_gone_stays_until_its_last_copy_is_in_sync(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, fate: str
) -> None:
    held = in_flight(run, cluster)
    if fate == "deleted":
        del airflow.states["one"]
        shutil.rmtree(run.folder.parent)
    else:
        airflow.states["one"] = fate
    with pytest.raises(UnwatchedError, match=r"Nobody follows the copies of run kafka_rebalance/one .*3 partitions"):
        tend()
    assert cluster.throttles() == held
    assert LOCK in cluster.fake.znodes
    assert last_report().alerts
    while REASSIGN in cluster.fake.znodes:
        cluster.step()
        tend()  # the alert was given
    report = tend()
    assert report["alerts"] == []
    assert cluster.leftovers() == []
    assert open_lease(CLUSTER) is None


def test_an_alert_is_given_once_and_again_after_half_an_hour(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_flight(run, cluster)
    airflow.states["one"] = "failed"
    with pytest.raises(UnwatchedError):
        tend()
    assert tend()["alerts"], "it is still said"
    monkeypatch.setattr(look_after_cluster, "REMIND_SECONDS", 0)
    with pytest.raises(UnwatchedError):
        tend()


def test_an_alert_of_a_clock_that_was_ahead_is_given_again(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    in_flight(run, cluster)
    airflow.states["one"] = "failed"
    with pytest.raises(UnwatchedError):
        tend()
    ahead = datetime.now(UTC) + timedelta(days=1)
    write_report(JanitorReport(raised=dict.fromkeys(last_report().raised, ahead)))
    with pytest.raises(UnwatchedError):
        tend()


def test_what_is_no_longer_copied_is_put_back_while_the_rest_stays(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    held = in_flight(run, cluster)
    airflow.states["one"] = "failed"
    cluster.fake.delete("/brokers/topics/audit", recursive=True)
    cluster.fake.put_json("/config/topics/audit", {"version": 1, "config": {}})
    with pytest.raises(UnwatchedError):
        tend()
    assert "topics/audit" not in cluster.throttles()
    assert cluster.throttles()["topics/orders"] == held["topics/orders"]


def test_a_release_with_copies_in_flight_hands_the_lease_over_and_its_retry_gives_the_lock_back(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    in_flight(run, cluster)
    with pytest.raises(ThrottleError, match="kafka_throttle_janitor removes their throttle"):
        run.release()
    lease = open_lease(CLUSTER)
    assert lease is not None
    assert lease.handed_over_at is not None
    with pytest.raises(ThrottleError, match="so no batch is requested"):
        check_throttle_in_force(cluster.lease(), read_approved(step_inputs(run.dag_run), run.decision), ())  # type: ignore[arg-type]
    with pytest.raises(UnwatchedError):
        tend()
    while REASSIGN in cluster.fake.znodes:
        cluster.step()
    tend()
    assert cluster.throttles() == {}
    assert LOCK in cluster.fake.znodes, "the run is not over, and its task comes again"
    run.release()
    assert cluster.leftovers() == []


def test_a_worker_and_a_triggerer_that_died_are_missed_and_nothing_is_touched(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    held = in_flight(run, cluster)
    silent(run, 40)
    with pytest.raises(UnwatchedError, match=r"Nobody has followed the copies of run kafka_rebalance/one"):
        tend()
    assert cluster.throttles() == held


def test_an_airflow_that_does_not_answer_is_not_taken_for_a_deleted_run(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    airflow.away = True
    held = cluster.throttles()
    assert "(unknown)" in tend()["lines"][0]
    assert cluster.throttles() == held
    silent(run, 1000)  # the heartbeat decides: throttle off, the lock stays
    tend()
    assert cluster.throttles() == {}
    assert LOCK in cluster.fake.znodes


def test_a_paused_run_between_batches_gets_its_throttle_back_when_it_is_set_again(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    airflow.paused = True
    silent(run, 1000)
    tend()
    assert cluster.throttles() == {}
    assert LOCK in cluster.fake.znodes
    with pytest.raises(ThrottleError, match="Clear hold_throttle with what follows it"):
        run.request()
    run.hold()
    assert run.reassign() == 1
    run.finish()
    assert cluster.leftovers() == []


def test_copies_that_start_while_the_throttle_is_put_back_keep_it(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.hold()
    held = cluster.throttles()
    airflow.paused = True
    silent(run, 1000)
    real, woken = release_throttle.read_lease_configs, []

    def read_configs(*arguments: Any) -> Any:
        if not woken:
            woken.append(True)
            run.request()  # the Dag was unpaused; that nothing is in flight has been read just before
        return real(*arguments)

    monkeypatch.setattr(release_throttle, "read_lease_configs", read_configs)
    tend()
    assert REASSIGN in cluster.fake.znodes
    assert cluster.throttles() == held
    assert open_lease(CLUSTER) is not None


def test_what_cannot_be_put_back_during_a_migration_to_kraft_is_an_alert(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    held = cluster.throttles()
    del airflow.states["one"]
    document = {**cluster.fake.json("/controller"), "version": 2, "kraftControllerEpoch": 5}
    cluster.fake.put_json("/controller", document, ephemeral=True)
    with pytest.raises(UnwatchedError, match="A KRaft controller owns the cluster"):
        tend()
    assert tend()["alerts"], "it is still said"
    assert cluster.throttles() == held
    assert LOCK in cluster.fake.znodes


def test_values_of_others_are_left_alone_and_named(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    cluster.fake.put_json("/config/brokers/1", {"version": 1, "config": {LEADER_RATE: "123"}})
    del airflow.states["one"]
    report = tend()
    assert report["warnings"] == [f"brokers/1: {LEADER_RATE} is 123, changed by somebody else"]
    assert cluster.throttles() == {"brokers/1": {LEADER_RATE: "123"}}
    assert [one["entity"] for one in report["findings"]] == ["brokers/1"]


def test_a_lease_that_cannot_be_read_is_an_alert_and_nothing_is_touched(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, tmp_path: Path
) -> None:
    run.hold()
    del airflow.states["one"]
    lease_file(tmp_path / "runs").write_text("{")
    cluster.fake.delete("/kafka_rebalance/lease")  # the other copy
    before = cluster.tree()
    with pytest.raises(UnwatchedError, match=r"is not JSON .* leaves this cluster"):
        tend()
    assert cluster.tree() == before


def test_a_run_that_died_between_lock_and_lease_gives_its_lock_back(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    ZooKeeperLock(cluster.fake).acquire(lock_owner(airflow_deployment(), "digest", run.dag_run))  # type: ignore[arg-type]
    tend()
    assert LOCK in cluster.fake.znodes
    airflow.states["one"] = "failed"
    assert "was given back (over)" in tend()["lines"][0]
    assert LOCK not in cluster.fake.znodes


def test_the_lock_of_another_airflow_is_broken_by_an_approver_who_names_its_owner_alone(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    other = LockOwner("kafka_rebalance/one", "digest", "http://elsewhere (1a2b3c4d)")
    ZooKeeperLock(cluster.fake).acquire(other)  # type: ignore[arg-type]
    assert tend()["lock"] == other.name
    with pytest.raises(AirflowFailException, match=r"PolicyError: olive may not clean .* approvers .* are uma"):
        tend("olive", break_lock=other.name)
    with pytest.raises(AirflowFailException, match=r"LockHeldError: .*The lock was not broken"):
        tend("uma", break_lock="kafka_rebalance/one")
    cluster.fake.put_json(REASSIGN, {"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [3]}]})
    with pytest.raises(AirflowFailException, match=r"The lock was not broken: .* kept: a reassignment is in motion"):
        tend("uma", break_lock=other.name)
    assert LOCK in cluster.fake.znodes
    cluster.fake.delete(REASSIGN)
    assert "was given back (by uma)" in tend("uma", break_lock=other.name)["lines"][0]
    assert LOCK not in cluster.fake.znodes


def test_a_lock_that_is_not_broken_since_its_copies_go_on_is_said_every_time(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    held = in_flight(run, cluster)
    with pytest.raises(AirflowFailException, match=r"The lock was not broken: break_lock names 'kafka_rebalance/two'"):
        tend("uma", break_lock="kafka_rebalance/two")
    for _ in range(2):
        with pytest.raises(AirflowFailException, match=r"LockHeldError: .* not broken: Nobody follows the copies of"):
            tend("uma", break_lock=tend()["lock"])
    assert "The lock was not broken" in last_report().warnings[-1]
    assert cluster.throttles() == held


def gone_for_good(run: SimulatedRun, cluster: SimulatedCluster) -> int:
    """A broker that dies for good when all copies to it are done."""
    in_flight(run, cluster)
    while REASSIGN in cluster.fake.znodes:
        cluster.step()
    (broker, *_) = next(move for move in run.candidate.moves if move.topic_partition.topic == "audit").added
    cluster.fake.delete(f"/brokers/ids/{broker}")
    for move in run.candidate.moves:
        path = f"/brokers/topics/{move.topic_partition.topic}/partitions/{move.topic_partition.partition}/state"
        state = cluster.fake.json(path)
        isr = [other for other in state["isr"] if other != broker]
        cluster.fake.put_json(path, {**state, "leader": isr[0], "isr": isr})
    return broker


@pytest.mark.parametrize("by", ["release", "janitor"])
def test_a_broker_that_died_for_good_after_its_copies_keeps_nobody_from_the_cluster(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = gone_for_good(run, cluster)
    said: list[str] = []
    monkeypatch.setattr(release_throttle.log, "warning", lambda form, text: said.append(text))
    if by == "release":
        run.release()
    else:
        airflow.states["one"] = "failed"
        report = tend()
        assert report["alerts"] == []
        assert report["warnings"] == said
    assert cluster.leftovers() == []
    (text,) = said
    assert text.startswith(f"Broker {broker} is not registered. ")
    assert "it copies what it has missed without a throttle" in text


def test_a_copy_whose_broker_died_for_good_is_an_alert_that_says_what_to_do(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    """Its request stands: the controller goes on with it when the broker returns, whenever that is."""
    held = in_flight(run, cluster)
    (broker, *_) = next(move for move in run.candidate.moves if move.topic_partition.topic == "audit").added
    cluster.fake.delete(f"/brokers/ids/{broker}")
    airflow.states["one"] = "failed"
    with pytest.raises(
        UnwatchedError, match=f"Broker {broker} is not registered, and copies to it cannot end: .* Start it"
    ):
        tend()
    assert cluster.throttles() == held
    assert LOCK in cluster.fake.znodes


def test_a_sweep_comes_now_and_then_and_one_that_fails_holds_up_no_lease(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[int] = []
    real = sweep.sweep
    monkeypatch.setattr(sweep, "sweep", lambda *asked, **how: swept.append(1) or real(*asked, **how))
    run.hold()
    del airflow.states["one"]
    cluster.fake.put_json("/config/topics/broken", ["no config"])
    report = tend()
    assert "The cluster could not be swept" in report["warnings"][0]
    cluster.fake.delete("/config/topics/broken")
    assert cluster.leftovers() == []
    tend()
    assert len(swept) == 1


def test_the_clusters_are_the_fleet_and_those_of_open_leases(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    assert look_after_cluster.clusters(airflow_deployment(), '["kafka_eu"]', None) == ["kafka_eu"]
    run.hold()
    assert look_after_cluster.clusters(airflow_deployment(), '["kafka_eu"]', None) == ["kafka_eu", CONNECTION]
    assert look_after_cluster.clusters(airflow_deployment(), '["kafka_eu"]', "kafka_us") == ["kafka_us"]
    run.release()
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == []


@pytest.mark.parametrize("mistyped", ['["kafka_eu", "kafka_us"', "kafka_eu", '{"kafka_eu": true}', "[" * 90_000])
def test_a_mistyped_variable_leaves_no_open_lease_and_no_lock_alone(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, mistyped: str
) -> None:
    run.hold()
    assert look_after_cluster.clusters(airflow_deployment(), mistyped, None) == [CONNECTION]
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_REBALANCE_CLUSTERS", mistyped)
    with pytest.raises(AirflowFailException, match="kafka_rebalance_clusters must be a JSON list"):
        JANITOR.get_task("check_variable").python_callable({"kafka_conn_id": None})


def test_a_restarted_broker_under_our_throttle_is_a_warning_of_the_report(
    run: SimulatedRun, cluster: SimulatedCluster, airflow: Airflow
) -> None:
    run.hold()
    state = "/brokers/topics/orders/partitions/0/state"
    cluster.fake.put_json(state, {**cluster.fake.json(state), "isr": [1]})
    assert [text.partition(" is outside")[0] for text in tend()["warnings"]] == ["orders-0: replica 2"]
