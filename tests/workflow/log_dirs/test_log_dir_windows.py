"""A run between log dirs in its policy's windows: it begins, pauses and goes on with them. The cluster is simulated.

Each of the four replicas copies in a second by the plan, and in 1.5 s at the slow estimate, which is what counts.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ClusterNotReadyError, LockHeldError
from kafka_rebalance.log_dirs.follow_copies import CopiesFollower
from kafka_rebalance.model.recurring_window import Opening
from kafka_rebalance.run.checks.batch_wait import Wait
from kafka_rebalance.run.run_lock import lock_owner, take_lock
from kafka_rebalance.run.watch_batch import BatchSeen, BatchState
from kafka_rebalance.workflow.airflow_deployment import airflow_deployment
from kafka_rebalance.workflow.hooks import read_connection
from kafka_rebalance.workflow.operators.moves import HoldThrottleOperator, MoveLogDirsOperator
from kafka_rebalance.workflow.triggers import CopiesTrigger, PauseTrigger
from support.runs.janitor_run import Airflow, tend
from support.runs.log_dir_run import CONNECTION, POLICY, LogDirRun
from support.runs.set_clock import DAY, HOUR, SECOND, Clock
from support.runs.simulated_cluster import SIZE_BYTES, SimulatedCluster, other_dag_run
from support.runs.simulated_log_dirs import DRAIN, SimulatedLogDirs, log_dir_rates, to_the_end

RATE = SIZE_BYTES
LOCK = "/kafka_rebalance/run"
HOLD = "kafka_rebalance.log_dirs.rate.hold_rate"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.set_in(monkeypatch)


def approve(run: LogDirRun, tmp_path: Path, clock: Clock, days: str = "daily") -> tuple[Opening, Opening]:
    """A drain with two copies at once, in a window that is open for another hour; this opening and the next one."""
    text, now, following = clock.window_around(days)
    give_windows(tmp_path, text)
    run.plan(**DRAIN, copies_per_broker=2, throttle_bytes_per_second=RATE)
    run.answer()
    return now, following


def give_windows(tmp_path: Path, text: str) -> None:
    (tmp_path / "policies" / f"{CONNECTION}.yaml").write_text(f"{POLICY}windows: ['{text}']\n")


def waits_until(step: object) -> datetime | None:
    assert isinstance(step, Wait)
    return step.not_before


def finish_copies(dirs: SimulatedLogDirs) -> None:
    while dirs.future:
        dirs.step()


def test_a_closed_window_opens_before_lock_and_rate_are_taken(
    run: LogDirRun, tmp_path: Path, cluster: SimulatedCluster, clock: Clock
) -> None:
    before, (_, following) = cluster.tree(), approve(run, tmp_path, clock)
    clock.now += 2 * HOUR
    with pytest.raises(TaskDeferred) as deferred:
        HoldThrottleOperator(task_id="hold_rate", decision=run.xcom["decision"], hold=HOLD).execute(
            {"dag_run": run.dag_run}  # type: ignore[arg-type]
        )
    assert isinstance(deferred.value.trigger, PauseTrigger)
    assert deferred.value.trigger.not_before == following.opens_at.isoformat()
    assert cluster.tree() == before
    clock.now = following.opens_at
    run.hold()
    assert log_dir_rates(cluster) == {2: str(RATE)}


def test_only_copies_that_end_in_time_are_requested(
    run: LogDirRun, tmp_path: Path, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    opening, following = approve(run, tmp_path, clock)
    run.hold()
    clock.now = opening.closes_at - 2 * SECOND
    run.move()
    assert len(dirs.future) == 1
    finish_copies(dirs)
    clock.now = opening.closes_at - SECOND
    assert waits_until(run.move()) == following.opens_at


def test_a_run_pauses_when_its_window_closes_and_goes_on_when_the_next_one_opens(
    run: LogDirRun,
    tmp_path: Path,
    cluster: SimulatedCluster,
    dirs: SimulatedLogDirs,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Airflow.answering(monkeypatch).states = {run.dag_run.run_id: "running"}
    opening, following = approve(run, tmp_path, clock)
    run.hold()
    run.move()
    finish_copies(dirs)
    clock.now = opening.closes_at
    for _ in range(2):  # the second time as by another worker
        assert waits_until(run.move(BatchSeen(BatchState.READY))) == following.opens_at
    assert len(dirs.asked) == 1
    assert log_dir_rates(cluster) == {}
    assert LOCK in cluster.fake.znodes
    trigger = PauseTrigger(**run.move().to_arguments())  # type: ignore[union-attr]
    waiter = trigger._watcher(read_connection(CONNECTION))
    assert waiter.look((following.opens_at - SECOND).timestamp(), lambda _: None) is None
    deployment = airflow_deployment()
    other = lock_owner(deployment, "d" * 64, other_dag_run("two"))
    with open_cluster(read_connection(CONNECTION)) as opened:  # noqa: SIM117
        with pytest.raises(LockHeldError, match=r"That run pauses until 20.*mark its task move as failed"):
            take_lock(deployment, opened, CONNECTION, other)
    report = tend(of=CONNECTION)
    assert report["alerts"] == []
    assert any("is paused until" in line and "mark its task move" in line for line in report["lines"])
    assert waiter.look(following.opens_at.timestamp(), lambda _: None) == BatchSeen(BatchState.READY)
    clock.now = following.opens_at
    run.move(BatchSeen(BatchState.READY))
    assert log_dir_rates(cluster) == {2: str(RATE)}
    to_the_end(run, dirs)
    assert run.verification["passed"]
    assert (dirs.held(2)["/a"], log_dir_rates(cluster), cluster.leftovers()) == (0, {}, [])


def test_copies_in_flight_when_the_window_closes_go_on_under_their_rate_and_nothing_follows_them(
    run: LogDirRun, tmp_path: Path, cluster: SimulatedCluster, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    opening, _ = approve(run, tmp_path, clock)
    run.hold()
    run.move()
    done = next(iter(dirs.future))
    dirs.paths[done] = dirs.future.pop(done)[0]
    follower = CopiesFollower(read_connection(CONNECTION), run.folder, stall_seconds=DAY.total_seconds())
    assert follower.look(clock.now.timestamp(), lambda _: None) == BatchSeen(BatchState.READY)
    assert follower.look(opening.closes_at.timestamp(), lambda _: None) is None
    clock.now = opening.closes_at + HOUR
    operator = MoveLogDirsOperator(task_id="move", decision=run.xcom["decision"], stay_seconds=0)
    with pytest.raises(TaskDeferred) as deferred:
        operator.resume({"dag_run": run.dag_run}, {"state": "ready"})  # type: ignore[arg-type]
    assert isinstance(deferred.value.trigger, CopiesTrigger)
    assert (len(dirs.asked), log_dir_rates(cluster)) == (1, {2: str(RATE)})
    finish_copies(dirs)
    with pytest.raises(TaskDeferred) as deferred:
        operator.resume({"dag_run": run.dag_run}, {"state": "ready"})  # type: ignore[arg-type]
    assert isinstance(deferred.value.trigger, PauseTrigger)
    assert log_dir_rates(cluster) == {}


@pytest.mark.parametrize("wakes", [False, True])
def test_a_run_ends_at_once_if_its_approval_ends_before_the_next_opening(
    run: LogDirRun, tmp_path: Path, cluster: SimulatedCluster, dirs: SimulatedLogDirs, clock: Clock, wakes: bool
) -> None:
    """The policy's approvals are good for a day. The window opens once a week, or no triggerer ran for a day."""
    opening, following = approve(run, tmp_path, clock, "daily" if wakes else f"{clock.now - HOUR:%a}")
    run.hold()
    run.move()
    finish_copies(dirs)
    clock.now = opening.closes_at
    if wakes:
        assert waits_until(run.move()) == following.opens_at
        clock.now = following.opens_at + DAY
    with pytest.raises(AirflowFailException, match=r"The approval ends before that, at .* 2 of 4 replicas"):
        run.move()
    assert len(dirs.asked) == 1
    run.release()
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])


def test_a_run_that_is_ended_in_its_pause_gives_everything_back(
    run: LogDirRun, tmp_path: Path, cluster: SimulatedCluster, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    opening, _ = approve(run, tmp_path, clock)
    run.hold()
    run.move()
    finish_copies(dirs)
    clock.now = opening.closes_at
    run.move()
    assert run.release()["put_back"] == 0
    assert (log_dir_rates(cluster), cluster.leftovers()) == ({}, [])
    assert LOCK not in cluster.fake.znodes


def test_a_clock_that_is_a_day_off_requests_nothing(
    run: LogDirRun, tmp_path: Path, cluster: SimulatedCluster, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    approve(run, tmp_path, clock)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("time.time", lambda: clock.now.timestamp() - DAY.total_seconds())  # that of ZooKeeper
        with pytest.raises(ClusterNotReadyError, match=r"clock says .* the cluster's says"):
            run.hold()
    assert (log_dir_rates(cluster), dirs.asked) == ({}, [])
    assert LOCK not in cluster.fake.znodes


def test_a_copy_that_no_opening_can_hold_is_not_planned(
    run: LogDirRun, tmp_path: Path, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    give_windows(tmp_path, clock.window_around()[0])
    dirs.size_bytes = 5000 * RATE  # 7,500 s at the slow estimate; the window is open for 7,200
    dirs.usable_bytes = 900 * dirs.size_bytes
    asked = {**DRAIN, "throttle_bytes_per_second": RATE}
    with pytest.raises(AirflowFailException, match=r"PlanningError.*may take up to 2 h.*open for 2 h at most"):
        run.plan(**asked)
    run.plan(**{**asked, "throttle_bytes_per_second": 2 * RATE})


def test_a_run_outside_the_windows_begins_at_once_and_a_way_back_never_waits(
    run: LogDirRun,
    tmp_path: Path,
    cluster: SimulatedCluster,
    dirs: SimulatedLogDirs,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, *_ = clock.window_around()
    clock.now += 2 * HOUR
    give_windows(tmp_path, text)
    run.plan(**DRAIN, outside_windows=True)
    run.answer()
    run.hold()
    to_the_end(run, dirs)
    back = LogDirRun(tmp_path, cluster, monkeypatch)  # type: ignore[arg-type]
    give_windows(tmp_path, text)
    back.plan(job="way_back", of_run=run.dag_run.run_id)
    assert (back.written.plan.windows, back.written.policy_windows) == ((), (text,))
    assert "outside the policy's windows" in back.ask().body


def test_the_approver_reads_how_many_openings_the_copies_take(
    run: LogDirRun, tmp_path: Path, dirs: SimulatedLogDirs, clock: Clock
) -> None:
    dirs.size_bytes = 1600 * RATE  # 2,400 s at the slow estimate: one before this opening closes, then three
    dirs.usable_bytes = 900 * dirs.size_bytes
    text, *_ = clock.window_around()
    give_windows(tmp_path, text)
    run.plan(**DRAIN, throttle_bytes_per_second=RATE)
    body = run.ask().body
    assert text in body
    assert "All copies may take 2 openings" in body
    assert json_files.read_json(run.folder, json_files.LOG_DIRS)["plan"]["windows"] == [text]
