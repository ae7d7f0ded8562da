"""Under which name a run holds a cluster's lock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk.configuration import conf

from kafka_rebalance.model.airflow_mark import marked
from kafka_rebalance.workflow.run.folder import installation
from kafka_rebalance.zookeeper.lock import LockOwner


def this_airflow() -> str:
    """This Airflow: its address, for people to find it, and the mark of its runs, which tells it from any other."""
    return marked(conf.get("api", "base_url", fallback=""), installation())


def lock_owner(digest: str, dag_run: Any) -> LockOwner:
    """This run, as people and other Airflows can find it; `digest` is of what was approved."""
    return LockOwner(
        run=f"{dag_run.dag_id}/{dag_run.run_id}",
        digest=digest,
        owner=this_airflow(),
        acquired_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
