"""`kafka_rebalance_cancel` while a run between log dirs holds the cluster, which is simulated."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_rebalance.cancel.set_throttle import raise_throttle
from kafka_rebalance.workflow.run_step import run_step
from support.runs.cancel_run import CancelRun
from support.runs.log_dir_run import CONNECTION, LogDirRun
from support.runs.simulated_cluster import SimulatedCluster
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs, log_dir_rates, to_the_end

RATE = 2_000_000


@pytest.fixture
def copying(run: LogDirRun, dirs: SimulatedLogDirs) -> LogDirRun:
    run.plan(**DRAIN, copies_per_broker=2, throttle_bytes_per_second=RATE)
    run.answer()
    run.hold()
    run.move()
    assert dirs.future
    return run


@pytest.fixture
def canceller(copying: LogDirRun, monkeypatch: pytest.MonkeyPatch) -> CancelRun:
    return CancelRun(monkeypatch, of=CONNECTION)


def test_another_rate_is_in_force_when_the_task_has_ended_and_the_run_goes_on_under_it(
    copying: LogDirRun, canceller: CancelRun, cluster: SimulatedCluster, dirs: SimulatedLogDirs
) -> None:
    asked = canceller.request("set_throttle", throttle_bytes_per_second=RATE - 1)
    assert (asked["next"], asked["run"]) == ("set_throttle", f"kafka_log_dirs/{copying.dag_run.run_id}")
    canceller.set_throttle()
    assert log_dir_rates(cluster) == {2: str(RATE - 1)}
    to_the_end(copying, dirs)
    assert copying.verification["passed"]
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    assert canceller.set_throttle()["ended"]
    assert log_dir_rates(cluster) == {}


def test_a_rate_above_the_approved_one_is_set_once_an_approver_says_so(
    copying: LogDirRun, canceller: CancelRun, cluster: SimulatedCluster
) -> None:
    assert canceller.request("set_throttle", throttle_bytes_per_second=RATE + 1)["next"] == "approve_rate"
    with pytest.raises(AirflowFailException, match=f"above the approved {RATE} bytes/s of kafka_log_dirs"):
        canceller.set_throttle()
    assert "may then copy that much between its log dirs" in canceller.ask().body
    canceller.answer("set_throttle")
    assert log_dir_rates(cluster) == {2: str(RATE)}
    run_step(raise_throttle, canceller.dag_run, canceller.xcom["decision"])
    assert log_dir_rates(cluster) == {2: str(RATE + 1)}


def test_a_rate_outside_the_policy_is_refused(canceller: CancelRun, cluster: SimulatedCluster) -> None:
    for rate, why in ((5, "outside the policy's"), (None, "needs throttle_bytes_per_second")):
        with pytest.raises(AirflowFailException, match=why):
            canceller.request("set_throttle", throttle_bytes_per_second=rate)
    assert log_dir_rates(cluster) == {2: str(RATE)}


@pytest.mark.parametrize("action", ["stop_after_batch", "cancel_now"])
def test_what_is_for_rebalances_says_how_to_stop_copies_between_log_dirs(canceller: CancelRun, action: str) -> None:
    with pytest.raises(AirflowSkipException, match=rf"{action} is for rebalances.*mark its task move as failed"):
        canceller.request(action)
