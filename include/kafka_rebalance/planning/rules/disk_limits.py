"""How much disks and log dirs may hold, at the end of a plan and while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.finding import broker_ids
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    added,
    replica_loads,
    replica_weights,
    replication,
)
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule, violations
from kafka_rebalance.planning.rules.survival import survival_limits

_NOTHING = "Nothing was planned."


def held_bytes(problem: Problem) -> Floats:
    """[broker] Bytes of the replicas on each broker now."""
    return replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))[:, DISK]


def used_bytes(problem: Problem) -> Floats:
    """[broker] Bytes on its disks now, with what retention will only delete while the first copies run."""
    held = replica_loads(problem.replicas, problem.size_bytes[:, None].astype(np.float64), len(problem.brokers))[:, 0]
    return np.fmax(held, problem.disk_used)


def disk_limits_in_the_end(problem: Problem) -> Floats:
    """[broker] Bytes of replicas that a broker may hold in the end, if it receives any; inf if nothing limits them.

    Other files on a disk stay there. Several log dirs get equally many new replicas (`LogDirs`), so together they take
    what the fullest takes, times their number. A replica that leaves makes room on the disk, but it is unknown in which
    log dir; `disk_headroom` covers that.
    """
    settings, dirs = problem.settings, problem.log_dirs
    held = held_bytes(problem)
    share = min(1 - settings.disk_headroom, settings.relieve_above or 1.0)
    other = np.fmax(0.0, problem.disk_used - held)
    limits = np.where(np.isnan(problem.disk_capacity), np.inf, problem.disk_capacity * share - other)
    several = dirs.count > 0
    limits[several] = np.minimum(limits, held + dirs.count * np.where(several, dirs.room, 0.0))[several]
    limits[~problem.staying] = 0.0
    return limits


def disk_limits_meanwhile(problem: Problem) -> Floats:
    """[broker] Bytes that a disk may hold while the plan runs; inf if its size is unknown or the broker leaves."""
    most = np.minimum(problem.disk_capacity * (1 - problem.settings.disk_headroom), survival_limits(problem)[0])
    return np.where(sized_disks(problem), most, np.inf)


def disk_shares(problem: Problem) -> Floats:
    """[broker] The share of its disk in use; 0 if its size is unknown or the broker leaves."""
    used = np.fmax(held_bytes(problem), problem.disk_used)
    return np.divide(used, problem.disk_capacity, out=np.zeros(len(used)), where=sized_disks(problem))


def sized_disks(problem: Problem) -> Bools:
    """[broker] Brokers that stay and have a disk of known size."""
    return problem.staying & (problem.disk_capacity > 0)


@dataclass(frozen=True, slots=True, eq=False)
class FitsLogDirs:
    """A replica fits each log dir of its broker, because Kafka may put it into any of them (`LogDirs`)."""

    sizes: Ints  # [partition row] bytes of a replica
    largest: Floats  # [broker] bytes of the largest replica that it takes
    binds_at_home: ClassVar[bool] = False

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        fits: Bools = self.sizes[rows][:, None] <= self.largest[targets]
        return fits

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """Nothing: `DiskLimit` names the first such replica of all."""
        yield from ()


def log_dir_room(problem: Problem, _: RackRule, __: Ints) -> Iterator[FitsLogDirs]:
    if np.isfinite(problem.log_dirs.room).any():
        yield FitsLogDirs(problem.size_bytes, problem.log_dirs.room)


class DiskLimit:
    """A disk keeps `disk_headroom` free, as far as its size is known."""

    metric: ClassVar[int] = DISK

    def in_the_end(self, problem: Problem) -> Floats:
        return disk_limits_in_the_end(problem)

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from _too_large(problem, replicas)
        brokers, weights, limit = len(problem.brokers), replica_weights(problem), disk_limits_in_the_end(problem)
        before = replica_loads(problem.replicas, weights, brokers)[:, DISK]
        after = replica_loads(replicas, weights, brokers)[:, DISK]
        over = problem.staying & (after > before) & (after > limit * (1 + 1e-9))
        if over.any():
            kept: Floats = (after - limit) / problem.disk_capacity
            worst = int(np.where(over, kept, -np.inf).argmax())
            full = 1 - problem.settings.disk_headroom + float(kept[worst])
            broker, allowed = int(problem.brokers[worst]), 1 - problem.settings.disk_headroom
            yield note(NoteKind.DISK_TOO_FULL, broker=broker, full=full, allowed=allowed)

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """Nothing: a full disk is seen in the loads."""
        yield from ()

    def check(self, problem: Problem, wanted: Ints) -> None:
        """All that the job must copy fits the disks that stay, each rack's part its disks, each replica one of them."""
        limits, held = disk_limits_in_the_end(problem), held_bytes(problem)
        # A disk beyond its limit keeps what it has.
        room = np.where(problem.receivers, np.maximum(limits, held), np.where(problem.staying, held, 0.0))
        _check_totals(problem, wanted, room)
        _check_largest(problem, wanted, limits)
        _check_replacements(problem, limits, held)


def _too_large(problem: Problem, replicas: Ints) -> Iterator[Note]:
    """The first replica that is too large for the fullest log dir of its new broker."""
    gained = added(replicas, problem.replicas)
    room = np.where(replicas >= 0, problem.log_dirs.room[np.maximum(replicas, 0)], np.inf)
    rows, columns = np.nonzero(gained & (problem.size_bytes[:, None] > room))
    if len(rows):
        row, broker = int(rows[0]), int(replicas[rows[0], columns[0]])
        yield note(
            NoteKind.TOO_LARGE_FOR_LOG_DIR,
            partition=problem.name_of(row),
            size=int(problem.size_bytes[row]),
            path=problem.log_dirs.fullest[broker],
            broker=int(problem.brokers[broker]),
            room=int(problem.log_dirs.room[broker]),
        )


def _kept_free(problem: Problem) -> str:
    return f"with {share_in_words(problem.settings.disk_headroom)} kept free"


def _check_totals(problem: Problem, wanted: Ints, room: Floats) -> None:
    moves, stays = problem.relocatable, problem.staying
    fixed = replica_loads(problem.replicas[~moves], replica_weights(problem)[~moves], len(stays))[:, DISK] * stays
    total = float((wanted * problem.size_bytes)[moves].sum() + fixed.sum())
    if total > room.sum():
        raise PlanningError(
            f"{int(total):,} bytes of replicas do not fit the {int(stays.sum())} brokers that stay. These have room "
            f"for {int(room.sum()):,} bytes {_kept_free(problem)}. {_NOTHING} Add brokers, or empty fewer."
        )
    rule = rack_rule(problem, problem.settings.replication_factor)
    if not rule.known:
        return
    # A partition with as many replicas as there are racks needs one in each, or more.
    everywhere = moves & (wanted >= rule.racks) & ~violations(rule, problem.replicas)
    for domain in np.unique(rule.domain[stays]):
        here = stays & (rule.domain == domain)
        needed = float((problem.size_bytes * rule.least(wanted, int(domain)))[everywhere].sum())
        total = needed + fixed[here].sum()
        if total > room[here].sum():
            rack = problem.racks[int(np.flatnonzero(here)[0])]
            where = "The one rack of the brokers without broker.rack" if rack is None else f"Rack {rack}"
            ids = problem.brokers[here].tolist()
            raise PlanningError(
                f"{where} must hold {int(total):,} bytes, because one replica of each of {int(everywhere.sum())} "
                f"partitions belongs there. Its {broker_ids(ids, 'has', 'have')} room for {int(room[here].sum()):,} "
                f"bytes {_kept_free(problem)}. {_NOTHING} Add brokers to the rack, or empty fewer of it."
            )


def _check_largest(problem: Problem, wanted: Ints, limits: Floats) -> None:
    """The largest replica that has to be copied fits at least one disk, if empty, and its log dirs."""
    leaves = ((problem.replicas >= 0) & problem.leaving[np.maximum(problem.replicas, 0)]).any(axis=1)
    copied = problem.relocatable & (leaves | (wanted > replication(problem.replicas)))
    if not copied.any() or not problem.receivers.any():
        return
    most = float(np.minimum(limits, problem.log_dirs.room)[problem.receivers].max())
    row = int(np.where(copied, problem.size_bytes, -1).argmax())
    if problem.size_bytes[row] > most:
        raise PlanningError(
            f"{problem.name_of(row)} has {int(problem.size_bytes[row]):,} bytes and the job has to copy it. None of "
            f"the {int(problem.receivers.sum())} brokers that may receive replicas takes one above {int(most):,} bytes "
            f"{_kept_free(problem)} on its disk and in each of its log dirs. {_NOTHING} Make room, or leave the topic "
            "out."
        )


def _check_replacements(problem: Problem, limits: Floats, held: Floats) -> None:
    moved = replica_loads(problem.replicas, replica_weights(problem) * problem.relocatable[:, None], len(held))[:, DISK]
    for old, new in problem.settings.replace.items():
        source, target = (int(np.searchsorted(problem.brokers, broker)) for broker in (old, new))
        if problem.pools.foreign[target]:
            continue  # what the old broker holds of this pool goes into the pool
        if moved[source] > 0 and held[target] + moved[source] > limits[target]:
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}, which holds {int(moved[source]):,} bytes. Broker {new} "
                f"already holds {int(held[target]):,}, and takes {int(limits[target]):,} in all {_kept_free(problem)}. "
                f"{_NOTHING} Choose another broker, or job 'drain' for {old}."
            )
