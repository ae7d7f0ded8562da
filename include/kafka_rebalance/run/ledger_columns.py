"""The columns of the ledger's tables. Files of earlier versions give null for a column that was added later."""

from __future__ import annotations

import pyarrow as pa

from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.planning.tables.history_table import SAMPLES_SCHEMA

_TIME = pa.timestamp("us", tz="UTC")


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema({"observed_at": _TIME, **columns})


TABLES = {
    "audits": _schema(
        rule=pa.string(),
        severity=pa.string(),
        topics=pa.int64(),
        topic=pa.string(),  # the first of these topics
        brokers=pa.list_(pa.int32()),
        finding=pa.string(),
        source=pa.string(),
    ),
    "balance": _schema(  # one row for each check; skew: how far the worst broker is from its share, as a part of it
        run_id=pa.string(),
        imbalance=pa.float64(),  # the highest skew
        resource=pa.string(),  # the one with the highest skew
        **{f"skew_{metric}": pa.float64() for metric in Metric},  # null: unknown
        rack_violations=pa.int64(),
        limit=pa.float64(),
        past_limit=pa.bool_(),
        brokers_away=pa.list_(pa.int32()),  # not registered though they hold replicas
        brokers_unread=pa.list_(pa.int32()),  # registered, but not measured: they did not report their log dirs
        fullest_disk_broker=pa.int32(),
        fullest_disk_share=pa.float64(),  # in use, of all log dirs of this broker
        first_full_broker=pa.int32(),  # whose disk is full first if its partitions keep growing as before
        first_full_days=pa.float64(),  # from the check on
    ),
    "decisions": _schema(  # one row for each answer, or a request that nobody answered
        dag_id=pa.string(),
        run_id=pa.string(),
        choice=pa.string(),  # a candidate, an action or Reject; null if expired, failed or refused
        digest=pa.string(),
        by=pa.string(),
        at=_TIME,
        note=pa.string(),
        expired=pa.bool_(),
        refused=pa.string(),  # why an answer did not count; null if it did
        throttle_bytes_per_second=pa.int64(),
    ),
    "log_dirs": _schema(  # one row for each run between log dirs, at its end
        run_id=pa.string(),
        job=pa.string(),
        digest=pa.string(),
        requested_by=pa.string(),
        approved_by=pa.string(),
        verified=pa.bool_(),
        brokers=pa.list_(pa.int32()),
        replicas=pa.int64(),
        in_place=pa.int64(),  # of these; null: the brokers could not be read
        predicted_bytes=pa.int64(),
        copied_bytes=pa.int64(),  # as planned, of the replicas in place
        predicted_seconds=pa.float64(),  # at the approved rate, without pauses
        began_at=_TIME,  # when the rate was set; null: never
        ended_at=_TIME,  # when it was put back, with all pauses before; null: not yet
        throttle_bytes_per_second=pa.int64(),
    ),
    "metrics": SAMPLES_SCHEMA,
    "outcomes": _schema(
        run_id=pa.string(),
        candidate=pa.string(),
        digest=pa.string(),
        approved_by=pa.string(),
        verified=pa.bool_(),
        predicted_bytes=pa.int64(),
        copied_bytes=pa.int64(),  # as measured, plus the planned bytes of copies without a measurement
        unmeasured_bytes=pa.int64(),  # this planned part; null: a version that measured nothing
        predicted_seconds=pa.float64(),
        actual_seconds=pa.float64(),
        partitions=pa.int64(),
        batches=pa.int64(),
        throttle_bytes_per_second=pa.int64(),
    ),
    "plans": _schema(
        run_id=pa.string(),
        candidate=pa.string(),
        digest=pa.string(),
        status=pa.string(),
        recommended=pa.bool_(),
        moved_bytes=pa.int64(),
        moved_bytes_bound=pa.int64(),
        moved_replicas=pa.int64(),
        leader_changes=pa.int64(),
        makespan_seconds=pa.float64(),
        disk_max_over_mean_before=pa.float64(),
        disk_max_over_mean_after=pa.float64(),
    ),
    "topics": _schema(
        run_id=pa.string(),
        topic=pa.string(),
        action=pa.string(),
        digest=pa.string(),
        requested_by=pa.string(),
        approved_by=pa.string(),  # null: this action needs no approval
        partitions_before=pa.int64(),
        partitions_after=pa.int64(),
        configs_changed=pa.int64(),
        verified=pa.bool_(),
    ),
}
