"""Describes an assignment: its moves with reasons and batches, scores, figures, status and note."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np

from kafka_rebalance.documents.proposals import (
    FurtherRuns,
    LessEven,
    MoveGroup,
    MoveReason,
    Range,
    Score,
    SinceLast,
    WayBack,
    encode_reasons,
)
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.kafka.znode_limits import CONTROLLER_BYTES_PER_BATCH
from kafka_rebalance.model.amounts_in_words import bytes_in_words, share_in_words
from kafka_rebalance.model.candidate import Candidate, Move, Status, candidate_digest
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.batches.controller_bytes import rewrites, too_large
from kafka_rebalance.planning.batches.schedule import NoRoom, schedule
from kafka_rebalance.planning.batches.timetable import held_up
from kafka_rebalance.planning.batches.transfers import DiskUse, overfilled, ranks_of
from kafka_rebalance.planning.bounds.lp_bound import makespan_bound, moved_bytes_bound
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.describe.evenness_by_bytes import evenness_by_bytes
from kafka_rebalance.planning.describe.move_reasons import Reasons, move_groups, rack_limits
from kafka_rebalance.planning.describe.status_and_note import (
    Ending,
    Held,
    Shortfall,
    bytes_left,
    ending,
    held_now,
    held_to_the_job,
    left_waiting,
    no_room_words,
    off_words,
    receive_nothing,
    shortfall,
    status_and_note,
    stays_behind,
    too_large_words,
    waiting_words,
)
from kafka_rebalance.planning.describe.worst_case import broker_loss, log_dir_peaks, worst_case
from kafka_rebalance.planning.evenness import scores
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    METRICS,
    REPLICA_METRICS,
    Bools,
    Floats,
    Ints,
    MovedLists,
    Problem,
    added,
    all_loads,
    bytes_out,
    changed_lists,
    known_metrics,
    loads_now,
    moved_lists,
    naming,
    replica_loads,
    replica_weights,
    replication,
    rows_of,
    shares,
    widened,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules.crowding import crowded_replicas
from kafka_rebalance.planning.rules.disk_limits import used_bytes
from kafka_rebalance.planning.rules.leaders import TopicLeaders
from kafka_rebalance.planning.rules.rack_rule import broken_lists, broken_now
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.search.placement import Limit

_ROUNDING = 1e-6
_WORDS = 500  # of an error in a note: Spark's have a Java stack
# The summary of a candidate that is not offered.
_NOTHING_PLANNED = {
    **dict.fromkeys(("moved_bytes", "moved_bytes_bound", "moved_replicas", "leader_changes", "batches"), 0),
    **dict.fromkeys(("cross_rack_bytes", "makespan_seconds", "makespan_bound_seconds", "peak_disk_fraction")),
    "controller_bytes": 0,
    "copies_at_once": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class DescribedCandidate:
    """One candidate with its scores and loads, before and after."""

    candidate: Candidate
    scores_before: dict[str, Score]
    scores_after: dict[str, Score]
    loads_before: Floats  # [broker, METRICS], each in its own unit
    loads_after: Floats
    bytes_out: tuple[Floats | None, Floats | None]  # [broker] before and after, a second, with what consumers read
    shortfall_before: Shortfall
    shortfall_after: Shortfall
    disks: DiskUse | None = None  # None: the candidate is not offered
    groups: tuple[MoveGroup, ...] = ()
    rack_limits: tuple[str, ...] = ()  # in words: how even the racks let brokers be
    consequences: Mapping[str, Any] = field(default_factory=dict)  # further keys of proposals.json
    least_bytes: int | None = None  # of `optimal`: no plan within the tolerance copies fewer; None: nothing is proven
    refusal: str = ""  # the whole words of one of our own errors, if one has ended it

    @property
    def copied_bytes(self) -> int:
        return int(self.candidate.summary["moved_bytes"] or 0)

    @property
    def new_leaders(self) -> int:
        return int(self.candidate.summary["leader_changes"] or 0)

    def imbalance(self, *, before: bool = False) -> float:
        """The distance between the highest and the lowest broker, summed over the metrics."""
        found = self.scores_before if before else self.scores_after
        return round(sum(map(_spread, found.values())), 6)

    def less_even(self) -> LessEven | None:
        """The metric that gets worst, if the end is less even than the cluster over all metrics; else None."""
        if not self.candidate.moves or self.imbalance() <= self.imbalance(before=True) + _ROUNDING:
            return None
        before, after = self.scores_before, self.scores_after
        metric = max(after, key=lambda one: _spread(after[one]) - _spread(before[one]))
        ranges = (Range(one.min_over_mean, one.max_over_mean) for one in (before[metric], after[metric]))
        return LessEven(metric, *ranges)


def infeasible(problem: Problem, name: str, note: str) -> DescribedCandidate:
    """A candidate that cannot do the job. It has no moves; the note says why."""
    return _not_offered(problem, name, Status.INFEASIBLE, note)


def failed(problem: Problem, name: str, error: Exception) -> DescribedCandidate:
    """A candidate whose computation raised this error. It has no moves; the note has the error's type and words."""
    if isinstance(error, RebalanceError):
        note = str(error).replace("Nothing was planned. ", "").removesuffix(" Nothing was planned.")
        return replace(_not_offered(problem, name, Status.FAILED, note), refusal=str(error))
    words = " ".join(str(error).split())
    words = f"{words[:_WORDS]}…" if len(words) > _WORDS else words
    return _not_offered(problem, name, Status.FAILED, ": ".join(filter(None, (type(error).__name__, words))))


def _not_offered(problem: Problem, name: str, status: Status, note: str) -> DescribedCandidate:
    more = (*waiting_words(problem), *receive_nothing(problem))
    note = " ".join([note, *(f"{said[0].upper()}{said[1:]}." for said in more)])
    loads = loads_now(problem)
    broken = broken_now(problem)
    crowded = crowded_replicas(problem, problem.replicas)
    led = TopicLeaders(problem, problem.leader).excess
    violated = {"rack_violations": broken, "crowded_replicas_before": crowded, "crowded_replicas": crowded}
    violated |= {"excess_leaders_before": led, "excess_leaders": led}
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), ())
    now = scores(problem, loads, shares(problem))
    out = bytes_out(problem, problem.replicas, problem.leader)
    undone = Shortfall(1, broken, 0.0, 0.0, problem.settings.tolerance)
    candidate = Candidate(name, digest, status, (), note, _NOTHING_PLANNED | violated)
    return DescribedCandidate(candidate, now, now, loads, loads, (out, out), undone, undone)


def _without_refused(problem: Problem, found: FoundLists) -> FoundLists:
    """Without new lists that Kafka would refuse: what did not find a place off a cordoned broker stays as it is."""
    if not problem.shut:
        return found
    named = naming(found.replicas, problem.cordoned)
    if not named.any():
        return found

    def kept(lists: Ints) -> Ints:
        width = max(problem.replicas.shape[1], lists.shape[1])
        return np.where(named[:, None], widened(problem.replicas, width), widened(lists, width))

    return replace(found, replicas=kept(found.replicas), unordered=kept(found.unordered))


def described_candidate(problem: Problem, name: str, found: FoundLists) -> DescribedCandidate:
    """Everything that the tables and pages show of one candidate."""
    found = _without_refused(problem, found)
    share = shares(problem)
    end = ending(problem, found.replicas, searched=found.goal.searched, elects=found.goal.elects)
    most, leader_changes = problem.settings.max_leader_changes, end.leader_changes(problem)
    if most is not None and leader_changes > most:
        much = f"The plan changes {leader_changes:,} leaders, but max_leader_changes is {most:,}"
        return infeasible(problem, name, f"{much}. Raise the limit, or ask for less.")
    whole, found = found, replace(found, replicas=end.replicas)
    final, leaders = end.lists(problem), end.leaders(problem)
    before, after = loads_now(problem), all_loads(problem, found.replicas, leaders)
    reachable = np.hstack([found.targets * found.scale, found.leader_targets])
    was_broken = broken_lists(found.rules, problem.replicas)
    is_broken = broken_lists(found.rules, found.replicas)
    used = used_bytes(problem)
    # The search balances leaders after it has moved replicas, so their reasons compare loads after these moves.
    unordered = all_loads(problem, found.unordered, found.unordered[:, 0])
    compared = np.hstack([before[:, :LEADERS], unordered[:, LEADERS:]])
    relative = np.divide(compared, reachable, out=np.where(compared > 0, np.inf, 1.0), where=reachable > 0)
    moves, rows, ranks = _moves(problem, found, end, relative, was_broken & ~is_broken, used)
    sizes = rewrites(problem, moves)
    worst = too_large(sizes)
    if worst is not None:
        note = too_large_words(moves[worst].topic_partition, int(sizes.topic_bytes[worst]), int(sizes.alone[worst]))
        return infeasible(problem, name, note)
    planned = schedule(problem, moves, ranks, used, sizes)
    if isinstance(planned, NoRoom):
        return _without(problem, name, whole, rows[planned.moves])
    if len(full := overfilled(problem, planned.disks, used)):
        return infeasible(problem, name, no_room_words(problem, int(full[0])))
    throttle = problem.settings.throttle_bytes_per_second
    shortest = makespan_bound(planned.received, planned.sent, throttle) if throttle else None
    lists = moved_lists(problem, planned.moves)
    summary: dict[str, float | int | None] = {
        "moved_bytes": int(lists.copied_bytes.sum()),
        "moved_bytes_bound": _bytes_bound(problem, found, before[:, DISK], after[:, DISK]),
        "cross_rack_bytes": _cross_rack_bytes(problem, lists),
        "moved_replicas": int(lists.new.sum()),
        "leader_changes": int(lists.changes_leader.sum()),
        "rack_violations": int(is_broken.sum()),
        "crowded_replicas_before": crowded_replicas(problem, problem.replicas),
        "crowded_replicas": crowded_replicas(problem, found.replicas),
        "excess_leaders_before": TopicLeaders(problem, problem.leader).excess,
        "excess_leaders": TopicLeaders(problem, leaders).excess,
        "batches": planned.batches,
        "makespan_seconds": round(planned.busiest_bytes / throttle, 3) if throttle else None,
        "makespan_bound_seconds": None if shortest is None else round(shortest, 3),
        "peak_disk_fraction": planned.peak_disk_fraction,
        "controller_bytes": planned.controller_bytes,
        "copies_at_once": planned.copies_at_once,
    }
    own = Held(found.goal, reachable, found.relief, found.scale)
    off = off_words(problem, own, found.replicas, after)
    asked = held_to_the_job(problem, reachable, found.scale)
    reached = shortfall(problem, asked, found.replicas, leaders, after, is_broken)
    broken = int(is_broken.sum())
    limited = _cost_of_receivers(problem, found, _bound_without)
    status, note = status_and_note(problem, found, end, off, broken, limited)
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), planned.moves)
    candidate = Candidate(name, digest, status, planned.moves, note, summary)
    by_bytes = (
        evenness_by_bytes(problem, final, leaders, band(reachable, own.goal.tolerance)) if name == BALANCED else ()
    )
    staying = stays_behind(problem, found.replicas, moves_replicas=found.goal.moves_replicas)
    return DescribedCandidate(
        candidate,
        scores(problem, before, share),
        scores(problem, after, share),
        before,
        after,
        (bytes_out(problem, problem.replicas, problem.leader), bytes_out(problem, found.replicas, leaders)),
        _shortfall_now(problem, found),
        reached,
        planned.disks,
        tuple(move_groups(problem, lists, before, after, reachable)),
        rack_limits(problem, found.rules, reachable),
        consequences(problem, found.replicas, planned.moves)
        | {"timetable": planned.timetable, "further_runs": _further_runs(problem, found, asked, reached, after)}
        | {"stays_behind": staying, "broker_loss": broker_loss(problem, final, leaders)}
        | {"evenness_by_bytes": by_bytes, "left_waiting": left_waiting(problem)}
        | ({"since_last": since_last(proposed[name], end)} if name in (proposed := problem.earlier.proposed) else {})
        | ({"controller_bytes_allowed": sizes.most} if sizes.most > CONTROLLER_BYTES_PER_BATCH else {})
        | ({"is_proven": True} if found.is_proven else {}),
        found.least_bytes,
    )


def _without(problem: Problem, name: str, found: FoundLists, rows: Ints) -> DescribedCandidate:
    """The candidate without the lists that no order of the moves makes safe; nothing is left out of a given plan."""
    width = max(found.replicas.shape[1], found.unordered.shape[1], problem.replicas.shape[1])
    was, now, unordered = (
        widened(lists, width).copy() for lists in (problem.replicas, found.replicas, found.unordered)
    )
    receivers = np.unique(now[rows][added(now[rows], was[rows])])
    now[rows], unordered[rows] = was[rows], was[rows]
    left_out = found.no_room + len(rows)
    if not found.goal.searched or not added(now, was).any():
        return infeasible(problem, name, no_room_words(problem, int(receivers[0]), left_out))
    kept = replace(
        found,
        replicas=now,
        unordered=unordered,
        no_room=left_out,
        notes=() if found.is_proven else found.notes,
        is_proven=False,
        least_bytes=None,
    )
    return described_candidate(problem, name, kept)


def _shortfall_now(problem: Problem, found: FoundLists) -> Shortfall:
    """The shortfall of the lists before, against the same shares as the lists found."""
    held, broken = held_now(problem, found.targets, found.scale), broken_lists(found.rules, problem.replicas)
    return shortfall(problem, held, problem.replicas, problem.leader, loads_now(problem), broken)


def _further_runs(
    problem: Problem, found: FoundLists, asked: Held, reached: Shortfall, after: Floats
) -> FurtherRuns | None:
    """If `max_bytes` stopped the plan short of the tolerance: an estimate of the bytes and runs still needed."""
    most = problem.settings.max_bytes
    if reached.is_met or Limit.BYTES not in found.budget.reached or not most:
        return None
    left = bytes_left(problem, asked, after[:, DISK])
    return FurtherRuns(max(1, math.ceil(left / most)), left)


def _cross_rack_bytes(problem: Problem, lists: MovedLists) -> int | None:
    """Bytes that leaders send to brokers in another rack; None if a rack is unknown."""
    number = {rack: index for index, rack in enumerate(dict.fromkeys(problem.racks))}
    racks = np.array([-1 if rack is None else number[rack] for rack in problem.racks], dtype=np.int64)
    move, position = np.nonzero(lists.new)
    sent, received = racks[lists.source[move]], racks[lists.after[move, position]]
    if (sent < 0).any() or (received < 0).any():
        return None
    return int(lists.size_bytes[move][sent != received].sum())


def _moves(
    problem: Problem, found: FoundLists, end: Ending, relative: Floats, repaired: Bools, used: Floats
) -> tuple[list[Move], Ints, Ints]:
    """(the moves, their partition rows, their ranks)"""
    width = max(found.replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (found.replicas, problem.replicas))
    now = np.where(end.changed[:, None], now, was)  # a list that stays keeps its order
    rows = np.flatnonzero(end.changed | end.elected)
    lists = MovedLists(was[rows], now[rows], problem.leader[rows], problem.size_bytes[rows])
    if found.reasons:
        reasons: Iterable[Sequence[MoveReason]] = repeat(found.reasons, len(rows))
    else:
        reasons = Reasons(
            problem, relative, found.goal.tolerance, now, TopicLeaders(problem, found.unordered[:, 0])
        ).of(rows, lists, repaired[rows])
    before, after = (_ids(problem, brokers) for brokers in (lists.before, lists.after))
    columns = (problem.topic[rows], problem.partition[rows], lists.size_bytes, problem.brokers[lists.source])
    moves = [
        Move(TopicPartition(problem.topics[topic], number), old, new, size, reason=encode_reasons(why), leader=leader)
        for topic, number, size, leader, old, new, why in zip(
            *(column.tolist() for column in columns), before, after, reasons, strict=True
        )
    ]
    return moves, rows, ranks_of(problem, was, now, repaired, used)[rows]


def _ids(problem: Problem, lists: Ints) -> list[tuple[int, ...]]:
    """[row] The ids of the brokers of each list."""
    rows = problem.brokers[lists].tolist()
    return [tuple(ids[:count]) for ids, count in zip(rows, replication(lists).tolist(), strict=True)]


def consequences(problem: Problem, replicas: Ints, moves: Sequence[Move]) -> dict[str, Any]:
    """Keys of the candidate in proposals.json. `replicas` are the lists after; moves have a batch."""
    moves = [move for move in moves if not move.is_election]  # an election moves no data and holds up no topic
    batch = batch_of_rows(problem, moves)
    return {
        "worst_case": worst_case(problem, replicas, batch),
        "way_back": way_back(problem, replicas, batch),
        "held_up": held_up(moves, problem.kafkas_own),
        "log_dirs": log_dir_peaks(problem, replicas, batch),
    }


def _bound_without(problem: Problem, lists: FoundLists, *, after: Floats) -> int:
    """The bound on bytes of another problem, whose disks end as `after`."""
    return _bytes_bound(problem, lists, loads_now(problem)[:, DISK], after)


def _bytes_bound(problem: Problem, found: FoundLists, before: Floats, after: Floats) -> int:
    """The bound on bytes, for plans whose disks end within the tolerance, or as near to it as `after`."""
    goal = found.goal
    if found.parts:
        bounds = []
        for part, own in zip(parts_of(problem), found.parts, strict=True):
            lists = part.problem.replicas, found.replicas[part.rows]
            weights, brokers = replica_weights(part.problem)[:, [DISK]], len(problem.brokers)
            disks = (replica_loads(those, weights, brokers)[:, 0] for those in lists)
            bounds.append(_bytes_bound(part.problem, replace(own, replicas=lists[1]), *disks))
        return sum(bounds)
    if not goal.moves_replicas:
        return 0
    staying = problem.staying
    kept = ((problem.replicas >= 0) & staying[np.maximum(problem.replicas, 0)]).sum(axis=1)
    kept += strays(problem, found.replicas).sum(axis=1)  # a stray that stays is not copied
    lacking = np.where(problem.relocatable, np.maximum(0, found.wanted - kept), 0)
    needed = float((lacking * problem.size_bytes).sum())
    if not goal.balances:
        return int(needed)
    if found.relief is not None:
        high = np.maximum(found.relief.high[:, DISK] * found.scale[DISK], after)
        low = np.zeros(len(high))
        return moved_bytes_bound(before, (low, high), found.relief.givers, needed, same_factor=True)
    target = found.targets[:, DISK] * found.scale[DISK]
    here = problem.evened & (target > 0)
    reached = after[here] / target[here]
    least = min(1 - goal.tolerance, float(reached.min(initial=1.0)))
    most = max(1 + goal.tolerance, float(reached.max(initial=1.0)))
    same_factor = bool((found.wanted == replication(problem.replicas)).all())
    return moved_bytes_bound(before, (target * least, target * most), here, needed, same_factor=same_factor)


def _spread(score: Score) -> float:
    return score.max_over_mean - score.min_over_mean


# How far lists are from what the job asks for, with their leaders and elections.


def reached(problem: Problem, found: FoundLists) -> Shortfall:
    """The shortfall of the lists that a search found, as `described_candidate` tells it."""
    end = ending(problem, found.replicas, searched=found.goal.searched, elects=found.goal.elects)
    leaders = end.leaders(problem)
    asked = held_to_the_job(problem, np.hstack([found.targets * found.scale, found.leader_targets]), found.scale)
    loads = all_loads(problem, end.replicas, leaders)
    return shortfall(problem, asked, end.replicas, leaders, loads, broken_lists(found.rules, end.replicas))


# How a plan differs from the one that was proposed last.


def since_last(proposed: Ints, end: Ending) -> SinceLast:
    """Counts the plan's lists beside those proposed, [partition row, position]."""
    was, now = (proposed >= 0).any(axis=1), end.changed
    differs = changed_lists(proposed, end.replicas)
    both = was & now
    counts = (both & ~differs, both & differs, now & ~was, was & ~now)
    return SinceLast(*(int(some.sum()) for some in counts))


# The cost of the way back, once a plan is done.


def batch_of_rows(problem: Problem, moves: Sequence[Move]) -> Ints:
    """[partition row] The batch in which it moves, from 1; 0 where it does not."""
    batch = np.zeros(len(problem.partition), dtype=np.int64)
    batch[rows_of(problem, moves)] = [move.batch for move in moves]
    return batch


def way_back(problem: Problem, replicas: Ints, batch: Ints) -> WayBack:
    """The cost to go back after the last batch: bytes to copy, and seconds with the same batches and throttle.

    Kafka deletes old replicas at the end of their batch. So the leader after the plan copies each of them again.
    `batch` is [partition row].
    """
    rows, brokers = np.flatnonzero(batch > 0), len(problem.brokers)
    before, after, number, size = problem.replicas[rows], replicas[rows], batch[rows], problem.size_bytes[rows]
    missing = added(before, after)
    move, position = np.nonzero(missing)
    cells = (1 + int(batch.max(initial=0))) * brokers
    received = np.bincount(number[move] * brokers + before[move, position], size[move], cells)
    sent = np.bincount(number * brokers + after[:, 0], size * missing.sum(axis=1), cells)
    busiest = float(np.maximum(received, sent).reshape(-1, brokers).max(axis=1).sum())
    throttle = problem.settings.throttle_bytes_per_second
    return WayBack(int((size * missing.sum(axis=1)).sum()), round(busiest / throttle, 3) if throttle else None)


# What it costs that only some brokers receive replicas: in evenness, and in bytes beside the bound without that.


_MATTERS = 0.01  # of a load: figures in words hide a smaller difference


def _cost_of_receivers(problem: Problem, found: FoundLists, bound: Callable[..., int]) -> list[str]:
    """A clause of the candidate's note, with pools of each; none if all may receive, or if the limit costs nothing.

    `bound` gives the bound on bytes of a problem, of lists with its targets, and of the bytes where disks are `after`.
    """
    if not problem.settings.brokers_in or not (found.goal.balances and found.goal.searched):
        return []
    if problem.pools.are_several:
        return [
            f"in the pool of {part.name}: {clause}"
            for part, own in zip(parts_of(problem), found.parts, strict=True)
            for clause in _cost_of_receivers(part.problem, own, bound)
        ]
    open_to_all = replace(problem, only_receivers=np.ones_like(problem.only_receivers))
    frame = frame_of(open_to_all, found.goal, found.wanted)
    here = problem.evened[:, None] & (frame.targets > 0)
    known = known_metrics(problem)
    asked = np.array([metric in known for metric in REPLICA_METRICS])
    ratio = np.divide(found.targets, frame.targets, out=np.ones_like(frame.targets), where=here & asked)
    metric = int(np.abs(ratio - 1).max(axis=0).argmax())
    lowest, highest = (float(ratio[:, metric].min()), float(ratio[:, metric].max()))
    if max(1 - lowest, highest - 1) <= _MATTERS:
        return []
    lists = replace(found, targets=frame.targets, relief=frame.relief)
    fewest = bound(open_to_all, lists, after=_disks(frame.targets, found.scale))
    ids = problem.brokers[problem.receivers].tolist()
    who = (
        f"only broker{'s' * (len(ids) > 1)} {listed(ids[:10])}{' and others' * (len(ids) > 10)}" if ids else "no broker"
    )
    return [
        f"{who} may receive (brokers_in): with all brokers the bound within "
        f"{share_in_words(found.goal.tolerance)} would be {bytes_in_words(fewest)}, and as it is, brokers end at best "
        f"with {share_in_words(lowest)} to {share_in_words(highest)} of the {METRICS[metric].noun} they would have then"
    ]


def _disks(targets: Floats, scale: Floats) -> Floats:
    disks: Floats = targets[:, DISK] * scale[DISK]
    return disks
