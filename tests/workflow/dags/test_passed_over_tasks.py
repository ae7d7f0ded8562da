"""Tasks that kept `upstream_failed` because somebody cleared the failed task while Airflow was marking what follows.

Airflow's scheduling decisions and its API are real, as in test_control_plane.py.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from airflow.utils.state import TaskInstanceState as State

from kafka_rebalance import clock
from kafka_rebalance.cancel.request import CancelApproval
from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ReadError, VerificationError
from kafka_rebalance.log_dirs.request import LogDirApproval
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.rebalance.verify import check_verified, record
from kafka_rebalance.run.approval_request import Approval
from kafka_rebalance.run.passed_over_tasks import check_all_will_run
from kafka_rebalance.topics.request import TopicApproval
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.run_step import run_step, step_inputs
from support.airflow.control_plane import ControlPlane, Moment
from support.airflow.parsed_dags import read_dags
from support.runs.plain_deployment import ToldRuns

LATE = ("verify", "check_verified", "record")


def fail_and_clear_too_soon(plane: ControlPlane, task: str, late: tuple[str, ...]) -> None:
    """The scheduler writes its marks on `late` when the clear has been made already."""
    plane.clear(task)
    plane.set_state(task, State.FAILED)
    for _ in plane.tasks():
        plane._schedule()
    assert set(map(plane.tasks().get, late)) == {State.UPSTREAM_FAILED}, "Airflow itself has marked them"
    plane.clear(task)
    assert {plane.tasks()[name] for name in late} == {None}
    for name in late:
        plane.set_state(name, State.UPSTREAM_FAILED)


@pytest.mark.parametrize("late", [LATE, ("verify",), ("record",), ("reassign", "release_throttle", *LATE)], ids=str)
def test_nobody_is_asked_and_nothing_is_written_if_a_late_task_would_not_run(
    late: tuple[str, ...], plane: ControlPlane
) -> None:
    plane.moment(Moment.BEFORE_APPROVAL)
    before = plane.cluster.tree()
    fail_and_clear_too_soon(plane, "render_report", late)
    assert plane.go_on() == "failed"
    assert plane.tasks()["render_report"] == State.SUCCESS
    assert all(name in plane.said["approve"] for name in late)
    assert "Clear this task with its downstream tasks" in plane.said["approve"]
    assert plane.cluster.tree() == before
    plane.do("clear approve")
    plane.go_on()
    plane.do("answer")
    assert plane.go_on() == "success"
    assert plane.placed() == 2


@pytest.mark.parametrize("late", [LATE, ("verify",), ("record",), ("reassign", "release_throttle")], ids=str)
def test_an_approved_run_takes_no_lock_if_a_late_task_would_not_run(late: tuple[str, ...], plane: ControlPlane) -> None:
    plane.moment(Moment.APPROVED)
    before = plane.cluster.tree()
    for name in late:
        plane.set_state(name, State.UPSTREAM_FAILED)
    assert plane.go_on() == "failed"
    assert ", ".join(late) in plane.said["hold_throttle"]
    assert plane.cluster.tree() == before
    plane.do("clear hold_throttle")
    assert plane.go_on() == "success"
    assert plane.placed() == 2


@pytest.mark.parametrize(
    ("late", "who_says"),
    [
        (("verify",), "check_verified"),
        (("record",), "check_verified"),
        (("verify", "record"), "check_verified"),
        (("check_verified",), "release_throttle"),
        (LATE, "release_throttle"),
        (("release_throttle", *LATE), "reassign"),
    ],
    ids=str,
)
def test_copies_that_were_begun_are_ended_and_whoever_runs_last_names_what_will_not_run(
    late: tuple[str, ...], who_says: str, plane: ControlPlane
) -> None:
    plane.moment(Moment.IN_FLIGHT)
    for name in late:
        plane.set_state(name, State.UPSTREAM_FAILED)
    assert plane.go_on() == "failed"
    assert plane.placed() == 2
    named = late if who_says != "reassign" else ("release_throttle",)
    assert f"Clear {', '.join(named)} and this task." in plane.said[who_says]
    plane.janitor()
    assert plane.cluster.leftovers() == []
    for task in (*late, who_says):
        plane.do(f"clear {task}")
    assert plane.go_on() == "success"
    assert (plane.run.folder / json_files.VERIFICATION).exists()


def test_leaders_that_nobody_elected_are_named_too(plane: ControlPlane) -> None:
    plane.moment(Moment.IN_FLIGHT)
    plane.set_state("elect_leaders", State.UPSTREAM_FAILED)
    assert plane.go_on() == "failed"
    assert "Clear elect_leaders" in plane.said["check_verified"]
    plane.do("clear elect_leaders")
    plane.do("clear check_verified")
    assert plane.go_on() == "success"


def test_the_ledgers_row_says_who_has_not_verified(plane: ControlPlane) -> None:
    plane.moment(Moment.IN_FLIGHT)
    plane.set_state("verify", State.UPSTREAM_FAILED)
    plane.go_on()
    assert "Clear verify with its downstream tasks" in plane.said["record"]


def test_where_airflow_does_not_tell_the_check_is_tried_again_and_no_request_waits_for_it(plane: ControlPlane) -> None:
    inputs = step_inputs(plane.run.dag_run)
    silent = replace(inputs, deployment=replace(inputs.deployment, other_runs=ToldRuns(tasks=None)))
    with pytest.raises(ReadError, match="does not tell"):
        check_verified(silent)
    check_all_will_run(silent, LATE)


@pytest.mark.parametrize("state", ["skipped", "upstream_failed", "removed", "a state of next year"])
def test_verify_must_have_a_state_in_which_it_has_run_or_will_run(plane: ControlPlane, state: str) -> None:
    inputs = step_inputs(plane.run.dag_run)
    told = replace(inputs.deployment, other_runs=ToldRuns(tasks={"verify": state}))
    with pytest.raises(VerificationError):
        check_verified(replace(inputs, deployment=told))


def test_each_request_looks_at_every_task_behind_it() -> None:
    asked: dict[str, type[Approval]] = {
        "kafka_rebalance": CandidateApproval,
        "kafka_topics": TopicApproval,
        "kafka_log_dirs": LogDirApproval,
        "kafka_rebalance_cancel": CancelApproval,
    }
    for dag_id, approval in asked.items():
        dag = read_dags()[dag_id]
        requests = [task for task in dag.tasks if isinstance(task, ApprovalOperator)]
        behind = set().union(*(task.get_flat_relative_ids(upstream=False) for task in requests))
        assert behind == set(approval.behind), dag_id


def test_tasks_that_only_look_or_report_are_tried_again_after_their_process_was_killed() -> None:
    once = {
        (dag_id, task.task_id)
        for dag_id, dag in read_dags().items()
        for task in dag.tasks
        if not task.retries and dag_id != "kafka_throttle_janitor"
    }
    assert once == {("kafka_rebalance_cancel", "roll_back")}, "its second try might start a second run"


def test_a_run_recorded_twice_has_one_row_also_past_midnight(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.moment(Moment.AFTER_LAST)
    plane.go_on()
    files = sorted(str(path) for path in rows_of(plane))
    assert len(files) == 1

    monkeypatch.setattr(clock, "utc_now", lambda: datetime.now(UTC) + timedelta(days=1))
    run_step(record, plane.run.dag_run, plane.run.decision)
    assert sorted(str(path) for path in rows_of(plane)) == files


def rows_of(plane: ControlPlane) -> list[object]:
    root = plane.run.folder.parents[2]
    return list((root / "ledger" / "outcomes").rglob("*.parquet"))
