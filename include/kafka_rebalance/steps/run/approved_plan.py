"""What was approved, read back from the run's folder and held against XCom, the digests and today's policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from kazoo.client import KazooClient

from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.left_out import LeftOut
from kafka_rebalance.errors import ApprovalError
from kafka_rebalance.execution.approval_rules import REJECT, check_approval_fresh
from kafka_rebalance.execution.time_window import Window, read_window
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.digests import digest_of
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.model.settings import LEADERS_ALONE, Settings
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.steps.deployment import Deployment
from kafka_rebalance.steps.inputs import RunName, StepInputs
from kafka_rebalance.steps.run.left_out_moves import read_left_out, without
from kafka_rebalance.steps.run.snapshot_tables import SnapshotTables
from kafka_rebalance.steps.run_folder import RunFolder, check_newest_attempt, open_own_folder
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
    def window(self) -> Window:
        """When batches may begin, and by when all must be over."""
        return read_window(self.snapshot.get("window") or {})

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


def read_approved(deployment: Deployment, decision: Mapping[str, Any], started: RunName) -> ApprovedPlan:
    """The approved candidate. Raises ApprovalError or ArtifactError where anything differs from what was approved.

    The moves must still give the approved digest. Nothing is recomputed.
    """
    folder, written = read_decision(deployment, decision, started)
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


def read_decision(
    deployment: Deployment, decision: Mapping[str, Any], started: RunName
) -> tuple[RunFolder, Mapping[str, Any]]:
    """The run's folder and its decision.json. Raises ApprovalError unless something was approved, and is the same, and
    RunFolderError where it was approved in another run.

    `decision` is what `approve` pushed to XCom: where the run's files are, and what was chosen.
    """
    folder = open_own_folder(deployment, decision["run_folder"], started, decision["nonce"])
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


class _HasDigest(Protocol):
    @property
    def digest(self) -> str: ...


T = TypeVar("T", bound=_HasDigest)


@dataclass(frozen=True, slots=True)
class ApprovedRequest(Generic[T]):
    """What kafka_rebalance_cancel or kafka_topics was approved to do."""

    folder: RunFolder
    written: Mapping[str, Any]  # the document of the run's first task
    decision: Mapping[str, Any]
    plan: T

    @property
    def connection_id(self) -> str:
        return str(self.written["connection_id"])


def read_approved_request(
    inputs: StepInputs,
    decision: Mapping[str, Any],
    file: str,
    decode: Callable[[Mapping[str, Any]], T],
    name: Callable[[T], str],
) -> ApprovedRequest[T]:
    """The plan of that file, if it is the one that was approved. Raises ApprovalError, ArtifactError."""
    folder, given = read_decision(inputs.deployment, decision, inputs.run)
    written = json_files.read_json(folder, file)
    plan = decode(written)
    check_digest(name(plan), plan.digest, given)
    return ApprovedRequest(folder, written, given, plan)


def check_may_begin(deployment: Deployment, approved: ApprovedRequest[Any]) -> None:
    """Raises ApprovalError for an approval that has grown too old, RunFolderError for one of an earlier attempt,
    StaleProposalError where the policy has changed since. To be asked immediately before the first write.
    """
    given = approved.decision
    policy = deployment.check_policy_unchanged(approved.connection_id, given["policy_digest"])
    check_newest_attempt(approved.folder)
    if given["approved_by"] is not None:
        check_approval_fresh(given["approved_at"], policy.approval_expires_after_seconds, datetime.now(UTC))


def read_plan_view(
    client: KazooClient,
    plan: ApprovedPlan,
    known: Mapping[TopicPartition, PartitionState | None] | None = None,
) -> ClusterView:
    """ZooKeeper's view of the topics that the approved plan touches, after a `sync`; see `read_cluster_view`."""
    return read_cluster_view(client, plan.topics, known=known)
