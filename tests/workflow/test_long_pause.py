"""A run that waits between two batches for more than an hour, under its throttle, alerts. The cluster is simulated."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from in_process_run import POLICY
from janitor_run import Airflow, tend
from kafka_rebalance.errors import UnwatchedError
from kafka_rebalance.workflow.reassignment.progress_notes import write_waiting
from simulated_cluster import FEWER_TOPICS, SimulatedCluster, approved_run


@pytest.mark.parametrize("clock_ahead", [-86_400.0, 0.0, 86_400.0])
def test_a_pause_of_more_than_an_hour_alerts_and_a_shorter_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock_ahead: float
) -> None:
    run = approved_run(tmp_path, SimulatedCluster(monkeypatch, FEWER_TOPICS), monkeypatch)
    Airflow.answering(monkeypatch)
    monkeypatch.setattr(
        "kafka_rebalance.workflow.throttle.leases.now",
        lambda: time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + clock_ahead)),
    )
    run.hold()
    began = time.time() + clock_ahead + 5
    for seconds in (0, 1800, 3500):
        write_waiting(run.folder, began + seconds, ["Broker 3 is not registered."])
        assert tend()["alerts"] == []
    write_waiting(run.folder, began + 3700, ["Broker 3 is not registered."])
    with pytest.raises(UnwatchedError, match=r"has waited for 1\.0 h: Broker 3 is not registered"):
        tend()


def test_the_policy_says_how_long_a_pause_may_last_before_it_alerts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = approved_run(tmp_path, SimulatedCluster(monkeypatch, FEWER_TOPICS), monkeypatch)
    Airflow.answering(monkeypatch)
    run.hold()
    began = time.time() + 5
    for seconds in (0, 200):
        write_waiting(run.folder, began + seconds, ["Broker 3 is not registered."])
    assert tend()["alerts"] == []
    run.policy_file.write_text(f"{POLICY}long_pause_seconds: 180\n")
    with pytest.raises(UnwatchedError, match=r"Broker 3 is not registered"):
        tend()
