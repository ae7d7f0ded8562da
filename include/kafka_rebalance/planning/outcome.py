"""What an assignment amounts to: moves with reasons and batches, scores, figures, status and note."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kafka_rebalance.model.amounts import share_in_words
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.proposal import Candidate, Move, candidate_digest
from kafka_rebalance.planning import min_insync
from kafka_rebalance.planning.arrays import (
    DISK,
    METRICS,
    REPLICA_METRICS,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    all_loads,
    bytes_out,
    known_metrics,
    leader_weights,
    replica_weights,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.batches import schedule
from kafka_rebalance.planning.bounds import makespan_bound, moved_bytes_bound
from kafka_rebalance.planning.caveats import caveats
from kafka_rebalance.planning.consequences import consequences
from kafka_rebalance.planning.constraints import RackRule, rack_rule, violations
from kafka_rebalance.planning.controller import rewrites, too_large
from kafka_rebalance.planning.crowding import Crowding
from kafka_rebalance.planning.jobs import Goal, goal_of
from kafka_rebalance.planning.placement import Budget
from kafka_rebalance.planning.reasons import LEADERS, MoveGroup, Reasons, move_groups, rack_limits
from kafka_rebalance.planning.relief import Relief
from kafka_rebalance.planning.room import disk_shares, held_bytes, used_bytes
from kafka_rebalance.planning.scoring import Score, outside_band, scores
from kafka_rebalance.planning.timeline import ORDINARY, RELIEVING, URGENT, DiskUse, disk_limits_meanwhile

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
    within_tolerance: bool
    disks: DiskUse | None = None  # None where nothing is offered
    groups: tuple[MoveGroup, ...] = ()
    rack_limits: tuple[str, ...] = ()  # how even the racks let brokers be, in words
    consequences: Mapping[str, Any] = field(default_factory=dict)  # further keys of proposals.json; see there


def infeasible(problem: Problem, name: str, note: str) -> Plan:
    """A candidate that is not offered: no moves, and the figures that forbid it."""
    loads = all_loads(problem, problem.replicas)
    broken = int(violations(rack_rule(problem), problem.replicas).sum())
    crowded = _crowded(problem, problem.replicas)
    summary = _summary(broken=broken, crowded=(crowded, crowded))
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), ())
    now = scores(problem, loads, shares(problem))
    out = bytes_out(problem, problem.replicas)
    return Plan(Candidate(name, digest, "infeasible", (), note, summary), now, now, loads, loads, (out, out), False)


def outcome(problem: Problem, name: str, placed: Placed) -> Plan:
    """Everything that tables and people get to see of one candidate."""
    share = shares(problem)
    before, after = all_loads(problem, problem.replicas), all_loads(problem, placed.replicas)
    reachable = np.hstack([placed.targets * placed.scale, placed.leader_targets])
    was_broken = violations(placed.rule, problem.replicas)
    is_broken = violations(placed.rule, placed.replicas)
    used = used_bytes(problem)
    # Leaders are balanced after replicas have moved, so that is what their reasons compare.
    compared = np.hstack([before[:, :LEADERS], all_loads(problem, placed.unordered)[:, LEADERS:]])
    relative = np.divide(compared, reachable, out=np.where(compared > 0, np.inf, 1.0), where=reachable > 0)
    moves, ranks = _moves(problem, placed, relative, was_broken & ~is_broken, used)
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
    off = _off_balance(problem, placed, after)
    asked = _as_asked(problem, placed)
    far = off if asked is placed else _off_balance(problem, asked, after)
    status, notes = _verdict(problem, name, placed, off, int(is_broken.sum()))
    notes += _peak_note(problem, planned.peak_disk_fraction, used)
    digest = candidate_digest(name, problem.snapshot_digest, problem.settings.to_mapping(), planned.moves)
    candidate = Candidate(name, digest, status, planned.moves, _sentence(notes), summary)
    return Plan(
        candidate,
        scores(problem, before, share),
        scores(problem, after, share),
        before,
        after,
        (bytes_out(problem, problem.replicas), bytes_out(problem, placed.replicas)),
        not is_broken.any() and not _left(problem, placed) and not far,
        planned.disks,
        tuple(move_groups(problem, planned.moves, before, after, reachable)),
        rack_limits(problem, placed.rule, reachable),
        consequences(problem, placed.replicas, planned.moves) | {"timetable": planned.timetable},
    )


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
    pairs = [(racks[move.before[0]], racks[broker], move.size_bytes) for move in moves for broker in move.added]
    if any(source is None or target is None for source, target, _ in pairs):
        return None
    return sum(size for source, target, size in pairs if source != target)


def _moves(
    problem: Problem, placed: Placed, relative: Floats, repaired: Bools, used: Floats
) -> tuple[list[Move], Ints]:
    """The changed partitions, and of each how soon it is to move.

    Of what was searched, a list with the same replicas and the same leader stays as it is, whatever its order.
    """
    width = max(placed.replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (placed.replicas, problem.replicas))
    same = (now == was).all(axis=1)
    if placed.goal.searched:
        same |= (np.sort(now, axis=1) == np.sort(was, axis=1)).all(axis=1) & (now[:, 0] == was[:, 0])
    changed = np.flatnonzero(~same)
    reasons = Reasons(problem, relative, placed.goal.tolerance, now)
    moves = []
    for row in changed:
        move = Move(
            TopicPartition(problem.topics[problem.topic[row]], int(problem.partition[row])),
            tuple(problem.brokers[was[row][was[row] >= 0]].tolist()),
            tuple(problem.brokers[now[row][now[row] >= 0]].tolist()),
            int(problem.size_bytes[row]),
        )
        why = placed.reason or reasons.of(int(row), move, repairs_rack=bool(repaired[row]))
        moves.append(replace(move, reason=why))
    return moves, _ranks(problem, was, now, repaired, used)[changed]


def _ranks(problem: Problem, was: Ints, now: Ints, repaired: Bools, used: Floats) -> Ints:
    """[partition row] First what has too few replicas in sync or in too few racks, then what empties full disks."""
    ranks = np.full(len(was), ORDINARY)
    limit = disk_limits_meanwhile(problem)
    if limit is not None:
        gone = (was >= 0) & ~(was[:, :, None] == now[:, None, :]).any(axis=2)
        ranks[(gone & (used > limit)[np.maximum(was, 0)]).any(axis=1)] = RELIEVING
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


def _off_balance(problem: Problem, placed: Placed, after: Floats) -> list[str]:
    """The metrics that end outside the tolerance although one replica or leader would matter, with their range."""
    goal = placed.goal
    counts = len(REPLICA_METRICS)
    weights = np.hstack([replica_weights(problem), leader_weights(problem, placed.replicas)])
    targets = np.hstack([placed.targets * placed.scale, placed.leader_targets])
    off = outside_band(after, targets, weights.max(axis=0), goal.tolerance, problem.receivers)
    if placed.relief is not None:
        off[:, :counts] &= after[:, :counts] > placed.relief.high * placed.scale * (1 + 1e-9)
        off[:, counts:] &= after[:, counts:] > targets[:, counts:]
    known = known_metrics(problem)
    found = _still_above(problem, after[:, DISK])
    for k, metric in enumerate(METRICS):
        asked = goal.balances if k < counts else goal.all_leaders
        here = problem.receivers & (targets[:, k] > 0)  # a load next to nothing has shares that are nothing
        if metric in known and asked and off[here, k].any():
            reached = after[here, k] / targets[here, k]
            found.append(f"{metric} {reached.min():.2f} to {reached.max():.2f} of the reachable share")
    return found


def _as_asked(problem: Problem, placed: Placed) -> Placed:
    """The same lists, held to what the job asks for: re-ordering promises nothing of replicas, which may be uneven."""
    if placed.goal.moves_replicas:
        return placed
    return replace(placed, goal=replace(placed.goal, balances=goal_of(problem.settings, "balanced").balances))


def _left(problem: Problem, placed: Placed) -> int:
    """Replicas that are still on brokers to be emptied."""
    if problem.settings.job == "leaders":
        return 0
    return int(np.isin(placed.replicas, np.flatnonzero(problem.leaving)).sum())


def _still_above(problem: Problem, after: Floats) -> list[str]:
    """Disks that stay above `relieve_above`; `after` is [broker] bytes."""
    limit = problem.settings.relieve_above
    if limit is None or problem.disk_capacity is None:
        return []
    moved = (after - held_bytes(problem)) / np.where(problem.staying, problem.disk_capacity, np.inf)
    shares = np.where(problem.staying, disk_shares(problem) + moved, 0.0)
    above = np.flatnonzero(shares > limit + 1e-9)
    if not len(above):
        return []
    worst = int(shares.argmax())
    first = f"the fullest of broker {problem.brokers[worst]} at {100 * shares[worst]:.1f} %"
    return [f"{len(above)} disks stay above relieve_above {share_in_words(limit)}, {first}"]


def _verdict(problem: Problem, name: str, placed: Placed, off: Sequence[str], broken: int) -> tuple[str, list[str]]:
    """The status, and what has to be said."""
    goal, budget = placed.goal, placed.budget
    notes, status = list(placed.notes), "ok"
    limits = {"max_bytes": budget.bytes, "max_replicas": budget.replicas, "max_leader_changes": budget.leader_changes}
    unfinished = bool(off) or (goal.repairs_racks and broken > 0)
    if budget.reached and unfinished:
        status = "partial"
        reached = (
            f"{limit} {getattr(problem.settings, limit):,} ({limits[limit]:,} used)" for limit in sorted(budget.reached)
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
    notes += min_insync.warnings(problem, replication(placed.replicas))
    left = _left(problem, placed)
    if left:
        status = "partial"
        why = "are kept where they are" if goal.moves_replicas else "stay: this candidate only re-orders lists"
        notes.append(f"{left} replicas on brokers that are to be emptied {why}")
    notes += caveats(problem)
    return status, notes


def _peak_note(problem: Problem, peak: float | None, used: Floats) -> list[str]:
    """A word where copying fills a disk beyond its headroom, and beyond where the fullest already is."""
    if peak is None or problem.disk_capacity is None:
        return []
    stays, allowed = problem.staying, 1 - problem.settings.disk_headroom
    fullest = float((used[stays] / problem.disk_capacity[stays]).max())
    if peak <= max(allowed, fullest) + 1e-6:
        return []
    return [
        f"while both copies exist a disk is up to {share_in_words(peak)} full, beyond the {share_in_words(allowed)} of "
        "disk_headroom"
    ]


def _sentence(notes: Sequence[str]) -> str:
    text = "; ".join(notes)
    return f"{text[0].upper()}{text[1:]}." if text else ""
