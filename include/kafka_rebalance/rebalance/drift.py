"""Compares the cluster now with the plan that waits, for the run's page before the first write.

The web server reads the cluster here, so it reads little: one read at a time for a run, AT_ONCE for all runs. It keeps
an answer for KEPT_SECONDS, and nobody waits longer than PATIENCE_SECONDS.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafka_rebalance import clock
from kafka_rebalance.admin.log_dirs import read_dir_states
from kafka_rebalance.cluster.open_cluster import open_cluster
from kafka_rebalance.documents.proposals import PROPOSALS_FILE
from kafka_rebalance.documents.snapshot import SNAPSHOT_FILE
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.kafka.who_may_receive import Shut, who_is_shut
from kafka_rebalance.model.candidate import OFFERED, Candidate
from kafka_rebalance.model.partition import PartitionState, TopicPartition
from kafka_rebalance.pages.page import CandidateDrift, DriftReport
from kafka_rebalance.planning.tables.result_tables import read_candidate
from kafka_rebalance.run.approval_rules import DECISION_FILE, REJECT
from kafka_rebalance.run.checks.cluster_ready import readiness_findings
from kafka_rebalance.run.checks.drift import Baseline, Drift, MoveDrift, drifts, named_by_reason
from kafka_rebalance.run.inputs import Deployment
from kafka_rebalance.run.read_in_time import Reads, TooManyReads
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.run.snapshot_reader import SnapshotTables

log = logging.getLogger(__name__)

PATIENCE_SECONDS, KEPT_SECONDS, AT_ONCE = 5.0, 15.0, 4
STATES_READ = 20_000  # partitions; for more, only the lists are read
MOVES_COMPARED = 50_000  # of all candidates together; for more, only the first candidate is compared
NAMED = 20  # differences of a kind

Answer = DriftReport | str  # or why there is none

_reads: Reads[Answer] = Reads(AT_ONCE, KEPT_SECONDS)  # by the run's folder


def drift_now(deployment: Deployment, folder: RunFolder, patience_seconds: float = PATIENCE_SECONDS) -> Answer | None:
    """What `read_drift` gives for this run, or gave within KEPT_SECONDS; None if it takes too long."""
    try:
        return _reads.ask(str(folder), lambda: _answer(deployment, folder)).result(patience_seconds)
    except TooManyReads:
        return "The page is reading other clusters, which do not answer. Reload it later."
    except TimeoutError:
        return None


def _answer(deployment: Deployment, folder: RunFolder) -> Answer:
    try:
        return read_drift(deployment, folder)
    except RebalanceError as said:
        return str(said)
    except Exception as failed:
        # Neither text nor trace: a secrets backend or a library may have put a secret into them.
        log.warning("The cluster could not be read for the run's page: %s", type(failed).__name__)
        return f"The cluster could not be read ({type(failed).__name__})."


def read_drift(deployment: Deployment, folder: RunFolder) -> DriftReport:
    """Compares the approved candidate, or each that is offered, with the cluster. Raises RebalanceError.

    It asks no broker what it holds: the checks before the first write tell whether partitions have grown. Without
    ZooKeeper it asks those that are to receive replicas whether their log dirs take any.
    """
    snapshot = SNAPSHOT_FILE.read(folder)
    names, aside = _names(folder)
    candidates = [read_candidate(folder, name) for name in names]
    topics = {move.topic_partition.topic for candidate in candidates for move in candidate.moves}
    then = SnapshotTables(folder, topics).baseline
    states_read = len(then.partitions) <= STATES_READ
    connection = deployment.read_connection(snapshot.connection_id)
    with open_cluster(connection) as reader:
        view = reader.read_view(topics, known=None if states_read else _states(then))
    shut: dict[int, Shut] = {}
    if not view.traits.has_request_znode:  # no Kafka with ZooKeeper knows cordoned log dirs
        named = {
            broker for candidate in candidates for move in candidate.moves for broker in move.after
        } & view.brokers.keys()
        shut = who_is_shut(named, read_dir_states(connection.kafka, named), view.brokers)
    in_the_way = readiness_findings(
        view,
        expected_cluster_id=snapshot.cluster_id,
        may_be_down=snapshot.asked.leaving,
        topics=topics,
        needed={move.topic_partition for candidate in candidates for move in candidate.moves},
    )
    return DriftReport(
        snapshot.observed_at,
        clock.utc_now(),
        tuple(_summary(candidate, drifts(candidate.moves, view, then, shut=shut)) for candidate in candidates),
        tuple(map(str, in_the_way)),
        states_read,
        aside,
    )


def _names(folder: RunFolder) -> tuple[list[str], tuple[str, ...]]:
    """(the candidates to compare, those that are left aside).

    The approved one; before the approval, all that are offered, the recommended one first.
    """
    decision = DECISION_FILE.read_if_there(folder)
    if decision is not None:
        return ([decision.choice] if decision.choice not in (None, REJECT) else []), ()
    plan = PROPOSALS_FILE.read(folder)
    offered = {candidate.name: candidate for candidate in plan.candidates if candidate.status in OFFERED}
    names = sorted(offered, key=lambda name: name != plan.recommended)
    moves = sum(one.moved_replicas + one.leader_changes for one in offered.values())
    compared = names if moves <= MOVES_COMPARED else names[:1]
    return compared, tuple(names[len(compared) :])


def _states(then: Baseline) -> dict[TopicPartition, PartitionState | None]:
    """The states of the snapshot, as if nothing had changed; None if it knows none."""
    return {
        tp: None
        if partition.leader is None or partition.isr is None
        else PartitionState(partition.leader, 0, tuple(sorted(partition.isr)))
        for tp, partition in then.partitions.items()
    }


def _summary(candidate: Candidate, found: Sequence[MoveDrift]) -> CandidateDrift:
    unchanged, harmless, conflicts = (
        [one for one in found if one.drift is kind] for kind in (Drift.UNCHANGED, Drift.HARMLESS, Drift.CONFLICT)
    )
    numbers = len(unchanged), len(harmless), len(conflicts)
    return CandidateDrift(candidate.name, *numbers, _first(conflicts), _first(harmless))


def _first(found: Sequence[MoveDrift]) -> tuple[str, ...]:
    named = named_by_reason(found)
    more = (f"and {len(named) - NAMED} more",) if len(named) > NAMED else ()
    return tuple(line if len(line) <= 400 else line[:399] + "…" for line in named[:NAMED]) + more
