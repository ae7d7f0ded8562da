"""The lists that the last proposal of this cluster gave its partitions, for a plan that stays near it.

Only a preference: what cannot be read stops no plan, but the run says so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.folder_owner import owner_if_named
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, LastProposal
from kafka_rebalance.documents.storage import names_in
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.candidate import OFFERED
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.snapshot_files import PROPOSED
from kafka_rebalance.run import ledger_rows
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.decision import DECISION_FILE, REJECT
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import RunFolder, attempts, folder_of_run

log = logging.getLogger(__name__)

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
        plans = ledger_rows.read(deployment, "plans", connection_id, DAYS_LOOKED_BACK, now=now)
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
        if taken.settings["job"] != job:
            return None
        proposals = json_files.read_json(earlier, json_files.PROPOSALS)
        names = [one["name"] for one in proposals["candidates"] if one["name"] in PROPOSED and one["status"] in OFFERED]
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


def _lists(
    earlier: RunFolder, proposals: Mapping[str, Any], names: Sequence[str], brokers: Rows, partitions: Rows
) -> Lists:
    """The lists to brokers that exist, of partitions that lie as they did, and not as they were to lie."""
    from kafka_rebalance.planning.tables.move_columns import read_moves  # 9 MB of Arrow's functions

    ids = {row["broker"] for row in brokers}
    now = {TopicPartition(row["topic"], row["partition"]): list(row["replicas"]) for row in partitions}
    found: Lists = {}
    for name in names:
        for some in read_moves(earlier, proposals, name).to_batches(max_chunksize=10_000):
            for row in some.select(["topic", "partition", "before", "after"]).to_pylist():
                partition, after = TopicPartition(row["topic"], row["partition"]), row["after"]
                if now.get(partition) == row["before"] != after and ids.issuperset(after):
                    found.setdefault(partition, {})[PROPOSED[name]] = after
    return found
