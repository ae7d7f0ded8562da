"""`kafka_topics`: creates, alters, lists, describes and deletes topics by Kafka's own rules.

`alter` and `delete` wait for a person's approval. Before an expansion, the approver reads what it does to keys and
consumers.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import XComArg, dag, task

import kafka_rebalance
from kafka_rebalance.dags.topics_form import TOPICS_PARAMS
from kafka_rebalance.run.clusters import RUNS_THAT_MAY_WAIT
from kafka_rebalance.workflow.notices import FAILED, Notice
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.submit_keys import KeysSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

JOB = Path(kafka_rebalance.__file__).parent / "spark" / "keys_job.py"
APPROVAL = "kafka_rebalance.topics.ask_for_approval.TopicApproval"
RUN_FOLDER = "{{ ti.xcom_pull(task_ids='request', key='run_folder') }}"
NONCE = "{{ ti.xcom_pull(task_ids='request', key='nonce') }}"
RUN = "{{ dag_run.dag_id }}/{{ dag_run.run_id }}"  # not from an XCom: people can edit XComs


@dag(
    dag_id="kafka_topics",
    description="Create, alter, list, describe or delete one cluster's topics.",
    schedule=None,
    catchup=False,
    max_active_runs=RUNS_THAT_MAY_WAIT,
    params=TOPICS_PARAMS,
    tags=["kafka"],
    doc_md=__doc__,
    default_args={"retries": 0, "retry_delay": timedelta(seconds=30), "on_failure_callback": Notice(FAILED)},
)
def topics() -> None:
    @task(retries=2)
    def request(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.request.request", dag_run, params, ti=ti)

    @task.branch(retries=2)
    def route(asked: dict[str, Any]) -> str | None:
        """list and describe end here. If a topic gets partitions, its keys are sampled first."""
        return None if asked["next"] == "end" else asked["next"]

    @task(retries=2, trigger_rule="none_failed_min_one_success")  # with or without a sample of keys
    def forecast(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.forecast_keys.forecast", dag_run, run_folder)

    @task(retries=2)
    def write(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.write_change.write_change", dag_run, decision)

    @task(retries=2)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.topics.verify.verify", dag_run, decision)

    asked = request()
    run_folder = XComArg(asked.operator, key="run_folder")
    nonce = XComArg(asked.operator, key="nonce")
    routed = route(asked)
    sampled = KeysSubmitOperator(
        task_id="sample_keys",
        run_folder=run_folder,
        application=str(JOB),
        application_args=[
            *("--sample", f"{RUN_FOLDER}/sample.json"),
            *("--out", RUN_FOLDER),
            *("--expect-nonce", NONCE),
            *("--expect-run", RUN),
        ],
        name="kafka_rebalance keys",
        retries=1,
    )
    foreseen = forecast(run_folder)
    approved = ApprovalOperator(task_id="approve", approval=APPROVAL, run_folder=run_folder, nonce=nonce)
    decision = XComArg(approved, key="decision")
    written = write(decision)

    routed >> [sampled, foreseen]
    sampled >> foreseen >> approved >> written >> verify(decision)


DAG = topics()
