"""`kafka_log_dirs`: move replicas between the log dirs of each broker, for even bytes or to empty one log dir.

A person approves the plan. Replica lists and leaders stay as they are. If a task fails or somebody marks it, the copies
under way are cancelled, and the rate and the lock are given back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import XComArg, dag, task

from kafka_rebalance.dags.log_dirs_form import LOG_DIRS_PARAMS
from kafka_rebalance.run.clusters import RUNS_THAT_MAY_WAIT
from kafka_rebalance.workflow.notices import FAILED, Notice
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.hold_throttle import HoldThrottleOperator
from kafka_rebalance.workflow.operators.move_log_dirs import MoveLogDirsOperator
from kafka_rebalance.workflow.run_step import run_step

HOLD = "kafka_rebalance.log_dirs.hold_rate.hold_rate"
APPROVAL = "kafka_rebalance.log_dirs.ask_for_approval.LogDirApproval"


@dag(
    dag_id="kafka_log_dirs",
    description="Move replicas between the log dirs of each broker: plan, approval, copies, verification.",
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_THAT_MAY_WAIT,
    params=LOG_DIRS_PARAMS,
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 0, "retry_delay": timedelta(seconds=30), "on_failure_callback": Notice(FAILED)},
)
def log_dirs() -> None:
    @task(retries=2)
    def plan(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.log_dirs.plan_moves.plan_moves", dag_run, params, ti=ti)

    # As release_throttle of kafka_rebalance: a broker may be away for long. The janitor keeps the lease.
    @task(
        retries=28,
        retry_delay=timedelta(seconds=15),
        retry_exponential_backoff=2,
        max_retry_delay=timedelta(minutes=5),
    )
    def release_rate(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.log_dirs.release_rate.release_rate", dag_run, decision)

    @task(retries=3)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.log_dirs.verify.verify", dag_run, decision)

    planned = plan()
    run_folder = XComArg(planned.operator, key="run_folder")
    nonce = XComArg(planned.operator, key="nonce")
    approved = ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=run_folder, nonce=nonce)
    decision = XComArg(approved, key="decision")
    # Airflow runs no teardown after a setup that was killed half-way: only a retry puts the rate back.
    held = HoldThrottleOperator(task_id="hold_rate", decision=decision, hold=HOLD, retries=2)
    moved = MoveLogDirsOperator(task_id="move", decision=decision, retries=5, retry_exponential_backoff=2)
    # Both are teardowns: if a person marks the run or a task, Airflow skips everything else.
    released = release_rate(decision).as_teardown(setups=held, on_failure_fail_dagrun=True)
    verified = verify(decision).as_teardown(setups=held, on_failure_fail_dagrun=True)

    planned >> approved >> held >> moved >> released >> verified


DAG = log_dirs()
