"""What moves in a batch and since when, and what keeps copies from going on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafka_rebalance.model.amounts_in_words import duration_in_words
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.partition import ReplicaBytes, TopicPartition
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase
from kafka_rebalance.moves.stuck_request import another_controller
from kafka_rebalance.rebalance.controller_findings import BatchFinding, FindingKind

# What moves in a batch and since when: the time in each phase, and the bytes from each source to each target.
#
# A copy makes progress when its bytes grow. If they fall, that is neither progress nor a stall: the broker truncates
# the log to the leader's epoch, retention deletes its oldest segments, or compaction rewrites them.


QUICK_PHASE_SECONDS = 120.0  # phases without a copy take milliseconds to seconds (seen on 2.0.1 to 3.9.2)
OVERDUE_FACTOR = 3.0  # times what the plan gives a copy at the throttle
OVERDUE_MARGIN_SECONDS = 60.0
OPEN = frozenset({Phase.REGISTERED, Phase.COPYING, Phase.IN_ISR, Phase.TRIMMING})
BEGUN = OPEN - {Phase.REGISTERED}

NEXT = {
    Phase.QUEUED: "it is requested with its batch",
    Phase.REGISTERED: "the controller starts the new replicas",
    Phase.COPYING: "the copy reaches its leader's end and joins the ISR",
    Phase.IN_ISR: "the controller gives the lead to the approved replicas and stops the old ones",
    Phase.TRIMMING: "the old replicas leave, and the final list is written",
    Phase.DONE: "nothing, it is in place",
    Phase.REFUSED: "nothing, it will not move",
    Phase.TAKEN_BACK: "nothing, it was cancelled",
}
_REMEDIES = {
    Phase.REGISTERED: "The controller has not taken it up: see its log. If somebody has deleted a reassignment znode "
    "by hand (2.4+), the controller notices no other until another controller is elected.",
    Phase.IN_ISR: "Every copy is in sync, and the controller does not end the move. It may have lost ZooKeeper's "
    f"answer to a write. {another_controller()}.",
    Phase.TRIMMING: "The old replicas do not leave: see the logs of the controller and of the brokers that hold them.",
}
_REMEDIES_WITHOUT_ZNODE = {
    Phase.REGISTERED: "The controller has not begun it: see its log.",
    Phase.IN_ISR: "Every copy is in sync, and the controller does not end the move: see its log.",
    Phase.TRIMMING: _REMEDIES[Phase.TRIMMING],
}


class Pair(NamedTuple):
    """Copies from one broker to another share a fetcher thread: what stops one often stops all of them."""

    source: int
    target: int

    def __str__(self) -> str:
        return f"copies from broker {self.source} to {self.target} do not grow"


@dataclass(frozen=True, slots=True)
class Movement:
    """What was seen at the last look, and when something last moved. Times are seconds of the wall clock."""

    at: float
    phases: Mapping[TopicPartition, tuple[Phase, float]]  # and since when
    copies: Mapping[tuple[TopicPartition, Pair], int | None]  # bytes of each copy under way, None: never read
    pairs: Mapping[Pair, float]  # when a copy of the pair last grew, began or ended
    changed_at: float  # when a partition last changed its phase
    begun: frozenset[TopicPartition] = frozenset()  # seen under way at this look or an earlier one

    def seconds_in_phase(self, tp: TopicPartition) -> float:
        return self.at - self.phases[tp][1]

    @property
    def idle_seconds(self) -> float:
        """Seconds since a move that is still open made progress; copies that have ended do not count."""
        open_phases = {phase for phase, _ in self.phases.values() if phase in OPEN}
        moved = list(self.pairs.values())
        if open_phases - {Phase.COPYING} or not moved:
            moved.append(self.changed_at)
        return self.at - max(moved)

    def standing(self, seconds: float) -> dict[Pair, float]:
        """Pairs of which no copy has grown for so long, and for how long."""
        return {pair: self.at - moved for pair, moved in sorted(self.pairs.items()) if self.at - moved >= seconds}


def observe(before: Movement | None, now: float, each: Sequence[PartitionProgress], sizes: ReplicaBytes) -> Movement:
    """What has moved since `before`. `sizes` holds what could be read; for the rest the last size stays known."""
    phases, changed_at = {}, now if before is None else before.changed_at
    for one in each:
        tp = one.move.topic_partition
        known = None if before is None else before.phases.get(tp)
        if known is None or known[0] is not one.phase:
            known, changed_at = (one.phase, now), now
        phases[tp] = known
    then = {} if before is None else before.copies
    copies = {
        (one.move.topic_partition, pair): sizes.get(one.move.topic_partition, {}).get(
            pair.target, then.get((one.move.topic_partition, pair))
        )
        for one in each
        if one.phase is Phase.COPYING
        for pair in (Pair(one.leader, broker) for broker in one.missing)
    }
    moved = {pair for (_, pair) in copies.keys() ^ then.keys()}
    for key, size in copies.items():
        if size is not None and (last := then.get(key)) is not None and size > last:
            moved.add(key[1])
    earlier = {} if before is None else before.pairs
    pairs = {pair: now if pair in moved else earlier.get(pair, now) for (_, pair) in copies}
    begun = {tp for tp, (phase, _) in phases.items() if phase in BEGUN}
    return Movement(now, phases, copies, pairs, changed_at, (before.begun if before else frozenset()) | begun)


def grown(before: Movement | None, movement: Movement, sizes: ReplicaBytes) -> dict[tuple[int, int], int]:
    """{(source, target): bytes} of pairs that copied at both looks, by copies that went on, began or ended meanwhile.

    So many small copies count as few large ones do. Bytes that a broker truncates or deletes do not, nor those of
    copies whose size is unknown.
    """
    if before is None:
        return {}
    both = before.pairs.keys() & movement.pairs.keys()
    begun = {(tp, pair.target) for tp, pair in before.copies}
    result: dict[tuple[int, int], int] = {}
    for key in before.copies.keys() | movement.copies.keys():
        tp, pair = key
        has_new_leader = key not in before.copies and (tp, pair.target) in begun
        if pair not in both or pair.source < 0 or has_new_leader:
            continue
        last = before.copies.get(key, 0)
        size = movement.copies[key] if key in movement.copies else sizes.get(tp, {}).get(pair.target)
        if size is not None and last is not None:
            result[pair] = result.get(pair, 0) + max(0, size - last)
    return result


def to_note(movement: Movement, named: Collection[TopicPartition]) -> dict[str, Any]:
    """What the next follower needs to go on counting from here: pairs, the phases of the partitions `named`, and what
    has been seen under way, as the numbers of each topic's partitions.
    """
    begun: dict[str, list[int]] = {}
    for topic, partition in sorted(movement.begun):
        begun.setdefault(topic, []).append(partition)
    return {
        "begun": begun,
        "changed_at": movement.changed_at,
        "counts": _counts(movement),
        "pairs": [[*pair, at, *_held(movement, pair)] for pair, at in sorted(movement.pairs.items())],
        "phases": [[*tp, movement.phases[tp][0], movement.phases[tp][1]] for tp in sorted(named)],
    }


def begun_in(note: Mapping[str, Any]) -> frozenset[TopicPartition]:
    """What earlier followers have seen under way; nothing if the note has another form."""
    begun = note.get("begun")
    if not isinstance(begun, Mapping) or not all(isinstance(numbers, list) for numbers in begun.values()):
        return frozenset()
    return frozenset(TopicPartition(topic, number) for topic, numbers in begun.items() for number in numbers)


def recall(first: Movement, note: Mapping[str, Any]) -> Movement:
    """The first look of a new follower, with the times of an earlier one for whatever has not moved since.

    So a task that is started again does not count a stall from zero. A note of another form is ignored.
    """
    first = replace(first, begun=first.begun | begun_in(note))
    try:
        pairs = {Pair(int(s), int(t)): (float(at), (int(held), int(n))) for s, t, at, held, n in note["pairs"]}
        phases = {
            TopicPartition(str(topic), int(partition)): (Phase(phase), float(since))
            for topic, partition, phase, since in note["phases"]
        }
        changed_at = float(note["changed_at"]) if note["counts"] == _counts(first) else first.changed_at
    except (KeyError, TypeError, ValueError):
        return first
    kept = {}
    for pair, at in first.pairs.items():
        (held, copies), then = _held(first, pair), pairs.get(pair)
        has_stood = then is not None and then[1][1] == copies and held <= then[1][0]
        kept[pair] = min(at, then[0]) if then is not None and has_stood else at
    since = {
        tp: (phase, min(at, phases[tp][1])) if tp in phases and phases[tp][0] is phase else (phase, at)
        for tp, (phase, at) in first.phases.items()
    }
    return replace(first, pairs=kept, phases=since, changed_at=min(changed_at, first.changed_at))


def _counts(movement: Movement) -> dict[str, int]:
    found = [phase for phase, _ in movement.phases.values()]
    return {str(phase): found.count(phase) for phase in Phase if phase in found}


def _held(movement: Movement, pair: Pair) -> tuple[int, int]:
    """Bytes of the pair's copies together, and how many there are."""
    sizes = [size or 0 for (_, of), size in movement.copies.items() if of == pair]
    return sum(sizes), len(sizes)


def anomalies(
    movement: Movement,
    each: Sequence[PartitionProgress],
    *,
    planned_seconds: float,
    standing_seconds: float,
    has_request_znode: bool = True,
) -> dict[TopicPartition | Pair, str]:
    """What takes longer than it should, each with what to do: pairs whose copies stand while others move, and
    partitions that are overdue. `planned_seconds`: what the batch takes at the throttle.
    """
    remedies = _REMEDIES if has_request_znode else _REMEDIES_WITHOUT_ZNODE
    found: dict[TopicPartition | Pair, str] = {}
    dead = {broker for one in each for broker in one.dead_targets}
    standing = movement.standing(standing_seconds)
    for pair, seconds in standing.items() if len(standing) < len(movement.pairs) else ():
        if pair.target not in dead and pair.source >= 0:
            found[pair] = (
                f"Copies from broker {pair.source} to {pair.target} have not grown for {duration_in_words(seconds)}, "
                f"while others have. See ReplicaFetcherThread in the log of broker {pair.target}: if it ended with an "
                "error, correct the cause and restart that broker. The copies go on by themselves."
            )
    for one in each:
        overdue = _overdue(one, movement.seconds_in_phase(one.move.topic_partition), planned_seconds, remedies)
        if overdue is not None:
            found[one.move.topic_partition] = overdue
    return found


def _overdue(
    one: PartitionProgress, seconds: float, planned_seconds: float, remedies: Mapping[Phase, str]
) -> str | None:
    tp = one.move.topic_partition
    if one.phase in remedies and seconds >= QUICK_PHASE_SECONDS:
        return f"{tp} has been {one.phase.in_words} for {duration_in_words(seconds)}. {remedies[one.phase]}"
    limit = OVERDUE_FACTOR * planned_seconds + OVERDUE_MARGIN_SECONDS
    if one.phase is Phase.COPYING and not one.dead_targets and seconds >= limit:
        return (
            f"{tp} has been copying for {duration_in_words(seconds)}; the plan gives its batch "
            f"{duration_in_words(planned_seconds)}. If its bytes grow, the throttle is too low for what producers "
            f"write: raise the rate. If the copy is already as large as the leader, broker {one.leader} leads it and "
            "does not add it to the ISR: restart that broker, or elect another leader. If the bytes do not grow, see "
            f"the log of the brokers that copy it ({', '.join(map(str, one.missing))})."
        )
    return None


def named(
    movement: Movement, each: Sequence[PartitionProgress], found: Collection[object], most: int = 20
) -> tuple[PartitionProgress, ...]:
    """The partitions to name: those with an anomaly, then those longest in their phase."""
    under_way = [one for one in each if one.phase in OPEN or one.anomaly is not None]
    under_way.sort(
        key=lambda one: (
            one.anomaly is None and one.move.topic_partition not in found,
            -movement.seconds_in_phase(one.move.topic_partition),
            one.move.topic_partition,
        )
    )
    return tuple(under_way[:most])


# Log dirs that have failed on brokers that receive copies of a batch.


def failed_log_dirs(
    offline: Mapping[int, Sequence[str]], each: Sequence[PartitionProgress], sizes: ReplicaBytes
) -> BatchFinding | None:
    """The finding about live brokers with a failed log dir that still receive copies of the batch; None: no broker.

    `sizes`: as brokers report them. A copy that its broker no longer reports lay in the failed log dir.
    """
    said = []
    for broker, paths in sorted(offline.items()):
        copies = [one.move.topic_partition for one in each if broker in one.missing and one.phase is Phase.COPYING]
        lost = [tp for tp in copies if broker not in sizes.get(tp, {})]
        if not copies:
            continue
        begins = f"Broker {broker} has lost the log dir {', '.join(paths)}:"
        if not lost:
            said.append(f"{begins} the {len(copies)} copies of the batch to it lie in other log dirs and go on.")
            continue
        said.append(
            f"{begins} {len(lost)} copies of the batch do not go on there ({some(sorted(lost))}). Repair or replace "
            f"that disk, then restart broker {broker}: these copies begin again by themselves. The throttle stays "
            "meanwhile. To give them up instead, use cancel_now of kafka_rebalance_cancel."
        )
    return BatchFinding(FindingKind.LOG_DIR_FAILED, " ".join(said)) if said else None
