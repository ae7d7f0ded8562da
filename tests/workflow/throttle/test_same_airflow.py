"""A run's lock and throttle are this Airflow's whatever its address is: `base_url` is a setting, and gets changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.lock_owner import is_same_airflow
from kafka_rebalance.run import run_lock
from kafka_rebalance.run.run_folder import installation
from kafka_rebalance.run.stop_and_cancel_requests import read_control
from kafka_rebalance.throttle import hold_throttle, lease_files
from kafka_rebalance.throttle.janitor import look_after_cluster
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.cancel_run import CancelRun, begin, cancellable_cluster
from support.runs.janitor_run import Airflow, tend
from support.runs.rebalance_run import CONNECTION
from support.runs.simulated_cluster import SimulatedCluster, SimulatedRun, batched_run

LOCK = "/kafka_rebalance/run"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a (9f3a1c2e)", "https://b (9f3a1c2e)", True),
        ("airflow (9f3a1c2e)", "https://b (9f3a1c2e)", True),
        ("https://a (9f3a1c2e)", "https://a (00000000)", False),
        ("https://a", "https://a", True),  # of a version without marks
        ("https://a", "https://a (9f3a1c2e)", False),
        ("", "", True),
    ],
)
def test_the_mark_alone_tells_one_airflow_from_another(one: str, other: str, same: bool) -> None:
    assert is_same_airflow(one, other) is is_same_airflow(other, one) is same


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    return cancellable_cluster(monkeypatch, "2.8")


@pytest.fixture
def run(tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    """A batch of it is under way when somebody gives Airflow another address."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://old.example.org")
    made = batched_run(tmp_path, cluster, monkeypatch)
    begin(made, cluster)
    assert cluster.fake.json(LOCK)["owner"].startswith("https://old.example.org (")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://new.example.org")
    return made


def test_a_run_goes_on_to_its_end_under_a_changed_address(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    run.hold()
    run.reassign()
    assert run.finish()["passed"] is True
    assert cluster.leftovers() == []


def test_a_run_is_found_and_stopped_under_a_changed_address(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = CancelRun(monkeypatch)
    asked.request("stop_after_batch")
    asked.stop()
    assert read_control(run.folder).stop_after_batch is not None
    asked.request("set_throttle", throttle_bytes_per_second=1_000_000)
    asked.set_throttle()
    assert lease_files.rate_in_force(run.folder) == 1_000_000


@pytest.mark.parametrize("name", [lambda holder: None, lambda holder: holder.replace("old", "new")])
def test_the_janitor_puts_back_what_a_run_left_under_an_earlier_address(
    run: SimulatedRun,
    cluster: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
    name: Callable[[str], str | None],
) -> None:
    airflow = Airflow.answering(monkeypatch)
    airflow.states["one"] = "failed"
    while cluster.step():
        pass
    held = cluster.fake.json(LOCK)
    break_lock = name(f"{held['run']} of {held['owner']}")
    tend(**({} if break_lock is None else {"by": "uma", "kafka_conn_id": "kafka_in_process", "break_lock": break_lock}))
    assert cluster.leftovers() == []


def test_another_airflow_at_the_same_address_is_another_one(
    run: SimulatedRun, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_files.write_json(airflow_deployment().runs_root, json_files.INSTALLATION, {"installation": "00000000"})
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://old.example.org")
    with pytest.raises(AirflowFailException, match="Cancel it from the Airflow that runs it"):
        CancelRun(monkeypatch).request("stop_after_batch")


@pytest.mark.parametrize("mark", [None, "", 7])
def test_a_file_without_a_mark_is_no_installation(run: SimulatedRun, mark: object) -> None:
    json_files.write_json(airflow_deployment().runs_root, json_files.INSTALLATION, {"installation": mark})
    with pytest.raises(ArtifactError, match="which locks it holds"):
        installation(airflow_deployment())


# --- a lock without a lease, on a cluster that no list names ---


def test_a_lock_without_a_lease_is_found_on_a_cluster_that_no_list_names(
    tmp_path: Path, cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker dies after it has taken the lock, before it writes the lease."""
    airflow = Airflow.answering(monkeypatch)
    made = batched_run(tmp_path, cluster, monkeypatch)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hold_throttle, "_set", dies)
    monkeypatch.setattr(hold_throttle, "_undo", dies)
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == []
    with pytest.raises(KeyboardInterrupt):
        made.hold()
    assert lease_files.stored(airflow_deployment()) == ()
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == [CONNECTION]
    assert any("the cluster is held by kafka_rebalance/one" in line for line in tend()["lines"])
    airflow.states["one"] = "failed"
    tend()
    assert LOCK not in cluster.fake.znodes
    monkeypatch.setattr(run_lock, "KEPT_SECONDS", 0.0)
    tend()
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == []


def test_a_run_that_gave_its_lock_back_leaves_no_note(run: SimulatedRun, cluster: SimulatedCluster) -> None:
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == [CONNECTION]
    run.reassign()
    run.finish()
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == []
    assert list(Path(str(airflow_deployment().runs_root), json_files.LOCKS).iterdir()) == []


@pytest.mark.parametrize("content", ["{", "[]", '{"format_version": 1}', '{"format_version": 2}'])
def test_a_damaged_note_hides_no_other_and_is_named(
    run: SimulatedRun, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (Path(str(airflow_deployment().runs_root)) / json_files.LOCKS / "a.json").write_text(content)
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == [CONNECTION]
    assert "a.json" in caplog.text


def test_a_note_without_a_time_keeps_no_other_from_being_forgotten(run: SimulatedRun) -> None:
    folder = Path(str(airflow_deployment().runs_root)) / json_files.LOCKS
    (folder / "a.json").write_text(f'{{"format_version": 1, "connection_id": "{CONNECTION}", "noted_at": "soon"}}')
    (folder / "b.json").write_text(
        f'{{"format_version": 1, "connection_id": "{CONNECTION}", "noted_at": "2001-01-01T00:00:00+00:00"}}'
    )
    run_lock.forget_old_locks(airflow_deployment(), CONNECTION)
    assert (folder / "a.json").exists()
    assert not (folder / "b.json").exists()


def test_a_note_that_storage_does_not_give_hides_no_other_and_is_named(
    run: SimulatedRun, caplog: pytest.LogCaptureFixture
) -> None:
    (Path(str(airflow_deployment().runs_root)) / json_files.LOCKS / "a.json").mkdir()
    assert look_after_cluster.clusters(airflow_deployment(), None, None) == [CONNECTION]
    assert "a.json" in caplog.text
