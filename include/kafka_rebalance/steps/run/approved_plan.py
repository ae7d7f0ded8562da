"""What was approved, read back from the run's folder and held against XCom, the digests and today's policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.execution.approval_rules import REJECT
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.model.settings import LEADERS_ALONE, Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.steps.inputs import RunName
from kafka_rebalance.workflow.run.baseline import SnapshotTables
from kafka_rebalance.workflow.run.folder import RunFolder, open_own_folder
from kafka_rebalance.workflow.run.left_out import LeftOut, read_left_out, without
from kafka_rebalance.zookeeper.reader import read_cluster_view


def decider(decision: Mapping[str, Any] | None) -> str | None:
    """Who gave this decision, by name, since an id may be a number; None where nobody did."""
    who = (decision or {}).get("approved_by") or {}
    return who.get("name") or who.get("id")


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """The one candidate that may run, with the snapshot and the decision it belongs to."""

    folder: RunFolder
    snapshot: Mapping[str, Any]
    decision: Mapping[str, Any]
    approved: Candidate
    left_out: tuple[LeftOut, ...]
    tables: SnapshotTables

    @property
    def candidate(self) -> Candidate:
        """What is executed: the approved candidate, less the partitions that were left out on purpose."""
        return without(self.approved, self.left_out)

    @property
    def connection_id(self) -> str:
        return str(self.snapshot["connection_id"])

    @property
    def topics(self) -> frozenset[str]:
        """What to read from ZooKeeper for this plan."""
        return frozenset(move.topic_partition.topic for move in self.approved.moves)

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers that the plan empties, and which may therefore be down."""
        settings = self.snapshot["settings"]
        return frozenset(settings["drain"]) | {int(old) for old in settings["replace"]}

    @property
    def disk_headroom(self) -> float:
        """The share of a disk that stays free while both copies exist."""
        return float(self.snapshot["settings"].get("disk_headroom", Settings().disk_headroom))

    @property
    def to_be_empty(self) -> frozenset[int]:
        """Brokers that hold nothing in the end; of jobs that change leaders alone there are none."""
        return frozenset() if self.snapshot["settings"]["job"] in LEADERS_ALONE else self.leaving

    @property
    def throttle_bytes_per_second(self) -> int:
        return int(self.decision["throttle_bytes_per_second"])


def read_approved(decision: Mapping[str, Any], started: RunName) -> ApprovedPlan:
    """The approved candidate. Raises ApprovalError or ArtifactError where anything differs from what was approved.

    The moves must still give the approved digest. Nothing is recomputed.
    """
    folder, written = read_decision(decision, started)
    snapshot = json_files.read_json(folder, json_files.SNAPSHOT)
    candidate = read_candidate(folder, written["choice"])
    check_digest(f"Candidate {candidate.name}", candidate.digest, written)
    return plan_in(folder, snapshot, written, candidate)


def plan_in(
    folder: RunFolder, snapshot: Mapping[str, Any], written: Mapping[str, Any], candidate: Candidate
) -> ApprovedPlan:
    """The plan of that folder, with what was left out of it so far and what the snapshot knows of its topics."""
    topics = {move.topic_partition.topic for move in candidate.moves}
    left_out, tables = read_left_out(folder, candidate), SnapshotTables(folder, topics)
    return ApprovedPlan(folder, snapshot, written, candidate, left_out, tables)


def read_decision(decision: Mapping[str, Any], started: RunName) -> tuple[RunFolder, Mapping[str, Any]]:
    """The run's folder and its decision.json. Raises ApprovalError unless something was approved, and is the same, and
    RunFolderError where it was approved in another run.

    `decision` is what `approve` pushed to XCom: where the run's files are, and what was chosen.
    """
    folder = open_own_folder(decision["run_folder"], started, decision["nonce"])
    written = json_files.read_json(folder, json_files.DECISION)
    same = digest_of(written) == decision.get("decision_digest") and all(
        written.get(key) == decision.get(key) for key in ("choice", "digest")
    )
    if not same or written["choice"] in (None, REJECT):
        raise ApprovalError(
            f"{folder / json_files.DECISION} is not the decision that was given in Airflow "
            f"({decision.get('choice')!r}, digest {str(decision.get('digest'))[:8]}). Nothing was written to the "
            "cluster. Start a new Dag run."
        )
    return folder, written


def check_digest(what: str, digest: str, written: Mapping[str, Any]) -> None:
    """Raises ApprovalError unless this is the digest of decision.json."""
    if digest != written["digest"]:
        raise ApprovalError(
            f"{what} has digest {digest[:8]}, approved was {written['digest'][:8]}. "
            "Nothing was written to the cluster. Start a new Dag run."
        )


def read_plan_view(
    client: KazooClient,
    plan: ApprovedPlan,
    known: Mapping[TopicPartition, PartitionState | None] | None = None,
) -> ClusterView:
    """ZooKeeper's view of the topics that the approved plan touches, after a `sync`; see `read_cluster_view`."""
    return read_cluster_view(client, plan.topics, known=known)
