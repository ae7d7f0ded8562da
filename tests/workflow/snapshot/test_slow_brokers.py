"""A broker that earlier runs have shown to be slow receives nothing, if the policy says so."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run import ledger
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from support.runs.rebalance_run import CONNECTION, POLICY
from support.runs.simulated_cluster import TOPICS, SimulatedCluster, SimulatedRun


def slow_in_two_runs(*brokers: int) -> None:
    for number in range(2):
        at = clock.utc_now() - timedelta(days=number + 1)
        row: dict[str, Any] = {"run_id": "x", "candidate": "balanced", "verified": True, "slow_brokers": list(brokers)}
        row["judged_brokers"] = [1, 2, 3, 4]
        ledger.append(airflow_deployment(), "outcomes", CONNECTION, f"run-{number}", at, [row])


def received(run: SimulatedRun) -> set[int]:
    return {broker for move in read_candidate(run.folder, "balanced").moves for broker in move.added}


@pytest.mark.parametrize(("policy", "receives"), [("", True), ("slow_brokers: name\n", True)])
def test_it_receives_where_the_policy_only_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, receives: bool
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    slow_in_two_runs(4)
    run.policy_file.write_text(f"{POLICY}{policy}")
    run.plan(candidates=["balanced"])
    assert (4 in received(run)) is receives
    assert SNAPSHOT_FILE.read(run.folder).slow_brokers == ()


def test_it_receives_nothing_where_the_policy_says_so_and_the_page_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    slow_in_two_runs(4)
    run.policy_file.write_text(f"{POLICY}slow_brokers: receive_nothing\n")
    run.plan(candidates=["balanced"])
    assert 4 not in received(run)
    taken = SNAPSHOT_FILE.read(run.folder)
    assert [slow.broker for slow in taken.slow_brokers] == [4]
    assert taken.settings["brokers_in"] == [1, 2, 3]
    words = "broker 4 copied slowly in 2 of the last 2 runs that judged it: it receives nothing"
    assert words in (run.folder / json_files.REPORT).read_text()


@pytest.mark.parametrize("asked", [{"brokers_in": [4]}, {"job": "leaders"}])
def test_who_asks_for_receivers_or_for_leaders_alone_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    slow_in_two_runs(4)
    run.policy_file.write_text(f"{POLICY}slow_brokers: receive_nothing\n")
    run.plan(candidates=["leaders_only" if "job" in asked else "balanced"], **asked)
    assert SNAPSHOT_FILE.read(run.folder).slow_brokers == ()


def test_a_slow_broker_without_which_its_rack_has_no_receiver_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun(tmp_path, SimulatedCluster(monkeypatch, TOPICS), monkeypatch)
    slow_in_two_runs(2, 4)
    run.policy_file.write_text(f"{POLICY}slow_brokers: receive_nothing\n")
    run.plan(candidates=["balanced"])
    assert [slow.broker for slow in SNAPSHOT_FILE.read(run.folder).slow_brokers] == [4]
