"""The tab of a run of `kafka_log_dirs`. The app has checked login and permission."""

from __future__ import annotations

from sqlalchemy.orm import Session

from kafka_rebalance import clock
from kafka_rebalance.log_dirs.log_dir_page import render_log_dirs
from kafka_rebalance.log_dirs.log_dir_run import LogDirRun
from kafka_rebalance.log_dirs.read_run import read_log_dir_run
from kafka_rebalance.pages.run_state import ACTIVE_STATES, Action
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.workflow.urls import answer_url, dag_url, run_url, static_url, task_url
from kafka_rebalance.workflow.web import run_records

PLAN_TASK = "plan"  # pushes folder and nonce


def read_log_dirs(dag_run: run_records.DagRun, folder: RunFolder, session: Session) -> LogDirRun:
    """Raises ArtifactError, StorageError."""
    is_active = str(dag_run.state) in ACTIVE_STATES
    return read_log_dir_run(
        folder,
        is_active=is_active,
        has_succeeded=str(dag_run.state) == "success",
        has_open_request=is_active and run_records.has_open_request(session, dag_run),
    )


def log_dirs_html(run: LogDirRun, dag_run: run_records.DagRun, connection_id: str, holds: tuple[str, ...]) -> str:
    """The page. `holds` says what keeps the run from going on, or what came too late."""
    dag_id, run_id = dag_run.dag_id, dag_run.run_id
    pages = {
        Action.ANSWER: answer_url(dag_id, run_id, "approve"),
        Action.STOP: task_url(dag_id, run_id, "move"),
        Action.FIND_CAUSE: run_url(dag_id, run_id),
        Action.ASK_AGAIN: task_url(dag_id, run_id, "approve"),
        Action.GO_ON: task_url(dag_id, run_id, "hold_rate"),
        **dict.fromkeys((Action.ROLL_BACK, Action.START_ANEW), dag_url(dag_id)),
    }
    return render_log_dirs(run, connection_id, static_url=static_url(), pages=pages, now=clock.utc_now(), holds=holds)
