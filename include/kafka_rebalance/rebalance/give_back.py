"""Giving leadership back after a demote: the recorded lists as the plan of another run, and whose approval it has.

A demote is a verified run of job `leaders` with `drain`. The run that gives back is of job `leaders` too. Its only
candidate is the plan that this module makes, which re-orders lists and copies nothing.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from kafka_rebalance import clock
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.folder_owner import owner_if_named
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE, GivesBack
from kafka_rebalance.documents.storage import names_in
from kafka_rebalance.errors import ArtifactError, SettingsError, StaleProposalError
from kafka_rebalance.kafka.reassignment_json import canonical_plan, format_reassignment
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import TopicIdentity, TopicPartition
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import GIVE_BACK, GIVEN, Settings
from kafka_rebalance.moves.move_stage import headed_for
from kafka_rebalance.pages.units import format_count
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.approval_rules import Answer, approval_ends, label
from kafka_rebalance.run.approved_plan import ApprovedPlan, read_approved
from kafka_rebalance.run.check_result import VERIFICATION_FILE
from kafka_rebalance.run.checks.cluster_ready import refuse
from kafka_rebalance.run.clusters import REBALANCE_DAG
from kafka_rebalance.run.inputs import Deployment, StartedRun, StepInputs
from kafka_rebalance.run.run_folder import RunFolder, attempts, file_name
from kafka_rebalance.run.running_rebalance import approved_in

log = logging.getLogger(__name__)

DEMOTE_RUN_ID = "demote_run_id"  # the param of job `give_back`


@dataclass(frozen=True, slots=True)
class GiveBack:
    """`moves` go from the lists that the demote has left to the lists recorded before it."""

    document: GivesBack
    moves: tuple[Move, ...]
    internal_topics: bool  # whether some are of Kafka's own topics

    def settings_of(self, asked: Settings) -> Settings:
        """The settings of a run that offers this plan and no other."""
        plan = format_reassignment({move.topic_partition: move.after for move in self.moves})
        return replace(asked, plan=canonical_plan(plan), candidates=())


def read_give_back(
    deployment: Deployment, connection: ClusterConnection, asked: Settings, run_id: str | None
) -> GiveBack:
    """What goes back of the demote `run_id`, or of the demote that was verified last. `asked` selects the topics.

    Raises SettingsError without a demote, StaleProposalError if nothing is as it left it, and ClusterNotReadyError
    with the partitions while a broker that is to lead again is away or not in sync.
    """
    if asked.leaving or asked.plan is not None:
        raise SettingsError(
            f"Job {GIVE_BACK} takes its brokers and lists from the demote, so it has no drain, no replace and no plan. "
            "Nothing was read or written. Leave them empty, and start again."
        )
    demote = _read_demote(deployment, connection.connection_id, run_id)
    with open_cluster(connection) as cluster:
        view = cluster.read_view(demote.topics)
        kafkas_own = cluster.read_kafkas_own(view)
    if view.cluster_id != demote.snapshot.cluster_id:
        raise StaleProposalError(
            f"The connection leads to cluster {view.cluster_id}, and the demote was on {demote.snapshot.cluster_id}. "
            "Correct the connection."
        )
    back = reversed_moves(demote.candidate.moves, view, demote.tables.baseline.topics, asked)
    document = GivesBack(
        run_id=demote.snapshot.run_id,
        digest=demote.candidate.digest,
        brokers=demote.settings.drain,
        partitions=len(back.moves),
        unchanged=back.unchanged,
        left_out=back.left_out,
    )
    log.info("%s", document)
    for text in back.left_out:
        log.warning("Not given back: %s", text)
    if not back.moves:
        raise StaleProposalError(
            f"There is nothing to give back of {REBALANCE_DAG}/{document.run_id}: {back.unchanged} partitions have "
            f"their recorded lists, and {len(back.left_out)} are left out. {some(back.left_out, most=5)}".rstrip()
        )
    refuse(not_in_sync_again(back.moves, view))
    return GiveBack(document, back.moves, any(kafkas_own.holds_back(move.topic_partition.topic) for move in back.moves))


# The demote, found by the runs' folders.


def _read_demote(deployment: Deployment, connection_id: str, run_id: str | None) -> ApprovedPlan:
    connection = deployment.runs_root / file_name(connection_id)
    try:
        runs = [file_name(run_id)] if run_id else names_in(connection)
        demotes = [demote for run in runs for demote in _demotes_in(connection / run)]
    except ArtifactError as unreadable:
        remedy = "" if run_id else f" So it is unknown which demote is the newest. Name its run in {DEMOTE_RUN_ID}."
        raise type(unreadable)(f"{unreadable}{remedy}") from unreadable
    if not demotes:
        which = f"Run {run_id} is no verified demote" if run_id else "There is no verified demote"
        raise SettingsError(
            f"{which} of {connection_id}: that is a run of {REBALANCE_DAG} with job leaders and drain. Nothing was "
            f"written. Name its run in {DEMOTE_RUN_ID}, or start a run with job leaders."
        )
    _, folder = max(demotes, key=itemgetter(0))
    plan = approved_in(folder, None)
    assert plan is not None  # it was verified
    return plan


def _demotes_in(run: RunFolder) -> Iterator[tuple[object, RunFolder]]:
    """(when it was verified, folder) of each attempt that was a verified demote. Raises ArtifactError."""
    for folder in (run / str(number) for number in attempts(run)):
        owner = owner_if_named(folder)
        verification = VERIFICATION_FILE.read_if_there(folder) if owner and owner.dag_id == REBALANCE_DAG else None
        if verification is not None and verification.passed and SNAPSHOT_FILE.read(folder).asked.is_demote:
            yield verification.verified_at, folder


# What goes back, and what has to stay.


@dataclass(frozen=True, slots=True)
class Reversed:
    moves: tuple[Move, ...]
    unchanged: int  # partitions that have their recorded list
    left_out: tuple[str, ...]  # partitions that stay as they are, and why


def reversed_moves(
    demoted: Iterable[Move], view: ClusterView, recorded: Mapping[str, TopicIdentity], asked: Settings
) -> Reversed:
    """The moves of a demote, in reverse, of partitions that are as it left them. `recorded` are the topics then."""
    moves, unchanged, left_out = [], 0, []
    for move in sorted(demoted, key=lambda move: move.topic_partition):
        problem = _why_left_out(move, view, recorded.get(move.topic_partition.topic), asked)
        if problem is not None:
            left_out.append(f"{move.topic_partition} {problem}")
        elif view.partitions[move.topic_partition].replicas == move.before:
            unchanged += 1
        else:
            moves.append(Move(move.topic_partition, move.after, move.before, move.size_bytes))
    return Reversed(tuple(moves), unchanged, tuple(left_out))


def _why_left_out(move: Move, view: ClusterView, recorded: TopicIdentity | None, asked: Settings) -> str | None:
    now = view.partitions.get(move.topic_partition)
    if now is None:
        return "no longer exists"
    if not asked.selects(move.topic_partition.topic):
        return "is of a topic that topics_in and topics_out leave out"
    if recorded is not None and recorded.is_other(now):
        return "is of a topic that was deleted and made again since"
    if headed_for(now, (view.reassignments or {}).get(move.topic_partition)) is not None:
        return "is being reassigned"
    if now.replicas not in (move.before, move.after):
        return f"has replicas {list(now.replicas)}, which somebody else has given it since"
    return None


def not_in_sync_again(moves: Sequence[Move], view: ClusterView) -> Iterator[Finding]:
    """Brokers that are to lead again and cannot yet, with their partitions."""
    to_lead: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for move in moves:
        to_lead[move.after[0]].append(move.topic_partition)
    for broker, partitions in sorted(to_lead.items()):
        behind = [tp for tp in partitions if broker not in view.partitions[tp].isr]
        count, subject = format_count(len(partitions), "partition", "partitions"), f"broker {broker}"
        if broker not in view.brokers:
            yield Finding(
                subject, f"it is to lead {count} again ({some(partitions)}), and is not registered", "Start it"
            )
        elif behind:
            yield Finding(
                subject,
                f"it is to lead {count} again, and is not in sync for {len(behind)} of them ({some(behind)})",
                "Wait until it has caught up. If it does not, see its log, or leave out these topics with topics_out",
            )


# Whose approval it has: its own, or that of the demote, if the policy says so and the approver of the demote read so.


def answer_of_demote(
    inputs: StepInputs, folder: RunFolder, back: GivesBack, digests: Mapping[str, str], policy: Policy
) -> Answer | None:
    """The approval of the demote, as the answer to the plan in this folder; None if it does not count for that.

    `digests` are what the run offers. Errors as in `approved_demote`.
    """
    demote = approved_demote(inputs, back, policy)
    if demote is None:
        return None
    candidate, approver = read_candidate(folder, GIVEN), demote.decision.approved_by
    taken_away = {(move.topic_partition, move.after, move.before) for move in demote.candidate.moves}
    others = [
        move.topic_partition
        for move in candidate.moves
        if (move.topic_partition, move.before, move.after) not in taken_away
    ]
    if approver is None or others or dict(digests) != {GIVEN: candidate.digest}:
        log.warning("A person is asked: the plan is not the demote in reverse (%s)", some(others))
        return None
    return Answer(
        label(GIVEN, candidate.digest),
        approver.id,
        approver.name,
        throttle_bytes_per_second=None,
        note=f"Approved with the demote {REBALANCE_DAG}/{back.run_id}, digest {back.digest[:8]}",
        at=demote.decision.given_at,
    )


def approved_demote(inputs: StepInputs, back: GivesBack, policy: Policy) -> ApprovedPlan | None:
    """The demote, if its approval counts for giving it back as well; else None, and the log says why.

    Airflow must tell what the run approved, because people can edit files of the runs folder. Raises ApprovalError or
    ArtifactError if the files differ from that, ReadError if Airflow does not tell.
    """
    if not policy.demote_approves_give_back:
        log.info("A person is asked: the policy does not have demote_approves_give_back")
        return None
    told = inputs.deployment.other_runs.told_decision(REBALANCE_DAG, back.run_id)
    if not isinstance(told, Mapping):
        log.warning("A person is asked: Airflow no longer has the approval of %s", back.run_id)
        return None
    demote = read_approved(replace(inputs, run=StartedRun(REBALANCE_DAG, back.run_id)), told)
    given, expires = demote.decision, policy.approval_expires_after_seconds
    # Only a decision that holds the digest of snapshot.json binds what the approver read there.
    was_told = demote.snapshot.approves_give_back and given.request_digest is not None
    reasons = {
        "its approver was not told that it counts for this too": not was_told,
        "the demote has another plan now": demote.candidate.digest != back.digest,
        "the policy has changed since": given.policy_digest != policy.digest,
        f"it is older than approval_expires_after_seconds ({expires:g})": (
            clock.utc_now() > approval_ends(given.given_at, expires)
        ),
    }
    for why in (why for why, holds in reasons.items() if holds):
        log.warning("A person is asked: the approval of %s does not count, because %s", back.run_id, why)
        return None
    return demote
