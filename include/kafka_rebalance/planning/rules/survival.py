"""`survive`: which losses a cluster has to survive, and how full disks and networks may be so that it does.

A *loss* is one broker, or with `survive: rack` a whole rack too. It is survived if no disk is then beyond its headroom
and no network beyond its capacity:

- The next replica in sync leads what was led there, as in `describe.worst_case`.
- A broker's replicas are copied anew to the rest of its rack, each broker by its disk. If it is alone there, or in no
  rack, all others share them. With `survive: rack` the loss of a broker that is alone is that of its rack.
- A rack's replicas are copied anew to all other racks, each broker by its disk, but only those of partitions for which
  the other racks are at least as many as the replicas. The others wait until their rack is back, because a copy would
  bring two replicas of a partition into one rack. Meanwhile their leaders send to fewer followers.

With pools, the others are those of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note
from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.settings import SURVIVE_RACK
from kafka_rebalance.planning.problem.arrays import (
    BYTES_IN,
    DISK,
    Bools,
    Floats,
    Ints,
    Problem,
    replica_loads,
    replica_weights,
    replication,
)

RACKLESS = "none"  # the name of brokers without a rack, which count as one together


@dataclass(frozen=True, slots=True, eq=False)
class Loss:
    """One broker, or the brokers of a pool in one rack."""

    name: int | str  # id of the broker, or the rack
    lost: Bools  # [broker]
    takers: Bools  # [broker] who share its replicas
    rack: str | None  # of the takers; None: several
    copied: Bools | None  # [partition row] whose replicas are copied anew; None: all


def losses(problem: Problem) -> Sequence[Loss]:
    """None without the setting, or if nobody is left to take over."""
    if problem.settings.survive is None:
        return ()
    return tuple(_losses(problem))


def _losses(problem: Problem) -> Iterator[Loss]:
    racks, pool, here = np.array(problem.racks, dtype=object), problem.pools.of_broker, problem.registered
    of_racks, counts = problem.settings.survive == SURVIVE_RACK, replication(problem.replicas)
    counts = np.minimum(counts, problem.settings.replication_factor or counts)  # shorter lists find a rack sooner
    for number in np.unique(pool[here]).tolist():
        own = here & (pool == number)
        stays = own & problem.staying
        for broker in np.flatnonzero(own).tolist():
            lost, rack = np.arange(len(own)) == broker, racks[broker]
            beside = stays & ~lost & (racks == rack) & (rack is not None)
            if beside.any():
                yield Loss(int(problem.brokers[broker]), lost, beside, rack, None)
            elif (stays & ~lost).any() and not (of_racks and rack is not None):
                yield Loss(int(problem.brokers[broker]), lost, stays & ~lost, None, None)
        if of_racks:
            named = np.where(racks == None, RACKLESS, racks)  # noqa: E711  # elementwise
            for rack in sorted(set(named[own])):
                lost = own & (named == rack)
                if (others := stays & ~lost).any():
                    yield Loss(rack, lost, others, None, counts <= len(set(named[others])))


def check_losses(problem: Problem) -> None:
    """Raises PlanningError if a loss leaves nobody who could take over; with pools, in the problem of one."""
    survive, stays = problem.settings.survive, problem.staying
    racks = {rack for rack, here in zip(problem.racks, stays, strict=True) if here and rack is not None}
    if survive is not None and stays.sum() < 2:
        raise PlanningError(
            f"survive is {survive}, and {int(stays.sum())} broker stays: nobody could take over what it holds. Nothing "
            "was planned. Add a broker, or leave survive out."
        )
    if survive == SURVIVE_RACK and len(racks) < 2:
        raise PlanningError(
            f"survive is {survive}, and the brokers that stay are in {len(racks)} known racks: nobody could take over "
            "what a rack holds. Nothing was planned. Set broker.rack, add a rack, or ask for survive: broker."
        )


def without_survival(problem: Problem) -> Problem:
    """The problem in which no loss has to be survived."""
    return replace(problem, settings=replace(problem.settings, survive=None))


def taken_shares(problem: Problem, loss: Loss) -> Floats | None:
    """[broker] The part of the lost replicas that each takes, by its disk; None: the size of a disk is unknown."""
    sizes = np.where(loss.takers, problem.disk_capacity, 0.0)
    return None if np.isnan(sizes).any() or sizes.sum() <= 0 else sizes / sizes.sum()


def survival_limits(problem: Problem) -> tuple[Floats, Floats]:
    """([broker] bytes on a disk, [broker] bytes a second into a broker), up to which any loss is survived.

    inf where nothing is known or to be survived. If all that are lost and all that take are filled to one level of what
    they may have, the largest loss fills them. So the level is enough: no broker above it, no loss too many. Brokers
    below it would let others be above it, which the search does not use.
    """
    disks, networks = (np.full(len(problem.brokers), np.inf) for _ in range(2))
    disk, received = problem.disk_capacity * (1 - problem.settings.disk_headroom), problem.networks[:, 0]
    weights = replica_weights(problem)
    for loss in losses(problem):
        share, own, takers = taken_shares(problem, loss), loss.lost & problem.staying, loss.takers
        for limits, most, metric in ((disks, disk, DISK), (networks, received, BYTES_IN)):
            here = own | takers
            if share is None or np.isnan(most[here]).any():
                continue
            grows = float((share[takers] / most[takers]).max())  # of what a taker may have, with each unit that is lost
            level = 1 / (1 + float(most[own].sum()) * grows)
            if loss.copied is not None:  # a rack holds one replica of each partition at most
                level = max(level, 1 - float(weights[loss.copied, metric].sum()) * grows)
            limits[here] = np.minimum(limits, level * most)[here]
    return disks, networks


class _SurvivesLosses:
    """What a broker may hold, so that it and the others have room for each other's replicas.

    It says nothing of lists that break it: `describe.survival` looks at every loss itself, and tells which is too much.
    """

    def broken_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def reached_by(self, problem: Problem, replicas: Ints) -> Iterator[Note]:
        yield from ()

    def check(self, problem: Problem, wanted: Ints) -> None:
        """Nothing."""


class DisksSurvive(_SurvivesLosses):
    """`survive`, for disks. Other files on a disk stay there."""

    metric: ClassVar[int] = DISK

    def in_the_end(self, problem: Problem) -> Floats:
        held = replica_loads(problem.replicas, replica_weights(problem), len(problem.brokers))[:, DISK]
        return survival_limits(problem)[0] - np.fmax(0.0, problem.disk_used - held)


class NetworksSurvive(_SurvivesLosses):
    """`survive`, for what networks receive."""

    metric: ClassVar[int] = BYTES_IN

    def in_the_end(self, problem: Problem) -> Floats:
        return survival_limits(problem)[1]
