"""The form of `kafka_topics`. Names are those of kafka-topics, with `_` for `-`."""

from __future__ import annotations

from airflow.sdk import Param

_CREATE, _ALTER, _PLACE, _LOOK = "Create and alter", "Alter and delete", "Placement", "Keys"


def _optional(kind: str, title: str, description: str, section: str, **limits: int) -> Param:
    return Param(None, type=["null", kind], title=title, description=description, section=section, **limits)


def _flag(title: str, description: str, section: str | None = None) -> Param:
    return Param(False, type="boolean", title=title, description=description, section=section)


def _texts(title: str, description: str, section: str) -> Param:
    return Param([], type="array", items={"type": "string"}, title=title, description=description, section=section)


TOPICS_PARAMS: dict[str, Param] = {
    "kafka_conn_id": Param(
        "kafka_default", type="string", minLength=1, title="Cluster", description="Airflow connection of the cluster."
    ),
    "action": Param(
        "list",
        type="string",
        enum=["create", "alter", "list", "describe", "delete"],
        title="Action",
        description="Altering and deleting wait for an approval. list and describe write nothing.",
    ),
    "topic": Param(
        None,
        type=["null", "string"],
        title="Topic",
        description="The name of one topic; for list and describe a regular expression. Empty: every topic.",
    ),
    "reason": Param(
        None, type=["null", "string"], title="Reason", description="Why you ask for it. The approver reads this."
    ),
    "dry_run": _flag("Dry run", "Check and show everything, but ask nobody and write nothing."),
    "only": Param(
        "all",
        type="string",
        enum=["all", "under_replicated", "unavailable", "with_overrides"],
        title="Only",
        description="Which partitions describe and list show, or only topics with configs of their own.",
    ),
    "partitions": _optional(
        "integer", "Partitions", "How many a new topic gets, or the new total of an existing one. Never fewer.", _CREATE
    ),
    "replication_factor": _optional(
        "integer", "Replication factor", "How many replicas each partition of a new topic gets.", _CREATE
    ),
    "config": _texts("Configs", "key=value, one a line.", _CREATE),
    "bytes_in_per_second": _optional(
        "integer",
        "Bytes in (bytes/s)",
        "What producers will write to the whole topic. The run then says what it costs each broker.",
        _CREATE,
        minimum=0,
    ),
    "delete_config": _texts("Configs to remove", "Keys, one a line.", _ALTER),
    "if_not_exists": _flag("If not exists", "Create: do nothing if the topic exists.", _CREATE),
    "if_exists": _flag("If exists", "Alter, delete: do nothing if the topic does not exist.", _ALTER),
    "assignment": Param(
        "room",
        type="string",
        enum=["room", "kafka"],
        title="Placement",
        description="room: new partitions go where the cluster has room. kafka: they go by Kafka's own algorithm.",
        section=_PLACE,
    ),
    "replica_assignment": _optional(
        "string",
        "Replica assignment",
        "1:2,2:3,3:1 names every replica of every partition. For an existing topic, include the existing ones.",
        _PLACE,
    ),
    "rack_mode": Param(
        "enforced",
        type="string",
        enum=["enforced", "disabled", "safe"],
        title="Racks",
        description="enforced: every broker must have a rack, or none may. disabled: ignore racks. safe: ignore racks "
        "if one is missing.",
        section=_PLACE,
    ),
    "sample_rows": Param(
        200_000,
        type="integer",
        minimum=0,
        maximum=50_000_000,
        title="Keys to look at (rows)",
        description="How many keys to read before an expansion. 0 reads none.",
        section=_LOOK,
    ),
    "sample_hours": Param(
        24,
        type="integer",
        minimum=1,
        title="Not older than (hours)",
        description="How old the keys may be.",
        section=_LOOK,
    ),
}
