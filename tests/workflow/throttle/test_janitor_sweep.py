"""The sweep: what nobody holds is reported, and cleaned where an approver ticks it. The cluster is simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin.log_dirs import BrokerDisks
from kafka_rebalance.documents import json_files
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.throttle.janitor import sweep
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.janitor_run import Airflow, last_report, tend, write_report
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun
from support.zookeeper.fake_zookeeper import REASSIGN

LEADER_RATE = "leader.replication.throttled.rate"
LEADERS = "leader.replication.throttled.replicas"


def finding(report: dict[str, Any], start: str) -> str:
    (found,) = [one["id"] for one in report["findings"] if one["id"].startswith(start)]
    return str(found)


@pytest.fixture
def littered(run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """A throttle nobody holds, a config without topic, and a replica that came back."""
    cluster.fake.put_json(
        "/config/brokers/1", {"version": 1, "config": {LEADER_RATE: "123", "log.cleaner.threads": "2"}}
    )
    cluster.fake.put_json("/config/topics/half", {"version": 1, "config": {"retention.ms": "1"}})
    real = sweep.log_dirs.read_log_dirs

    def log_dirs(kafka: Any, brokers: Any) -> BrokerDisks:
        found = real(kafka, brokers)
        return BrokerDisks({**found.replicas, TopicPartition("idle", 0): {1: 5, 3: 5, 4: 5}}, found.log_dirs)

    monkeypatch.setattr(sweep.log_dirs, "read_log_dirs", log_dirs)
    return cluster


def test_a_sweep_reports_and_cleans_only_what_an_approver_ticks(littered: SimulatedCluster, airflow: Airflow) -> None:
    before = littered.tree()
    report = tend()
    assert {one["id"].partition(":")[0] for one in report["findings"]} == {"throttle", "config", "replica"}
    assert littered.tree() == before
    assert "replica:4:idle-0" in {one["id"] for one in report["findings"]}
    throttle, config = finding(report, "throttle:"), finding(report, "config:")
    with pytest.raises(AirflowFailException, match="PolicyError"):
        tend("olive", clean=[throttle])
    with pytest.raises(AirflowFailException, match=r"Nothing was cleaned: 'replica:4:idle-0' is not for this Dag"):
        tend("uma", clean=[throttle, "replica:4:idle-0"])
    assert littered.tree() == before
    report = tend("uma", clean=[throttle, config])
    assert report["cleaned"] == [throttle, config]
    assert littered.config("brokers/1") == {"log.cleaner.threads": "2"}
    assert "/config/topics/half" not in littered.fake.znodes
    assert [one["id"] for one in tend()["findings"]] == ["replica:4:idle-0"]


def test_what_changed_since_it_was_ticked_is_not_cleaned(littered: SimulatedCluster, airflow: Airflow) -> None:
    throttle, config = (finding(tend(), start) for start in ("throttle:", "config:"))
    littered.fake.put_json("/config/brokers/1", {"version": 1, "config": {LEADER_RATE: "124"}})
    littered.fake.put_json("/config/topics/half", {"version": 1, "config": {"retention.ms": "2"}})
    before = littered.tree()
    for name in (throttle, config):
        with pytest.raises(AirflowFailException, match=r"does not exist, or has changed since"):
            tend("uma", clean=[name])
    assert littered.tree() == before


def test_a_throttle_is_not_cleaned_while_something_moves_or_a_listed_replica_is_behind(
    littered: SimulatedCluster, airflow: Airflow
) -> None:
    littered.fake.put_json("/config/topics/idle", {"version": 1, "config": {LEADERS: "*"}})
    report = tend()
    listed = finding(report, "throttle:topics/idle")
    state = "/brokers/topics/idle/partitions/0/state"
    littered.fake.put_json(state, {**littered.fake.json(state), "isr": [1]})
    with pytest.raises(AirflowFailException, match=r"replicas of idle-0 are outside the ISR"):
        tend("uma", clean=[listed])
    littered.fake.put_json(REASSIGN, {"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [3]}]})
    with pytest.raises(AirflowFailException, match="a reassignment is in motion"):
        tend("uma", clean=[finding(report, "throttle:brokers/1")])
    assert littered.config("topics/idle") == {LEADERS: "*"}


def test_a_config_that_names_no_broker_is_told_and_holds_up_nothing(
    littered: SimulatedCluster, airflow: Airflow
) -> None:
    found = {one["id"] for one in tend()["findings"]}
    for name in ("foo", "-1", "\u0663"):
        littered.fake.put_json(f"/config/brokers/{name}", {"version": 1, "config": {LEADER_RATE: "1"}})
    write_report(replace(last_report(), swept_at=None))
    report = tend()
    assert {one["id"] for one in report["findings"]} == found
    assert sum("names no broker" in text for text in report["warnings"]) == 3


def written(report: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The last report, with its findings changed."""
    document = report | {"findings": [change(one) for one in report["findings"]]}
    json_files.write_json(airflow_deployment().runs_root / json_files.JANITOR, f"{CONNECTION}.json", document)


def test_findings_of_a_later_version_are_told(
    littered: SimulatedCluster, airflow: Airflow, caplog: pytest.LogCaptureFixture
) -> None:
    written(tend(), lambda found: found | {"seen_first_at": "later"})
    caplog.clear()
    assert tend()["findings"]
    assert "log directory of idle-0" in caplog.text


def test_findings_that_cannot_be_read_are_swept_again(
    littered: SimulatedCluster, airflow: Airflow, caplog: pytest.LogCaptureFixture
) -> None:
    report = tend()
    written(report, lambda one: {"id": one["id"]})
    assert tend()["findings"] == report["findings"]
    assert "findings[0]" in caplog.text
