"""What earlier runs of a cluster proposed, and what people rejected."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import owner_if_named
from kafka_rebalance.documents.proposals import (
    PROPOSALS_FILE,
    REJECTION_FILE,
    LastAnswer,
    Proposals,
    Proposed,
    Rejection,
)
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, LastProposal
from kafka_rebalance.documents.storage import names_in
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.candidate import OFFERED, Metric
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.parquet_files import PART, read_rows
from kafka_rebalance.planning.tables.read_problem import BROKERS, PROPOSED, SNAPSHOT_SCHEMAS
from kafka_rebalance.planning.tables.result_tables import MOVES_SCHEMA
from kafka_rebalance.run import ledger
from kafka_rebalance.run.approval_rules import DECISION_FILE, REJECT
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.run_folder import RunFolder, attempts, folder_of_run, newest_attempt

log = logging.getLogger(__name__)


# The lists that the last proposal of this cluster gave its partitions, for a plan that stays near it.
#
# Only a preference: what cannot be read stops no plan, but the run says so.


DAYS_LOOKED_BACK = 30  # older plans are of another cluster

Rows = Sequence[Mapping[str, Any]]
Lists = dict[TopicPartition, dict[str, list[int]]]  # {partition: {column of the snapshot: list}}


class Found(NamedTuple):
    proposal: LastProposal | None  # None: there is none, or all of its moves have been made
    lists: Lists


def last_proposal(
    deployment: Deployment,
    connection_id: str,
    folder: RunFolder,
    job: str,
    brokers: Rows,
    partitions: Rows,
    now: datetime,
) -> Found:
    """The newest proposal of that job, and its lists of partitions that still lie as they did then.

    Once a candidate was approved, only its lists count.

    `brokers` and `partitions` are rows of the snapshot of the run in `folder`, which itself does not count.
    """
    why = ""
    try:
        plans = ledger.read(deployment, "plans", connection_id, DAYS_LOOKED_BACK, now=now)
        for run_id in dict.fromkeys(row["run_id"] for row in plans.rows if row["run_id"]):
            earlier = _last_attempt(deployment, connection_id, run_id, folder)
            found = None if earlier is None else _read(run_id, earlier, job, brokers, partitions)
            if found is not None:
                return found
        if plans.unreadable:
            why = f"the ledger's table plans has files that cannot be read: {listed(plans.unreadable)}"
    except (RebalanceError, OSError) as unreadable:
        why = str(unreadable)
    if not why:
        return Found(None, {})
    log.warning("%s: which plans were proposed lately is not known: %s", connection_id, why)
    return Found(LastProposal(None, None, why), {})


def with_lists(partitions: Rows, lists: Lists) -> list[Mapping[str, Any]]:
    """The rows with the columns PROPOSED where there is a list."""
    return [{**row, **lists.get(TopicPartition(row["topic"], row["partition"]), {})} for row in partitions]


def _last_attempt(deployment: Deployment, connection_id: str, run_id: str, folder: RunFolder) -> RunFolder | None:
    """The run's last attempt that made proposals, but not the one in `folder`; None: there is none any more."""
    run = folder_of_run(deployment, connection_id, run_id)
    earlier = (run / str(number) for number in reversed(attempts(run)))
    return next((one for one in earlier if str(one) != str(folder) and _is_proposal(one)), None)


def _is_proposal(attempt: RunFolder) -> bool:
    """Not one of another Dag, whose run has the same id."""
    if json_files.PROPOSALS not in names_in(attempt):
        return False
    owner = owner_if_named(attempt)
    return owner is not None and owner.dag_id == REBALANCE_DAG


def _read(run_id: str, earlier: RunFolder, job: str, brokers: Rows, partitions: Rows) -> Found | None:
    """None: that run had another job, or the planner searched nothing for it."""
    observed_at = None
    try:
        taken = SNAPSHOT_FILE.read(earlier)
        observed_at = taken.observed_at
        if taken.asked.job != job:
            return None
        proposals = PROPOSALS_FILE.read(earlier)
        names = [
            candidate.name
            for candidate in proposals.candidates
            if candidate.name in PROPOSED and candidate.status in OFFERED
        ]
        decision = DECISION_FILE.read_if_there(earlier)
        # Of an approved plan, what a run has not made; the other candidates are over with the approval.
        open_names = [name for name in names if decision is None or decision.choice in (None, REJECT, name)]
        lists = _lists(earlier, proposals, open_names, brokers, partitions)
    except (RebalanceError, OSError, KeyError, TypeError, ValueError) as unreadable:
        log.warning("Run %s made the last proposal, which cannot be read and does not count: %s", run_id, unreadable)
        return Found(LastProposal(run_id, observed_at, str(unreadable) or type(unreadable).__name__), {})
    if not names:
        return None
    return Found(LastProposal(run_id, observed_at) if lists else None, lists)


def _lists(earlier: RunFolder, proposals: Proposals, names: Sequence[str], brokers: Rows, partitions: Rows) -> Lists:
    """The lists to brokers that exist, of partitions that lie as they did, and not as they were to lie."""
    from kafka_rebalance.planning.tables.result_tables import read_moves  # 9 MB of Arrow's functions

    ids = {row["broker"] for row in brokers}
    now = {TopicPartition(row["topic"], row["partition"]): list(row["replicas"]) for row in partitions}
    lists: Lists = {}
    for name in names:
        for some in read_moves(earlier, proposals, name).to_batches(max_chunksize=10_000):
            for row in some.select(["topic", "partition", "before", "after"]).to_pylist():
                partition, after = TopicPartition(row["topic"], row["partition"]), row["after"]
                if now.get(partition) == row["before"] != after and ids.issuperset(after):
                    lists.setdefault(partition, {})[PROPOSED[name]] = after
    return lists


# rejection.json: compares this run's proposal with the cluster's last rejected one, for the next approver.


DAYS_OF_REJECTIONS = 90

ListsAfter = dict[tuple[str, int], list[int]]


def write_rejection(deployment: Deployment, folder: RunFolder, connection_id: str, run_id: str, now: datetime) -> None:
    """Writes rejection.json. An error is logged and stops no plan; then the file has no comparison."""
    found = None
    try:
        rows = ledger.read(deployment, "decisions", connection_id, DAYS_OF_REJECTIONS, now=now).rows
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


def _proposed(folder: RunFolder) -> tuple[Proposed | None, ListsAfter]:
    """What a run recommends, and its lists by partition; (None, {}) if it recommends nothing."""
    plan = PROPOSALS_FILE.read(folder)
    chosen = next((candidate for candidate in plan.candidates if candidate.name == plan.recommended), None)
    if chosen is None:
        return None, {}
    lists, disk = _lists_after(folder, chosen.name), chosen.scores.before.get(Metric.DISK)
    rows = read_rows(folder / json_files.SNAPSHOT_FOLDER, BROKERS, SNAPSHOT_SCHEMAS[BROKERS], ["broker"])
    brokers = sorted(row["broker"] for row in rows)
    highest = None if disk is None else disk.max_over_mean
    return Proposed(chosen.name, chosen.moved_bytes, len(lists), highest, tuple(brokers)), lists


def _lists_after(folder: RunFolder, candidate: str) -> ListsAfter:
    rows = read_rows(folder / "moves", PART, MOVES_SCHEMA, ["candidate", "topic", "partition", "after"])
    return {(row["topic"], row["partition"]): row["after"] for row in rows if row["candidate"] == candidate}
