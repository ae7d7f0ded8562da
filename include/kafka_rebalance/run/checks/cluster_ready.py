"""Whether the cluster as a whole may be planned on, or written to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kafka_rebalance.errors import ClusterNotReadyError
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import Finding, some
from kafka_rebalance.model.partition import PartitionView, TopicPartition
from kafka_rebalance.moves.stuck_request import request_of_what_is_gone
from kafka_rebalance.moves.what_waits import waiting_for
from kafka_rebalance.moves.who_moves import WhoMoves, how_it_ends, nobody_known


def refuse(findings: Iterable[Finding]) -> None:
    """Raises ClusterNotReadyError with every finding, if there is one."""
    findings = tuple(findings)
    if findings:
        listed = "\n".join(f"- {finding}" for finding in findings)
        raise ClusterNotReadyError(f"The cluster is not ready, so this task does not go on.\n{listed}")


def readiness_findings(
    view: ClusterView,
    *,
    expected_cluster_id: str | None = None,
    may_be_down: Collection[int] = frozenset(),
    topics: Collection[str] | None = None,
    own: Collection[TopicPartition] = (),
    who_moves: WhoMoves = nobody_known,
    needed: Collection[TopicPartition] = (),
) -> tuple[Finding, ...]:
    """Every reason why a run may not plan or write now.

    `may_be_down`: brokers that are to be emptied or replaced, so they may be away. `topics`: look for partitions
    without a leader, brokers that are down and deletions only there; None: everywhere. `own`: what the run moves.
    `needed`: the moves of a plan. What else waits for brokers that may be down (`waiting_for`) is no finding.
    """
    waits = waiting_for(view, may_be_down)
    if needed:
        stuck = {tp.topic for tp in needed if tp in waits}
        waits = {tp: away for tp, away in waits.items() if tp not in needed and tp.topic not in stuck & view.deletions}
    partitions = {tp: p for tp, p in view.partitions.items() if topics is None or tp.topic in topics}
    return (
        *_identity(view, expected_cluster_id),
        *_controller(view),
        *_reassignments(view, own, who_moves),
        *_requests(view, topics, {tp.topic for tp in waits}),
        *_leaderless(view, {tp: p for tp, p in partitions.items() if tp not in waits}),
        *_down(view, partitions, may_be_down),
    )


def _identity(view: ClusterView, expected: str | None) -> Iterable[Finding]:
    if expected is not None and view.cluster_id != expected:
        yield Finding(
            f"cluster {view.cluster_id}",
            f"the connection expects cluster {expected}",
            "Correct the addresses, or expected_cluster_id, of the connection",
        )


def _controller(view: ClusterView) -> Iterable[Finding]:
    controller = view.controller
    if controller is None:
        subject = "/controller" if view.traits.has_request_znode else "controller"
        yield Finding(subject, "there is no controller", "Wait until one is elected; see the logs of those who may be")
        return
    if controller.kraft_epoch >= 0:
        yield Finding(
            "/controller",
            f"a KRaft controller owns the cluster (epoch {controller.kraft_epoch}): somebody migrates it off ZooKeeper",
            "Use Kafka's own reassignment API until the migration is over",
        )
    elif controller.broker not in view.brokers.keys() | view.voters:
        yield Finding(
            f"controller {controller.broker}",
            "it is not a registered broker",
            "Wait until a registered broker is elected; see the brokers' logs",
        )


def _reassignments(view: ClusterView, own: Collection[TopicPartition], who_moves: WhoMoves) -> Iterable[Finding]:
    gone = request_of_what_is_gone(view)
    if gone is not None:
        yield gone
    elif view.reassignments is not None:
        what = some(sorted(view.reassignments)) if view.reassignments else "it is empty, and still blocks every request"
        yield Finding(
            "/admin/reassign_partitions",
            f"a reassignment is under way ({what})",
            "Wait for its end. If it makes no progress, see the controller's log. Do not delete the znode: that "
            "cancels nothing",
        )
    moving = (tp for tp, one in view.partitions.items() if one.in_motion and tp not in own)
    yield from moving_by_api(moving, who_moves)


def moving_by_api(partitions: Iterable[TopicPartition], who_moves: WhoMoves = nobody_known) -> Iterable[Finding]:
    """The finding about partitions to which Kafka adds replicas, or from which it removes some (2.4+)."""
    moving = sorted(partitions)
    if moving:
        yield Finding(
            "reassignments",
            f"replicas are being added or removed ({some(moving)})",
            how_it_ends(moving, who_moves),
        )


def _requests(view: ClusterView, topics: Collection[str] | None, waiting: Collection[str]) -> Iterable[Finding]:
    if view.elections is not None:
        yield Finding(
            "/admin/preferred_replica_election",
            f"a preferred election is under way ({some(sorted(view.elections)) if view.elections else 'it is empty'})",
            "It ends within seconds. If it stays, it names a partition that does not exist: only another controller "
            "removes it",
        )
    deleted = sorted(
        view.deletions - set(waiting) if topics is None else view.deletions.intersection(topics) - set(waiting)
    )
    if deleted:
        yield Finding(
            "/admin/delete_topics",
            f"topics are being deleted ({some(deleted)})",
            "Wait until they are gone; deletion waits for brokers that are down",
        )


def _leaderless(view: ClusterView, partitions: Mapping[TopicPartition, PartitionView]) -> Iterable[Finding]:
    without = sorted(tp for tp, partition in partitions.items() if partition.leader not in view.brokers)
    if without:
        empty = {tp: list(partitions[tp].may_lead) for tp in without if not partitions[tp].isr}
        named = some([f"{tp} {may_lead}" for tp, may_lead in empty.items() if may_lead])
        eligible = f". Where the ISR is empty, one of these may lead: {named}" if any(empty.values()) else ""
        yield Finding(
            f"{len(without)} partition{'s' if len(without) > 1 else ''} without a live leader",
            some(without),
            f"Start the brokers of their in-sync replicas: Kafka can copy nothing without a leader{eligible}",
        )


def _down(
    view: ClusterView, partitions: Mapping[TopicPartition, PartitionView], may_be_down: Collection[int]
) -> Iterable[Finding]:
    named: dict[int, list[TopicPartition]] = {}
    for tp, partition in partitions.items():
        for broker in partition.replicas:
            if broker not in view.brokers and broker not in may_be_down:
                named.setdefault(broker, []).append(tp)
    for broker, held in sorted(named.items()):
        yield Finding(
            f"broker {broker}",
            f"it is not registered and holds {len(held)} replica{'s' if len(held) > 1 else ''} ({some(sorted(held))})",
            "Start it, or name it in drain or replace",
        )
