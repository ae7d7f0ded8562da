"""The audit of segment settings over a snapshot: for the nightly check, and for a run's candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import plain
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.segments import SEGMENTS_FILE, ClusterSegments, SegmentReport
from kafka_rebalance.documents.snapshot import CONFIGS_FILE, SNAPSHOT_FILE, ClusterConfigs
from kafka_rebalance.errors import ArtifactError
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.tables.parquet_files import read_rows
from kafka_rebalance.planning.tables.read_problem import PARTITIONS, SNAPSHOT_SCHEMAS
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.cluster_rows import Snapshot, partition_of
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.segments.open_files import Placed, expected_rolls, files_now
from kafka_rebalance.segments.settings_audit import audit_cluster, audit_moves, with_first_findings

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
        one.name: audit_moves(read_candidate(folder, one.name).moves, now, configs, FINDINGS_KEPT)
        for one in proposals.candidates
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
