"""The nightly check: which clusters, what their scores mean, and that it never writes. The cluster is simulated."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.dataset
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import SettingsError
from kafka_rebalance.model.candidate import Metric
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.nightly import check_cluster, why_not_propose
from kafka_rebalance.nightly.proposed_job import measured
from kafka_rebalance.planning.evenness import HotSpot, Score
from kafka_rebalance.planning.planner import Reachable
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.run import clusters, ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.cluster_lock import encode_lock
from support.plans.small_snapshots import broker_rows, figures, partition_rows, problem_of
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster, SimulatedRun, Step, other_dag_run

LIMIT = 0.25  # a power of two, so that "at the limit" can be written down
EVEN = Score(1.0, 1.0, 0.0)
FAR_OFF = dict.fromkeys(Metric, Reachable(can_help=False, furthest=2.2, forced=0.0))


def policy(limit: float = LIMIT) -> Policy:
    return Policy.from_mapping({"approvers": ["uma"], "imbalance_limit": limit}, "test")


def score(most: float, least: float) -> Score:
    return Score(max_over_mean=most, min_over_mean=least, cv=0.1)


@pytest.mark.parametrize(
    ("found", "imbalance", "resource", "past_limit"),
    [
        ({"replicas": EVEN, "disk": EVEN, "leaders": EVEN}, 0.0, "replicas", False),
        ({"replicas": EVEN, "disk": score(1.25, 0.9), "leaders": EVEN}, 0.25, "disk", False),
        ({"replicas": EVEN, "disk": score(1.26, 0.9), "leaders": EVEN}, 0.26, "disk", True),
        ({"replicas": EVEN, "disk": score(1.1, 0.5), "leaders": EVEN}, 0.5, "disk", True),
        ({"replicas": score(1.3, 1.0), "disk": score(1.1, 0.9), "leaders": score(2.0, 0.0)}, 1.0, "leaders", True),
        ({"replicas": EVEN, "disk": EVEN, "leaders": EVEN, "bytes_in": score(1.5, 1.0)}, 0.5, "bytes_in", True),
    ],
)
def test_the_broker_farthest_from_its_share_decides(
    found: dict[str, Score], imbalance: float, resource: str, past_limit: bool
) -> None:
    off = measured(found, 0, policy())
    assert off.imbalance == pytest.approx(imbalance)
    assert (off.resource, off.past_limit) == (resource, past_limit)
    assert set(off.skew) == set(found)
    assert off.skew[resource] == max(off.skew.values())
    assert f"{100 * imbalance:.0f} % off their share on the worst broker, the limit is 25 %" in off.text


def test_the_limit_is_the_policys() -> None:
    found = {"replicas": score(1.3, 1.0), "disk": EVEN, "leaders": EVEN}
    assert measured(found, 0, policy(0.2)).past_limit is True
    assert measured(found, 0, policy(0.4)).past_limit is False


def test_a_broken_rack_rule_is_past_any_limit() -> None:
    even = {"replicas": EVEN, "disk": EVEN, "leaders": EVEN}
    off = measured(even, 3, policy(1.0))
    assert off.past_limit is True
    assert "3 rack violations" in off.text
    assert measured(even, 1, policy(1.0)).text.endswith("1 rack violation")


def test_without_a_policy_nothing_is_proposed_and_the_text_says_why() -> None:
    found = {"replicas": score(9.0, 0.0), "disk": EVEN, "leaders": EVEN}
    off = measured(found, 1, None)
    assert off.past_limit is False
    assert "read-only, since there is no policy file" in off.text
    assert "read-only" not in measured({**found, "replicas": EVEN}, 0, None).text


@pytest.mark.parametrize(
    ("variable", "names"),
    [(None, []), ('["a", "b"]', ["a", "b"]), (["a"], ["a"]), ('["a", "b", "a"]', ["a", "b"]), ("[]", [])],
)
def test_the_fleet_is_a_list_of_connections_each_once(variable: Any, names: list[str]) -> None:
    assert clusters.fleet(variable) == names


@pytest.mark.parametrize("variable", ["kafka_eu", '{"a": 1}', '["a", 1]', '[""]', "[", 7, {"a": "b"}])
def test_a_variable_that_is_no_such_list_checks_no_cluster(variable: Any) -> None:
    with pytest.raises(SettingsError, match=r"kafka_rebalance_clusters must be a JSON list.*No cluster was checked"):
        clusters.fleet(variable)


def test_a_check_measures_decides_keeps_both_and_writes_nothing_to_the_cluster(
    cluster: SimulatedCluster, check: Step, tmp_path: Path
) -> None:
    before = cluster.tree()
    verdict = check()
    assert cluster.tree() == before
    assert verdict["past_limit"] is True
    assert verdict["cluster_id"] == "simulated-cluster-0001"
    assert verdict["skew"]["leaders"] == pytest.approx(3.0), "broker 1 leads all four partitions, its share is one"
    json.dumps(verdict)  # goes into XCom and onto the Asset's event
    folder = next((tmp_path / "runs" / CONNECTION / "scheduled__1").iterdir())
    written = json_files.read_json(folder, json_files.VERDICT)
    assert {key: written[key] for key in verdict} == verdict
    assert (written["controller"]["broker"], written["controller"]["epochs_read"]) == (1, [1, 1])
    found = pyarrow.dataset.dataset(tmp_path / "runs" / "ledger" / "metrics", partitioning="hive").to_table()
    assert found["size_bytes"].to_pylist() == [SIZE_BYTES] * 4
    ((kept,), unreadable) = ledger.read(airflow_deployment(), "balance", CONNECTION, 1)
    assert unreadable == ()
    assert (kept["run_id"], kept["skew_leaders"], kept["skew_bytes_in"]) == (
        "scheduled__1",
        verdict["skew"]["leaders"],
        None,
    )
    same = ("imbalance", "resource", "rack_violations", "limit", "past_limit")
    assert {key: kept[key] for key in same} == {key: verdict[key] for key in same}


def test_a_balanced_cluster_is_left_alone(cluster: SimulatedCluster, check: Step) -> None:
    document = cluster.fake.json("/brokers/topics/orders")
    document["partitions"] = {"0": [1, 2], "1": [2, 4], "2": [3, 1], "3": [4, 3]}
    cluster.fake.put_json("/brokers/topics/orders", document)
    for partition, leader in ((1, 2), (2, 3), (3, 4)):
        replicas = document["partitions"][str(partition)]
        path = f"/brokers/topics/orders/partitions/{partition}/state"
        cluster.fake.put_json(path, {**cluster.fake.json(path), "leader": leader, "isr": replicas})
    verdict = check()
    assert (verdict["past_limit"], verdict["imbalance"], verdict["rack_violations"]) == (False, 0.0, 0)


def test_a_cluster_without_a_policy_is_measured_and_nothing_is_proposed(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step
) -> None:
    run.policy_file.unlink()
    verdict = check()
    assert verdict["imbalance"] > LIMIT
    assert verdict["past_limit"] is False


def test_a_policy_that_cannot_be_used_is_not_taken_for_none(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step
) -> None:
    run.policy_file.write_text(POLICY + "imbalance_limit: -1\n")
    before = cluster.tree()
    with pytest.raises(AirflowFailException, match=r"PolicyError: .*imbalance_limit"):
        check()
    assert cluster.tree() == before


def test_a_check_tells_the_audit_of_segment_settings_in_verdict_log_and_ledger(
    cluster: SimulatedCluster, check: Step, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"segment.jitter.ms": "9", "segment.ms": "5", "follower.replication.throttled.replicas": "0:1"}
    cluster.fake.put_json("/config/topics/orders", {"version": 1, "config": config})
    before = cluster.tree()
    with caplog.at_level("INFO"):
        verdict = check()
    assert cluster.tree() == before
    assert (verdict["segment_errors"], verdict["segment_warnings"]) == (1, 1)
    folder = next((tmp_path / "runs" / CONNECTION / "scheduled__1").iterdir())
    segments = json_files.read_json(folder, json_files.VERDICT)["segments"]
    assert [(f["rule"], f["severity"], f["topics"]) for f in segments["findings"]] == [
        ("jitter_reaches_roll", "error", ["orders"]),
        ("throttle_left", "warning", ["orders"]),
    ]
    assert "jitter_reaches_roll: topic orders, broker 1, 2: segment.jitter.ms 9 reaches segment.ms 5" in caplog.text
    ledger = pyarrow.dataset.dataset(tmp_path / "runs" / "ledger" / "audits", partitioning="hive").to_table()
    assert ledger["rule"].to_pylist() == ["jitter_reaches_roll", "throttle_left"]
    assert ledger["topic"].to_pylist() == ["orders", "orders"]
    assert ledger["brokers"].to_pylist() == [[1, 2], []]


def test_a_check_of_a_sound_cluster_keeps_that_there_was_no_finding(
    cluster: SimulatedCluster, check: Step, tmp_path: Path
) -> None:
    verdict = check()
    assert (verdict["segment_errors"], verdict["segment_warnings"]) == (0, 0)
    ledger = pyarrow.dataset.dataset(tmp_path / "runs" / "ledger" / "audits", partitioning="hive").to_table()
    assert ledger.num_rows == 0


@pytest.mark.parametrize("connection_id", ["kafka_elsewhere", "../escape"])
def test_a_name_in_the_fleet_that_is_no_connection_is_named(run: SimulatedRun, connection_id: str) -> None:
    with pytest.raises(AirflowFailException, match=connection_id):
        run_step(check_cluster.check, run.dag_run, connection_id)


def answered(choice: str | None, cluster: SimulatedCluster, days_ago: float = 1, **params: Any) -> None:
    """A rebalance that was planned and answered: its snapshot, and its rows of the ledger."""
    run_id = f"manual__{choice}"
    made = other_dag_run(run_id)
    pushed: dict[str, Any] = {}
    run_step(
        take_snapshot,
        made,
        {"kafka_conn_id": CONNECTION, **params},
        ti=SimpleNamespace(xcom_push=pushed.__setitem__),
    )
    at = datetime.now(UTC) - timedelta(days=days_ago)
    ledger.append(airflow_deployment(), "plans", CONNECTION, run_id, at, [{"run_id": run_id, "candidate": "light"}])
    if choice is not None:
        row = {
            "dag_id": "kafka_rebalance",
            "run_id": run_id,
            "choice": choice,
            "by": "3",
            "at": at,
            "note": "not now",
        }
        json_files.write_json(
            Path(pushed["run_folder"]), json_files.DECISION, {"approved_by": {"id": "3", "name": "uma"}}
        )
        ledger.append(airflow_deployment(), "decisions", CONNECTION, run_id, at, [row])


def test_past_the_limit_a_rebalance_is_proposed(check: Step) -> None:
    verdict = check()
    assert (verdict["past_limit"], verdict["propose"], verdict["not_proposed"]) == (True, True, None)


def test_what_was_rejected_is_not_proposed_again_and_the_text_says_who_and_until_when(
    cluster: SimulatedCluster, check: Step
) -> None:
    answered("Reject", cluster)
    verdict = check()
    assert (verdict["past_limit"], verdict["propose"]) == (True, False)
    assert "uma rejected this on " in verdict["text"]
    assert '("not now"), and nothing material has changed. The nightly check proposes it again when' in verdict["text"]


def a_broker_came(run: SimulatedRun, cluster: SimulatedCluster) -> str:
    cluster.fake.put_json("/brokers/ids/5", cluster.fake.json("/brokers/ids/4"))
    return "broker 5 came"


def the_policy_changed(run: SimulatedRun, cluster: SimulatedCluster) -> str:
    run.policy_file.write_text(POLICY + "imbalance_limit: 0.3\n")
    return "the policy has changed"


@pytest.mark.parametrize("change", [a_broker_came, the_policy_changed])
def test_a_material_change_brings_it_back_and_the_approver_reads_which(
    run: SimulatedRun, cluster: SimulatedCluster, check: Step, change: Any
) -> None:
    answered("Reject", cluster)
    expected = change(run, cluster)
    verdict = check()
    assert verdict["propose"] is True
    assert "proposed again although uma rejected it on" in verdict["text"]
    assert expected in verdict["text"]


def test_a_rejection_is_forgotten_after_a_fortnight(cluster: SimulatedCluster, check: Step) -> None:
    answered("Reject", cluster, days_ago=14.1)
    assert "14 days have passed" in check()["text"]


@pytest.mark.parametrize("params", [{"job": "drain", "drain": [2]}, {"topics_in": ["orders*"]}])
def test_a_rejection_of_another_job_says_nothing_about_balance(
    cluster: SimulatedCluster, check: Step, params: dict[str, Any]
) -> None:
    answered("Reject", cluster, **params)
    assert check()["propose"] is True


def test_what_expired_or_was_approved_later_is_proposed_again(cluster: SimulatedCluster, check: Step) -> None:
    answered("Reject", cluster, days_ago=3)
    answered("light", cluster, days_ago=2)
    answered(None, cluster)
    assert check()["propose"] is True


def test_nothing_is_proposed_while_another_run_is_open(
    cluster: SimulatedCluster, active: set[str], check: Step
) -> None:
    answered(None, cluster)
    active.add("manual__None")
    verdict = check()
    assert verdict["propose"] is False
    assert "the run manual__None of kafka_rebalance is open" in verdict["text"]


def test_nothing_is_proposed_while_the_last_proposal_waits_in_the_queue_or_is_being_planned(
    run: SimulatedRun, cluster: SimulatedCluster, active: set[str], check: Step
) -> None:
    """The Dag is paused, or the planning takes long: nothing in the ledger says that there is a plan."""
    first = check()
    assert first["proposal"] == f"proposed__{run.dag_run.run_id}__{CONNECTION}"
    active.add(first["proposal"])
    second = run_step(check_cluster.check, other_dag_run("scheduled__2"), CONNECTION)
    assert second["propose"] is False
    assert f"the run {first['proposal']} of kafka_rebalance is open" in second["text"]
    active.clear()
    assert run_step(check_cluster.check, other_dag_run("scheduled__3"), CONNECTION)["propose"] is True


def held(cluster: SimulatedCluster) -> None:
    owner = LockOwner("kafka_rebalance/one", "d" * 64, "https://airflow", "2026-05-03T14:31:58+00:00")
    cluster.fake.create("/kafka_rebalance", b"", makepath=True)
    cluster.fake.create("/kafka_rebalance/run", encode_lock(owner))


def test_nothing_is_proposed_while_a_run_holds_the_cluster(cluster: SimulatedCluster, check: Step) -> None:
    held(cluster)
    verdict = check()
    assert verdict["propose"] is False
    assert "kafka_rebalance/one holds the cluster" in verdict["text"]


def test_a_cluster_that_a_run_moves_is_skipped_and_not_failed(cluster: SimulatedCluster, check: Step) -> None:
    held(cluster)
    moving = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 4]}]}
    cluster.fake.put_json("/admin/reassign_partitions", moving)
    with pytest.raises(AirflowSkipException, match="kafka_in_process is not checked: kafka_rebalance/one"):
        check()


def test_where_no_rebalance_could_help_none_is_proposed_and_what_would_help_is_said(
    cluster: SimulatedCluster, check: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    spot = HotSpot("orders", 0, 3.2)
    monkeypatch.setattr(why_not_propose, "can_be_more_even", lambda *_: FAR_OFF)
    monkeypatch.setattr(why_not_propose, "hot_spots", lambda *_: dict.fromkeys(Metric, (spot,)))
    verdict = check()
    assert verdict["propose"] is False
    assert "a rebalance cannot help: orders-0 alone has 3.20 times" in verdict["text"]
    assert "More partitions (kafka_topics, alter)" in verdict["text"]


def test_a_broken_rack_rule_is_worth_a_proposal_even_beside_a_hot_spot() -> None:
    brokers, rows = broker_rows([1, 2, 3], {1: "a", 2: "a", 3: "b"}), partition_rows([[1, 2], [1, 3], [2, 3], [2, 3]])
    result = figures(0.2, 1, disk=0.5)
    assert why_not_propose.cannot_help(problem_of(brokers, rows), result) is None


def test_bytes_in_from_the_ledgers_history_count(cluster: SimulatedCluster, check: Step) -> None:
    """Partition 0 is written, the others are idle: its brokers take in all there is."""
    czxid = cluster.fake.znodes["/brokers/topics/orders"].czxid
    now = datetime.now(UTC)
    for night in range(7, 0, -1):
        rows = [
            {
                "topic": "orders",
                "partition": partition,
                "size_bytes": SIZE_BYTES,
                "end_offset": (10 - night) * 100 if partition == 0 else 1,
                "start_offset": 0,
                "topic_czxid": czxid,
            }
            for partition in range(4)
        ]
        ledger.append(airflow_deployment(), "metrics", CONNECTION, f"night-{night}", now - timedelta(days=night), rows)
    verdict = check()
    assert verdict["skew"]["bytes_in"] == pytest.approx(1.0), "brokers 1 and 2 of four take in all"
    ((kept,), _) = ledger.read(airflow_deployment(), "balance", CONNECTION, 0.5)
    assert kept["skew_bytes_in"] == pytest.approx(1.0)
