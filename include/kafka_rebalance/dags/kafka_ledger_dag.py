"""`kafka_ledger`: merges the ledger's files every night into one for each table, cluster and past day.

It touches no cluster. Spark merges the days that are over. It removes an old file only after it has read its rows back
from the new one. A day that cannot be read or written stays as it is. The log names it, and the next night tries again.
At the end it removes runs and rows that are older than the policy of their cluster keeps (`keep_runs_days`,
`keep_ledger_days`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import CronTriggerTimetable, XComArg, dag, task

import kafka_rebalance
from kafka_rebalance.workflow.notices import FAILED, Notice
from kafka_rebalance.workflow.operators.submit import JobSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

JOB = Path(kafka_rebalance.__file__).parent / "spark" / "ledger_job.py"
LEDGER = "{{ ti.xcom_pull(task_ids='locate', key='ledger') }}"


def _check_arguments(context: Any) -> None:
    run_step("kafka_rebalance.run.ledger.check_located", context["dag_run"], context["task"])


@dag(
    dag_id="kafka_ledger",
    description="Nightly: merge the ledger's many files of a day into one, and remove what is too old.",
    schedule=CronTriggerTimetable("45 4 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,  # two runs at a time would both write the merged file of a day
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10), "on_failure_callback": Notice(FAILED)},
)
def ledger() -> None:
    @task
    def locate(dag_run: Any = None, ti: Any = None) -> None:
        run_step("kafka_rebalance.rebalance.spark_checks.check_one_version", dag_run)
        run_step("kafka_rebalance.run.ledger.locate", dag_run, ti=ti)

    @task
    def remove_old(dag_run: Any = None) -> dict[str, list[str]]:
        return run_step("kafka_rebalance.nightly.remove_old.remove_old", dag_run)

    located = locate()
    compacted = JobSubmitOperator(
        task_id="compact",
        application=str(JOB),
        application_args=["--ledger", LEDGER],
        name="kafka_rebalance ledger",
        pre_execute=_check_arguments,
    )
    XComArg(located.operator) >> compacted >> remove_old()


DAG = ledger()
