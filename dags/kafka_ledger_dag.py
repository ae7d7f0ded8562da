"""`kafka_ledger`: every night, one file a table, cluster and day of the ledger's many. Touches no cluster.

Spark merges the days that are over; a row is removed from where it was only once it was read back from the new file. A
day that cannot be read or written stays as it is and is named in the log, and its turn comes again the next night.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import CronTriggerTimetable, XComArg, dag, task
from airflow.sdk.exceptions import AirflowSkipException

import kafka_rebalance
from kafka_rebalance.workflow.notices import FAILED, Notice

JOB = Path(kafka_rebalance.__file__).parent / "spark" / "ledger_job.py"
LEDGER = "{{ ti.xcom_pull(task_ids='locate', key='ledger') }}"
PACKAGE = "{{ ti.xcom_pull(task_ids='locate', key='package') }}"


def check_located(context: Any) -> None:
    from kafka_rebalance.workflow.ledger import ledger as work

    work.check_located(context["task"])


@dag(
    dag_id="kafka_ledger",
    description="Nightly: one file of the many that a day left in the ledger.",
    schedule=CronTriggerTimetable("45 4 * * *", timezone="UTC"),
    catchup=False,
    max_active_runs=1,  # two at a time would each write a day's next file
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 1, "retry_delay": timedelta(minutes=10), "on_failure_callback": Notice(FAILED)},
)
def ledger() -> None:
    @task
    def locate(ti: Any = None) -> None:
        from kafka_rebalance.workflow.ledger import ledger as work

        if not work.locate(ti):
            raise AirflowSkipException("There is no ledger yet")

    located = locate()
    compacted = SparkSubmitOperator(
        task_id="compact",
        application=str(JOB),
        py_files=PACKAGE,
        application_args=["--ledger", LEDGER],
        name="kafka_rebalance ledger",
        pre_execute=check_located,
    )
    XComArg(located.operator) >> compacted


ledger()
