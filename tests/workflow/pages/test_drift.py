"""The cluster as it is now against the plan that waits: what is read of it, and how often."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.models.connection import Connection
from airflow.utils.session import create_session

from kafka_rebalance.documents.json_files import DECISION, PROPOSALS
from kafka_rebalance.errors import ConnectionSettingsError
from kafka_rebalance.pages.page import CandidateDrift, DriftReport
from kafka_rebalance.rebalance import drift
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun, batched_run
from support.zookeeper.fake_zookeeper import REASSIGN

# --- read from ZooKeeper, by the rules of the last check before a write


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SimulatedCluster, SimulatedRun]]:
    """Made once; each test gets cluster and answer as they were."""
    with pytest.MonkeyPatch.context() as patched:
        cluster = SimulatedCluster(patched, TOPICS)
        yield cluster, batched_run(tmp_path_factory.mktemp("drift"), cluster, patched)


@pytest.fixture
def cluster(planned: tuple[SimulatedCluster, SimulatedRun]) -> Iterator[SimulatedCluster]:
    fake = planned[0].fake
    before = copy.deepcopy(fake.znodes)
    yield planned[0]
    fake.znodes.clear()
    fake.znodes.update(before)


@pytest.fixture
def run(planned: tuple[SimulatedCluster, SimulatedRun], cluster: SimulatedCluster) -> Iterator[SimulatedRun]:
    made = planned[1]
    decision = (made.folder / DECISION).read_bytes()
    yield made
    (made.folder / DECISION).write_bytes(decision)


def set_lists(cluster: SimulatedCluster, topic: str, lists: dict[str, list[int]]) -> None:
    path = f"/brokers/topics/{topic}"
    content = cluster.fake.json(path)
    cluster.fake.set(path, json.dumps({**content, "partitions": {**content["partitions"], **lists}}).encode())


def only(found: DriftReport) -> CandidateDrift:
    (one,) = found.candidates
    return one


def test_a_cluster_that_stayed_as_it_was_is_said_unchanged(run: SimulatedRun) -> None:
    found = drift.read_drift(airflow_deployment(), run.folder)
    assert (only(found).unchanged, only(found).harmless, only(found).conflicting) == (4, 0, 0)
    assert found.in_the_way == ()
    assert found.states_read


def test_lists_that_others_have_changed_are_conflicts_with_their_names(
    run: SimulatedRun, cluster: SimulatedCluster
) -> None:
    set_lists(cluster, "orders", {"1": [3, 1]})
    one = only(drift.read_drift(airflow_deployment(), run.folder))
    assert one.conflicting == 1
    assert one.conflicts == ("orders-1: replicas are now [3, 1], the approved proposal starts from [3, 2]",)


def test_in_sync_replicas_that_changed_do_no_harm_and_are_told(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    path = "/brokers/topics/orders/partitions/0/state"
    cluster.fake.set(path, json.dumps({**cluster.fake.json(path), "isr": [1]}).encode())
    one = only(drift.read_drift(airflow_deployment(), run.folder))
    assert (one.harmless, one.conflicting) == (1, 0)
    assert one.changes == ("orders-0: replicas [1] are in sync, [1, 2] were",)


def test_of_very_many_partitions_only_the_lists_are_read(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "STATES_READ", 1)
    cluster.fake.delete("/brokers/topics/orders/partitions/0/state")
    found = drift.read_drift(airflow_deployment(), run.folder)
    assert not found.states_read
    assert only(found).unchanged == 4


def test_what_would_stop_the_first_write_is_named(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    moved = {"version": 1, "partitions": [{"topic": "idle", "partition": 0, "replicas": [1, 4]}]}
    cluster.fake.create(REASSIGN, json.dumps(moved).encode())
    assert any(
        "a reassignment is under way" in finding
        for finding in drift.read_drift(airflow_deployment(), run.folder).in_the_way
    )


def test_before_an_answer_every_candidate_that_is_offered_is_compared(run: SimulatedRun) -> None:
    (run.folder / DECISION).unlink()
    plan = json.loads((run.folder / PROPOSALS).read_text())
    names = [one.name for one in drift.read_drift(airflow_deployment(), run.folder).candidates]
    assert names[0] == plan["recommended"]
    assert set(names) == {one["name"] for one in plan["candidates"] if one["status"] in ("ok", "partial")}


def test_of_very_many_moves_only_the_recommended_candidate_is_compared(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.folder / DECISION).unlink()
    monkeypatch.setattr(drift, "MOVES_COMPARED", 1)
    found = drift.read_drift(airflow_deployment(), run.folder)
    assert only(found).name == json.loads((run.folder / PROPOSALS).read_text())["recommended"]
    assert found.aside


def test_reading_for_the_page_changes_nothing_in_zookeeper(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    before = cluster.tree()
    drift.read_drift(airflow_deployment(), run.folder)
    assert cluster.tree() == before


def test_the_api_server_takes_the_connection_from_airflows_own_database(
    run: SimulatedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks ask the API server for it. In the API server Airflow says by an environment variable that it is one."""
    found = importlib.util.find_spec("airflow.api_fastapi.main")
    assert found is not None
    assert found.origin is not None
    assert '["_AIRFLOW_PROCESS_CONTEXT"] = "server"' in Path(found.origin).read_text()
    environment = f"AIRFLOW_CONN_{CONNECTION.upper()}"
    given = json.loads(os.environ[environment])
    monkeypatch.delenv(environment)
    with pytest.raises(ConnectionSettingsError):
        drift.read_drift(airflow_deployment(), run.folder)
    with create_session() as session:
        session.add(Connection(CONNECTION, given["conn_type"], host=given["host"], extra=json.dumps(given["extra"])))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    try:
        assert only(drift.read_drift(airflow_deployment(), run.folder)).unchanged == 4
    finally:
        with create_session() as session:
            session.query(Connection).filter_by(conn_id=CONNECTION).delete()


# --- what a page is told


def test_of_an_unexpected_error_only_its_kind_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def fail(*_: object) -> str:
        raise ValueError("sasl password is hunter2")

    monkeypatch.setattr(drift, "read_drift", fail)
    said = drift.drift_now(airflow_deployment(), tmp_path, 10)
    assert said == "The cluster could not be read (ValueError)."
    assert "hunter2" not in caplog.text


def test_clusters_that_hang_do_not_take_every_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(drift, "read_drift", lambda *_: go_on.wait(10))
    for number in range(drift.AT_ONCE):
        assert drift.drift_now(airflow_deployment(), tmp_path / str(number), 0) is None
    said = drift.drift_now(airflow_deployment(), tmp_path / "one more", 0)
    go_on.set()
    assert said == "The page is reading other clusters, which do not answer. Reload it later."
