"""The form of `kafka_topics`. Names are those of kafka-topics, with `_` for `-`."""

from __future__ import annotations

from airflow.sdk import Param

from kafka_rebalance.workflow.form_fields import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    MOST_PARTITIONS,
    MOST_REPLICAS,
    choice,
    cluster,
    flag,
    number,
    optional,
    reason,
    several,
)

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
