"""What was approved, read back from the run's folder and held against XCom, the digests and today's policy."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from kazoo.client import KazooClient

from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.execution.decision import REJECT
from kafka_rebalance.execution.readiness import check_cluster_ready
from kafka_rebalance.execution.recovery import Position
from kafka_rebalance.execution.staleness import check_policy_unchanged, check_unchanged
from kafka_rebalance.model import artifacts
from kafka_rebalance.model.cluster import ClusterView
from kafka_rebalance.model.partition import TopicIdentity
from kafka_rebalance.model.proposal import Candidate
from kafka_rebalance.planning.tables import read_candidate
from kafka_rebalance.workflow.freeze import check_not_frozen
from kafka_rebalance.workflow.policies import read_policy
from kafka_rebalance.workflow.run_folder import RunFolder, check_shared, open_run_folder
from kafka_rebalance.zookeeper.reader import read_cluster_view


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """The one candidate that may run, with the snapshot and the decision it belongs to."""

    folder: RunFolder
    snapshot: Mapping[str, Any]
    decision: Mapping[str, Any]
    candidate: Candidate

    @property
    def connection_id(self) -> str:
        return str(self.snapshot["connection_id"])

    @property
    def topics(self) -> frozenset[str]:
        """What to read from ZooKeeper for this plan."""
        return frozenset(move.topic_partition.topic for move in self.candidate.moves)

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers that the plan empties, and which may therefore be down."""
        settings = self.snapshot["settings"]
        return frozenset(settings["drain"]) | {int(old) for old in settings["replace"]}

    @property
    def throttle_bytes_per_second(self) -> int:
        return int(self.decision["throttle_bytes_per_second"])


def read_approved(decision: Mapping[str, Any]) -> ApprovedPlan:
    """The approved candidate. Raises ApprovalError or ArtifactError where anything differs from what was approved.

    The moves must still give the approved digest. Nothing is recomputed.
    """
    folder, written = read_decision(decision)
    snapshot = artifacts.read_json(folder, artifacts.SNAPSHOT)
    candidate = read_candidate(folder, written["choice"])
    check_digest(f"Candidate {candidate.name}", candidate.digest, written)
    return ApprovedPlan(folder, snapshot, written, candidate)


def read_decision(decision: Mapping[str, Any]) -> tuple[RunFolder, Mapping[str, Any]]:
    """The run's folder and its decision.json. Raises ApprovalError unless something was approved, and is the same.

    `decision` is what `approve` pushed to XCom: where the run's files are, and what was chosen.
    """
    folder = open_run_folder(decision["run_folder"])
    check_shared(folder, decision["nonce"])
    written = artifacts.read_json(folder, artifacts.DECISION)
    same = artifacts.digest_of(written) == decision.get("decision_digest") and all(
        written.get(key) == decision.get(key) for key in ("choice", "digest")
    )
    if not same or written["choice"] in (None, REJECT):
        raise ApprovalError(
            f"{folder / artifacts.DECISION} is not the decision that was given in Airflow ({decision.get('choice')!r}, "
            f"digest {str(decision.get('digest'))[:8]}). Nothing was written to the cluster. Start a new Dag run."
        )
    return folder, written


def check_digest(what: str, digest: str, written: Mapping[str, Any]) -> None:
    """Raises ApprovalError unless this is the digest of decision.json."""
    if digest != written["digest"]:
        raise ApprovalError(
            f"{what} has digest {digest[:8]}, approved was {written['digest'][:8]}. "
            "Nothing was written to the cluster. Start a new Dag run."
        )


def read_plan_view(client: KazooClient, plan: ApprovedPlan) -> ClusterView:
    """ZooKeeper's view of the topics that the approved plan touches, after a `sync`."""
    return read_cluster_view(client, plan.topics)


def check_before_write(plan: ApprovedPlan, view: ClusterView, where: Position) -> None:
    """Raises where frozen, and unless policy, cluster and each move still to do are what was approved."""
    check_not_frozen(plan.connection_id)
    policy = read_policy(plan.connection_id)
    check_policy_unchanged(plan.decision["policy_digest"], policy.digest if policy else None)
    check_cluster_ready(
        view, expected_cluster_id=plan.snapshot["cluster_id"], may_be_down=plan.leaving, topics=plan.topics
    )
    check_unchanged(
        plan.candidate.moves,
        view,
        snapshot_topics=_snapshot_topics(plan.folder),
        registered_czxid=_registered_czxid(plan.folder),
        batches_touched=where.touched,
    )


def _snapshot_topics(folder: RunFolder) -> dict[str, TopicIdentity]:
    columns = ["topic", "topic_znode_version", "topic_czxid", "topic_id"]
    rows = _read_table(folder, "partitions.parquet", columns)
    return {row["topic"]: TopicIdentity(*(row[column] for column in columns[1:])) for row in rows}


def _registered_czxid(folder: RunFolder) -> dict[int, int | None]:
    rows = _read_table(folder, "brokers.parquet", ["broker", "registration_czxid"])
    return {row["broker"]: row["registration_czxid"] for row in rows}


def _read_table(folder: RunFolder, name: str, columns: list[str]) -> list[dict[str, Any]]:
    content = (folder / artifacts.SNAPSHOT_FOLDER / name).read_bytes()
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(content), columns=columns).to_pylist()
    return rows
