"""rejection.json: compares this run's proposal with the cluster's last rejected one, for the next approver."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.rejection import REJECTION_FILE, LastAnswer, Proposed, Rejection
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.metrics import Metric
from kafka_rebalance.planning.tables.parquet_files import PART, read_rows
from kafka_rebalance.planning.tables.result_tables import MOVES_SCHEMA
from kafka_rebalance.planning.tables.snapshot_files import BROKERS, SNAPSHOT_SCHEMAS
from kafka_rebalance.run import ledger_rows
from kafka_rebalance.run.approval_rules import REJECT
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.decision import DECISION_FILE
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import RunFolder, folder_of_run, newest_attempt

log = logging.getLogger(__name__)

DAYS_LOOKED_BACK = 90

Lists = dict[tuple[str, int], list[int]]


def write_rejection(deployment: Deployment, folder: RunFolder, connection_id: str, run_id: str, now: datetime) -> None:
    """Writes rejection.json. An error is logged and stops no plan; then the file has no comparison."""
    found = None
    try:
        rows = ledger_rows.read(deployment, "decisions", connection_id, DAYS_LOOKED_BACK, now=now).rows
        counted = (row for row in rows if row["dag_id"] == REBALANCE_DAG and row["choice"] is not None)
        row = next((one for one in counted if one["run_id"] not in (None, run_id)), None)  # the newest first
        if row is not None and row["choice"] == REJECT:
            found = _beside(deployment, folder, connection_id, row)
    except (RebalanceError, OSError) as unreadable:
        log.warning("The last rejected proposal cannot be read: %s", unreadable)
    REJECTION_FILE.write(folder, LastAnswer(found))


def _beside(deployment: Deployment, folder: RunFolder, connection_id: str, row: dict[str, Any]) -> Rejection | None:
    now, moves_now = _proposed(folder)
    if now is None:
        return None
    then, same, by = None, None, row["by"]
    try:
        earlier = newest_attempt(folder_of_run(deployment, connection_id, row["run_id"]), REBALANCE_DAG)
        if earlier is not None:
            decision = DECISION_FILE.read_if_there(earlier)
            by = (decision.by if decision else None) or by
            then, moves_then = _proposed(earlier)
            alike = sum(moves_then.get(key) == after for key, after in moves_now.items())
            same = alike / len(moves_now) if then is not None and moves_now else None
    except (RebalanceError, OSError, KeyError) as gone:
        log.warning("Run %s was rejected, but its folder cannot be read: %s", row["run_id"], gone)
    at = row["at"] or row["observed_at"]
    share = None if same is None else round(same, 4)
    return Rejection(row["run_id"], by, at.replace(microsecond=0), row["note"], then, now, share)


def _proposed(folder: RunFolder) -> tuple[Proposed | None, Lists]:
    """What a run recommends, and its lists by partition; (None, {}) if it recommends nothing."""
    plan = PROPOSALS_FILE.read(folder)
    chosen = next((one for one in plan.candidates if one.name == plan.recommended), None)
    if chosen is None:
        return None, {}
    lists, disk = _lists(folder, chosen.name), chosen.scores.before.get(Metric.DISK)
    rows = read_rows(folder / json_files.SNAPSHOT_FOLDER, BROKERS, SNAPSHOT_SCHEMAS[BROKERS], ["broker"])
    brokers = sorted(row["broker"] for row in rows)
    highest = None if disk is None else disk.max_over_mean
    return Proposed(chosen.name, chosen.moved_bytes, len(lists), highest, tuple(brokers)), lists


def _lists(folder: RunFolder, candidate: str) -> Lists:
    rows = read_rows(folder / "moves", PART, MOVES_SCHEMA, ["candidate", "topic", "partition", "after"])
    return {(row["topic"], row["partition"]): row["after"] for row in rows if row["candidate"] == candidate}
