"""Whether the approved moves still fit the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from kafka_rebalance.errors import ReadError, SettingsError, StaleProposalError
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.model.amounts_in_words import bytes_in_words
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.cluster_view import ClusterView
from kafka_rebalance.model.finding import listed, some
from kafka_rebalance.model.partition import PartitionView, TopicIdentity, TopicPartition, replica_list_problem
from kafka_rebalance.model.settings import Settings
from kafka_rebalance.moves.move_stage import Stage, headed_elsewhere, headed_for, stage_in

LEAST_GROWTH_BYTES = 1_000_000  # less needs no second look of a person, whatever share of the plan it is


class Drift(StrEnum):
    """How a partition differs from what was approved."""

    UNCHANGED = "unchanged"
    HARMLESS = "harmless"  # in-sync replicas, leader, other partitions of the topic: no approved list depends on them
    CONFLICT = "conflict"  # the move would not do what was approved


@dataclass(frozen=True, slots=True)
class PartitionThen:
    """One partition as the snapshot has it; None: not known."""

    replicas: tuple[int, ...]
    isr: frozenset[int] | None = None
    leader: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerThen:
    """One broker as the snapshot has it."""

    czxid: int | None  # None: not known, or it was not registered
    rack: str | None = None
    held_replicas: bool = True


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the snapshot read: every partition of the plan's topics, the topics, and all brokers."""

    topics: Mapping[str, TopicIdentity]
    brokers: Mapping[int, BrokerThen]
    partitions: Mapping[TopicPartition, PartitionThen]


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of something that moves depend on: `topic orders`, `broker 4`, or the partition itself."""

    subject: str
    words: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.words}"


@dataclass(frozen=True, slots=True)
class MoveDrift:
    move: Move
    drift: Drift
    why: tuple[Difference, ...]  # empty where nothing has changed
    left: bool  # whether it is still to be done


def registered_again(view: ClusterView, then: Baseline) -> frozenset[int]:
    """Brokers that have registered again since the snapshot: they were restarted, or lost their session."""
    return frozenset(
        broker
        for broker, now in view.brokers.items()
        if broker in then.brokers
        and None not in (then.brokers[broker].czxid, now.czxid)
        and now.czxid != then.brokers[broker].czxid
    )


def drifts(
    moves: Sequence[Move],
    view: ClusterView,
    then: Baseline,
    *,
    batches_touched: Collection[int] = frozenset(),
    came_back_empty: Collection[int] = frozenset(),
    shut: Mapping[int, Shut] = MappingProxyType({}),
) -> tuple[MoveDrift, ...]:
    """Every move of the candidate, classified. `view` has every partition of their topics.

    `batches_touched`: numbers of the batches that this run has requested (`Position.begun`). Their partitions may be on
    their way or at their target, and the controller rewrites the znodes of their topics. `came_back_empty`: brokers
    that hold nothing of what the snapshot found on their disks. `shut`: brokers that Kafka gives no new replica.
    """
    touched = {move.topic_partition.topic for move in moves if move.batch in batches_touched}
    topics = {move.topic_partition.topic for move in moves}
    one_of = {tp.topic: partition for tp, partition in view.partitions.items()}
    gone = {t: d for t in topics if (d := _topic_conflict(t, one_of.get(t), view, then.topics.get(t))) is not None}
    grown = {
        t: d for t in topics - set(gone) if (d := _topic_drift(t, one_of[t], view, then, t in touched)) is not None
    }
    brokers = {
        broker: _target(broker, view, then.brokers.get(broker), broker in came_back_empty)
        for broker in {broker for move in moves for broker in move.after}
    }
    drifted = []
    for move in moves:
        tp, ours = move.topic_partition, move.batch in batches_touched
        problem = None if tp.topic in gone else _partition_conflict(move, view, ours)
        is_to_do = problem is None and tp.topic not in gone and (not ours or stage_in(move, view) is Stage.UNTOUCHED)
        why = [gone[tp.topic]] if tp.topic in gone else []
        why += [Difference(str(tp), problem)] if problem is not None else []
        targets = [brokers[broker] for broker in move.after] if is_to_do else []
        why += [difference for drift, difference in targets if drift is Drift.CONFLICT and difference]
        why += [_receives_nothing(broker, shut[broker]) for broker in move.added if is_to_do and broker in shut]
        if is_to_do and not move.is_election:
            why += [_stays_on_cordoned(b) for b in move.after if b in move.before and shut.get(b) is Shut.CORDONED]
        if why:
            drifted.append(MoveDrift(move, Drift.CONFLICT, tuple(why), is_to_do))
            continue
        harmless = [difference for _, difference in targets if difference]
        harmless += [grown[tp.topic]] if tp.topic in grown else []
        harmless += _state_drift(move, view, then.partitions.get(tp)) if is_to_do else []
        drifted.append(MoveDrift(move, Drift.HARMLESS if harmless else Drift.UNCHANGED, tuple(harmless), is_to_do))
    return tuple(drifted)


def conflicts(drifted: Iterable[MoveDrift]) -> tuple[MoveDrift, ...]:
    return tuple(drift for drift in drifted if drift.drift is Drift.CONFLICT)


def check_no_conflict(drifted: Sequence[MoveDrift], *, begun: bool) -> None:
    """Raises StaleProposalError that names each conflict with its partitions."""
    if named := named_by_reason(conflicts(drifted)):
        listed = "\n".join(f"- {line}" for line in named)
        state = "No further move was requested" if begun else "No move was requested"
        raise StaleProposalError(
            f"The cluster is no longer the one that was approved. {state}. "
            f"Start a new Dag run to plan from the current cluster.\n{listed}"
        )


def named_by_reason(drifted: Iterable[MoveDrift]) -> tuple[str, ...]:
    """One line for each difference, with the partitions that it concerns if it is not the partition's own."""
    by_reason: dict[Difference, list[TopicPartition]] = {}
    for drift in drifted:
        for difference in drift.why:
            by_reason.setdefault(difference, []).append(drift.move.topic_partition)
    return tuple(
        str(reason) if reason.subject == str(named[0]) else f"{reason} ({', '.join(map(str, named))})"
        for reason, named in by_reason.items()
    )


def _topic_conflict(
    topic: str, now: PartitionView | None, view: ClusterView, then: TopicIdentity | None
) -> Difference | None:
    subject = f"topic {topic}"
    if now is None:
        return Difference(subject, "it was deleted")
    if topic in view.deletions:
        return Difference(subject, "it is being deleted")
    if then is None:
        return Difference(subject, "the snapshot does not know it")
    marks = (("creation zxid", then.czxid, now.topic_czxid), ("topic id", then.topic_id, now.topic_id))
    compared = [(name, was, mark) for name, was, mark in marks if None not in (was, mark)]
    for name, was, mark in compared:
        if was != mark:
            return Difference(subject, f"it was deleted and made again ({name} {mark}, approved {was})")
    if not compared and any(was is not None for _, was, _ in marks):
        # The snapshot was read by ZooKeeper, this view by the Admin API, and ZooKeeper had no id for the topic.
        return Difference(subject, "nothing tells whether it is still the approved one")
    return None


def _topic_drift(
    topic: str, partition: PartitionView, view: ClusterView, then: Baseline, touched: bool
) -> Difference | None:
    """What has changed in a topic besides the approved partitions: more partitions, or lists that others rewrote.

    `one` is any of its partitions.
    """
    known, version = then.topics[topic].znode_version, partition.topic_znode_version
    if touched or None in (known, version) or version == known:
        return None
    now = {tp: partition for tp, partition in view.partitions.items() if tp.topic == topic}
    added = sorted(tp for tp in now if tp not in then.partitions)
    other = sorted(tp for tp in now if tp in then.partitions and now[tp].replicas != then.partitions[tp].replicas)
    what = [f"{len(added)} partition{'s' if len(added) > 1 else ''} added ({some(added)})"] if added else []
    what += [f"lists of other partitions rewritten ({some(other)})"] if other else []
    how = " and ".join(what) or "its lists are the same"
    return Difference(f"topic {topic}", f"its znode is at version {version}, the snapshot read {known}: {how}")


def _partition_conflict(move: Move, view: ClusterView, ours: bool) -> str | None:
    """Why this move no longer fits; `ours`: this run has requested it, so it may run or have ended."""
    partition = view.partitions.get(move.topic_partition)
    if partition is None:
        return "it no longer exists"
    rule = replica_list_problem(move.after)
    if rule is not None:
        return f"the approved list {list(move.after)} must not reach Kafka: {rule}"
    stage = stage_in(move, view)
    elected = move.is_election and stage is Stage.DONE  # no matter who did it: the list is the approved one
    if stage is Stage.UNTOUCHED or (ours and stage.has_left_a_trace) or elected:
        return None
    requested = (view.reassignments or {}).get(move.topic_partition)
    towards = headed_elsewhere(move, partition, requested) or headed_for(partition, requested)
    if towards is not None:
        return f"it is being moved to {list(towards)} by somebody else"
    now = partition.replicas
    factor = "" if len(now) == len(move.before) else f" (replication factor {len(now)}, was {len(move.before)})"
    return f"replicas are now {list(now)}{factor}, the approved proposal starts from {list(move.before)}"


def _state_drift(move: Move, view: ClusterView, then: PartitionThen | None) -> list[Difference]:
    """In-sync replicas and leader change all the time."""
    if then is None:
        return []
    partition, subject = view.partitions[move.topic_partition], str(move.topic_partition)
    differences = []
    if then.isr is not None and set(partition.isr) != then.isr:
        differences.append(
            Difference(subject, f"replicas {sorted(partition.isr)} are in sync, {sorted(then.isr)} were")
        )
    if then.leader is not None and partition.leader != then.leader:
        differences.append(Difference(subject, f"broker {partition.leader} leads, it was {then.leader}"))
    return differences


def _target(
    broker: int, view: ClusterView, then: BrokerThen | None, came_back_empty: bool
) -> tuple[Drift, Difference | None]:
    """A broker of an approved list. If it registered again and has its data, it was restarted: it is the same."""
    subject, registration = f"broker {broker}", view.brokers.get(broker)
    if registration is None:
        return Drift.CONFLICT, Difference(subject, "it is to receive replicas and is not registered")
    again = "it has registered again since the snapshot"
    is_same = then is None or then.czxid is None or registration.czxid in (None, then.czxid)
    if then is not None and not view.traits.has_broker_epochs:
        again = "it is not as in the snapshot"
        is_same = registration.rack == then.rack and not came_back_empty
    if then is None or is_same:
        return Drift.UNCHANGED, None
    if registration.rack != then.rack:
        now = f"its rack is {registration.rack or 'unset'}, was {then.rack or 'unset'}"
        return Drift.CONFLICT, Difference(subject, f"{again}, and {now}: the approved lists keep to the old racks")
    lagging = sorted(
        tp for tp, partition in view.partitions.items() if broker in partition.replicas and broker not in partition.isr
    )
    if lagging or came_back_empty:
        why = f"not in sync on {some(lagging)}" if lagging else "its disks hold nothing of what they held"
        return Drift.CONFLICT, Difference(subject, f"{again} and may have come back empty: {why}")
    data = "with its data" if then.held_replicas else "as empty as it was"
    return Drift.HARMLESS, Difference(subject, f"{again}, {data}")


def _stays_on_cordoned(broker: int) -> Difference:
    """Kafka refuses every new list with such a broker, also for a replica that lies there (seen on 4.4.0)."""
    return Difference(
        f"broker {broker}", "new lists name it and it is cordoned (cordoned.log.dirs): Kafka refuses them"
    )


def _receives_nothing(broker: int, why: Shut) -> Difference:
    return Difference(f"broker {broker}", f"it is to receive replicas and {shut_in_words(why)}")


def check_growth(moves: Sequence[Move], sizes: Mapping[TopicPartition, int | None], limit: float) -> None:
    """Raises StaleProposalError if there is more to copy than was approved, by more than `limit` of it.

    `sizes` are the leaders' bytes now. Raises ReadError if one is None: nobody knows whether it is still the same.
    """
    copies = [move for move in moves if move.added]
    unknown = sorted(move.topic_partition for move in copies if sizes.get(move.topic_partition) is None)
    if unknown:
        raise ReadError(
            f"The leaders of {len(unknown)} partitions report no size ({some(unknown)}): their log directory may be "
            "offline. Repair the directory, then clear this task."
        )
    grown = {
        str(move.topic_partition): ((sizes[move.topic_partition] or 0) - move.size_bytes) * len(move.added)
        for move in copies
    }
    check_grown(sum(move.bytes_to_copy for move in copies), grown, limit)


def check_grown(approved: int, grown: Mapping[str, int], limit: float) -> None:
    """As `check_growth`. `approved`: the bytes to copy; `grown`: by how much, by the name of what is copied."""
    more = sum(grown.values())
    if more <= max(limit * approved, LEAST_GROWTH_BYTES):
        return
    most = sorted(grown, key=lambda name: -grown[name])[:5]
    named = ", ".join(f"{name} by {bytes_in_words(grown[name])}" for name in most if grown[name] > 0)
    raise StaleProposalError(
        f"There are {bytes_in_words(approved + more)} to copy, {bytes_in_words(approved)} were approved: partitions "
        f"have grown by {bytes_in_words(more)} since the snapshot. The policy's growth_limit is {limit:g} of what was "
        f"approved. The largest growth: {named}. Start a new Dag run, and ask for an approval of "
        "what it proposes."
    )


# Brokers that receive replicas although the run's settings let only others do so.


def check_only_receivers(moves: Iterable[Move], settings: Settings, brokers: Mapping[int, BrokerThen]) -> None:
    """Raises SettingsError if a move brings a replica to a broker that may not receive any.

    `brokers` are the snapshot's: what they say counts, and nothing that the planner has worked out.
    """
    receiving = settings.receivers(broker for broker, then in brokers.items() if not then.held_replicas)
    if receiving is None:
        return
    wrong = [move for move in moves if not receiving.issuperset(move.added)]
    if wrong:
        others = sorted({broker for move in wrong for broker in move.added} - receiving)
        raise SettingsError(
            f"The approved plan brings {some([move.topic_partition for move in wrong])} to broker {listed(others)}, "
            f"but by brokers_in only broker {listed(sorted(receiving))} may receive replicas. "
            "Do not trust the plan's files or the planner: find out why, then "
            "start a new Dag run."
        )
