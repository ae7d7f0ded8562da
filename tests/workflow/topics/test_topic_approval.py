"""What stands between an approved change of a topic and its write: age, attempt, cluster. The cluster is simulated."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.model.consumer_groups import TopicGroups
from kafka_rebalance.run import run_folder
from kafka_rebalance.topics import keys
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.run_step import run_step
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock
from support.runs.simulated_cluster import RACKS, TOPICS, SimulatedCluster, leads_here_too
from support.runs.topic_run import CONNECTION, TopicRun

DAY = timedelta(days=1)  # after which an approval expires
CHANGES: dict[str, dict[str, Any]] = {
    "delete": {"action": "delete"},
    "expand": {"action": "alter", "partitions": 5},
    "configs": {"action": "alter", "config": ["retention.ms=1000"]},
}
MARKER = "/admin/delete_topics/orders"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = SimulatedCluster(monkeypatch, TOPICS)
    made.broker_settings = {broker: {"delete.topic.enable": "true"} for broker in RACKS}
    monkeypatch.setattr("kafka_rebalance.topics.keys.read_groups", lambda *_: TopicGroups(()))
    return made


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> TopicRun:
    return TopicRun(tmp_path, cluster, monkeypatch)  # type: ignore[arg-type]


@pytest.fixture(params=CHANGES)
def approved(request: pytest.FixtureRequest, run: TopicRun) -> TopicRun:
    change = CHANGES[request.param]
    run.request(topic="orders", **change)
    run.ask()
    run.answer(change["action"])
    return run


def grow_old(run: TopicRun, age: timedelta) -> None:
    """The same decision, of earlier."""
    written = json_files.read_json(run.folder, json_files.DECISION)
    written["approved_at"] = (datetime.now(UTC) - age).isoformat()
    run.xcom["decision"]["decision_digest"] = json_files.write_json(run.folder, json_files.DECISION, written)


def stored(cluster: SimulatedCluster) -> dict[str, bytes]:
    """Every znode's content but for the notes to brokers, of which a repeated config is one more."""
    return {path: data for path, (data, _) in cluster.tree().items() if not path.startswith("/config/changes/")}


def test_an_approved_change_that_is_not_old_is_written(approved: TopicRun, cluster: SimulatedCluster) -> None:
    before = cluster.tree()
    grow_old(approved, DAY / 2)
    approved.write()
    assert cluster.tree() != before


def test_an_approved_change_expires_and_nothing_of_it_is_written(approved: TopicRun, cluster: SimulatedCluster) -> None:
    """Somebody clears `write` 90 days later."""
    before = cluster.tree()
    grow_old(approved, 90 * DAY)
    with pytest.raises(AirflowFailException, match=r"The approval of .* has expired"):
        approved.write()
    assert cluster.tree() == before


def test_a_change_that_was_written_in_time_is_found_so_later(approved: TopicRun, cluster: SimulatedCluster) -> None:
    approved.write()
    after = stored(cluster)
    grow_old(approved, 90 * DAY)
    approved.write()
    assert stored(cluster) == after


def test_an_approval_that_expires_while_the_lock_is_taken_writes_nothing(
    run: TopicRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age is looked at immediately before the write."""
    run.request(topic="orders", action="delete")
    run.ask()
    run.answer("delete")
    real = ZooKeeperLock.acquire

    def slowly(*arguments: Any) -> Any:
        grow_old(run, 90 * DAY)
        return real(*arguments)

    monkeypatch.setattr(ZooKeeperLock, "acquire", slowly)
    monkeypatch.setattr(clock, "utc_now", lambda: datetime.now(UTC) + 90 * DAY)
    with pytest.raises(AirflowFailException, match="has expired"):
        run.write()
    assert MARKER not in cluster.fake.znodes
    assert "/kafka_rebalance/run" not in cluster.fake.znodes


def test_a_change_that_was_approved_in_an_earlier_attempt_is_not_written(
    approved: TopicRun, cluster: SimulatedCluster
) -> None:
    before = cluster.tree()
    run_folder.create_run_folder(airflow_deployment(), CONNECTION, approved.dag_run)
    with pytest.raises(AirflowFailException, match="attempt 2 has begun since"):
        approved.write()
    assert cluster.tree() == before


@pytest.mark.parametrize("step", ["forecast", "approve", "write", "verify"])
def test_no_task_of_another_run_works_with_this_ones_change(
    run: TopicRun, cluster: SimulatedCluster, step: str
) -> None:
    run.request(topic="orders", action="delete")
    if step in ("write", "verify"):
        run.ask()
        run.answer("delete")
    before = cluster.tree()
    run.dag_run.run_id = "two"
    work: dict[str, Callable[[], Any]] = {
        "forecast": lambda: run_step(keys.forecast, run.dag_run, str(run.folder)),
        "approve": run.ask,
        "write": run.write,
        "verify": run.verify,
    }
    with pytest.raises(
        AirflowFailException, match=r"belongs to run kafka_topics/run-\d+, but this is run kafka_topics/two"
    ):
        work[step]()
    assert cluster.tree() == before


def test_brokers_of_another_cluster_than_zookeepers_get_no_change(
    approved: TopicRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody edits the connection's bootstrap_servers while the request waits."""
    before = cluster.tree()
    monkeypatch.setattr("kafka_rebalance.admin.cluster_view.read_cluster_id", lambda _: "another-cluster-000002")
    with pytest.raises((ConnectionSettingsError, AirflowFailException), match="names two clusters"):
        approved.write()
    assert cluster.tree() == before


def test_another_connections_policy_that_changes_after_the_request_stops_the_write(
    run: TopicRun, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    """Both lead to the same cluster, so the limits of each count, as they were when people were asked."""
    leads_here_too("kafka_other", cluster)
    other = tmp_path / "policies" / "kafka_other.yaml"
    other.write_text("approvers: [ole]\npartitions_per_topic: 100\n")
    run.request(topic="orders", **CHANGES["expand"])
    run.ask()
    run.answer("alter")
    before = stored(cluster)
    other.write_text("approvers: [ole]\npartitions_per_topic: 4\n")
    with pytest.raises(AirflowFailException, match=r"Another connection leads to the cluster of .* has changed since"):
        run.write()
    assert stored(cluster) == before
    other.write_text("approvers: [ole]\npartitions_per_topic: 100\n")
    run.write()
    assert stored(cluster) != before
