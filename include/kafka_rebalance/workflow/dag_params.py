"""The form of `kafka_rebalance`. Names are those of `Settings`; the policy can only be tightened here."""

from __future__ import annotations

from airflow.sdk import Param

from kafka_rebalance.execution.throttle.auto_rate import AUTO
from kafka_rebalance.model.settings import CANDIDATES, JOBS, PREFERENCES, Settings

_DEFAULT = Settings()
_LIMITS, _BROKERS, _TOPICS, _PLAN, _TUNING = "Limits", "Brokers", "Topics", "A plan of your own", "Tuning"


def _limit(title: str, description: str) -> Param:
    return Param(None, type=["null", "integer"], minimum=0, title=title, description=description, section=_LIMITS)


def _globs(default: list[str], title: str, description: str) -> Param:
    return Param(default, type="array", items={"type": "string"}, title=title, description=description, section=_TOPICS)


def _time(title: str, description: str) -> Param:
    return Param(
        None, type=["null", "string"], format="date-time", title=title, description=description, section=_LIMITS
    )


REBALANCE_PARAMS: dict[str, Param] = {
    "kafka_conn_id": Param(
        "kafka_default", type="string", minLength=1, title="Cluster", description="Airflow connection of the cluster."
    ),
    "job": Param(
        _DEFAULT.job,
        type="string",
        enum=list(JOBS),
        title="Job",
        description="balance: replicas, disk and leaders. leaders: re-order lists only; with `drain`, those brokers "
        "lead nothing in the end. elect: preferred leaders, and no list changes. drain: empty brokers. "
        "replace: one broker by another. relieve: only brokers above the band (or relieve_above) give. "
        "repair_racks: rack rule only. Of each, candidate `light` does no more than that; `balanced` balances as well.",
    ),
    "reason": Param(None, type=["null", "string"], title="Reason", description="Why; shown to the approver."),
    "not_before": _time(
        "Not before", "No batch begins earlier: the run waits. With its zone: 2026-11-21T22:00:00+01:00."
    ),
    "finish_by": _time("Finish by", "No batch begins that would end later, by its predicted time. With its zone."),
    "drain": Param(
        [], type="array", items={"type": "integer"}, title="Drain", description="Broker ids to empty.", section=_BROKERS
    ),
    "replace": Param(
        {},
        type="object",
        title="Replace",
        description='{"old id": new id}: the new broker takes what the old one holds.',
        section=_BROKERS,
    ),
    "brokers_out": Param(
        [],
        type="array",
        items={"type": "integer"},
        title="Brokers out",
        description="Broker ids that keep what they have and receive nothing.",
        section=_BROKERS,
    ),
    "topics_in": _globs(["*"], "Topics in", "Globs of topics that may be changed."),
    "topics_out": _globs([], "Topics out", "Globs of topics that stay as they are."),
    "topics_to_move": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Topics to move",
        description="Instead of Topics in: the JSON of kafka-reassign-partitions' --topics-to-move-json-file.",
        section=_TOPICS,
    ),
    "pinned_topics": _globs([], "Pinned topics", "Globs of topics whose replicas stay; leaders may be re-ordered."),
    "rack_pinned_topics": _globs(
        [], "Rack-pinned topics", "Globs of topics whose replicas move within their rack only."
    ),
    "internal_topics": Param(
        False,
        type="boolean",
        title="Internal topics",
        description="Also move __consumer_offsets and __transaction_state, where the policy allows it.",
        section=_TOPICS,
    ),
    "replication_factor": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Replication factor",
        description="For the job replication_factor.",
        section=_TOPICS,
    ),
    "relieve_above": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        exclusiveMaximum=1,
        title="Relieve above",
        description="0.8: job relieve takes from brokers alone whose disk is above 80 % of its capacity.",
        section=_LIMITS,
    ),
    "max_bytes": _limit("Bytes at most", "Bytes to copy; the policy's limit holds as well."),
    "max_replicas": _limit("Replicas at most", "Replicas to copy."),
    "max_leader_changes": _limit("Leader changes at most", "Partitions whose preferred leader changes."),
    "throttle_bytes_per_second": Param(
        None,
        type=["null", "integer", "string"],
        minimum=1,
        pattern=f"^{AUTO}$",
        title="Throttle (bytes/s per broker)",
        description="Within the policy's range; empty is the policy's maximum; auto is what the brokers' networks have "
        "left (their capacities have to be in the connection). The approver may change it.",
        section=_LIMITS,
    ),
    "copies_per_broker": Param(
        _DEFAULT.copies_per_broker,
        type="integer",
        minimum=1,
        title="Copies per broker",
        description="Replicas that one broker sends or receives in one batch.",
        section=_LIMITS,
    ),
    "plan": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Plan",
        description="In the JSON of kafka-reassign-partitions, or all that its --generate prints. It is checked, "
        'scored beside our own candidates, and can be approved like them. Its log_dirs may only say "any".',
        section=_PLAN,
    ),
    "plan_path": Param(
        None,
        type=["null", "string"],
        title="Plan file",
        description="Instead of a pasted plan: a file below the plans folder ([kafka_rebalance] plans_folder).",
        section=_PLAN,
    ),
    "candidates": Param(
        list(_DEFAULT.candidates),
        type="array",
        items={"type": "string", "enum": list(CANDIDATES)},
        examples=list(CANDIDATES),
        title="Candidates",
        description="What to compute. as_kafka: what kafka-reassign-partitions --generate would propose, to compare. "
        "None: only with a plan, to judge nothing but that.",
        section=_TUNING,
    ),
    "prefer": Param(
        _DEFAULT.prefer,
        type="string",
        enum=list(PREFERENCES),
        title="Prefer",
        description="Which candidate is recommended. tolerance: the cheapest that ends within the tolerance. "
        "fewest_bytes: the cheapest that does the job. The policy may ask for fewest_bytes too.",
        section=_TUNING,
    ),
    "tolerance": Param(
        _DEFAULT.tolerance,
        type="number",
        exclusiveMinimum=0,
        exclusiveMaximum=1,
        title="Tolerance",
        description="0.10: every resource of candidate `balanced` within 10 % of the reachable mean.",
        section=_TUNING,
    ),
    "trials": Param(
        _DEFAULT.trials,
        type="integer",
        minimum=1,
        maximum=1000,
        title="Trials",
        description="Searches of each candidate from other seeds, side by side on Spark's executors; the best is kept.",
        section=_TUNING,
    ),
    "seed": Param(
        _DEFAULT.seed,
        type="integer",
        minimum=0,
        maximum=2**32 - 1,
        title="Seed",
        description="The same seed gives the same plan.",
        section=_TUNING,
    ),
}
