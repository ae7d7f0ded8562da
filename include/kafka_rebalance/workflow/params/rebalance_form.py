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
        description="balance: balance replicas, disks and leaders. leaders: only re-order lists; with `drain`, those "
        "brokers lead nothing in the end. elect: elect preferred leaders and change no list. drain: empty brokers. "
        "replace: replace one broker by another. relieve: only brokers above the band (or relieve_above) give. "
        "repair_racks: repair the rack rule only. `light` does no more than the job; `balanced` also balances.",
    ),
    "reason": Param(
        None, type=["null", "string"], title="Reason", description="Why you ask for it. The approver reads this."
    ),
    "not_before": _time(
        "Not before", "No batch begins earlier: the run waits. Give the zone: 2026-11-21T22:00:00+01:00."
    ),
    "finish_by": _time("Finish by", "No batch begins whose predicted end is later. Give the zone."),
    "drain": Param(
        [],
        type="array",
        items={"type": "integer"},
        title="Drain",
        description="Ids of brokers to empty.",
        section=_BROKERS,
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
        description="Ids of brokers that keep what they have and receive nothing.",
        section=_BROKERS,
    ),
    "topics_in": _globs(["*"], "Topics in", "Globs of topics that the run may change."),
    "topics_out": _globs([], "Topics out", "Globs of topics that stay as they are."),
    "topics_to_move": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Topics to move",
        description="The JSON of kafka-reassign-partitions' --topics-to-move-json-file, instead of Topics in.",
        section=_TOPICS,
    ),
    "pinned_topics": _globs(
        [], "Pinned topics", "Globs of topics whose replicas stay on their brokers. Leaders may change."
    ),
    "rack_pinned_topics": _globs(
        [], "Rack-pinned topics", "Globs of topics whose replicas move within their rack only."
    ),
    "internal_topics": Param(
        False,
        type="boolean",
        title="Internal topics",
        description="Also move __consumer_offsets and __transaction_state, if the policy allows it.",
        section=_TOPICS,
    ),
    "replication_factor": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Replication factor",
        description="The new factor, for the job replication_factor.",
        section=_TOPICS,
    ),
    "relieve_above": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        exclusiveMaximum=1,
        title="Relieve above",
        description="With 0.8, job relieve takes only from brokers whose disk is above 80 % of its capacity.",
        section=_LIMITS,
    ),
    "max_bytes": _limit("Bytes at most", "Bytes to copy. The policy's limit holds too."),
    "max_replicas": _limit("Replicas at most", "Replicas to copy."),
    "max_leader_changes": _limit("Leader changes at most", "Partitions whose preferred leader changes."),
    "throttle_bytes_per_second": Param(
        None,
        type=["null", "integer", "string"],
        minimum=1,
        pattern=f"^{AUTO}$",
        title="Throttle (bytes/s per broker)",
        description="Within the policy's range. Empty: the policy's maximum. auto: what the brokers' networks have "
        "left; the connection must have their capacities. The approver may change it.",
        section=_LIMITS,
    ),
    "copies_per_broker": Param(
        _DEFAULT.copies_per_broker,
        type="integer",
        minimum=1,
        title="Copies per broker",
        description="How many replicas one broker sends or receives at once.",
        section=_LIMITS,
    ),
    "plan": Param(
        None,
        type=["null", "string"],
        format="multiline",
        title="Plan",
        description="The JSON of kafka-reassign-partitions, or all that its --generate prints. The run checks it and "
        'scores it beside its own candidates. People can approve it like them. Its log_dirs may only say "any".',
        section=_PLAN,
    ),
    "plan_path": Param(
        None,
        type=["null", "string"],
        title="Plan file",
        description="A file below the plans folder ([kafka_rebalance] plans_folder), instead of a pasted plan.",
        section=_PLAN,
    ),
    "candidates": Param(
        list(_DEFAULT.candidates),
        type="array",
        items={"type": "string", "enum": list(CANDIDATES)},
        examples=list(CANDIDATES),
        title="Candidates",
        description="What to compute. as_kafka shows what kafka-reassign-partitions --generate would propose. With a "
        "plan you may choose none: then the run judges nothing but that plan.",
        section=_TUNING,
    ),
    "prefer": Param(
        _DEFAULT.prefer,
        type="string",
        enum=list(PREFERENCES),
        title="Prefer",
        description="Which candidate the run recommends. tolerance: the cheapest that ends within the tolerance. "
        "fewest_bytes: the cheapest that does the job. The policy may ask for fewest_bytes too.",
        section=_TUNING,
    ),
    "tolerance": Param(
        _DEFAULT.tolerance,
        type="number",
        exclusiveMinimum=0,
        exclusiveMaximum=1,
        title="Tolerance",
        description="With 0.10, candidate `balanced` brings every resource within 10 % of the reachable mean.",
        section=_TUNING,
    ),
    "trials": Param(
        _DEFAULT.trials,
        type="integer",
        minimum=1,
        maximum=1000,
        title="Trials",
        description="Searches of each candidate on Spark's executors, each from a seed of its own. The best counts.",
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
