"""`kafka_topics`: creates, alters, lists, describes and deletes topics by Kafka's own rules.

`alter` and `delete` wait for a person's approval. Before an expansion, the approver reads what it does to keys and
consumers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import Param, XComArg, dag, task

import kafka_rebalance
from kafka_rebalance.workflow.form_fields import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    MOST_PARTITIONS,
    MOST_REPLICAS,
    STARTED_BY_PEOPLE,
    choice,
    cluster,
    flag,
    number,
    optional,
    reason,
    several,
)
from kafka_rebalance.workflow.operators.approval import ApprovalOperator
from kafka_rebalance.workflow.operators.submit import KeysSubmitOperator
from kafka_rebalance.workflow.run_step import run_step

# The form of `kafka_topics`. Names are those of kafka-topics, with `_` for `-`.


_CREATE, _ALTER, _PLACE, _LOOK = "Create and alter", "Alter and delete", "Placement", "Keys"

TOPICS_PARAMS: dict[str, Param] = {
    "kafka_conn_id": cluster(),
    "action": choice(
        ("create", "alter", "list", "describe", "delete"),
        "list",
        "Action",
        "alter and delete wait for an approval. list and describe write nothing.",
    ),
    "topic": optional(
        "string", "Topic", "The name of one topic. For list and describe: a regular expression. Empty: every topic."
    ),
    "reason": reason(),
    "dry_run": flag("Dry run", "Check and show everything, but ask nobody and write nothing."),
    "only": choice(
        ("all", "under_replicated", "unavailable", "with_overrides"),
        "all",
        "Only",
        "Which partitions list and describe show. with_overrides: only topics with configs of their own.",
    ),
    "partitions": optional(
        "integer",
        "Partitions",
        "How many partitions a new topic gets, or the new total of an existing topic. The total never shrinks.",
        _CREATE,
        maximum=MOST_PARTITIONS,
    ),
    "replication_factor": optional(
        "integer",
        "Replication factor",
        "How many replicas each partition of a new topic gets.",
        _CREATE,
        maximum=MOST_REPLICAS,
    ),
    "config": several("Configs", "key=value, one on each line.", _CREATE),
    "bytes_in_per_second": optional(
        "integer",
        "Bytes in (bytes/s)",
        "What producers will write to the whole topic. The run then shows what this costs each broker.",
        _CREATE,
        minimum=0,
        maximum=LARGEST_NUMBER,
    ),
    "delete_config": several("Configs to remove", "Keys, one on each line.", _ALTER),
    "if_not_exists": flag("If not exists", "create: do nothing if the topic exists.", _CREATE),
    "if_exists": flag("If exists", "alter and delete: do nothing if the topic does not exist.", _ALTER),
    "assignment": choice(
        ("room", "kafka"),
        "room",
        "Placement",
        "room: new partitions go where the cluster has room. kafka: they go by Kafka's own algorithm.",
        _PLACE,
    ),
    "replica_assignment": optional(
        "string",
        "Replica assignment",
        "1:2,2:3,3:1 names every replica of every partition. For an existing topic, include its existing partitions.",
        _PLACE,
        maxLength=LONGEST_TEXT,
    ),
    "rack_mode": choice(
        ("enforced", "disabled", "safe"),
        "enforced",
        "Racks",
        "enforced: every broker must have a rack, or no broker may have one. disabled: ignore racks. safe: ignore "
        "racks if one is missing.",
        _PLACE,
    ),
    "sample_rows": number(
        200_000,
        "Keys to look at (rows)",
        "How many keys to read before an expansion. 0 reads none.",
        _LOOK,
        minimum=0,
        maximum=50_000_000,
    ),
    "sample_hours": number(24, "Not older than (hours)", "How old the keys may be.", _LOOK, minimum=1, maximum=87_600),
}


JOB = Path(kafka_rebalance.__file__).parent / "spark" / "keys_job.py"
APPROVAL = "kafka_rebalance.topics.request.TopicApproval"
RUN_FOLDER = "{{ ti.xcom_pull(task_ids='request', key='run_folder') }}"
NONCE = "{{ ti.xcom_pull(task_ids='request', key='nonce') }}"
RUN = "{{ dag_run.dag_id }}/{{ dag_run.run_id }}"  # not from an XCom: people can edit XComs


@dag(
    dag_id="kafka_topics",
    description="Create, alter, list, describe or delete one cluster's topics.",
    params=TOPICS_PARAMS,
    doc_md=__doc__,
    **STARTED_BY_PEOPLE,
)
def topics() -> None:
    @task(retries=2)
    def request(params: Any = None, dag_run: Any = None, ti: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.plan.request", dag_run, params, ti=ti)

    @task.branch(retries=2)
    def route(asked: dict[str, Any]) -> str | None:
        """list and describe end here. If a topic gets partitions, its keys are sampled first."""
        return None if asked["next"] == "end" else asked["next"]

    @task(retries=2, trigger_rule="none_failed_min_one_success")  # with or without a sample of keys
    def forecast(run_folder: str, dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.keys.forecast", dag_run, run_folder)

    @task(retries=2)
    def write(decision: dict[str, Any], dag_run: Any = None) -> dict[str, Any]:
        return run_step("kafka_rebalance.topics.write.write_change", dag_run, decision)

    @task(retries=2)
    def verify(decision: dict[str, Any], dag_run: Any = None) -> dict[str, int]:
        return run_step("kafka_rebalance.topics.write.verify", dag_run, decision)

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
