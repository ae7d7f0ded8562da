"""What steps ask of where they run, answered without Airflow."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_rebalance.errors import FrozenError, ReadError, RunFolderError
from kafka_rebalance.execution.janitor.lease_custody import AirflowState
from kafka_rebalance.steps import deployment
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import StartedRun
from kafka_rebalance.workflow.run.folder import create_run_folder, open_own_folder, open_run_folder
from kafka_rebalance.workflow.run.freeze import check_not_frozen
from kafka_rebalance.workflow.run.lock import lock_owner, this_airflow
from kafka_rebalance.workflow.run.policies import read_policy
from kafka_rebalance.workflow.throttle.standing import read_standing, warn_without_janitor

RUN = StartedRun("kafka_rebalance", "one", "ann")


class Runs:
    """Every run is active; `paused` is what is told of every Dag."""

    def __init__(self, paused: bool | ReadError | None = False) -> None:
        self.paused = paused

    def state(self, dag_id: str, run_id: str) -> AirflowState:
        return AirflowState.RUNNING

    def is_active(self, dag_id: str, run_id: str) -> bool:
        return True

    def is_skipped(self, dag_id: str, run_id: str, task_id: str) -> bool:
        return False

    def is_paused(self, dag_id: str) -> bool | None:
        if isinstance(self.paused, ReadError):
            raise self.paused
        return self.paused


@pytest.fixture
def here(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """`here.is_now` is where the steps of this process run; the test may put another in its place."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "small.yaml").write_text("approvers: [uma]\n")
    made = Deployment(
        runs_root=tmp_path / "runs",
        open_folder=Path,
        address="https://airflow.example",
        policies_folder=policies,
        plans_folder=tmp_path / "plans",
        read_connection=lambda connection_id: pytest.fail("nobody asks for a connection"),
        frozen_text=lambda: None,
        other_runs=Runs(),
    )
    held = SimpleNamespace(is_now=made)
    before = deployment._Given.find
    deployment.provide(lambda: held.is_now)
    yield held
    deployment._Given.find = before


def test_a_run_has_its_folder_below_the_root_and_no_other(here: SimpleNamespace) -> None:
    folder, nonce = create_run_folder("small", RUN)
    assert folder == here.is_now.runs_root / "small" / "one" / "1"
    assert open_own_folder(str(folder), RUN, nonce) == folder
    with pytest.raises(RunFolderError, match="is not below runs_url"):
        open_run_folder(str(here.is_now.policies_folder))
    with pytest.raises(RunFolderError):
        open_own_folder(str(folder), StartedRun("kafka_rebalance", "another"), nonce)


def test_a_policy_is_a_file_of_the_folder_that_is_configured(here: SimpleNamespace) -> None:
    assert read_policy("small") is not None
    assert read_policy("large") is None


@pytest.mark.parametrize("text", ["true", '["small"]'])
def test_the_switch_is_asked_each_time(here: SimpleNamespace, text: str) -> None:
    check_not_frozen("small")
    here.is_now = replace(here.is_now, frozen_text=lambda: text)
    with pytest.raises(FrozenError, match="nothing was written"):
        check_not_frozen("small")
    here.is_now = replace(here.is_now, frozen_text=lambda: None)
    check_not_frozen("small")


def test_who_holds_a_lock_is_named_by_address_and_mark(here: SimpleNamespace) -> None:
    owner = lock_owner("digest", RUN)
    assert owner.run == "kafka_rebalance/one"
    assert owner.owner == this_airflow()
    assert owner.owner.startswith("https://airflow.example (")


def test_nothing_is_asked_of_a_run_of_somewhere_else(here: SimpleNamespace) -> None:
    assert read_standing("kafka_rebalance/one", this_airflow()) is AirflowState.RUNNING
    assert read_standing("kafka_rebalance/one", "https://airflow.example (00000000)") is AirflowState.UNKNOWN
    assert read_standing("kafka_rebalance", this_airflow()) is AirflowState.UNKNOWN


@pytest.mark.parametrize(
    ("paused", "words"),
    [
        (False, None),
        (True, "kafka_throttle_janitor is paused: if this run goes away"),
        (None, "kafka_throttle_janitor is missing: if this run goes away"),
        (ReadError("the socket is gone"), "Whether kafka_throttle_janitor is paused is not known: the socket is gone"),
    ],
)
def test_a_janitor_that_does_not_come_is_told(
    here: SimpleNamespace, caplog: pytest.LogCaptureFixture, paused: bool | ReadError | None, words: str | None
) -> None:
    here.is_now = replace(here.is_now, other_runs=Runs(paused))
    with caplog.at_level(logging.INFO):
        warn_without_janitor()
    assert (words in caplog.text) if words else (caplog.text == "")


def test_a_process_in_which_nobody_says_where_it_runs_is_a_mistake_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment._Given, "find", None)
    with pytest.raises(RuntimeError, match="Nobody has said where this runs"):
        deployment.current()
