"""What an assignment amounts to: moves with reasons and batches, scores, figures, status and note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import Candidate, Move, candidate_digest
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.planning.batches.controller_bytes import rewrites, too_large
from kafka_rebalance.planning.batches.schedule import schedule
from kafka_rebalance.planning.batches.transfers import ORDINARY, RELIEVING, URGENT, DiskUse, disk_limits_meanwhile
from kafka_rebalance.planning.bounds.bands import makespan_bound, moved_bytes_bound
from kafka_rebalance.planning.describe.caveats import caveats
from kafka_rebalance.planning.describe.move_reasons import LEADERS, MoveGroup, Reasons, move_groups, rack_limits
from kafka_rebalance.planning.describe.planned_elections import Ending, ending, led_first
from kafka_rebalance.planning.describe.shortfall import (
    Held,
    Shortfall,
    above_words,
    bytes_left,
    held_to_the_job,
    left_behind,
    off_words,
    runs_for,
    shortfall,
)
from kafka_rebalance.planning.describe.stays_behind import stays_behind
from kafka_rebalance.planning.describe.way_back import consequences
from kafka_rebalance.planning.evenness.scores import Score, scores
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    all_loads,
    bytes_out,
    loads_now,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.rules import min_insync
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.rules.disk_limits import sized_disks, used_bytes
from kafka_rebalance.planning.rules.goals import Goal
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule, violations
from kafka_rebalance.planning.search.frame import lagging, leader_targets
from kafka_rebalance.planning.search.placement import Budget
from kafka_rebalance.planning.search.relieve import Relief

_LISTED = 3  # figures in a note, at most


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """What the search hands over, or whoever gave the lists."""

    replicas: Ints
    unordered: Ints  # the same replicas before leaders were balanced
    goal: Goal
    rule: RackRule
    wanted: Ints
    targets: Floats  # [broker, REPLICA_METRICS] in units of `scale`
    leader_targets: Floats  # [broker, LEADER_METRICS] in their own unit
    scale: Floats
    budget: Budget
    relief: Relief | None = None  # of job `relieve`
    reason: str = ""  # of every move, where the lists were not searched
    notes: tuple[str, ...] = ()  # on where the lists come from
    off: float = 0.0  # squared distance of the replica metrics to their bands


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One candidate with its scores and loads, before and after."""

    candidate: Candidate
    scores_before: dict[str, Score]
    scores_after: dict[str, Score]
    loads_before: Floats  # [broker, METRICS], each in its own unit
    loads_after: Floats
    bytes_out: tuple[Floats | None, Floats | None]  # [broker] before and after, a second, what consumers read included
    shortfall_before: Shortfall
    shortfall_after: Shortfall
    disks: DiskUse | None = None  # None where nothing is offered
    groups: tuple[MoveGroup, ...] = ()
    rack_limits: tuple[str, ...] = ()  # how even the racks let brokers be, in words
    consequences: Mapping[str, Any] = field(default_factory=dict)  # further keys of proposals.json; see there

    @property
    def within_tolerance(self) -> bool:
        """Whether the job is done, and within the tolerance that was asked for."""
        return self.shortfall_after.is_met


def infeasible(problem: Problem, name: str, note: str) -> Plan:
    """A candidate that is not offered: no moves, and the figures that forbid it."""
    loads = loads_now(problem)
    broken = int(violations(rack_rule(problem), problem.replicas).sum())
    crowded = _crowded(problem, problem.replicas)
    summary = _summary(broken=broken, crowded=(crowded, crowded))
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), ())
    now = scores(problem, loads, shares(problem))
    out = bytes_out(problem, problem.replicas, problem.leader)
    undone = Shortfall(1, broken, 0.0, 0.0, problem.settings.tolerance)
    candidate = Candidate(name, digest, "infeasible", (), note, summary)
    return Plan(candidate, now, now, loads, loads, (out, out), undone, undone)


def outcome(problem: Problem, name: str, placed: Placed) -> Plan:
    """Everything that tables and people get to see of one candidate."""
    share = shares(problem)
    end = ending(problem, placed.replicas, searched=placed.goal.searched, elects=placed.goal.elects)
    most, leader_changes = problem.settings.max_leader_changes, end.leader_changes(problem)
    if most is not None and leader_changes > most:
        much = f"{leader_changes:,} against max_leader_changes {most:,}"
        return infeasible(problem, name, f"New leaders are beyond the limit: {much}. Raise the limit, or ask for less.")
    placed = replace(placed, replicas=end.replicas)
    leaders = end.leaders(problem)
    before, after = loads_now(problem), all_loads(problem, placed.replicas, leaders)
    reachable = np.hstack([placed.targets * placed.scale, placed.leader_targets])
    was_broken = violations(placed.rule, problem.replicas)
    is_broken = violations(placed.rule, placed.replicas)
    used = used_bytes(problem)
    # Leaders are balanced after replicas have moved, so that is what their reasons compare.
    unordered = all_loads(problem, placed.unordered, placed.unordered[:, 0])
    compared = np.hstack([before[:, :LEADERS], unordered[:, LEADERS:]])
    relative = np.divide(compared, reachable, out=np.where(compared > 0, np.inf, 1.0), where=reachable > 0)
    moves, ranks = _moves(problem, placed, end, relative, was_broken & ~is_broken, used)
    sizes = rewrites(problem, moves)
    impossible = too_large(sizes, moves)
    if impossible:
        return infeasible(problem, name, impossible)
    planned = schedule(problem, moves, ranks, used, sizes)
    throttle = problem.settings.throttle_bytes_per_second
    summary = _summary(
        moves=planned.moves,
        bound=_bytes_bound(problem, placed, before[:, DISK], after[:, DISK]),
        broken=int(is_broken.sum()),
        crowded=(_crowded(problem, problem.replicas), _crowded(problem, placed.replicas)),
        batches=planned.batches,
        makespan=planned.busiest_bytes / throttle if throttle else None,
        makespan_bound_seconds=makespan_bound(planned.received, planned.sent, throttle) if throttle else None,
        peak=planned.peak_disk_fraction,
        controller_bytes=planned.controller_bytes,
        cross_rack_bytes=_cross_rack_bytes(problem, planned.moves),
    )
    own = Held(placed.goal, reachable, placed.relief, placed.scale)
    off = [*above_words(problem, after[:, DISK]), *off_words(problem, own, placed.replicas, after)]
    asked = held_to_the_job(problem, reachable, placed.scale)
    reached = shortfall(problem, asked, placed.replicas, leaders, after, is_broken)
    status, notes = _verdict(problem, placed, end, off, int(is_broken.sum()))
    notes += _peak_note(problem, planned.peak_disk_fraction, used)
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), planned.moves)
    candidate = Candidate(name, digest, status, planned.moves, _sentence(notes), summary)
    staying = stays_behind(problem, placed.replicas, moves_replicas=placed.goal.moves_replicas)
    return Plan(
        candidate,
        scores(problem, before, share),
        scores(problem, after, share),
        before,
        after,
        (
            bytes_out(problem, problem.replicas, problem.leader),
            bytes_out(problem, placed.replicas, leaders),
        ),
        shortfall_now(problem, placed),
        reached,
        planned.disks,
        tuple(move_groups(problem, planned.moves, before, after, reachable)),
        rack_limits(problem, placed.rule, reachable),
        consequences(problem, placed.replicas, planned.moves)
        | {"timetable": planned.timetable, "further_runs": _further_runs(problem, placed, asked, reached, after)}
        | {"stays_behind": [one.to_mapping() for one in staying]},
    )


def shortfall_now(problem: Problem, placed: Placed) -> Shortfall:
    """That of the lists as they are, held to the same shares as what was placed."""
    led = led_first(problem.replicas, problem.leader)
    targets = np.hstack([placed.targets * placed.scale, leader_targets(problem, led)])
    held, broken = held_to_the_job(problem, targets, placed.scale), violations(placed.rule, problem.replicas)
    return shortfall(problem, held, problem.replicas, problem.leader, loads_now(problem), broken)


def _further_runs(
    problem: Problem, placed: Placed, asked: Held, reached: Shortfall, after: Floats
) -> dict[str, int] | None:
    """Of a plan that `max_bytes` stopped short of the tolerance: an estimate of bytes and runs still to come."""
    if reached.is_met or "max_bytes" not in placed.budget.reached or not problem.settings.max_bytes:
        return None
    return {"bytes": (left := bytes_left(problem, asked, after[:, DISK])), "runs": runs_for(problem, left)}


def _summary(
    moves: Sequence[Move] = (),
    bound: int = 0,
    broken: int = 0,
    crowded: tuple[int, int] = (0, 0),
    batches: int = 0,
    makespan: float | None = None,
    makespan_bound_seconds: float | None = None,
    peak: float | None = None,
    controller_bytes: int = 0,
    cross_rack_bytes: int | None = None,
) -> dict[str, float | int | None]:
    return {
        "moved_bytes": sum(move.bytes_to_copy for move in moves),
        "moved_bytes_bound": bound,
        "cross_rack_bytes": cross_rack_bytes,
        "moved_replicas": sum(len(move.added) for move in moves),
        "leader_changes": sum(move.changes_leader for move in moves),
        "rack_violations": broken,
        "crowded_replicas_before": crowded[0],
        "crowded_replicas": crowded[1],
        "batches": batches,
        "makespan_seconds": None if makespan is None else round(makespan, 3),
        "makespan_bound_seconds": None if makespan_bound_seconds is None else round(makespan_bound_seconds, 3),
        "peak_disk_fraction": peak,
        "controller_bytes": controller_bytes,
    }


def _crowded(problem: Problem, replicas: Ints) -> int:
    """Replicas of a topic on one broker beyond the topic's even spread and one."""
    return Crowding(replicas, problem.topic, shares(problem)[:, REPLICAS]).replicas


def _cross_rack_bytes(problem: Problem, moves: Sequence[Move]) -> int | None:
    """Bytes copied from a leader in one rack to a broker in another; None where a rack is unknown."""
    racks = dict(zip(problem.brokers.tolist(), problem.racks, strict=True))
    pairs = [(racks[move.source], racks[broker], move.size_bytes) for move in moves for broker in move.added]
    if any(source is None or target is None for source, target, _ in pairs):
        return None
    return sum(size for source, target, size in pairs if source != target)


def _moves(
    problem: Problem, placed: Placed, end: Ending, relative: Floats, repaired: Bools, used: Floats
) -> tuple[list[Move], Ints]:
    """The partitions of the plan, and of each how soon it is to move."""
    width = max(placed.replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (placed.replicas, problem.replicas))
    now = np.where(end.changed[:, None], now, was)  # of a list that stays, its order too
    changed = np.flatnonzero(end.changed | end.elected)
    reasons = Reasons(problem, relative, placed.goal.tolerance, now)
    moves = []
    for row in changed:
        move = Move(
            TopicPartition(problem.topics[problem.topic[row]], int(problem.partition[row])),
            tuple(problem.brokers[was[row][was[row] >= 0]].tolist()),
            tuple(problem.brokers[now[row][now[row] >= 0]].tolist()),
            int(problem.size_bytes[row]),
            leader=int(problem.brokers[problem.leader[row]]),
        )
        why = placed.reason or reasons.of(int(row), move, repairs_rack=bool(repaired[row]))
        moves.append(replace(move, reason=why))
    return moves, _ranks(problem, was, now, repaired, used)[changed]


def _ranks(problem: Problem, was: Ints, now: Ints, repaired: Bools, used: Floats) -> Ints:
    """[partition row] First what has too few replicas in sync or in too few racks, then what empties full disks."""
    ranks = np.full(len(was), ORDINARY)
    full = used > disk_limits_meanwhile(problem)
    if full.any():
        gone = (was >= 0) & ~(was[:, :, None] == now[:, None, :]).any(axis=2)
        ranks[(gone & full[np.maximum(was, 0)]).any(axis=1)] = RELIEVING
    behind = (problem.replicas >= 0) & ~problem.in_sync
    ranks[behind.any(axis=1) | repaired] = URGENT
    return ranks


def _bytes_bound(problem: Problem, placed: Placed, before: Floats, after: Floats) -> int:
    """Bytes that no plan stays below whose disks end within the tolerance, or as near to it as this one."""
    goal = placed.goal
    if not goal.moves_replicas:
        return 0
    staying = problem.staying
    kept = ((problem.replicas >= 0) & staying[np.maximum(problem.replicas, 0)]).sum(axis=1)
    lacking = np.where(problem.relocatable, np.maximum(0, placed.wanted - kept), 0)
    needed = float((lacking * problem.size_bytes).sum())
    if not goal.balances:
        return int(needed)
    if placed.relief is not None:
        high = np.maximum(placed.relief.high[:, DISK] * placed.scale[DISK], after)
        low = np.zeros(len(high))
        return moved_bytes_bound(before, (low, high), placed.relief.givers, needed, same_factor=True)
    target = placed.targets[:, DISK] * placed.scale[DISK]
    here = problem.receivers & (target > 0)
    reached = after[here] / target[here]
    least = min(1 - goal.tolerance, float(reached.min(initial=1.0)))
    most = max(1 + goal.tolerance, float(reached.max(initial=1.0)))
    same_factor = bool((placed.wanted == replication(problem.replicas)).all())
    return moved_bytes_bound(before, (target * least, target * most), here, needed, same_factor=same_factor)


def _verdict(problem: Problem, placed: Placed, end: Ending, off: Sequence[str], broken: int) -> tuple[str, list[str]]:
    """The status, and what has to be said."""
    goal, budget = placed.goal, placed.budget
    notes, status = list(placed.notes), "ok"
    limits = {
        "max_bytes": budget.bytes,
        "max_replicas": budget.replicas,
        "max_leader_changes": end.leader_changes(problem),
    }
    reached_limits = budget.reached | ({"max_leader_changes"} if end.beyond else set())
    unfinished = bool(off) or (goal.repairs_racks and broken > 0) or end.beyond > 0
    if reached_limits and unfinished:
        status = "partial"
        reached = (
            f"{limit} {getattr(problem.settings, limit):,} ({limits[limit]:,} used)" for limit in sorted(reached_limits)
        )
        notes.append(f"stopped at {', '.join(reached)}")
    elif off:
        # Re-ordering alone promises no band, nor do lists from elsewhere; what else falls short is partly done.
        status = "partial" if goal.moves_replicas and goal.searched else "ok"
        if not goal.to_limit:
            notes.append(f"within {share_in_words(goal.tolerance)} is not reached")
    notes += off[:_LISTED]
    if goal.repairs_racks and broken:
        notes.append(f"{broken} partitions still break the rack rule")
    factor = problem.settings.replication_factor
    if factor is not None and goal.moves_replicas and goal.searched:
        same = int((problem.movable & problem.pinned & (placed.wanted != factor)).sum())
        if same:
            notes.append(f"{same} partitions of pinned_topics keep their replication factor")
        more = int((problem.relocatable & (placed.wanted > factor)).sum())
        if more:
            notes.append(f"{more} partitions keep more than {factor} replicas, because of those on brokers_out")
    notes += _lagging_leaders(problem, placed.replicas)
    notes += min_insync.warnings(problem, replication(placed.replicas))
    left = left_behind(problem, placed.replicas)
    if left:
        status = "partial"
        why = "are kept where they are" if goal.moves_replicas else "stay: this candidate only re-orders lists"
        notes.append(f"{left} replicas on brokers that are to be emptied {why}")
    if end.impossible:
        some = (
            "1 partition keeps a leader that is not its"
            if end.impossible == 1
            else (f"{end.impossible:,} partitions keep leaders that are not their")
        )
        notes.append(f"{some} preferred one: that broker is not in sync now, or brokers_out keeps the leader")
    notes += caveats(problem)
    return status, notes


def _lagging_leaders(problem: Problem, replicas: Ints) -> list[str]:
    """New preferred leaders that are out of the ISR: their batch waits until they have caught up."""
    new = lagging(problem, replicas)[:, 0] & (replicas[:, 0] != problem.replicas[:, 0])
    rows = np.flatnonzero(new)
    if not len(rows):
        return []
    row = int(rows[0])
    first = TopicPartition(problem.topics[problem.topic[row]], int(problem.partition[row]))
    return [
        f"{len(rows)} partitions get a preferred leader that is out of the ISR in the snapshot, first {first} (broker "
        f"{problem.brokers[replicas[row, 0]]}): their batches wait until it has caught up"
    ]


def _peak_note(problem: Problem, peak: float | None, used: Floats) -> list[str]:
    """A word where copying fills a disk beyond its headroom, and beyond where the fullest already is."""
    if peak is None:
        return []
    known, allowed = sized_disks(problem), 1 - problem.settings.disk_headroom
    fullest = float((used[known] / problem.disk_capacity[known]).max())
    if peak <= max(allowed, fullest) + 1e-6:
        return []
    return [
        f"while both copies exist a disk is up to {share_in_words(peak)} full, beyond the {share_in_words(allowed)} of "
        "disk_headroom"
    ]


def _sentence(notes: Sequence[str]) -> str:
    text = "; ".join(notes)
    return f"{text[0].upper()}{text[1:]}." if text else ""
