"""`kafka_rebalance`: snapshot a cluster, plan, wait for a person, move exactly what was approved, verify.

Each task calls one step (`kafka_rebalance.rebalance`). Tasks import heavy modules only when they run, so the Dag
processor stays quick.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import XComArg, dag, task

import kafka_rebalance
from kafka_rebalance.dags.rebalance_form import REBALANCE_PARAMS
from kafka_rebalance.run.clusters import RUNS_THAT_MAY_WAIT
from kafka_rebalance.workflow.notices import FAILED, FINISHED, Notice
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.hold_throttle import HoldThrottleOperator
from kafka_rebalance.workflow.operators.reassign import ReassignOperator
from kafka_rebalance.workflow.operators.submit_job import JobSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

APPROVAL = "kafka_rebalance.rebalance.ask_for_approval.CandidateApproval"
JOB = Path(kafka_rebalance.__file__).parent / "spark" / "job.py"
RUN_FOLDER = "{{ ti.xcom_pull(task_ids='snapshot', key='run_folder') }}"
NONCE = "{{ ti.xcom_pull(task_ids='snapshot', key='nonce') }}"
RUN = "{{ dag_run.dag_id }}/{{ dag_run.run_id }}"  # not from an XCom: people can edit XComs
METRICS = "{{ ti.xcom_pull(task_ids='snapshot', key='metrics') }}"
# A task with this rule has `approve` directly before it. It runs once something was approved, even if tasks have failed
# since. "all_done" would also run if nothing was approved.
AFTER_APPROVAL = "all_done_min_one_success"


def check_arguments(context: Any) -> None:
    check = "kafka_rebalance.rebalance.check_spark_arguments.check_spark_arguments"
    run_step(check, context["dag_run"], context["task"])


@dag(
    dag_id="kafka_rebalance",
    description="Rebalance one Kafka cluster: plan, approval, reassignment, verification.",
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_THAT_MAY_WAIT,
    params=REBALANCE_PARAMS,
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 0, "retry_delay": timedelta(seconds=30), "on_failure_callback": Notice(FAILED)},
)
def rebalance() -> None:
    @task(retries=2)
    def snapshot(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        run_step("kafka_rebalance.rebalance.spark_installed.check_one_version", dag_run)
        return run_step("kafka_rebalance.rebalance.take_snapshot.take_snapshot", dag_run, params, ti=ti)

    @task(retries=2)
    def render_report(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.rebalance.render_report.render_report", dag_run, run_folder)

    # The retries take over two hours: ZooKeeper may be away, and copies in flight may end. The janitor keeps the lease.
    @task(
        retries=28,
        retry_delay=timedelta(seconds=15),
        retry_exponential_backoff=2,
        max_retry_delay=timedelta(minutes=5),
    )
    def release_throttle(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.throttle.release_throttle.release_throttle", dag_run, decision)

    @task(retries=2)
    def elect_leaders(decision: dict[str, Any], dag_run: Any = None) -> list[str]:
        return run_step("kafka_rebalance.rebalance.elect_leaders.elect_leaders", dag_run, decision)

    @task(retries=3, trigger_rule=AFTER_APPROVAL)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.rebalance.verify.verify", dag_run, decision)

    @task(retries=3)
    def check_verified(dag_run: Any = None) -> None:
        run_step("kafka_rebalance.rebalance.verify.check_verified", dag_run)

    @task(retries=2, trigger_rule=AFTER_APPROVAL, on_success_callback=Notice(FINISHED))
    def record(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.rebalance.record.record", dag_run, decision)

    taken = snapshot()
    run_folder = XComArg(taken.operator, key="run_folder")
    nonce = XComArg(taken.operator, key="nonce")
    planned = JobSubmitOperator(
        task_id="plan",
        application=str(JOB),
        application_args=[
            *("--snapshot", f"{RUN_FOLDER}/snapshot"),
            *("--out", RUN_FOLDER),
            *("--settings", f"{RUN_FOLDER}/settings.json"),
            *("--metrics", METRICS),
            *("--expect-nonce", NONCE),
            *("--expect-run", RUN),
        ],
        name="kafka_rebalance plan",
        pre_execute=check_arguments,
        retries=1,
    )
    reported = render_report(run_folder)
    approved = ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=run_folder, nonce=nonce)
    decision = XComArg(approved, key="decision")
    # Airflow runs no teardown after a setup that was killed half-way: only a retry puts the throttle back.
    held = HoldThrottleOperator(task_id="hold_throttle", decision=decision, retries=2)
    moved = ReassignOperator(task_id="reassign", decision=decision, retries=5, retry_exponential_backoff=2)
    released = release_throttle(decision).as_teardown(setups=held, on_failure_fail_dagrun=True)
    elected = elect_leaders(decision)
    verified = verify(decision)
    # If a person marks the whole run, Airflow skips all but teardowns, and a run whose last task is skipped is green.
    checked = check_verified().as_teardown(setups=held, on_failure_fail_dagrun=True)
    recorded = record(decision)

    taken >> planned >> reported >> approved >> held >> moved >> released
    moved >> elected
    [approved, elected, released] >> verified
    released >> checked
    [approved, verified] >> recorded


DAG = rebalance()
