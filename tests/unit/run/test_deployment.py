"""What steps ask of where they run, answered without Airflow."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_rebalance.documents.json_files import JsonFile
from kafka_rebalance.errors import FrozenError, ReadError, RunFolderError, SettingsError
from kafka_rebalance.model.lock_owner import AirflowState
from kafka_rebalance.run.inputs import Deployment, StartedRun
from kafka_rebalance.run.run_folder import create_run_folder, installation, open_own_folder, open_run_folder
from kafka_rebalance.run.run_lock import lock_owner, read_standing, this_airflow
from kafka_rebalance.throttle.hold_throttle import warn_without_janitor
from support.runs.plain_deployment import ToldRuns, plain_deployment

RUN = StartedRun("kafka_rebalance", "one", "ann")


@pytest.fixture
def here(tmp_path: Path) -> Deployment:
    made = plain_deployment(tmp_path)
    (made.policies_folder / "small.yaml").write_text("approvers: [uma]\n")
    return made


def test_a_run_has_its_folder_below_the_root_and_no_other(here: Deployment) -> None:
    folder, nonce = create_run_folder(here, "small", RUN)
    assert folder == here.runs_root / "small" / "one" / "1"
    assert open_own_folder(here, str(folder), RUN, nonce) == folder
    with pytest.raises(RunFolderError, match="is not below runs_url"):
        open_run_folder(here, str(here.policies_folder))
    with pytest.raises(RunFolderError):
        open_own_folder(here, str(folder), StartedRun("kafka_rebalance", "another"), nonce)


def test_two_first_runs_at_once_go_on_with_one_mark_of_this_airflow(
    here: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find no mark. What the slower one writes is not read by anybody."""
    monkeypatch.setattr(JsonFile, "read_if_there", lambda file, folder: None)
    assert installation(here) == installation(here)


def test_a_policy_is_a_file_of_the_folder_that_is_configured(here: Deployment) -> None:
    assert here.read_policy("small") is not None
    assert here.read_policy("large") is None


@pytest.mark.parametrize("text", ["true", '["small"]'])
def test_the_switch_is_asked(here: Deployment, text: str) -> None:
    here.check_not_frozen("small")
    with pytest.raises(FrozenError, match="this task does not go on"):
        replace(here, frozen_text=lambda: text).check_not_frozen("small")


def test_a_cluster_with_a_policy_or_a_connection_can_be_frozen_beside_others(here: Deployment) -> None:
    replace(here, frozen_text=lambda: '["small"]').check_not_frozen("large")
    frozen = replace(here, frozen_text=lambda: '["small", "medium"]')
    with pytest.raises(SettingsError, match="names 'medium'"):
        frozen.check_not_frozen("large")
    replace(frozen, has_connection=lambda name: name == "medium").check_not_frozen("large")


def test_who_holds_a_lock_is_named_by_address_and_mark(here: Deployment) -> None:
    owner = lock_owner(here, "digest", RUN)
    assert owner.run == "kafka_rebalance/one"
    assert owner.owner == this_airflow(here)
    assert owner.owner.startswith("https://airflow.example (")


def test_nothing_is_asked_of_a_run_of_somewhere_else(here: Deployment) -> None:
    here = replace(here, other_runs=ToldRuns({("kafka_rebalance", "one"): AirflowState.RUNNING}))
    assert read_standing(here, "kafka_rebalance/one", this_airflow(here)) is AirflowState.RUNNING
    assert read_standing(here, "kafka_rebalance/one", "https://airflow.example (00000000)") is AirflowState.UNKNOWN
    assert read_standing(here, "kafka_rebalance", this_airflow(here)) is AirflowState.UNKNOWN


@pytest.mark.parametrize(
    ("paused", "words"),
    [
        (False, None),
        (True, "kafka_throttle_janitor is paused. If this run ends"),
        (None, "kafka_throttle_janitor is missing. If this run ends"),
        (ReadError("the socket is gone"), "Whether kafka_throttle_janitor is paused is not known: the socket is gone"),
    ],
)
def test_a_janitor_that_does_not_come_is_told(
    here: Deployment, caplog: pytest.LogCaptureFixture, paused: bool | ReadError | None, words: str | None
) -> None:
    with caplog.at_level(logging.INFO):
        warn_without_janitor(replace(here, other_runs=ToldRuns(paused=paused)))
    assert (words in caplog.text) if words else (caplog.text == "")
