"""Segment settings as the steps of a run ask for them: the audit of its snapshot, and the settings of today."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka_rebalance.admin.configs import read_effective_configs
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE, ClusterSegments, SegmentReport
from kafka_rebalance.documents.snapshot import CONFIGS_FILE, SNAPSHOT_FILE, ClusterConfigs
from kafka_rebalance.errors import ArtifactError, StaleProposalError
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_rows
from kafka_rebalance.planning.tables.read_problem import PARTITIONS, SNAPSHOT_SCHEMAS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.approved_plan import ApprovedPlan
from kafka_rebalance.run.check_result import Check
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.snapshot_reader import Snapshot, partition_of
from kafka_rebalance.segments.audit import (
    audit_cluster,
    audit_moves,
    check_segments,
    copies_stopped,
    with_first_findings,
)
from kafka_rebalance.segments.open_files import Placed, expected_rolls, files_now

FINDINGS_KEPT, ROLLS_KEPT = 100, 20  # of each list in a document; all are counted


def audit_snapshot(taken: Snapshot) -> ClusterSegments:
    return audit_cluster(_placed(taken.partitions), taken.configs)


def write_audit(folder: RunFolder, written: Mapping[TopicPartition, float] | None) -> None:
    """segments.json: the audit of the cluster and of each candidate, and when segments roll.

    `written` is in bytes per second; None: unknown, and `rolls` is null.
    """
    proposals, proposals_digest = PROPOSALS_FILE.read_with_digest(folder)
    snapshot = folder / json_files.SNAPSHOT_FOLDER
    configs = read_configs_of(folder)
    columns = ["topic", "partition", "replicas", "size_bytes"]
    placed = _placed(read_rows(snapshot, PARTITIONS, SNAPSHOT_SCHEMAS[PARTITIONS], columns))
    now = files_now(placed, configs)
    candidates = {
        candidate.name: audit_moves(read_candidate(folder, candidate.name).moves, now, configs, FINDINGS_KEPT)
        for candidate in proposals.candidates
    }
    rolls = None if written is None else expected_rolls(placed, written, configs, ROLLS_KEPT)
    cluster = plain(with_first_findings(audit_cluster(placed, configs), FINDINGS_KEPT))
    report = SegmentReport(**cluster, candidates=candidates, rolls=rolls)
    SEGMENTS_FILE.write(folder, report, source_digest=proposals_digest)


def read_configs_of(folder: RunFolder) -> ClusterConfigs:
    """The configs that the run's snapshot has read. Raises ArtifactError if somebody has changed configs.json since.

    Snapshots of earlier versions do not have its digest.
    """
    configs, digest = CONFIGS_FILE.read_with_digest(folder / json_files.SNAPSHOT_FOLDER)
    if SNAPSHOT_FILE.read(folder).configs_digest not in (None, digest):
        raise ArtifactError(
            f"{folder / json_files.SNAPSHOT_FOLDER / json_files.CONFIGS} is not as the snapshot wrote it: somebody has "
            "changed it since. Restore it, or start a new Dag run."
        )
    return configs


def audit_rows(audit: ClusterSegments) -> list[dict[str, Any]]:
    """Rows of the ledger's table `audits`."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "topics": len(finding.topics),
            "topic": finding.topics[0] if finding.topics else None,
            "brokers": list(finding.brokers),
            "finding": finding.text,
            "source": finding.source,
        }
        for finding in audit.findings
    ]


def _placed(rows: Iterable[Mapping[str, Any]]) -> list[Placed]:
    """A size is unknown only in a snapshot of the rest. It counts as 0, so the files are a lower bound."""
    return [Placed(partition_of(row), tuple(row["replicas"]), row["size_bytes"] or 0) for row in rows]


# The settings of an approved plan's topics on their brokers now.


def check_segment_settings(
    cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan
) -> tuple[Check, ...]:
    """The verification's results about segment settings. Raises ReadError if a broker does not answer."""
    before = read_configs_of(plan.folder)
    holders = {broker for move in plan.candidate.moves for broker in move.after}
    return check_segments(plan.candidate.moves, before, _read_now(cluster, connection, plan, holders))


def check_copies_safe(cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan) -> None:
    """Raises StaleProposalError if a copy could not follow with today's settings."""
    receiving = {broker for move in plan.candidate.moves for broker in move.added}
    if not receiving:
        return
    stops = copies_stopped(plan.candidate.moves, _read_now(cluster, connection, plan, receiving))
    if stops:
        listed = "; ".join(map(str, stops[:3])) + (f"; and {len(stops) - 3} more" if stops[3:] else "")
        raise StaleProposalError(
            f"Settings have changed since the approval, and copies would stop: {listed} Correct "
            "the settings and start a new Dag run."
        )


def _read_now(
    cluster: OpenCluster, connection: ClusterConnection, plan: ApprovedPlan, brokers: Collection[int]
) -> ClusterConfigs:
    return ClusterConfigs(
        topics=cluster.read_topic_configs(plan.topics),
        brokers=read_effective_configs(connection.kafka, sorted(brokers)),
    )
