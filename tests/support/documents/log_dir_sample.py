"""A small plan of kafka_log_dirs, as its first task writes it."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_rebalance.documents.log_dir_plan import DirForecast, LogDirMove, LogDirPlan, PlannedLogDirs

PLAN = LogDirPlan("id", "balance", (LogDirMove("t", 0, 1, "/a", "/b", 5),), 1000, 3, 0.1)
WRITTEN = PlannedLogDirs(
    connection_id="k",
    policy_digest="p",
    nonce="n",
    observed_at=datetime(2026, 1, 1, tzinfo=UTC),
    dag_id="kafka_log_dirs",
    run_id="one",
    requested_by=None,
    reason="",
    broker=None,
    log_dir=None,
    tolerance=0.1,
    of_run=None,
    plan=PLAN,
    digest=PLAN.digest,
    dirs=(DirForecast(1, "/a", 5, 0, 5, None),),
    bound_bytes=5,
    left_bytes=0,
)
