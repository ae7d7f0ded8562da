"""What `kafka_ledger` removes by age, and what stays because it is open."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import PolicyError, RunFolderError
from kafka_rebalance.model.lock_owner import AirflowState, LockOwner
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.nightly.remove_old import remove_old
from kafka_rebalance.run import ledger
from kafka_rebalance.run.inputs import Deployment, StartedRun, StepInputs
from kafka_rebalance.run.run_folder import create_run_folder
from kafka_rebalance.run.run_lock import note_lock
from support.runs.plain_deployment import ToldRuns, plain_deployment

CLUSTER, DAG = "kafka_eu", "kafka_rebalance"
ROW = {"topic": "orders", "partition": 0, "size_bytes": 5, "end_offset": None}

MakeRun = Callable[..., Path]


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    made = plain_deployment(tmp_path)
    (tmp_path / "policies" / f"{CLUSTER}.yaml").write_text("approvers: [uma]\nkeep_runs_days: 30\n")
    return made


@pytest.fixture
def make_run(deployment: Deployment) -> MakeRun:
    def make(run_id: str, *, days: float, connection_id: str = CLUSTER) -> Path:
        """The folder of a run that wrote its last file so many days ago."""
        folder, _ = create_run_folder(deployment, connection_id, StartedRun(DAG, run_id))
        json_files.write_json(folder, "report.json", {})
        at = (datetime.now(UTC) - timedelta(days=days)).timestamp()
        for file in Path(str(folder)).iterdir():
            os.utime(file, (at, at))
        return Path(str(folder)).parent

    return make


def clean(deployment: Deployment) -> list[str]:
    def tell(key: str, value: object) -> None:
        raise AssertionError(f"nothing is told, but {key} was")

    removed = remove_old(StepInputs(StartedRun("kafka_ledger", "tonight"), deployment, tell))
    return [Path(folder).name for folders in removed.values() for folder in folders]


def test_runs_older_than_the_policy_keeps_are_removed_and_no_others(deployment: Deployment, make_run: MakeRun) -> None:
    old, young = make_run("old", days=31), make_run("young", days=29)
    elsewhere = make_run("of a read-only cluster", days=3000, connection_id="kafka_us")
    assert clean(deployment) == ["old"]
    assert [old.exists(), young.exists(), elsewhere.exists()] == [False, True, True]


def test_a_policy_that_says_nothing_keeps_everything(deployment: Deployment, make_run: MakeRun) -> None:
    (deployment.policies_folder / f"{CLUSTER}.yaml").write_text("approvers: [uma]\n")
    make_run("old", days=3000)
    assert clean(deployment) == []


@pytest.mark.parametrize("state", [AirflowState.RUNNING, AirflowState.PAUSED])
def test_a_run_that_airflow_still_has_stays(deployment: Deployment, make_run: MakeRun, state: AirflowState) -> None:
    make_run("waits for its approval", days=31)
    make_run("over", days=31)
    runs = deployment.other_runs
    assert isinstance(runs, ToldRuns)
    runs.states[DAG, "waits for its approval"] = state
    runs.states[DAG, "over"] = AirflowState.OVER
    assert clean(deployment) == ["over"]


def test_nothing_of_a_cluster_is_removed_while_a_run_may_hold_its_lock(
    deployment: Deployment, make_run: MakeRun
) -> None:
    make_run("old", days=31)
    note_lock(deployment, CLUSTER, LockOwner(f"{DAG}/another", "0" * 64, "airflow"))
    assert clean(deployment) == []


def test_nothing_is_removed_while_a_lease_cannot_be_read(deployment: Deployment, make_run: MakeRun) -> None:
    make_run("old", days=31)
    leases = Path(str(deployment.runs_root)) / json_files.LEASES
    leases.mkdir()
    (leases / "cluster.json").write_text("{ damaged")
    assert clean(deployment) == []


def test_a_run_whose_owner_is_unknown_stays_and_is_named(deployment: Deployment, make_run: MakeRun) -> None:
    damaged, old = make_run("damaged", days=31), make_run("old", days=31)
    (damaged / "1" / json_files.NONCE).write_text("{ damaged")
    at = (datetime.now(UTC) - timedelta(days=31)).timestamp()
    os.utime(damaged / "1" / json_files.NONCE, (at, at))
    with pytest.raises(RunFolderError, match="damaged"):
        clean(deployment)
    assert damaged.exists()
    assert not old.exists()


def test_if_airflow_does_not_answer_no_run_is_removed(
    deployment: Deployment, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_run("old", days=31)

    def away(*_: object) -> bool:
        raise ConnectionError("the API server is away")

    monkeypatch.setattr(ToldRuns, "is_active", away)
    with pytest.raises(RunFolderError, match="the API server is away"):
        clean(deployment)
    assert old.exists()


def test_days_of_the_ledger_are_removed_by_their_date(deployment: Deployment) -> None:
    (deployment.policies_folder / f"{CLUSTER}.yaml").write_text("approvers: [uma]\nkeep_ledger_days: 100\n")
    now = datetime.now(UTC)
    for days in (0, 99, 102):
        ledger.append(deployment, "metrics", CLUSTER, "run", now - timedelta(days=days), [ROW])
        ledger.append(deployment, "metrics", "kafka_us", "run", now - timedelta(days=days), [ROW])
    assert clean(deployment) == [f"day={now - timedelta(days=102):%Y-%m-%d}"]
    assert len(ledger.read(deployment, "metrics", CLUSTER, 1000).rows) == 2
    assert len(ledger.read(deployment, "metrics", "kafka_us", 1000).rows) == 3


def test_one_unusable_policy_does_not_keep_the_files_of_other_clusters(
    deployment: Deployment, make_run: MakeRun
) -> None:
    (deployment.policies_folder / "kafka_aa.yaml").write_text("keep_runs_days: soon\n")
    old = make_run("old", days=31)
    with pytest.raises(RunFolderError, match=r"kafka_aa\.yaml"):
        clean(deployment)
    assert not old.exists()


def test_a_ledger_is_kept_for_as_long_as_runs_look_back() -> None:
    with pytest.raises(PolicyError, match="keep_ledger_days"):
        Policy.from_mapping({"approvers": ["uma"], "keep_ledger_days": 89}, "policy")


def test_what_a_policy_leaves_open_does_not_change_its_digest() -> None:
    """Requests that were sent before an upgrade still count after it."""
    left_open = Policy.from_mapping({"approvers": ["uma"]}, "policy")
    assert "keep_runs_days" not in left_open.to_mapping()
    kept = Policy.from_mapping({"approvers": ["uma"], "keep_runs_days": 30}, "policy")
    assert left_open.digest != kept.digest
