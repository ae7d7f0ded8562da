"""Describes an assignment: its moves with reasons and batches, scores, figures, status and notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from kafka_rebalance.documents.candidate_notes import (
    Note,
    NoteKind,
    clauses_in_words,
    note,
    sentences_in_words,
)
from kafka_rebalance.documents.proposals import (
    BrokerChange,
    FurtherRuns,
    LessEven,
    MoveReason,
    RackLimit,
    Range,
    Score,
    SinceLast,
    WayBack,
    encode_reasons,
)
from kafka_rebalance.errors import RebalanceError
from kafka_rebalance.kafka.znode_limits import CONTROLLER_BYTES_PER_BATCH
from kafka_rebalance.model.candidate import OFFERED, Candidate, Move, Status, candidate_digest
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.batches.batch_order import ranks_of
from kafka_rebalance.planning.batches.controller_bytes import ZNODE_BYTES, rewrites, too_large
from kafka_rebalance.planning.batches.schedule import NoRoom, Schedule, held_up, schedule
from kafka_rebalance.planning.batches.transfers import DiskUse, overfilled
from kafka_rebalance.planning.bounds.lp_bound import makespan_bound, moved_bytes_bound
from kafka_rebalance.planning.bounds.targets import band
from kafka_rebalance.planning.describe.between_racks import between_racks, cross_rack_bytes
from kafka_rebalance.planning.describe.evenness_by_bytes import evenness_by_bytes
from kafka_rebalance.planning.describe.log_dir_peaks import log_dir_peaks
from kafka_rebalance.planning.describe.move_reasons import Reasons, broker_changes, rack_limits
from kafka_rebalance.planning.describe.shortfall import (
    Held,
    Shortfall,
    bytes_left,
    held_now,
    held_to_the_job,
    shortfall,
)
from kafka_rebalance.planning.describe.status_and_notes import (
    caveats,
    left_waiting,
    no_room_note,
    off_notes,
    receive_nothing,
    status_and_notes,
    stays_behind,
    waiting,
)
from kafka_rebalance.planning.describe.survival import LoadAfterLoss, Survival, breach_note, survival, survival_notes
from kafka_rebalance.planning.describe.worst_case import broker_loss, worst_case
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
    among,
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
from kafka_rebalance.planning.problem.pools import Part, parts_of, strays
from kafka_rebalance.planning.rules.crowding import crowded_replicas
from kafka_rebalance.planning.rules.disk_limits import used_bytes
from kafka_rebalance.planning.rules.leaders import Ending, TopicLeaders, ending
from kafka_rebalance.planning.rules.rack_rule import broken_lists, broken_now
from kafka_rebalance.planning.rules.survival import without_survival
from kafka_rebalance.planning.search.frame import FoundLists, frame_of
from kafka_rebalance.planning.search.placement import Limit

_ROUNDING = 1e-6
_SMALLER = 4  # times the partitions of a batch, if a loss is not survived while it runs
_WORDS = 500  # of an error in a note: Spark's have a Java stack
# The summary of a candidate that is not offered.
_NOTHING_PLANNED = {
    **dict.fromkeys(
        ("moved_bytes", "moved_bytes_bound", "moved_replicas", "leader_changes", "leader_changes_bound", "batches"), 0
    ),
    **dict.fromkeys(("cross_rack_bytes", "makespan_seconds", "makespan_bound_seconds", "peak_disk_fraction")),
    "controller_bytes": 0,
    "copies_at_once": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class DescribedCandidate:
    """One candidate with its scores and loads, before and after."""

    candidate: Candidate  # its note is made of `notes` where it is written
    notes: tuple[Note, ...]
    scores_before: dict[str, Score]
    scores_after: dict[str, Score]
    loads_before: Floats  # [broker, METRICS], each in its own unit
    loads_after: Floats
    bytes_out: tuple[Floats | None, Floats | None]  # [broker] before and after, a second, with what consumers read
    shortfall_before: Shortfall
    shortfall_after: Shortfall
    disks: DiskUse | None = None  # None: the candidate is not offered
    changes: tuple[BrokerChange, ...] = ()  # of the brokers that lose or gain most
    rack_limits: tuple[RackLimit, ...] = ()
    consequences: Mapping[str, Any] = field(default_factory=dict)  # further keys of proposals.json
    least_bytes: int | None = None  # of `optimal`: no plan within the tolerance copies fewer; None: nothing is proven
    refusal: str = ""  # the whole words of one of our own errors, if one has ended it

    @property
    def note(self) -> str:
        """The notes in words."""
        in_words = clauses_in_words if self.candidate.status in OFFERED else sentences_in_words
        return in_words(self.notes)

    @property
    def copied_bytes(self) -> int:
        return int(self.candidate.summary["moved_bytes"] or 0)

    @property
    def new_leaders(self) -> int:
        return int(self.candidate.summary["leader_changes"] or 0)

    def imbalance(self, *, before: bool = False) -> float:
        """The distance between the highest and the lowest broker, summed over the metrics."""
        by_metric = self.scores_before if before else self.scores_after
        return round(sum(map(_spread, by_metric.values())), 6)

    def less_even(self) -> LessEven | None:
        """The metric that gets worst, if the end is less even than the cluster over all metrics; else None."""
        if not self.candidate.moves or self.imbalance() <= self.imbalance(before=True) + _ROUNDING:
            return None
        before, after = self.scores_before, self.scores_after
        metric = max(after, key=lambda one: _spread(after[one]) - _spread(before[one]))
        ranges = (Range(one.min_over_mean, one.max_over_mean) for one in (before[metric], after[metric]))
        return LessEven(metric, *ranges)


def _spread(score: Score) -> float:
    return score.max_over_mean - score.min_over_mean


def infeasible(problem: Problem, name: str, why: Note) -> DescribedCandidate:
    """A candidate that cannot do the job. It has no moves."""
    return _not_offered(problem, name, Status.INFEASIBLE, why)


def failed(problem: Problem, name: str, error: Exception) -> DescribedCandidate:
    """A candidate whose computation raised this error. It has no moves; the note has the error's type and words."""
    if isinstance(error, RebalanceError):
        words = str(error).replace("Nothing was planned. ", "").removesuffix(" Nothing was planned.")
        plan = _not_offered(problem, name, Status.FAILED, note(NoteKind.ERROR, error=words))
        return replace(plan, refusal=str(error))
    words = " ".join(str(error).split())
    words = f"{words[:_WORDS]}…" if len(words) > _WORDS else words
    words = ": ".join(filter(None, (type(error).__name__, words)))
    return _not_offered(problem, name, Status.FAILED, note(NoteKind.ERROR, error=words))


def _not_offered(problem: Problem, name: str, status: Status, why: Note) -> DescribedCandidate:
    loads, broken, crowded = loads_now(problem), broken_now(problem), crowded_replicas(problem, problem.replicas)
    led = TopicLeaders(problem, problem.leader).excess
    violated = {"rack_violations": broken, "crowded_replicas_before": crowded, "crowded_replicas": crowded}
    violated |= {"excess_leaders_before": led, "excess_leaders": led}
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), ())
    now = scores(problem, loads, shares(problem))
    out = bytes_out(problem, problem.replicas, problem.leader)
    undone = Shortfall(1, broken, 0.0, 0.0, problem.settings.tolerance)
    return DescribedCandidate(
        candidate=Candidate(name, digest, status, (), summary=_NOTHING_PLANNED | violated),
        notes=(why, *waiting(problem), *receive_nothing(problem)),
        scores_before=now,
        scores_after=now,
        loads_before=loads,
        loads_after=loads,
        bytes_out=(out, out),
        shortfall_before=undone,
        shortfall_after=undone,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Lists with their ending, and what they do to loads and racks."""

    found: FoundLists  # its `replicas` are those of the ending
    end: Ending
    before: Floats  # [broker, METRICS] the loads
    after: Floats
    reachable: Floats  # [broker, METRICS] the loads if all brokers were as even as the racks allow
    was_broken: Bools  # [partition row] whether the list breaks the rack rule
    is_broken: Bools


def described_candidate(problem: Problem, name: str, found: FoundLists) -> DescribedCandidate:
    """Everything that the tables and pages show of one candidate. If it cannot be offered, its first note says why."""
    found = _without_refused(problem, found)
    end, most = ending(problem, found.replicas, found.goal), problem.settings.max_leader_changes
    if most is not None and end.leader_changes > most:
        return infeasible(problem, name, note(NoteKind.TOO_MANY_LEADER_CHANGES, leaders=end.leader_changes, limit=most))
    measured, used = _measured(problem, found, end), used_bytes(problem)
    moves, rows, ranks = _moves(problem, measured, used)
    sizes = rewrites(problem, moves)
    worst = too_large(sizes)
    if worst is not None:
        partition = moves[worst].topic_partition
        figures = {"now": int(sizes.topic_bytes[worst]), "moving": int(sizes.alone[worst]), "allowed": ZNODE_BYTES}
        too_long = note(NoteKind.ZNODE_TOO_LARGE, topic=partition.topic, partition=partition, **figures)
        return infeasible(problem, name, too_long)
    planned = schedule(problem, moves, ranks, used, sizes)
    if isinstance(planned, NoRoom) and problem.settings.survive is not None:
        # Limits that let any loss be survived are enough, and not all needed: every loss is looked at below.
        planned = schedule(without_survival(problem), moves, ranks, used, sizes)
    if isinstance(planned, NoRoom):
        return _without(problem, name, found, rows[planned.moves])
    if len(full := overfilled(without_survival(problem), planned.disks, used)):
        return infeasible(problem, name, no_room_note(problem, int(full[0])))
    planned, losses = _with_losses(
        problem, measured, planned, partial(schedule, moves=moves, ranks=ranks, used=used, sizes=sizes)
    )
    if losses is not None and losses.breach is not None and not _is_on_its_way(found, losses, losses.breach):
        return infeasible(problem, name, breach_note(losses.breach))
    return _described(problem, name, measured, planned, sizes.most, losses)


def _with_losses(
    problem: Problem, measured: _Measured, planned: Schedule, scheduled: Callable[[Problem], Schedule | NoRoom]
) -> tuple[Schedule, Survival | None]:
    """The batches, and what any loss does in them. Smaller ones if a loss is not survived while both copies exist."""
    end, moves_replicas = measured.end, measured.found.goal.moves_replicas

    def looked_at(planned: Schedule) -> Survival | None:
        batch = batch_of_rows(problem, planned.moves)
        return survival(problem, end.lists, end.leaders, batch, moves_replicas=moves_replicas)

    losses, most = looked_at(planned), problem.settings.partitions_per_batch
    while losses is not None and losses.breach is not None and losses.breach.batch and most > 1:
        most = max(1, min(most, len(planned.moves)) // _SMALLER)
        smaller = scheduled(replace(problem, settings=replace(problem.settings, partitions_per_batch=most)))
        if isinstance(smaller, NoRoom):
            break
        planned, losses = smaller, looked_at(smaller)
    return planned, losses


def _is_on_its_way(found: FoundLists, losses: Survival, breach: LoadAfterLoss) -> bool:
    """Whether the plan only stops at a limit before every loss is survived: then the next runs go on from it."""
    return bool(found.budget.reached) and breach.batch == 0 and breach.part < losses.now


def _without_refused(problem: Problem, found: FoundLists) -> FoundLists:
    """Without new lists that Kafka would refuse: what did not find a place off a cordoned broker stays as it is."""
    named = naming(found.replicas, problem.cordoned)
    if not named.any():
        return found

    def kept(lists: Ints) -> Ints:
        width = max(problem.replicas.shape[1], lists.shape[1])
        return np.where(named[:, None], widened(problem.replicas, width), widened(lists, width))

    return replace(found, replicas=kept(found.replicas), unordered=kept(found.unordered))


def _measured(problem: Problem, found: FoundLists, end: Ending) -> _Measured:
    return _Measured(
        found=replace(found, replicas=end.replicas),
        end=end,
        before=loads_now(problem),
        after=all_loads(problem, end.replicas, end.leaders),
        reachable=np.hstack([found.targets * found.scale, found.leader_targets]),
        was_broken=broken_lists(found.rules, problem.replicas),
        is_broken=broken_lists(found.rules, end.replicas),
    )


def _described(
    problem: Problem,
    name: str,
    measured: _Measured,
    planned: Schedule,
    controller_bytes_allowed: int,
    losses: Survival | None,
) -> DescribedCandidate:
    found, end, share = measured.found, measured.end, shares(problem)
    lists, asked = moved_lists(problem, planned.moves), held_to_the_job(problem, measured.reachable, found.scale)
    reached = shortfall(problem, asked, end.replicas, end.leaders, measured.after, measured.is_broken)
    status, notes = _status_and_notes(problem, measured)
    if losses is not None:
        notes = (*notes, *survival_notes(problem, losses))
        status = Status.PARTIAL if losses.unknown or losses.breach is not None else status
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), planned.moves)
    consequences = _consequences(problem, name, measured, planned)
    consequences["further_runs"] = _further_runs(problem, found, asked, reached, measured.after)
    if controller_bytes_allowed > CONTROLLER_BYTES_PER_BATCH:
        consequences["controller_bytes_allowed"] = controller_bytes_allowed
    return DescribedCandidate(
        candidate=Candidate(name, digest, status, planned.moves, summary=_summary(problem, measured, planned, lists)),
        notes=notes,
        scores_before=scores(problem, measured.before, share),
        scores_after=scores(problem, measured.after, share),
        loads_before=measured.before,
        loads_after=measured.after,
        bytes_out=(
            bytes_out(problem, problem.replicas, problem.leader),
            bytes_out(problem, end.replicas, end.leaders),
        ),
        shortfall_before=_shortfall_now(problem, measured),
        shortfall_after=reached,
        disks=planned.disks,
        changes=broker_changes(problem, lists, measured.before, measured.after, measured.reachable),
        rack_limits=rack_limits(problem, found.rules, measured.reachable),
        consequences=consequences,
        least_bytes=found.least_bytes,
    )


def _summary(
    problem: Problem, measured: _Measured, planned: Schedule, lists: MovedLists
) -> dict[str, float | int | None]:
    found, end, throttle = measured.found, measured.end, problem.settings.throttle_bytes_per_second
    shortest = makespan_bound(planned.received, planned.sent, throttle) if throttle else None
    return {
        "moved_bytes": int(lists.copied_bytes.sum()),
        "moved_bytes_bound": _bytes_bound(problem, found),
        "cross_rack_bytes": cross_rack_bytes(problem, lists),
        "moved_replicas": int(lists.new.sum()),
        "leader_changes": (leader_changes := int(lists.changes_leader.sum())),
        "leader_changes_bound": None
        if found.least_leader_changes is None
        else min(leader_changes, found.least_leader_changes),
        "rack_violations": int(measured.is_broken.sum()),
        "crowded_replicas_before": crowded_replicas(problem, problem.replicas),
        "crowded_replicas": crowded_replicas(problem, end.replicas),
        "excess_leaders_before": TopicLeaders(problem, problem.leader).excess,
        "excess_leaders": TopicLeaders(problem, end.leaders).excess,
        "batches": planned.batches,
        "makespan_seconds": round(planned.busiest_bytes / throttle, 3) if throttle else None,
        "makespan_bound_seconds": None if shortest is None else round(shortest, 3),
        "peak_disk_fraction": planned.peak_disk_fraction,
        "controller_bytes": planned.controller_bytes,
        "copies_at_once": planned.copies_at_once,
    }


def _status_and_notes(problem: Problem, measured: _Measured) -> tuple[Status, tuple[Note, ...]]:
    found = measured.found
    own = Held(found.goal, measured.reachable, found.relief, found.scale)
    off = tuple(off_notes(problem, own, found.replicas, measured.after))
    status, notes = status_and_notes(problem, found, measured.end, off, int(measured.is_broken.sum()))
    return status, (*notes, *_cost_of_receivers(problem, found), *caveats(problem))


def _consequences(problem: Problem, name: str, measured: _Measured, planned: Schedule) -> dict[str, Any]:
    """Keys of the candidate in proposals.json."""
    found, end = measured.found, measured.end
    moves = [move for move in planned.moves if not move.is_election]  # these move no data and hold up no topic
    batch = batch_of_rows(problem, moves)
    keys = {
        "worst_case": worst_case(problem, end.replicas, batch),
        "way_back": way_back(problem, end.replicas, batch),
        "held_up": held_up(moves, problem.kafkas_own),
        "log_dirs": log_dir_peaks(problem, end.replicas, batch),
        "timetable": planned.timetable,
        "stays_behind": stays_behind(problem, end.replicas, moves_replicas=found.goal.moves_replicas),
        "broker_loss": broker_loss(problem, end.lists, end.leaders),
        "left_waiting": left_waiting(problem),
        "between_racks": between_racks(problem, moved_lists(problem, planned.moves), end.lists, end.leaders),
    }
    if name == BALANCED:
        bands = band(measured.reachable, found.goal.tolerance)
        keys["evenness_by_bytes"] = evenness_by_bytes(problem, end.lists, end.leaders, bands)
    if name in problem.earlier.proposed:
        keys["since_last"] = since_last(problem.earlier.proposed[name], end)
    if found.is_proven:
        keys["is_proven"] = True
    return keys


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
        return infeasible(problem, name, no_room_note(problem, int(receivers[0]), left_out))
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


def _shortfall_now(problem: Problem, measured: _Measured) -> Shortfall:
    """The shortfall of the lists before, against the same shares as the lists found."""
    held = held_now(problem, measured.found.targets, measured.found.scale)
    return shortfall(problem, held, problem.replicas, problem.leader, measured.before, measured.was_broken)


def _further_runs(
    problem: Problem, found: FoundLists, asked: Held, reached: Shortfall, after: Floats
) -> FurtherRuns | None:
    """If `max_bytes` stopped the plan short of the tolerance: an estimate of the bytes and runs still needed."""
    most = problem.settings.max_bytes
    if reached.is_met or Limit.BYTES not in found.budget.reached or not most:
        return None
    rest = bytes_left(problem, asked, after[:, DISK])
    return FurtherRuns(max(1, math.ceil(rest / most)), rest)


def _moves(problem: Problem, measured: _Measured, used: Floats) -> tuple[list[Move], Ints, Ints]:
    """(the moves, their partition rows, their ranks)"""
    found, end = measured.found, measured.end
    repaired = measured.was_broken & ~measured.is_broken
    now, was = end.lists, widened(problem.replicas, end.lists.shape[1])
    rows = np.flatnonzero(end.changed | end.elected)
    lists = MovedLists(was[rows], now[rows], problem.leader[rows], problem.size_bytes[rows])
    if found.reasons:
        reasons: Iterable[Sequence[MoveReason]] = repeat(found.reasons, len(rows))
    else:
        led_before = TopicLeaders(problem, found.unordered[:, 0])
        relative = _over_share(problem, measured)
        reasons = Reasons(problem, relative, found.goal.tolerance, now, led_before).of(rows, lists, repaired[rows])
    before, after = (_ids(problem, brokers) for brokers in (lists.before, lists.after))
    columns = (problem.topic[rows], problem.partition[rows], lists.size_bytes, problem.brokers[lists.source])
    moves = [
        Move(TopicPartition(problem.topics[topic], number), old, new, size, reason=encode_reasons(why), leader=leader)
        for topic, number, size, leader, old, new, why in zip(
            *(column.tolist() for column in columns), before, after, reasons, strict=True
        )
    ]
    return moves, rows, ranks_of(problem, was, now, repaired, used)[rows]


def _over_share(problem: Problem, measured: _Measured) -> Floats:
    """[broker, METRICS] The loads before over what is reachable.

    The search balances leaders after it has moved replicas, so those loads are the ones after these moves.
    """
    unordered, reachable = measured.found.unordered, measured.reachable
    led = all_loads(problem, unordered, unordered[:, 0])[:, LEADERS:]
    loads = np.hstack([measured.before[:, :LEADERS], led])
    relative: Floats = np.divide(loads, reachable, out=np.where(loads > 0, np.inf, 1.0), where=reachable > 0)
    return relative


def _ids(problem: Problem, lists: Ints) -> list[tuple[int, ...]]:
    """[row] The ids of the brokers of each list."""
    rows = problem.brokers[lists].tolist()
    return [tuple(ids[:count]) for ids, count in zip(rows, replication(lists).tolist(), strict=True)]


# The bound on bytes, from sums over the brokers.


def _by_pool(problem: Problem, found: FoundLists) -> Iterator[tuple[Part, FoundLists]]:
    """Each pool with its lists; without pools the whole problem with the lists found."""
    return zip(parts_of(problem), found.parts or (found,), strict=True)


def _bytes_bound(problem: Problem, found: FoundLists) -> int:
    """The bound for plans whose disks end within the tolerance, or as near to it as with these lists."""
    bounds = []
    for part, own in _by_pool(problem, found):
        lists = found.replicas[part.rows]
        after = replica_loads(lists, replica_weights(part.problem), len(problem.brokers))[:, DISK]
        bounds.append(_bound_in_pool(part.problem, replace(own, replicas=lists), after))
    return sum(bounds)


def _bound_in_pool(problem: Problem, found: FoundLists, after: Floats) -> int:
    """The bound for plans whose disks end within the tolerance, or as near to it as `after`, which is [broker]."""
    goal, staying = found.goal, problem.staying
    if not goal.moves_replicas:
        return 0
    before = loads_now(problem)[:, DISK]
    lost = among(problem.replicas, problem.failed) & ~among(problem.replicas, found.replicas)
    kept = ((problem.replicas >= 0) & staying[np.maximum(problem.replicas, 0)] & ~lost).sum(axis=1)
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


# What it costs that only some brokers receive replicas: in evenness, and in bytes beside the bound without that.


_MATTERS = 0.01  # of a load: figures in words hide a smaller difference


def _cost_of_receivers(problem: Problem, found: FoundLists) -> Iterator[Note]:
    """With pools one of each; none if all may receive, or if the limit costs nothing."""
    if not problem.settings.brokers_in or not (found.goal.balances and found.goal.searched):
        return
    for part, own in _by_pool(problem, found):
        figures = _figures_without_limit(part.problem, own)
        if figures is not None:
            yield Note(NoteKind.FEW_RECEIVE, figures, part.name)


def _figures_without_limit(problem: Problem, found: FoundLists) -> dict[str, Any] | None:
    """What the limit on receivers costs in one pool; None: hardly anything."""
    open_to_all = replace(problem, only_receivers=np.ones_like(problem.only_receivers))
    frame = frame_of(open_to_all, found.goal, found.wanted)
    here = problem.evened[:, None] & (frame.targets > 0)
    known = known_metrics(problem)
    asked = np.array([metric in known for metric in REPLICA_METRICS])
    ratio = np.divide(found.targets, frame.targets, out=np.ones_like(frame.targets), where=here & asked)
    metric = int(np.abs(ratio - 1).max(axis=0).argmax())
    lowest, highest = (float(ratio[:, metric].min()), float(ratio[:, metric].max()))
    if max(1 - lowest, highest - 1) <= _MATTERS:
        return None
    lists = replace(found, targets=frame.targets, relief=frame.relief)
    return {
        "brokers": problem.brokers[problem.receivers].tolist(),
        "tolerance": found.goal.tolerance,
        "bytes": _bound_in_pool(open_to_all, lists, frame.targets[:, DISK] * found.scale[DISK]),
        "lowest": lowest,
        "highest": highest,
        "noun": METRICS[metric].noun,
    }


# How far lists are from what the job asks for, with their leaders and elections.


def reached(problem: Problem, found: FoundLists) -> Shortfall:
    """The shortfall of the lists that a search found, as `described_candidate` tells it."""
    end = ending(problem, found.replicas, found.goal)
    asked = held_to_the_job(problem, np.hstack([found.targets * found.scale, found.leader_targets]), found.scale)
    loads = all_loads(problem, end.replicas, end.leaders)
    return shortfall(problem, asked, end.replicas, end.leaders, loads, broken_lists(found.rules, end.replicas))


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
