"""What the web app reads from Airflow's database. It writes nothing.

`airflow.models` is not a public interface: only this module imports from it. A test compares these imports with the
installed version.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun as DagRun  # noqa: PLC0414  the pages import it from here
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from airflow.models.variable import Variable
from airflow.models.xcom import XComModel
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.orm import Session

SNAPSHOT_TASK = "snapshot"  # pushes folder and nonce; a Dag with this task and REPORT_TASK is ours
REPORT_TASK = "render_report"
FOLDER_KEY, NONCE_KEY = "run_folder", "nonce"


def read_run(session: Session, dag_id: str, run_id: str) -> DagRun | None:
    """The run; None if Airflow has no run of this name."""
    return session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def read_pushed(session: Session, dag_run: DagRun, key: str, task_id: str = SNAPSHOT_TASK) -> str | None:
    """The text that the run's first task pushed; None if it pushed nothing, or something else than text."""
    value = session.scalar(
        select(XComModel.value).where(
            XComModel.dag_id == dag_run.dag_id,
            XComModel.run_id == dag_run.run_id,
            XComModel.task_id == task_id,
            XComModel.map_index == -1,
            XComModel.key == key,
        )
    )
    return _text(value)


def _text(value: Any) -> str | None:
    """An XCom's text; None if it is something else."""
    # Tasks store the value itself; XComModel.set stores its JSON text. Not XComModel.deserialize_value: it would turn a
    # nonce of digits into a number, and would make an object of any class that the text names.
    if isinstance(value, str) and value.startswith('"'):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, str) else None


def is_rebalance(session: Session, dag_run: DagRun) -> bool:
    """Whether the run's tasks show that it is of kafka_rebalance, or of a Dag like it."""
    tasks = session.scalars(
        select(TaskInstance.task_id).where(
            TaskInstance.dag_id == dag_run.dag_id,
            TaskInstance.run_id == dag_run.run_id,
            TaskInstance.task_id.in_((SNAPSHOT_TASK, REPORT_TASK)),
        )
    )
    return len(set(tasks)) == 2


def is_paused(session: Session, dag_id: str) -> bool:
    """Whether the Dag is paused; False if Airflow does not know it."""
    return bool(session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id)))


@dataclass(frozen=True, slots=True)
class RebalanceRecord:
    """One run of `kafka_rebalance` as Airflow has it. Its snapshot pushed `folder`; `conf` is what people asked for."""

    dag_id: str
    run_id: str
    state: str
    run_after: datetime | None
    folder: str | None
    conf: Mapping[str, Any]
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that nobody has answered yet. Its run pushed `folder`."""

    dag_id: str
    run_id: str
    task_id: str
    subject: str
    created_at: datetime
    people: tuple[str, ...]
    folder: str | None


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One run of the nightly check. `tasks` is {connection id: (map index, state)} of the tasks that have begun."""

    run_id: str
    run_after: datetime | None
    tasks: Mapping[str, tuple[int, str | None]]


def rebalances(session: Session, dag_id: str, most: int, after: int = 0) -> tuple[RebalanceRecord, ...]:
    """The newest runs of the Dag, the newest first. `after` is a row's `DagRun.id`: only runs made later."""
    of_snapshot = (
        (XComModel.dag_run_id == DagRun.id)
        & (XComModel.task_id == SNAPSHOT_TASK)
        & (XComModel.map_index == -1)
        & (XComModel.key == FOLDER_KEY)
    )
    rows = session.execute(
        select(DagRun, XComModel.value)
        .outerjoin(XComModel, of_snapshot)
        .where(DagRun.dag_id == dag_id, DagRun.id > after)
        .order_by(DagRun.id.desc())
        .limit(most)
    )
    return tuple(
        RebalanceRecord(
            run.dag_id, run.run_id, str(run.state), run.run_after, _text(value), run.conf or {}, run.end_date
        )
        for run, value in rows
    )


def open_requests(session: Session, dag_ids: Collection[str]) -> tuple[RequestRecord, ...]:
    """The requests of these Dags that wait for a person's answer, the oldest first."""
    of_run = (
        (XComModel.dag_id == TaskInstance.dag_id)
        & (XComModel.run_id == TaskInstance.run_id)
        & (XComModel.map_index == -1)
        & (XComModel.key == FOLDER_KEY)  # only the first task of each of our Dags pushes it
    )
    rows = session.execute(
        select(HITLDetail, XComModel.value)
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .outerjoin(XComModel, of_run)
        .where(
            TaskInstance.dag_id.in_(dag_ids),
            TaskInstance.state == TaskInstanceState.AWAITING_INPUT,
            HITLDetail.responded_at.is_(None),
        )
        .order_by(HITLDetail.created_at)
    ).unique(lambda row: row[0].ti_id)  # an XCom's JSON has no hash
    return tuple(
        RequestRecord(
            detail.task_instance.dag_id,
            detail.task_instance.run_id,
            detail.task_instance.task_id,
            detail.subject,
            detail.created_at,
            tuple(user["name"] or user["id"] for user in detail.assigned_users),
            _text(value),
        )
        for detail, value in rows
    )


def has_open_request(session: Session, dag_run: DagRun) -> bool:
    """Whether the run waits for a person's answer."""
    return any(request.run_id == dag_run.run_id for request in open_requests(session, {dag_run.dag_id}))


def unheard_answer(session: Session, dag_run: DagRun) -> tuple[str, str, datetime] | None:
    """(person, button, time) of an answer whose request had ended before; None if there is none.

    Airflow takes an answer to a task that has failed, and starts nothing by it.
    """
    detail = session.scalar(
        select(HITLDetail)
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .where(
            TaskInstance.dag_id == dag_run.dag_id,
            TaskInstance.run_id == dag_run.run_id,
            TaskInstance.state == TaskInstanceState.FAILED,
            HITLDetail.responded_at.is_not(None),
        )
        .order_by(HITLDetail.responded_at.desc())
        .limit(1)
    )
    if detail is None or detail.responded_at is None:
        return None
    by = detail.responded_by_user or {}
    return by.get("name") or by.get("id") or "Somebody", ", ".join(detail.chosen_options or ()), detail.responded_at


def recent_checks(session: Session, dag_id: str, task_id: str, most: int) -> tuple[CheckRecord, ...]:
    """The newest runs first, with each mapped task under the name that its `map_index_template` gives."""
    runs = session.scalars(select(DagRun).where(DagRun.dag_id == dag_id).order_by(DagRun.id.desc()).limit(most)).all()
    tasks: dict[str, dict[str, tuple[int, str | None]]] = {run.run_id: {} for run in runs}
    instances = session.scalars(
        select(TaskInstance).where(
            TaskInstance.dag_id == dag_id, TaskInstance.task_id == task_id, TaskInstance.run_id.in_(tasks)
        )
    ).unique()
    for task in instances:
        if task.rendered_map_index is not None:
            state = None if task.state is None else str(task.state)
            tasks[task.run_id][task.rendered_map_index] = (task.map_index, state)
    return tuple(CheckRecord(run.run_id, run.run_after, tasks[run.run_id]) for run in runs)


def read_variable(key: str) -> str | None:
    """The Variable's text from the first secrets backend that has it; None if none has."""
    value = Variable.get(key, default_var=None)
    return None if value is None else str(value)
