"""Which brokers each partition left lately: a run that the nightly check has asked for gives it back to none of them.

Only a preference, so that plans do not swing: what cannot be read is logged and counts for nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run import ledger_rows
from kafka_rebalance.run.approval_rules import REJECT
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.deployment import Deployment
from kafka_rebalance.run.run_folder import folder_of_run, newest_attempt

log = logging.getLogger(__name__)

REST_DAYS = 7

Rows = Sequence[Mapping[str, Any]]
Left = dict[TopicPartition, tuple[int, ...]]


def left_lately(
    deployment: Deployment, connection_id: str, run_id: str, brokers: Rows, partitions: Rows, now: datetime
) -> Left:
    """The brokers from which runs of the last REST_DAYS took each partition, and which do not hold it now.

    `brokers` and `partitions` are rows of the snapshot. A run counts from its approval or its end, whichever is later.
    The run `run_id` itself does not count.
    """
    removed: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    try:
        runs = dict(_approved(deployment, connection_id, now))
    except (RebalanceError, OSError) as unreadable:
        log.warning("%s: which plans were carried out lately cannot be read: %s", connection_id, unreadable)
        return {}
    for earlier, (name, digest) in runs.items():
        if earlier == run_id:
            continue
        try:
            for partition, taken_from in _removals(deployment, connection_id, earlier, name, digest):
                removed[partition] |= taken_from
        except (RebalanceError, OSError, KeyError) as gone:
            log.warning("Run %s was approved, but its moves cannot be read, and do not count: %s", earlier, gone)
    existing = {row["broker"] for row in brokers}
    found = {}
    for row in partitions:
        partition = TopicPartition(row["topic"], row["partition"])
        if left := removed.get(partition, set()) & existing - set(row["replicas"]):
            found[partition] = tuple(sorted(left))
    return found


def with_left(partitions: Rows, left: Left) -> list[Mapping[str, Any]]:
    """The rows with the column `left_brokers` where there is something to say."""
    keys = ((row, left.get(TopicPartition(row["topic"], row["partition"]))) for row in partitions)
    return [row if brokers is None else {**row, "left_brokers": list(brokers)} for row, brokers in keys]


def _approved(deployment: Deployment, connection_id: str, now: datetime) -> Iterator[tuple[str, tuple[str, str]]]:
    """(run, (candidate, digest)) of the runs that were approved, or came to their end, in these days.

    A run that was approved and moved nothing does no harm: its partitions still lie where they were.
    """
    for table, choice in (("outcomes", "candidate"), ("decisions", "choice")):
        for row in ledger_rows.read(deployment, table, connection_id, REST_DAYS, now=now).rows:
            ours = row.get("dag_id", REBALANCE_DAG) == REBALANCE_DAG
            if ours and row["run_id"] and row["digest"] and row[choice] not in (None, REJECT):
                yield row["run_id"], (row[choice], row["digest"])


def _removals(
    deployment: Deployment, connection_id: str, run_id: str, name: str, digest: str
) -> Iterable[tuple[TopicPartition, set[int]]]:
    """(partition, brokers that lose it) of the moves of a run. Brokers that the run was to empty are none of them,
    because one that comes back may be filled again.
    """
    folder = newest_attempt(folder_of_run(deployment, connection_id, run_id), REBALANCE_DAG)
    if folder is None:
        log.info("Run %s has no folder any more, so its moves do not count", run_id)
        return ()
    emptied = Settings.from_mapping(json_files.read_json(folder, json_files.SNAPSHOT)["settings"]).leaving
    candidate = read_candidate(folder, name)
    if candidate.digest != digest:
        log.warning("Run %s has planned again since its approval, so its moves do not count", run_id)
        return ()
    return [(move.topic_partition, set(move.removed) - emptied) for move in candidate.moves]
