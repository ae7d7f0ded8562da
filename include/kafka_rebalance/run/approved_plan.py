"""What was approved, read from the run's folder and compared with XCom, the digests and today's policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from kafka_rebalance import clock
from kafka_rebalance.documents import json_files
from kafka_rebalance.documents.json_files import LEFT_OUT, JsonFile, Time, decode, omitted
from kafka_rebalance.documents.proposals import PROPOSALS_FILE, Score
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, SnapshotTaken, read_settings
from kafka_rebalance.documents.storage import Folder
from kafka_rebalance.errors import ApprovalError, ArtifactError
from kafka_rebalance.model.candidate import Candidate
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import (
    COPIES_PER_BROKER,
    LEADERS_ALONE,
    LEAST_PARTITIONS_PER_BATCH,
    REPLACE_LOG_DIR,
    Settings,
)
from kafka_rebalance.moves.rolling_requests import Limits
from kafka_rebalance.moves.windows import Window
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.approval_rules import DECISION_FILE, Decision, ToldDecision, check_approval_fresh
from kafka_rebalance.run.check_result import Check, CheckName
from kafka_rebalance.run.checks.drift import MoveDrift
from kafka_rebalance.run.inputs import Deployment, StepInputs
from kafka_rebalance.run.run_folder import (
    RunFolder,
    check_newest_attempt,
    check_still_shown,
    open_own_folder,
)
from kafka_rebalance.run.snapshot_reader import SnapshotTables, other_than_approved


@dataclass(frozen=True, slots=True)
class ApprovedPlan:
    """The one candidate that may run, with its snapshot and its decision."""

    folder: RunFolder
    snapshot: SnapshotTaken
    settings: Settings
    decision: Decision
    approved: Candidate
    left_out: tuple[LeftOut, ...]
    tables: SnapshotTables

    @property
    def candidate(self) -> Candidate:
        """What is executed: the approved candidate without the moves that the run left out."""
        return without(self.approved, self.left_out)

    @property
    def connection_id(self) -> str:
        return self.snapshot.connection_id

    @property
    def window(self) -> Window:
        return Window.of(self.snapshot.window)

    @property
    def begins_at(self) -> datetime | None:
        """When its window opened first after the approval; None if it was open at that time."""
        return self.window.waits_until(self.decision.given_at)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(move.topic_partition.topic for move in self.approved.moves)

    @property
    def leaving(self) -> frozenset[int]:
        """Brokers that the plan empties. They may be down."""
        return self.settings.leaving

    @property
    def given_up(self) -> frozenset[int]:
        """Brokers whose replicas may be out of sync, because the plan takes away those that cannot come back."""
        if self.settings.job != REPLACE_LOG_DIR:
            return self.leaving
        return frozenset(broker for move in self.approved.moves for broker in move.removed)

    @property
    def to_be_empty(self) -> frozenset[int]:
        """Brokers that hold nothing in the end; none for a job that changes leaders alone."""
        return frozenset() if self.settings.job in LEADERS_ALONE else self.leaving

    @property
    def cordoned(self) -> frozenset[int]:
        """Brokers that the run cordons while it empties them: Kafka refuses each list that names one of them."""
        named = {broker for move in self.approved.moves if not move.is_election for broker in move.after}
        return frozenset(self.snapshot.cordon.brokers if self.snapshot.cordon else ()) - named

    @property
    def limits(self) -> Limits:
        """Of what may be in flight at once."""
        settings = self.settings
        return Limits(
            settings.copies_per_broker or COPIES_PER_BROKER,
            settings.partitions_per_batch or LEAST_PARTITIONS_PER_BATCH,
            settings.leader_changes_per_batch,
        )

    @property
    def throttle_bytes_per_second(self) -> int:
        return self.decision.rate


def read_approved(inputs: StepInputs, decision: Mapping[str, Any]) -> ApprovedPlan:
    """The approved plan of this run. Raises ApprovalError or ArtifactError if anything differs from the approval."""
    return read_plan(*_read_decision(inputs, decision))


def read_plan(folder: RunFolder, decision: Decision) -> ApprovedPlan:
    """The plan that this decision.json approves. Nothing is computed again.

    Raises ApprovalError unless the moves still give the approved digest, ArtifactError for values that none of our
    versions writes.
    """
    snapshot, digest = SNAPSHOT_FILE.read_with_digest(folder)
    _check_request(folder / json_files.SNAPSHOT, digest, decision.request_digest)
    if snapshot.settings != PROPOSALS_FILE.read(folder).settings:
        raise other_than_approved(folder / json_files.SNAPSHOT)  # the approved digest has the settings too
    check_still_shown(folder, decision.shown_files or (), decision.shown_files)
    candidate = read_candidate(folder, decision.chosen)
    _check_digest(f"Candidate {candidate.name}", candidate.digest, decision)
    topics = {move.topic_partition.topic for move in candidate.moves}
    tables = SnapshotTables(folder, topics, decision.snapshot_digest)
    left_out = read_left_out(folder, candidate)
    return ApprovedPlan(folder, snapshot, snapshot.asked, decision, candidate, left_out, tables)


def _read_decision(inputs: StepInputs, decision: Mapping[str, Any]) -> tuple[RunFolder, Decision]:
    """The run's folder and its decision.json; `decision` is what `approve` pushed to XCom.

    Raises ApprovalError unless both approve the same, RunFolderError if the folder is another run's.
    """
    told = decode(ToldDecision, decision, "The XCom decision")
    folder = open_own_folder(inputs.deployment, told.run_folder, inputs.run, told.nonce)
    written, digest = DECISION_FILE.read_with_digest(folder)
    same = (written.choice, written.digest, digest) == (told.choice, told.digest, told.decision_digest)
    if not same or not written.is_approval:
        raise ApprovalError(
            f"{folder / json_files.DECISION} is not the decision that was given in Airflow "
            f"({told.choice!r}, digest {str(told.digest)[:8]}). "
            "Start a new Dag run."
        )
    return folder, written


def _check_request(file: Folder, digest: str, approved: str | None) -> None:
    """Raises ApprovalError unless the document of the run's first task is as it was at the approval.

    It names the cluster, the connection, the window and the limits. None: an earlier version did not note its digest.
    """
    if approved not in (None, digest):
        raise other_than_approved(file)


def _check_digest(what: str, digest: str, decision: Decision) -> None:
    if digest != decision.digest:
        raise ApprovalError(
            f"{what} has digest {digest[:8]}, but digest {str(decision.digest)[:8]} was approved. Start a new Dag run."
        )


class _HasDigest(Protocol):
    @property
    def digest(self) -> str: ...


class _HasConnection(Protocol):
    @property
    def connection_id(self) -> str: ...


D = TypeVar("D", bound=_HasConnection)
T = TypeVar("T", bound=_HasDigest)


@dataclass(frozen=True, slots=True)
class ApprovedRequest(Generic[D, T]):
    """What kafka_rebalance_cancel or kafka_topics was approved to do."""

    folder: RunFolder
    written: D  # the document of the run's first task
    decision: Decision
    plan: T

    @property
    def connection_id(self) -> str:
        return self.written.connection_id


def read_approved_request(
    inputs: StepInputs,
    decision: Mapping[str, Any],
    file: JsonFile[D],
    plan_in: Callable[[D], T],
    name: Callable[[T], str],
) -> ApprovedRequest[D, T]:
    """The approved plan of that file. Raises ApprovalError if the file has another plan, ArtifactError."""
    folder, given = _read_decision(inputs, decision)
    written, digest = file.read_with_digest(folder)
    # These documents are what the decision comes from, so earlier versions have noted the digest too.
    _check_request(folder / file.name, digest, given.request_digest or given.source_digest)
    plan = plan_in(written)
    _check_digest(name(plan), plan.digest, given)
    return ApprovedRequest(folder, written, given, plan)


def check_may_begin(
    deployment: Deployment,
    approved: ApprovedRequest[Any, Any],
    *,
    window: Window = Window(),  # noqa: B008  immutable
) -> Policy:
    """The connection's policy, for the moment before the first write.

    With a `window` the approval's age counts from its first opening.

    Raises ApprovalError if the approval has expired, RunFolderError if it is of an earlier attempt, StaleProposalError
    if the policy has changed.
    """
    given = approved.decision
    policy = deployment.check_policy_unchanged(approved.connection_id, given.policy_digest)
    check_newest_attempt(approved.folder)
    if given.approved_by is not None:
        begins_at = window.waits_until(given.given_at)
        expires = policy.approval_expires_after_seconds
        check_approval_fresh(given.given_at, expires, clock.utc_now(), not_before=begins_at)
    return policy


# Approved moves that the run does not make: their partitions have changed, and the policy lets the run leave them out.
#
# A move that was left out once stays in left_out.json, whatever a retry finds.


def read_left_out(folder: RunFolder, candidate: Candidate) -> tuple[LeftOut, ...]:
    """The moves left out of this candidate so far. Raises ArtifactError if the file is of another candidate."""
    noted = LEFT_OUT_FILE.read_if_there(folder)
    if noted is None:
        return ()
    strange = {move.topic_partition for move in noted.partitions} - {move.topic_partition for move in candidate.moves}
    if noted.source_digest != candidate.digest or strange:
        raise ArtifactError(
            f"{folder / json_files.LEFT_OUT} is not of the approved candidate {candidate.name}. Start a new Dag run."
        )
    return noted.partitions


def read_remaining(folder: RunFolder, name: str) -> Candidate:
    """The candidate without the moves left out: what the run follows, throttles and verifies."""
    candidate = read_candidate(folder, name)
    return without(candidate, read_left_out(folder, candidate))


def without(candidate: Candidate, left_out: Sequence[LeftOut]) -> Candidate:
    """The candidate's other moves, under the digest that was approved."""
    if not left_out:
        return candidate
    gone = {move.topic_partition for move in left_out}
    moves = tuple(move for move in candidate.moves if move.topic_partition not in gone)
    return dataclasses.replace(candidate, moves=moves)


def leave_out(
    folder: RunFolder, approved: Candidate, so_far: Sequence[LeftOut], drifted: Sequence[MoveDrift], view: ClusterView
) -> tuple[LeftOut, ...]:
    """Notes that these are left out from now on, and the scores of what remains; returns all that are left out."""
    now = clock.utc_second()
    moves = {move.topic_partition: move for move in approved.moves}
    more = [
        LeftOut(
            *name, moves[name].batch, moves[name].before, moves[name].after, moves[name].bytes_to_copy,
            tuple(map(str, drift.why)), now,
        )
        for drift in drifted for name in [drift.move.topic_partition]
    ]  # fmt: skip
    everything = (*so_far, *more)
    remaining = LeftOutMoves(everything, _scores(folder, approved, everything, view))
    LEFT_OUT_FILE.write(folder, remaining, source_digest=approved.digest)
    return everything


def _scores(
    folder: RunFolder, approved: Candidate, left_out: Sequence[LeftOut], view: ClusterView
) -> Mapping[str, Mapping[str, Score]]:
    # Imported here: 10 MB of modules that the triggerer, which reads left_out.json, does not need.
    from kafka_rebalance.planning.evenness import scores_with
    from kafka_rebalance.planning.tables.read_problem import read_problem

    settings = read_settings(folder)
    problem = read_problem(folder / json_files.SNAPSHOT_FOLDER, settings)
    planned = {move.topic_partition: move.after for move in approved.moves}
    kept = {move.topic_partition: move.after for move in without(approved, left_out).moves}
    now = {
        move.topic_partition: view.partitions[move.topic_partition].replicas
        for move in left_out
        if move.topic_partition in view.partitions
    }
    return {"approved": scores_with(problem, planned), "remaining": scores_with(problem, kept | now)}


def check_left_out(left_out: Sequence[LeftOut]) -> tuple[Check, ...]:
    """The verification's results: a warning for each, with the reason."""
    return tuple(
        Check(
            CheckName.LEFT_OUT,
            str(move.topic_partition),
            "moved as approved, or left out because it was no longer as approved",
            f"left out on purpose: {'; '.join(move.why)}",
            True,
            "warning",
        )
        for move in left_out
    )


# left_out.json: approved moves that are not made, because their partitions are no longer as approved.


@dataclass(frozen=True, slots=True)
class LeftOut:
    topic: str
    partition: int
    batch: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int
    why: tuple[str, ...]
    at: Time

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class LeftOutMoves:
    """All moves that are left out. `scores`: of the approved plan and of what remains, by metric."""

    partitions: tuple[LeftOut, ...]
    scores: Mapping[str, Mapping[str, Score]]
    source_digest: str | None = omitted()  # of the approved candidate


LEFT_OUT_FILE = JsonFile(LEFT_OUT, LeftOutMoves)
