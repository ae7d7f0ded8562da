"""Which window a run takes: the one that its requester names, else those of the policy. The cluster is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.documents import json_files
from support.runs.simulated_cluster import FEWER_TOPICS, SimulatedCluster, SimulatedRun

NIGHTS = "Mon-Fri 22:00-06:00 Europe/Berlin"
AT = "2026-11-21T22:00:00+01:00"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedRun:
    made = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, FEWER_TOPICS), monkeypatch)
    made.policy_file.write_text(f"{made.policy_file.read_text()}windows: ['Mon–Fri 22:00–06:00 Europe/Berlin']\n")
    return made


@pytest.mark.parametrize(
    ("params", "window"),
    [
        ({}, {"not_before": None, "finish_by": None, "recurring": [NIGHTS]}),
        ({"outside_windows": False}, {"not_before": None, "finish_by": None, "recurring": [NIGHTS]}),
        ({"not_before": AT}, {"not_before": AT, "finish_by": None}),
        ({"finish_by": AT}, {"not_before": None, "finish_by": AT}),
        ({"outside_windows": True}, {"not_before": None, "finish_by": None}),
    ],
)
def test_a_run_takes_the_policys_windows_unless_it_asks_for_another_time(
    run: SimulatedRun, params: dict[str, Any], window: dict[str, Any]
) -> None:
    run.plan(job="drain", drain=[2], topics_out=["idle"], **params)
    assert json_files.read_json(run.folder, json_files.SNAPSHOT)["window"] == window


def test_a_run_under_a_policy_without_windows_has_none(run: SimulatedRun) -> None:
    run.policy_file.write_text("approvers: [uma]\n")
    run.plan()
    assert json_files.read_json(run.folder, json_files.SNAPSHOT)["window"] == {"not_before": None, "finish_by": None}


def test_a_policy_with_a_window_that_nobody_can_read_fails_the_snapshot_and_names_the_key(run: SimulatedRun) -> None:
    run.policy_file.write_text("approvers: [uma]\nwindows: [Mon-Fri 22:00-06:00]\n")
    with pytest.raises(
        AirflowFailException, match=r"windows has 'Mon-Fri 22:00-06:00', which is not days, .* as in 'Mon-"
    ):
        run.plan()
