"""Whether what was approved still fits the cluster: the partitions, their topics, the target brokers, the policy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kafka_rebalance.errors import StaleProposalError
from kafka_rebalance.execution.findings import some
from kafka_rebalance.model.cluster import ClusterView
from kafka_rebalance.model.partition import PartitionView, TopicIdentity, TopicPartition
from kafka_rebalance.model.proposal import Move
from kafka_rebalance.model.rules import replica_list_problem


def topic_identities(partitions: Mapping[TopicPartition, PartitionView]) -> dict[str, TopicIdentity]:
    """The identity of each topic, as a view of the cluster has it."""
    return {
        tp.topic: TopicIdentity(partition.topic_znode_version, partition.topic_czxid, partition.topic_id)
        for tp, partition in partitions.items()
    }


def check_unchanged(
    moves: Sequence[Move],
    view: ClusterView,
    *,
    snapshot_topics: Mapping[str, TopicIdentity],
    registered_czxid: Mapping[int, int | None],
    batches_touched: Collection[int] = frozenset(),
) -> tuple[Move, ...]:
    """The moves still to do, after a check that the cluster is the one that was approved.

    Raises StaleProposalError naming each partition, topic and broker that is not. `moves`: all of the candidate.
    `snapshot_topics` and `registered_czxid` are the snapshot's. `batches_touched`: numbers of the batches this run has
    requested (`Position.touched`); empty before the first write, when the check is strict:

    * a topic's znode must have the snapshot's version until this run has changed that topic; afterwards the controller
      itself rewrites it for our moves, so from then on only the lists, the creation id and the topic id count;
    * a target must be registered under the snapshot's czxid, since a broker that registered again may have come back
      empty. Once moves have begun, one that registered again is accepted if it is in sync wherever it holds a replica:
      then it has its data, and a target that returns must not stop a run that waited for it.

    In-sync replicas, leaders and their epochs may differ: they change all the time and no list depends on them.
    """
    stale: list[str] = []
    touched_topics = {move.topic_partition.topic for move in moves if move.batch in batches_touched}
    left = []
    for move in moves:
        ours = move.batch in batches_touched
        problem = _partition_problem(move, view, ours)
        if problem is not None:
            stale.append(f"{move.topic_partition}: {problem}")
        elif not ours or _is_untouched(move, view):
            left.append(move)
    # Any partition of a topic tells: version and ids are those of the topic's znode.
    one_of = {tp.topic: partition for tp, partition in view.partitions.items()}
    for topic in sorted({move.topic_partition.topic for move in moves}):
        problem = _topic_problem(
            one_of.get(topic), topic in view.deletions, snapshot_topics.get(topic), topic in touched_topics
        )
        if problem is not None:
            stale.append(f"topic {topic}: {problem}")
    targets = sorted({broker for move in left for broker in move.after})
    begun = bool(batches_touched)
    stale += [
        f"broker {broker}: {problem}"
        for broker in targets
        if (problem := _target_problem(broker, view, registered_czxid.get(broker), begun)) is not None
    ]
    if stale:
        listed = "\n".join(f"- {problem}" for problem in stale)
        state = "No further move was requested" if begun else "Nothing was written"
        raise StaleProposalError(
            f"The cluster is no longer the one that was approved. {state}. "
            f"Start a new Dag run to plan from the current cluster.\n{listed}"
        )
    return tuple(left)


def _partition_problem(move: Move, view: ClusterView, ours: bool) -> str | None:
    """Why this move no longer fits; `ours`: it has been requested by this run, so it may run or have ended."""
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return "it no longer exists"
    rule = replica_list_problem(move.after)
    if rule is not None:
        return f"the approved list {list(move.after)} must not reach Kafka: {rule}"
    asked = (view.reassignments or {}).get(move.topic_partition)
    target = tuple(broker for broker in partition.replicas if broker not in partition.removing)
    moving = asked is not None or bool(partition.adding or partition.removing)
    if moving:
        towards = asked if asked is not None else target
        if ours and towards == move.after:
            return None
        return f"it is being moved to {list(towards)} by somebody else"
    now = partition.replicas
    union = set(move.before) | set(move.after)
    if now == move.before or (ours and (now == move.after or set(now) == union)):
        return None
    return f"replicas are now {list(now)}, the approved proposal starts from {list(move.before)}"


def _is_untouched(move: Move, view: ClusterView) -> bool:
    """Whether a move that was requested has left no trace: the controller dropped it."""
    partition = view.partitions[move.topic_partition]
    asked = move.topic_partition in (view.reassignments or {})
    return partition.replicas == move.before and not (asked or partition.adding or partition.removing)


def _topic_problem(now: PartitionView | None, deleting: bool, then: TopicIdentity | None, touched: bool) -> str | None:
    if now is None:
        return "it was deleted"
    if deleting or then is None:
        return "it is being deleted" if deleting else "the snapshot does not know it"
    again = "it was deleted and made again"
    if then.czxid is not None and now.topic_czxid != then.czxid:
        return f"{again} (creation zxid {now.topic_czxid}, approved {then.czxid})"
    if then.topic_id is not None and now.topic_id != then.topic_id:
        return f"{again} (topic id {now.topic_id}, approved {then.topic_id})"
    if touched or then.znode_version in (None, now.topic_znode_version):
        return None
    return (
        f"its znode is at version {now.topic_znode_version}, the snapshot read {then.znode_version}: partitions were "
        "added or lists rewritten"
    )


def _target_problem(broker: int, view: ClusterView, then: int | None, begun: bool) -> str | None:
    registration = view.brokers.get(broker)
    if registration is None:
        return "it is to receive replicas and is not registered"
    if then is None or registration.czxid is None or registration.czxid == then:
        return None
    lagging = sorted(
        tp for tp, partition in view.partitions.items() if broker in partition.replicas and broker not in partition.isr
    )
    if begun and not lagging:
        return None
    why = f"; not in sync on {some(lagging)}" if lagging else ""
    return f"it has registered again since the snapshot and may have come back empty{why}"


def check_policy_unchanged(approved: str | None, now: str | None) -> None:
    """Raises StaleProposalError unless the policy's digest is still the one that was approved; None: no policy file."""
    if approved is None or now is None:
        which = "when this was planned" if approved is None else "any more"
        raise StaleProposalError(
            f"The cluster has no policy {which}, so it is read-only. Nothing was written. Add its policy file and "
            "start a new Dag run."
        )
    if approved != now:
        raise StaleProposalError(
            f"The policy has changed: {approved[:8]} was approved, it is {now[:8]} now. Nothing was written. Start a "
            "new Dag run to plan under the current policy."
        )
