"""Looks at the cluster of a run with a range of rates, and gives its brokers the rates that `adaptive_rate` chooses.

A follower only looks. If a rate is to change, it says so, and the worker looks again and writes. The lease has every
rate of the range before the first one is set, so that a change here needs no change of the lease. Which rates brokers
have is read from their configs, and only what is set there as ours is changed.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kafka_rebalance.admin.wire import keep_wire
from kafka_rebalance.cluster.protocols import OpenCluster
from kafka_rebalance.documents.rate_steps import RATE_STEPS_FILE, RateStep, RateSteps, Reason
from kafka_rebalance.documents.throttle_lease import ThrottleLease
from kafka_rebalance.errors import (
    ArtifactError,
    AuthenticationError,
    ConfigChangedError,
    LockLostError,
    ReadError,
    StorageError,
)
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.connection import ClusterConnection
from kafka_rebalance.model.finding import some
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.run.checks.batch_wait import WATCHED, Pause
from kafka_rebalance.run.run_folder import RunFolder
from kafka_rebalance.throttle.adaptive_rate import Chosen, Sight, choose
from kafka_rebalance.throttle.entity_configs import read_away, read_configs
from kafka_rebalance.throttle.in_force import Configs, broker_of, rate_changes, rates_now
from kafka_rebalance.throttle.lease_copies import ClusterLease
from kafka_rebalance.throttle.lease_files import read_copy
from kafka_rebalance.throttle.read_sight import read_sight

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0  # between two looks, and at least:
LOOK_SHARE = 0.1  # of the time goes into looks
STEPS_KEPT = 200
FROZEN_LOOKS = 40  # ten minutes
LIVELY_SECONDS = 60.0  # after a change the worker stays with the batch, because further ones follow


@dataclass(frozen=True, slots=True)
class _Judged:
    steps: RateSteps  # with the memory for the next look
    chosen: Chosen


@dataclass(frozen=True, slots=True)
class _Taken:
    """A sight of this process. `at`: of time.monotonic()."""

    sight: Sight
    at: float
    cost_seconds: float


class RateWatch:
    """The looks of one process. `given_up`: see `ApprovedPlan.given_up`; None: the worker has noted it."""

    def __init__(self, folder: RunFolder, given_up: Collection[int] | None = None) -> None:
        self._folder, self._given_up = folder, given_up
        self._next_look = 0.0
        self._sight: _Taken | None = None
        self.last: Chosen | None = None
        self._changed: float | None = None  # time.monotonic() of the last change that this process made

    @property
    def is_lively(self) -> bool:
        return self._changed is not None and time.monotonic() - self._changed < LIVELY_SECONDS

    def wants_change(
        self, connection: ClusterConnection, cluster: OpenCluster, now: float, moves: Sequence[Move]
    ) -> bool:
        """Whether a broker is to get another rate. If not, what the look has shown is noted for the next one.

        False also if no look is due, if the run has one rate, or if the rates cannot be read. Raises
        AuthenticationError.
        """
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        try:
            lease, steps = read_copy(self._folder), RATE_STEPS_FILE.read_if_there(self._folder)
            if lease is None or steps is None or _is_young(steps, now) or not (lease.adapts and _is_in_force(lease)):
                return False
            with keep_wire(connection.kafka):
                judged = self._judge(connection, cluster, lease, _read_rates(cluster, lease), steps, now, moves)
        except AuthenticationError:
            raise
        except (ArtifactError, ReadError) as unread:
            log.info("The rates stay as they are at this look: %s", unread)
            return False
        if not judged.chosen.reasons:
            _note(self._folder, judged.steps)
        return bool(judged.chosen.reasons)

    def adapt(
        self,
        kept: ClusterLease,
        connection: ClusterConnection,
        owner: LockOwner,
        now: float,
        moves: Sequence[Move],
        *,
        at_once: bool = False,
        may_rise: bool = True,
    ) -> None:
        """Gives brokers the rates that a look asks for, if one is due or is wanted `at_once`. `moves`: in flight.

        If none `may_rise`, the cluster is frozen: then rates only fall. `last` is what it has found; None: the run has
        one rate now. Raises ReadError, WriteError, LockHeldError.
        """
        if now < self._next_look and not at_once:
            return
        cluster = kept.cluster
        # First the fence, then the lease: whoever sets a rate or puts the throttle back after this stops the write.
        fence = cluster.lock.read_own_fence(owner)
        lease = kept.read_open_in(self._folder)
        self._next_look = now + LOOK_SECONDS
        if lease is None or not lease.ladder or not _is_in_force(lease):
            self.last = None
            return
        configs = _read_rates(cluster, lease)
        if not configs:  # nothing is copied, or every broker is away
            self.last = None
            return
        steps = self._read_steps()
        here = lease.without(lease.wanted.keys() - configs.keys())
        if lease.adapts:
            judged = self._judge(connection, cluster, lease, configs, steps, now, moves)
            self.last, steps = judged.chosen, judged.steps
            if not may_rise:
                self.last, steps = _without_rises(judged, rates_now(lease, configs))
            changes = rate_changes(here, configs, self.last.rates)
        else:
            self.last = None
            changes = rate_changes(here, configs)  # what a worker that stood still has set since a person set a rate
        try:
            cluster.merge_configs(changes, decided_on=configs, fence=fence)
        except (ConfigChangedError, LockLostError) as changed:
            log.info("The rates stay as they are until the next look, because somebody changes them: %s", changed)
            return
        if self.last is not None:
            steps = _with_steps(steps, self.last, rates_now(lease, configs), now)
            _note(self._folder, steps)
        if changes:
            self._changed = time.monotonic()

    def _judge(
        self,
        connection: ClusterConnection,
        cluster: OpenCluster,
        lease: ThrottleLease,
        configs: Configs,
        steps: RateSteps,
        now: float,
        moves: Sequence[Move],
    ) -> _Judged:
        began = time.monotonic()
        if self._sight is None or began - self._sight.at > LOOK_SECONDS / 3:
            brokers = map(broker_of, configs)
            sight = read_sight(
                connection,
                cluster,
                now,
                brokers=sorted(cluster.read_batch_view(()).brokers.intersection(brokers)),
                moves=moves,
                given_up=steps.given_up,
            )
            ended = time.monotonic()
            self._sight = _Taken(sight, ended, ended - began)
        taken = self._sight
        self._next_look = now + _interval(taken.cost_seconds)
        memory, chosen = choose(lease.ladder, steps.memory, taken.sight, rates_now(lease, configs))
        memory = replace(memory, cost_seconds=round(taken.cost_seconds, 1))
        return _Judged(replace(steps, memory=memory, held_by=chosen.held_by), chosen)

    def _read_steps(self) -> RateSteps:
        """What earlier looks left. If it cannot be read, the rules begin anew."""
        try:
            steps = RATE_STEPS_FILE.read_if_there(self._folder)
        except StorageError:
            raise
        except ArtifactError as unreadable:
            log.info("The rules for the rates begin anew: %s", unreadable)
            steps = None
        given_up = tuple(sorted(self._given_up or ()))
        return RateSteps(given_up) if steps is None else replace(steps, given_up=given_up)


def incident_pause(rates: Chosen | None) -> Pause:
    """What new moves wait for, whatever partitions they move: that no partition of the cluster is at its least."""
    if rates is None or not rates.waiting_for:
        return Pause()
    short = rates.waiting_for
    named = some([str(one.topic_partition) for one in short])
    reason = (
        f"{len(short)} partition{'s are' if len(short) > 1 else ' is'} at or under min.insync.replicas ({named}), and "
        "no move of this run explains it. The run requests the next batch when they have caught up. What is in flight "
        "goes on at the lowest rate of the range."
    )
    in_sync = tuple((one.topic_partition, one.in_sync + len(one.missing)) for one in short[:WATCHED])
    return Pause(in_sync=in_sync, reasons=(reason,))


def _without_rises(judged: _Judged, now: Mapping[int, int]) -> tuple[Chosen, RateSteps]:
    """The falls alone. Brokers that would rise are not asked about for a while, so that no worker wakes for them."""
    chosen, memory = judged.chosen, judged.steps.memory
    falls = {broker: rate for broker, rate in chosen.rates.items() if rate < now[broker]}
    paces = tuple(
        pace if pace.broker in falls or pace.broker not in chosen.reasons else replace(pace, settle=FROZEN_LOOKS)
        for pace in memory.paces
    )
    reasons = {broker: chosen.reasons[broker] for broker in falls}
    steps = replace(judged.steps, memory=replace(memory, paces=paces))
    return replace(chosen, rates={**now, **falls}, reasons=reasons), steps


def _is_young(steps: RateSteps, now: float) -> bool:
    """Whether another process has just looked."""
    last = steps.memory.looked_at
    return last is not None and 0 <= now - last < _interval(steps.memory.cost_seconds)


def _interval(cost_seconds: float) -> float:
    """From one look to the next, in seconds."""
    return max(LOOK_SECONDS, cost_seconds / LOOK_SHARE)


def _is_in_force(lease: ThrottleLease) -> bool:
    """Whether the run itself still holds the throttle, and need have set it."""
    return lease.is_set and lease.handed_over_at is None


def _read_rates(cluster: OpenCluster, lease: ThrottleLease) -> dict[str, dict[str, str]]:
    """What is set on the lease's brokers, less those that are away."""
    brokers = {entity for entity in lease.wanted if entity.startswith("brokers/")}
    found = read_configs(cluster, brokers - read_away(cluster, brokers))
    return {entity: found[entity] for entity in found.keys() & brokers}


def _with_steps(steps: RateSteps, chosen: Chosen, before: Mapping[int, int], now: float) -> RateSteps:
    at, alike = datetime.fromtimestamp(int(now), UTC), defaultdict[tuple[int, int, tuple[Reason, ...]], list[int]](list)
    for broker, reasons in sorted(chosen.reasons.items()):
        alike[before[broker], chosen.rates[broker], reasons].append(broker)
    new = [RateStep(at, tuple(brokers), *change) for change, brokers in alike.items()]
    for step in new:
        signs = ", ".join(dict.fromkeys(reason.sign for reason in step.reasons))
        named = some(list(map(str, step.brokers)))
        log.info("broker %s: %d -> %d bytes/s (%s)", named, step.before, step.after, signs)
    return replace(steps, steps=(*steps.steps, *new)[-STEPS_KEPT:])


def _note(folder: RunFolder, steps: RateSteps) -> None:
    """These are notes: a failed write stops no move."""
    try:
        RATE_STEPS_FILE.write(folder, steps)
    except StorageError as failed:
        log.warning("rate_steps.json cannot be written, so the page lacks the last rates: %s", failed)
