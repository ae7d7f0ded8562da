"""A candidate's status and notes: where it stopped, what is missing, and what is unknown of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.documents.proposals import LeftWaiting, Reason, StaysBehind
from kafka_rebalance.kafka.who_may_receive import Shut
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.finding import SHOWN
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import LEADERS_ALONE
from kafka_rebalance.planning.describe.shortfall import (
    Held,
    asked_cells,
    disk_fullness,
    disks_above,
    leaders_that_stay,
    left_behind,
    off_cells,
    outside_pools,
)
from kafka_rebalance.planning.problem.arrays import DISK, METRICS, Bools, Floats, Ints, Problem, replication
from kafka_rebalance.planning.rules.leaders import Ending, exactly_min_insync, may_be_elected
from kafka_rebalance.planning.rules.rack_rule import rackless
from kafka_rebalance.planning.rules.topic_spread import Excess, excess_of
from kafka_rebalance.planning.rules.where_replicas_may_go import BROKER_LIMITS, NotBack
from kafka_rebalance.planning.search.fewest_bytes import Optimum, Proof
from kafka_rebalance.planning.search.frame import FoundLists, Frame
from kafka_rebalance.planning.search.placement import Budget, Limit, Placement

_LISTED = 3  # notes on what is off, at most
TOPICS_NAMED = 5


def status_and_notes(
    problem: Problem, found: FoundLists, end: Ending, off: tuple[Note, ...], broken: int
) -> tuple[Status, tuple[Note, ...]]:
    """`off` is what is outside the tolerance (`off_notes`); `broken` partitions break the rack rule after."""
    goal, stops = found.goal, _stops(found, end)
    broken = broken if goal.repairs_racks else 0
    spread = excess_of(problem, found.replicas) if goal.spreads_topics else None
    crowded = spread is not None and spread.now > spread.least
    outside = outside_pools(problem, found.replicas) if goal.repairs_racks else 0
    unfinished = bool(off) or broken > 0 or outside > 0 or end.beyond > 0 or crowded
    stopped = bool(stops) and unfinished
    behind = left_behind(problem, found.replicas)
    stays = tuple(_stays(problem, found, end))
    # Only searched moves of replicas promise a band.
    short = stopped or crowded or (bool(off) and goal.moves_replicas and goal.searched)
    short = short or (outside > 0 and goal.searched)
    status = Status.PARTIAL if short or stays or behind or problem.waits else Status.OK

    def notes() -> Iterator[Note]:
        yield from found.notes
        if stopped:
            limits = [(limit, getattr(problem.settings, limit), stops[limit]) for limit in sorted(stops)]
            yield note(NoteKind.STOPPED_AT_LIMITS, limits=limits)
        elif off and not goal.to_limit:
            yield note(NoteKind.TOLERANCE_NOT_REACHED, tolerance=goal.tolerance)
        yield from off[:_LISTED]
        if broken:
            yield note(NoteKind.RACKS_STAY_BROKEN, partitions=broken)
        if unfinished and goal.moves_replicas:
            for limit in BROKER_LIMITS:
                yield from limit.reached_by(problem, found.replicas)
        if outside:
            yield note(NoteKind.REPLICAS_STAY_OUTSIDE_POOLS, replicas=outside)
        if goal.moves_replicas and goal.searched:
            yield from _other_factors(problem, found)
        if spread is not None:
            yield _spread(problem, found, spread)
        yield from stays
        if found.spreads_topics:
            yield note(NoteKind.LEADERS_SPREAD, leaders=found.spreads_topics)
        if problem.settings.leader_racks:
            yield _in_leader_racks(problem, end)
        yield from exactly_min_insync(problem, replication(found.replicas))
        if behind:
            kind = NoteKind.REPLICAS_ARE_KEPT if goal.moves_replicas else NoteKind.REPLICAS_ONLY_REORDERED
            yield note(kind, replicas=behind)
        yield from waiting(problem)
        if end.impossible:
            yield note(NoteKind.LEADERS_NOT_ELECTED, partitions=end.impossible)

    return status, tuple(notes())


def _spread(problem: Problem, found: FoundLists, after: Excess) -> Note:
    """How the topics of `spread_topics` are spread before and after, how they could be at best, and for which bytes."""
    before, plain = excess_of(problem, problem.replicas), found.bytes_without_spread
    return note(
        NoteKind.TOPICS_SPREAD,
        before=0 if before is None else before.now,
        after=after.now,
        least=after.least,
        bytes=None if plain is None else max(0, found.budget.bytes - plain),
    )


def _stops(found: FoundLists, end: Ending) -> dict[Limit, int]:
    """{limit that stopped a move: what is spent of it}"""
    limits = found.budget.reached | ({Limit.LEADER_CHANGES} if end.beyond else set())
    spent = {**found.budget.spent, Limit.LEADER_CHANGES: end.leader_changes}
    return {limit: spent[limit] for limit in limits}


def _other_factors(problem: Problem, found: FoundLists) -> Iterator[Note]:
    """Partitions that do not get the replication factor that the job asks for."""
    factor = problem.settings.replication_factor
    if factor is None:
        return
    if same := int((problem.movable & problem.pinned & (found.wanted != factor)).sum()):
        yield note(NoteKind.PINNED_KEEP_FACTOR, partitions=same)
    if more := int((problem.relocatable & (found.wanted > factor)).sum()):
        yield note(NoteKind.FACTOR_STAYS_HIGHER, partitions=more, factor=factor)


def _stays(problem: Problem, found: FoundLists, end: Ending) -> Iterator[Note]:
    """Lists and leaders that the plan leaves as they are, though the job or the tolerance asks for more."""
    if found.no_room:
        allowed = 1 - problem.settings.disk_headroom
        yield note(NoteKind.LISTS_WITHOUT_ROOM, lists=found.no_room, allowed=allowed)
    if end.left_out:
        yield note(NoteKind.LISTS_WITHOUT_LEADER, lists=end.left_out)
    if leaders := leaders_that_stay(problem, end.leaders):
        yield note(NoteKind.LEADERS_STAY, leaders=leaders)


def _in_leader_racks(problem: Problem, end: Ending) -> Note:
    """How many leaders are in `leader_racks` before and after, and why others are not. Each counts for one reason."""
    inside = np.array([rack in problem.settings.leader_racks for rack in problem.racks])
    before, after = inside[problem.leader], inside[end.leaders]
    there = (end.lists >= 0) & inside[np.maximum(end.lists, 0)]
    may = there & may_be_elected(problem, end.lists) & problem.evened[np.maximum(end.lists, 0)]
    reasons: dict[str, int] = {}
    rest = ~after
    for reason, rows in (
        ("without_replica", ~there.any(axis=1)),
        ("kept", ~problem.movable),
        ("barred", ~may.any(axis=1)),
        ("others", np.ones_like(rest)),
    ):
        reasons[reason], rest = int((rest & rows).sum()), rest & ~rows
    return note(
        NoteKind.IN_LEADER_RACKS,
        racks=list(problem.settings.leader_racks),
        before=int(before.sum()),
        after=int(after.sum()),
        partitions=len(after),
        changes=int((end.leaders != problem.leader)[after & ~before].sum()),
        **reasons,
    )


def off_notes(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> Iterator[Note]:
    """Disks above `relieve_above`, and metrics with a broker outside the tolerance and the range of all brokers."""
    off, relative = off_cells(problem, held, replicas, loads)
    cells = asked_cells(problem, held)
    limit, above = problem.settings.relieve_above, disks_above(problem, loads[:, DISK])
    if limit is not None and len(above):
        full = 100 * float(disk_fullness(problem, loads[:, DISK])[above[0]])
        broker = int(problem.brokers[above[0]])
        yield note(NoteKind.DISKS_STAY_FULL, disks=len(above), limit=limit, broker=broker, full=full)
    for k, metric in enumerate(METRICS):
        if off[:, k].any():
            lowest, highest = float(relative[cells[:, k], k].min()), float(relative[cells[:, k], k].max())
            yield note(NoteKind.METRIC_IS_OFF, metric=metric, lowest=lowest, highest=highest)


# Why a candidate is not offered, and what is proven of the cheapest lists.


def optimum_note(frame: Frame, found: Optimum) -> Note:
    """What is proven about the cheapest lists, or that there are none."""
    figures = {
        "tolerance": frame.goal.tolerance,
        "within": found.within,
        "never_goes_back": any(isinstance(rule, NotBack) for rule in frame.others),
        "spreads_leaders": found.besides.spreads_leaders,
        "crowds_no_more": found.besides.crowds_no_more,
        "spreads_topics": found.besides.spreads_topics,
    }
    if found.within is None:
        return Note(NoteKind.NO_OPTIMUM, figures | {"none_exists": found.proof is Proof.NONE_EXISTS})
    if found.proof is Proof.PROVEN:
        return Note(NoteKind.PROVEN, figures | {"keeps_headroom": found.keeps_headroom})
    if found.proof is Proof.UNDERCUT:
        claim = {"keeps_headroom": found.keeps_headroom, "undercut_by": found.undercut_by}
        return Note(NoteKind.UNDERCUT, figures | claim)
    if found.not_ruled_out is None:
        return Note(NoteKind.BEST_IS_BALANCED, figures)
    return Note(NoteKind.BEST_FOUND, figures | {"fewer_percent": 100 * found.not_ruled_out})


def no_room_note(problem: Problem, broker: int, lists: int | None = None) -> Note:
    """A plan, or so many lists of it, whose copies fill the disk of this broker while both copies exist."""
    figures = {"allowed": 1 - problem.settings.disk_headroom, "broker": int(problem.brokers[broker])}
    if lists is None:
        return Note(NoteKind.PLAN_WITHOUT_ROOM, figures)
    return Note(NoteKind.ALL_LISTS_WITHOUT_ROOM, figures | {"lists": lists})


def stranded_note(frame: Frame, placement: Placement, replicas: int) -> Note:
    """Why replicas that have to leave their brokers find no place."""
    problem, settings = frame.problem, frame.problem.settings
    figures = {"replicas": replicas, "brokers": int(problem.receivers.sum())}
    if placement.is_any_at_its_most:
        return Note(NoteKind.STRANDED_BY_COUNT, figures | {"limit": settings.replicas_per_broker})
    room = (placement.limits - placement.loads)[:, DISK][problem.receivers] * frame.scale[DISK]
    room = room[np.isfinite(room)]
    if not len(room):
        return Note(NoteKind.STRANDED_BY_RACKS, figures)
    kept = settings.disk_headroom
    disks = {"allowed": 1 - kept, "headroom": kept, "room": max(0, int(room.max()))}
    return Note(NoteKind.STRANDED_BY_DISKS, figures | disks)


def beyond_note(budget: Budget) -> Note:
    """That the moves that the job requires are beyond the limits."""
    return note(NoteKind.BEYOND_LIMITS, limits=budget.exceeded())


# What is unknown of the cluster, waits, or stays, with the brokers or partitions in question.


def caveats(problem: Problem) -> Iterator[Note]:
    staying, nets = int(problem.staying.sum()), problem.networks
    stated = {
        "disk_capacity_bytes": problem.disk_capacity,
        "disk_used_bytes": problem.disk_used,
        "nic_in_bytes_per_second": nets[:, 0],
        "nic_out_bytes_per_second": nets[:, 1],
    }
    for column, values in stated.items():
        where = problem.staying & np.isnan(values)
        if 0 < where.sum() < staying:
            known, unknown = staying - int(where.sum()), _ids(problem, where)
            yield note(NoteKind.PARTLY_KNOWN, column=column, known=known, staying=staying, unknown=unknown)
    without = rackless(problem)
    if without.any():
        yield note(NoteKind.RACKLESS_BROKERS, brokers=_ids(problem, without))
    yield from receive_nothing(problem)
    yield from _log_dirs(problem)
    if problem.unknown_sizes:
        yield note(NoteKind.UNKNOWN_SIZES, partitions=problem.unknown_sizes)


def _log_dirs(problem: Problem) -> Iterator[Note]:
    contents, dirs = problem.dir_contents, problem.log_dirs
    for number in np.flatnonzero(~contents.is_open & problem.staying[contents.broker]).tolist():
        if (broker := int(contents.broker[number])) not in problem.shut:
            yield note(NoteKind.CORDONED_LOG_DIR, path=contents.path[number], broker=int(problem.brokers[broker]))
    unknown = problem.receivers & dirs.unknown
    if unknown.any():
        yield note(NoteKind.UNKNOWN_LOG_DIRS, brokers=_ids(problem, unknown))
    # The smallest room is less than half of the room that each of the dirs would have if they were even.
    several = dirs.count > 0
    uneven = problem.receivers & several & (2 * dirs.count * np.where(several, dirs.room, 0.0) < dirs.rooms)
    if uneven.any():
        worst = int(np.where(uneven, dirs.room, np.inf).argmin())
        room = float(dirs.room[worst])
        yield note(
            NoteKind.UNEVEN_LOG_DIRS,
            brokers=_ids(problem, uneven),
            path=dirs.fullest[worst],
            broker=int(problem.brokers[worst]),
            room=int(room),
            most=int(int(dirs.count[worst]) * room),
        )


def waiting(problem: Problem) -> Iterator[Note]:
    """What is left out because it waits for brokers that are away."""
    for one in left_waiting(problem):
        yield note(
            NoteKind.LEFT_WAITING,
            brokers=one.brokers,
            named=one.named,
            count=one.count,
            being_deleted=one.being_deleted,
        )


def receive_nothing(problem: Problem) -> Iterator[Note]:
    """Brokers that stay and to which Kafka gives no new replica."""
    for broker, why in problem.shut.items():
        if problem.staying[broker]:
            figures = {"broker": int(problem.brokers[broker]), "why": why}
            kept = int((problem.replicas == broker).any(axis=1).sum()) if why is Shut.CORDONED else 0
            if kept:
                yield Note(NoteKind.CORDONED_KEEPS_LISTS, figures | {"partitions": kept})
            else:
                yield Note(NoteKind.RECEIVES_NOTHING, figures)


def _ids(problem: Problem, brokers: Bools) -> list[int]:
    ids: list[int] = problem.brokers[brokers].tolist()
    return ids


def left_waiting(problem: Problem) -> tuple[LeftWaiting, ...]:
    """What waits for brokers that are away, by these brokers."""
    kinds: dict[tuple[tuple[int, ...], bool], list[TopicPartition]] = {}
    for wait in problem.waits:
        kinds.setdefault((wait.brokers, wait.being_deleted), []).append(wait.partition)
    found = []
    for (brokers, being_deleted), partitions in kinds.items():
        named = sorted({tp.topic for tp in partitions}) if being_deleted else list(map(str, partitions))
        found.append(LeftWaiting(brokers, being_deleted, tuple(named[:SHOWN]), len(named)))
    return tuple(found)


def stays_behind(problem: Problem, replicas: Ints, *, moves_replicas: bool) -> tuple[StaysBehind, ...]:
    """The replicas on brokers to be emptied, by broker and reason; `replicas` are the lists after."""
    if problem.settings.job in LEADERS_ALONE:
        return ()
    rows, positions = np.nonzero((replicas >= 0) & problem.leaving[replicas])
    if not len(rows):
        return ()
    brokers = replicas[rows, positions]
    selected = np.array([problem.settings.selects(topic) for topic in problem.topics], dtype=bool)[problem.topic[rows]]
    kinds, last = tuple(Reason), Reason.NOT_MOVED if moves_replicas else Reason.ONLY_REORDERED
    reasons = np.select(
        [~selected, ~problem.movable[rows], problem.pinned[rows]],
        [kinds.index(Reason.NOT_SELECTED), kinds.index(Reason.INTERNAL), kinds.index(Reason.PINNED)],
        kinds.index(last),
    )
    order = np.lexsort((reasons, brokers))
    edges = np.flatnonzero(np.diff(brokers[order] * len(kinds) + reasons[order])) + 1
    found = []
    for some in np.split(order, edges):
        own, broker, reason = rows[some], int(problem.brokers[brokers[some[0]]]), kinds[reasons[some[0]]]
        topics = sorted({problem.topics[number] for number in np.unique(problem.topic[own])})
        size, named = int(problem.size_bytes[own].sum()), tuple(topics[:TOPICS_NAMED])
        found.append(StaysBehind(broker, reason, len(own), size, named, len(topics)))
    return tuple(found)
