"""`kafka_log_dirs`: move replicas between the log dirs of each broker, for even bytes or to empty one log dir.

A person approves the plan. Replica lists and leaders stay as they are. If a task fails or somebody marks it, the copies
under way are cancelled, and the rate and the lock are given back.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param, XComArg, dag, task

from kafka_rebalance.log_dirs.rules import BALANCE, COPIES_PER_BROKER, JOBS, TOLERANCE
from kafka_rebalance.workflow.form_fields import (
    LARGEST_ID,
    LARGEST_NUMBER,
    MOST_COPIES,
    STARTED_BY_PEOPLE,
    TWO_HOURS_OF_RETRIES,
    choice,
    cluster,
    flag,
    number,
    optional,
    reason,
    several,
)
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.moves import HoldThrottleOperator, MoveLogDirsOperator
from kafka_rebalance.workflow.run_step import run_step

# The form of `kafka_log_dirs`.


_LIMITS = "Limits"

LOG_DIRS_PARAMS: dict[str, Param] = {
    "kafka_conn_id": cluster(),
    "job": choice(
        JOBS,
        BALANCE,
        "Job",
        "balance: even bytes over the log dirs of each broker. drain: empty one log dir. way_back: take back the moves "
        "of an earlier run.",
    ),
    "reason": reason(),
    "broker": optional(
        "integer",
        "Broker",
        "drain: its id. balance: only this broker. Empty: each broker.",
        minimum=0,
        maximum=LARGEST_ID,
    ),
    "log_dir": optional("string", "Log dir", "drain: the path to empty, as log.dirs of that broker names it."),
    "of_run": optional("string", "Earlier run", "way_back: the run id of that run of kafka_log_dirs."),
    "tolerance": number(
        TOLERANCE,
        "Tolerance",
        "balance: 0.1 makes each log dir hold its share of the broker's bytes ± 10 %.",
        _LIMITS,
        minimum=0,
        maximum=1,
    ),
    "throttle_bytes_per_second": optional(
        "integer",
        "Throttle (bytes/s)",
        "Of all copies within one broker together. Empty: the highest that the policy allows.",
        _LIMITS,
        minimum=1,
        maximum=LARGEST_NUMBER,
    ),
    "copies_per_broker": number(
        COPIES_PER_BROKER,
        "Copies per broker",
        "How many replicas of one broker copy at once.",
        _LIMITS,
        minimum=1,
        maximum=MOST_COPIES,
    ),
    "outside_windows": flag(
        "Outside the windows",
        "Do not wait for the policy's windows: begin as soon as the run is approved. A way_back never waits for them.",
        _LIMITS,
    ),
    "topics_out": several("Topics out", "Globs of topics whose replicas stay where they lie.", _LIMITS),
    "internal_topics": flag(
        "Internal topics", "Move Kafka's own topics too, if the policy allows it. A drain usually needs it.", _LIMITS
    ),
}


HOLD = "kafka_rebalance.log_dirs.rate.hold_rate"
APPROVAL = "kafka_rebalance.log_dirs.request.LogDirApproval"


@dag(
    dag_id="kafka_log_dirs",
    description="Move replicas between the log dirs of each broker: plan, approval, copies, verification.",
    params=LOG_DIRS_PARAMS,
    doc_md=__doc__,
    **STARTED_BY_PEOPLE,
)
def log_dirs() -> None:
    @task(retries=2)
    def plan(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.log_dirs.plan.plan_moves", dag_run, params, ti=ti)

    # As release_throttle of kafka_rebalance: a broker may be away for long. The janitor keeps the lease.
    @task(**TWO_HOURS_OF_RETRIES)
    def release_rate(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.log_dirs.rate.release_rate", dag_run, decision)

    @task(retries=3)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.log_dirs.copies.verify", dag_run, decision)

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
