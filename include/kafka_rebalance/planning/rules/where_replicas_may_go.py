"""Which broker may take which replica, and how much each may hold: the rules beside the rack rule, in two lists.

The searches, the exact optimum, the plan near the last proposal and the check of a given plan ask these lists, and no
rule by its name. So a new rule is a class and its entry here. A rule that is off is none of the rules of a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.planning.problem.arrays import (
    REPLICA_METRICS,
    Bools,
    Floats,
    Ints,
    Problem,
    added,
    changed_lists,
    replication,
)
from kafka_rebalance.planning.problem.pools import strays
from kafka_rebalance.planning.rules.disk_limits import DiskLimit, log_dir_room
from kafka_rebalance.planning.rules.rack_rule import ELSEWHERE, RackRule, keeps_racks, violations
from kafka_rebalance.planning.rules.replica_limits import ReplicasPerBroker
from kafka_rebalance.planning.rules.survival import DisksSurvive, NetworksSurvive


class MoveRule(Protocol):
    """Keeps single replicas off some brokers."""

    binds_at_home: ClassVar[bool]  # also a replica that goes back to where it lies in the snapshot

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        """[move, target], or what broadcasts to it: whether a replica of the row may go from its source to the target.

        `sources` are -1 for a replica that is nowhere yet. `targets` is [target], or [move, 1].
        """

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """What these lists would break."""


class BrokerLimit(Protocol):
    """How much of one load a broker may hold in the end, if it receives anything."""

    metric: ClassVar[int]  # of REPLICA_METRICS

    def in_the_end(self, problem: Problem) -> Floats:
        """[broker] inf: nothing limits it."""

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """What these lists would bring beyond the limit."""

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """Which brokers that receive hold all that they may with these lists."""

    def check(self, problem: Problem, wanted: Ints) -> None:
        """Raises PlanningError if what the job must place is more than the brokers that stay may hold.

        `wanted` is [partition row], the replicas in the end.
        """


def allowed(
    racks: RackRule,
    others: Sequence[MoveRule],
    replicas: Ints,
    domains: Ints,
    rows: Ints,
    columns: Ints,
    targets: Ints,
    *,
    repair: bool = False,
) -> Bools:
    """[move, target] Whether the rack rule and all others let the replica at (row, column) go to the target.

    `targets` is [target], or [move, 1]; `repair` is as of `keeps_racks`.
    """
    legal = keeps_racks(racks, replicas, domains, rows, columns, targets, repair=repair)
    for rule in others:
        legal &= rule.allows(rows, replicas[rows, columns], targets)
    return legal


def move_rules(problem: Problem, racks: RackRule, wanted: Ints | None = None) -> tuple[MoveRule, ...]:
    """The rules that bind this problem. `wanted` is [partition row], the replicas in the end; by default as now."""
    counts = replication(problem.replicas) if wanted is None else wanted
    return tuple(rule for make in MOVE_RULES for rule in make(problem, racks, counts))


def limits_in_the_end(problem: Problem) -> Floats:
    """[broker, REPLICA_METRICS] What a broker may carry in the end, if it receives anything; inf: no limit."""
    limits = np.full((len(problem.brokers), len(REPLICA_METRICS)), np.inf)
    for limit in BROKER_LIMITS:
        limits[:, limit.metric] = np.minimum(limits[:, limit.metric], limit.in_the_end(problem))
    return limits


@dataclass(frozen=True, slots=True, eq=False)
class KeepsItsRack:
    """`rack_pinned_topics`: a replica stays in its rack. One that is in no rack now may go to any."""

    confined: Bools  # [partition row]
    domain: Ints  # [broker]
    binds_at_home: ClassVar[bool] = True

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        domains = np.where(sources >= 0, self.domain[sources], -1)
        free = ~self.confined[rows] | ((domains < 0) & (domains != ELSEWHERE))
        allowed: Bools = free[:, None] | (self.domain[targets] == domains[:, None])
        return allowed

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        """Nothing: a given plan may have other lists, which `given_plan` compares as a whole."""
        yield from ()


@dataclass(frozen=True, slots=True, eq=False)
class OnlyReceivers:
    """Only some brokers receive: `brokers_in`, and brokers to which Kafka gives nothing."""

    receives: Bools  # [broker]
    binds_at_home: ClassVar[bool] = False

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        return self.receives[targets]

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        gained = added(replicas, problem.replicas)
        receiving = np.unique(replicas[gained])
        others = receiving[problem.evened[receiving] & ~problem.only_receivers[receiving]]
        if len(others):
            yield note(NoteKind.OTHERS_RECEIVE, brokers=problem.brokers[others].tolist())
        for broker in receiving.tolist():
            if broker in problem.shut:
                why = problem.shut[broker]
                yield note(NoteKind.SHUT_BROKER_RECEIVES, broker=int(problem.brokers[broker]), why=why)
        cordoned: Bools = (replicas >= 0) & problem.cordoned[np.maximum(replicas, 0)] & ~gained
        new_with: Bools = changed_lists(problem.replicas, replicas) & cordoned.any(axis=1)
        if new_with.any():
            ids = problem.brokers[np.unique(replicas[new_with][cordoned[new_with]])].tolist()
            first = problem.name_of(np.flatnonzero(new_with)[0])
            yield note(NoteKind.NAMES_CORDONED_BROKERS, lists=int(new_with.sum()), brokers=ids, first=first)


@dataclass(frozen=True, slots=True, eq=False)
class NotBack:
    """A replica does not go back to a broker that it has left."""

    left: Ints  # [partition row, n] these brokers; -1: none
    binds_at_home: ClassVar[bool] = True

    def allows(self, rows: Ints, sources: Ints, targets: Ints) -> Bools:
        elsewhere: Bools = np.ones((len(rows), targets.shape[-1]), dtype=bool)
        for position in range(self.left.shape[1]):
            elsewhere &= self.left[rows, position][:, None] != targets
        return elsewhere

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        back = ((self.left >= 0)[:, None, :] & (replicas[:, :, None] == self.left[:, None, :])).any(axis=(1, 2))
        if back.any():
            first = problem.name_of(np.flatnonzero(back)[0])
            yield note(NoteKind.GOES_BACK, partitions=int(back.sum()), first=first)


def _keeps_its_rack(problem: Problem, racks: RackRule, _: Ints) -> Iterator[MoveRule]:
    if racks.confined.any():
        yield KeepsItsRack(racks.confined, racks.domain)


def _only_receivers(problem: Problem, _: RackRule, __: Ints) -> Iterator[MoveRule]:
    if problem.some_only_give:
        yield OnlyReceivers(problem.receivers)


def _left_lately(problem: Problem, racks: RackRule, _: Ints) -> Iterator[MoveRule]:
    """An earlier plan has lately taken replicas from these. A list that breaks the rack rule or a pool now is free."""
    left = problem.earlier.left
    if left.shape[1]:
        broken = violations(racks, problem.replicas) | strays(problem, problem.replicas).any(axis=1)
        yield NotBack(np.where(broken[:, None], -1, left))


def _dropped_behind(problem: Problem, _: RackRule, wanted: Ints) -> Iterator[MoveRule]:
    """A shorter list drops replicas that are out of sync. To come back to mend racks or balance is no free copy."""
    behind = (problem.replicas >= 0) & ~problem.in_sync & (replication(problem.replicas) > wanted)[:, None]
    if behind.any():
        yield NotBack(np.where(behind, problem.replicas, -1))


MOVE_RULES: tuple[Callable[[Problem, RackRule, Ints], Iterator[MoveRule]], ...] = (
    _keeps_its_rack,
    _only_receivers,
    _left_lately,
    _dropped_behind,
    log_dir_room,
)
BROKER_LIMITS: tuple[BrokerLimit, ...] = (ReplicasPerBroker(), DiskLimit(), DisksSurvive(), NetworksSurvive())
