"""The columns of the ledger's tables. What is added later is null in the files of earlier runs."""

from __future__ import annotations

import pyarrow as pa

from kafka_rebalance.planning.tables.history_table import SAMPLES_SCHEMA

AUDITS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("rule", pa.string()),
        ("severity", pa.string()),
        ("topics", pa.int64()),
        ("topic", pa.string()),  # the first of them
        ("brokers", pa.list_(pa.int32())),
        ("finding", pa.string()),
        ("source", pa.string()),
    ]
)
BALANCE = pa.schema(  # one row a check; skew is how far the worst broker is from its share, as a share of it
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("imbalance", pa.float64()),  # the highest skew
        ("resource", pa.string()),  # that has it
        ("skew_disk", pa.float64()),
        ("skew_bytes_in", pa.float64()),
        ("skew_leaders", pa.float64()),
        ("skew_replicas", pa.float64()),
        ("rack_violations", pa.int64()),
        ("limit", pa.float64()),
        ("past_limit", pa.bool_()),
        ("brokers_away", pa.list_(pa.int32())),  # not registered though they hold replicas
        ("brokers_unread", pa.list_(pa.int32())),  # registered, and not measured: they did not tell their log dirs
    ]
)
DECISIONS = pa.schema(  # one row an answer, or a request that nobody answered
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("dag_id", pa.string()),
        ("run_id", pa.string()),
        ("choice", pa.string()),  # a candidate, an action, or Reject; null: expired, failed or refused
        ("digest", pa.string()),
        ("by", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("note", pa.string()),
        ("expired", pa.bool_()),
        ("refused", pa.string()),  # why an answer did not count; null where it did
        ("throttle_bytes_per_second", pa.int64()),
    ]
)
PLANS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("candidate", pa.string()),
        ("digest", pa.string()),
        ("status", pa.string()),
        ("recommended", pa.bool_()),
        ("moved_bytes", pa.int64()),
        ("moved_bytes_bound", pa.int64()),
        ("moved_replicas", pa.int64()),
        ("leader_changes", pa.int64()),
        ("makespan_seconds", pa.float64()),
        ("disk_max_over_mean_before", pa.float64()),
        ("disk_max_over_mean_after", pa.float64()),
    ]
)
OUTCOMES = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("candidate", pa.string()),
        ("digest", pa.string()),
        ("approved_by", pa.string()),
        ("verified", pa.bool_()),
        ("predicted_bytes", pa.int64()),
        ("copied_bytes", pa.int64()),  # as measured; as planned where it was not:
        ("unmeasured_bytes", pa.int64()),  # of them; null: of a version that measured nothing
        ("predicted_seconds", pa.float64()),
        ("actual_seconds", pa.float64()),
        ("partitions", pa.int64()),
        ("batches", pa.int64()),
        ("throttle_bytes_per_second", pa.int64()),
    ]
)
TOPICS = pa.schema(
    [
        ("observed_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
        ("topic", pa.string()),
        ("action", pa.string()),
        ("digest", pa.string()),
        ("requested_by", pa.string()),
        ("approved_by", pa.string()),  # null: no approval is asked for that action
        ("partitions_before", pa.int64()),
        ("partitions_after", pa.int64()),
        ("configs_changed", pa.int64()),
        ("verified", pa.bool_()),
    ]
)
TABLES = {
    "audits": AUDITS,
    "balance": BALANCE,
    "decisions": DECISIONS,
    "metrics": SAMPLES_SCHEMA,
    "outcomes": OUTCOMES,
    "plans": PLANS,
    "topics": TOPICS,
}
