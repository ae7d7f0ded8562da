"""Whether a plan survives every loss that `survive` names, in each batch and afterwards; if not, by how much it fails.

Disks count both copies of what moves in a batch. What networks send and receive is what producers, followers and
consumers make them: the copies themselves have the throttle. While a batch runs, its partitions are led as before it.
A loss that is not survived now is no plan's fault until the plan ends: no copy is possible without both copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np

from kafka_rebalance.documents.candidate_notes import Note, NoteKind, note
from kafka_rebalance.planning.describe.worst_case import next_leaders
from kafka_rebalance.planning.problem.arrays import (
    Bools,
    Floats,
    Ints,
    Problem,
    added,
    lagging,
    replica_loads,
    sent_bytes,
    widened,
)
from kafka_rebalance.planning.rules.disk_limits import used_bytes
from kafka_rebalance.planning.rules.survival import Loss, losses, taken_shares

_ROUNDING = 1e-9
_NOW, _AFTER = -1, 0  # states; the others are the numbers of batches


class Resource(StrEnum):
    """What a loss may overload; the unit is bytes, or bytes a second."""

    DISK = "disk"
    RECEIVED = "received"
    SENT = "sent"


@dataclass(frozen=True, slots=True)
class LoadAfterLoss:
    """A broker after a loss, with the most of what it may have."""

    resource: Resource
    lost: int | str
    broker: int
    amount: float
    limit: float
    batch: int  # while this one runs; 0: after the plan
    brokers: int  # further ones of the usual size that would have to share the loss
    rack: str | None  # where these would have to be; None: in any that is not lost

    @property
    def part(self) -> float:
        """How much of its limit it uses."""
        return self.amount / self.limit if self.limit > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Survival:
    """What the losses do to the brokers while a plan runs, and afterwards."""

    breach: LoadAfterLoss | None  # the worst; one after the plan, if there is any
    nearest: LoadAfterLoss | None  # after the plan, the broker nearest to a limit; None: nothing could be looked at
    unknown: tuple[str, ...]  # columns without which something could not be looked at
    until_batch: int  # up to this one, some loss is not survived that is not survived now either
    now: float  # how much of its limit the broker nearest to it uses after a loss now


def survival(problem: Problem, replicas: Ints, leaders: Ints, batch: Ints, *, moves_replicas: bool) -> Survival | None:
    """None without the setting. `replicas` and `leaders` are those after; `batch` is [partition row], 0: not moved.

    A plan that does not move replicas can neither mend disks nor worsen them, so it is judged by what networks send.
    """
    if problem.settings.survive is None:
        return None
    tables = _Tables(problem, losses(problem), replicas, leaders, batch, moves_replicas=moves_replicas)
    until, now = 0, 0.0
    ends: list[LoadAfterLoss] = []
    meanwhile: list[LoadAfterLoss] = []
    for kind in tables.kinds:
        survived_now: Bools = np.zeros(len(tables.losses), dtype=bool)
        for number, amounts in tables.states(kind):
            over = np.where(tables.asked[kind], amounts / tables.limits[kind] - 1, -np.inf)
            beyond = over > _ROUNDING
            if number == _NOW:
                survived_now = ~np.any(beyond, axis=1)
                now = max(now, 1 + float(over.max(initial=-1.0)))
            elif number == _AFTER:
                ends += tables.worst(kind, over, amounts, 0)
            else:
                until = max(until, number) if beyond.any() else until
                meanwhile += tables.worst(
                    kind, np.where(beyond & survived_now[:, None], over, -np.inf), amounts, number
                )
    nearest = max(ends, key=lambda one: one.part, default=None)
    worst = max(meanwhile, key=lambda one: one.part, default=None)
    breach = nearest if nearest is not None and nearest.part > 1 + _ROUNDING else worst
    return Survival(breach, nearest, tables.unknown, until, now)


def breach_note(breach: LoadAfterLoss) -> Note:
    """Why a plan is not offered that does not survive a loss."""
    return Note(NoteKind.LOSS_NOT_SURVIVED, {field.name: getattr(breach, field.name) for field in fields(breach)})


def survival_notes(problem: Problem, found: Survival) -> Iterator[Note]:
    """That an offered plan survives every loss, what comes nearest to a limit, and what could not be looked at."""
    survive, nearest = problem.settings.survive, found.nearest
    if found.breach is not None:
        yield note(NoteKind.LOSS_NOT_YET_SURVIVED, breach=breach_note(found.breach), now=found.now)
    elif nearest is not None:
        figures = {name: getattr(nearest, name) for name in ("resource", "lost", "broker", "part")}
        yield Note(NoteKind.LOSSES_SURVIVED, figures | {"survive": survive, "until_batch": found.until_batch})
    if found.unknown:
        yield note(NoteKind.SURVIVAL_UNKNOWN, survive=survive, columns=found.unknown)


class _Tables:
    """What each loss makes of each broker, [loss, broker], batch by batch."""

    def __init__(
        self,
        problem: Problem,
        some: Sequence[Loss],
        replicas: Ints,
        leaders: Ints,
        batch: Ints,
        *,
        moves_replicas: bool,
    ) -> None:
        width = max(problem.replicas.shape[1], replicas.shape[1])
        self.problem, self.losses = problem, some
        self._before, self._after = widened(problem.replicas, width), widened(replicas, width)
        self._leaders = problem.leader, leaders
        changed = (self._before != self._after).any(axis=1) | (problem.leader != leaders)
        # Leaders that are only elected change when the last batch has ended.
        self._batch = np.where(changed & (batch == 0), max(1, int(batch.max(initial=0))), batch)
        shares = [taken_shares(problem, loss) for loss in some]
        brokers = len(problem.brokers)
        known = np.array([one is not None for one in shares], dtype=bool)
        self._shares = np.array([np.zeros(brokers) if one is None else one for one in shares]).reshape(-1, brokers)
        self._lost = np.array([loss.lost for loss in some]).reshape(-1, brokers)
        here = problem.staying & ~self._lost
        disk = problem.disk_capacity * (1 - problem.settings.disk_headroom)
        received, sent = problem.networks.T
        rates = problem.rates.knows_in
        self.limits = {Resource.DISK: disk, Resource.RECEIVED: received, Resource.SENT: sent}
        takers = np.array([loss.takers for loss in some]).reshape(-1, brokers)
        self.asked = {
            Resource.DISK: known[:, None] & here & takers & (disk > 0),
            Resource.RECEIVED: known[:, None] & here & takers & (received > 0),
            Resource.SENT: here & (sent > 0),
        }
        stays = problem.staying
        columns = {
            "disk_capacity_bytes": moves_replicas and np.isnan(problem.disk_capacity[stays]).any(),
            "nic_in_bytes_per_second": moves_replicas and np.isnan(received[stays]).any(),
            "nic_out_bytes_per_second": np.isnan(sent[stays]).any(),
            "bytes_in_per_second": not rates,
        }
        self.unknown = tuple(column for column, is_unknown in columns.items() if is_unknown)
        kinds = {
            Resource.DISK: moves_replicas,
            Resource.RECEIVED: moves_replicas and rates,
            Resource.SENT: rates,
        }
        self.kinds = tuple(kind for kind, looked_at in kinds.items() if looked_at and some)
        self._groups = _by_copied(some)

    def states(self, kind: Resource) -> Iterator[tuple[int, Floats]]:
        """(batch, or now or after the plan; [loss, broker] what each broker has after each loss)"""
        return self._sent() if kind is Resource.SENT else self._held(kind)

    def _held(self, kind: Resource) -> Iterator[tuple[int, Floats]]:
        problem, brokers = self.problem, len(self.problem.brokers)
        weights = problem.size_bytes.astype(np.float64) if kind is Resource.DISK else problem.rates.bytes_in

        def loads(lists: Ints, rows: Ints | slice, copied: Bools | None = None) -> Floats:
            own = weights[rows] if copied is None else weights[rows] * copied[rows]
            return replica_loads(lists[rows], own[:, None], brokers)[:, 0]

        own = loads(self._before, slice(None))
        first = used_bytes(problem) if kind is Resource.DISK else own
        held = [loads(self._before, slice(None), copied) for copied, _ in self._groups]

        def after(on_brokers: Floats, lost: Sequence[Floats]) -> Floats:
            table = np.repeat(on_brokers[None], len(self.losses), axis=0)
            for (_, numbers), values in zip(self._groups, lost, strict=True):
                table[numbers] += (self._lost[numbers] @ values)[:, None] * self._shares[numbers]
            return table

        yield _NOW, after(first, held)
        new, gone = (
            np.where(added(one, other), one, -1)
            for one, other in ((self._after, self._before), (self._before, self._after))
        )
        for number, rows in self._rows():
            first = first + loads(new, rows)
            held = [one + loads(new, rows, copied) for one, (copied, _) in zip(held, self._groups, strict=True)]
            yield number, after(first, held)
            first = first - loads(gone, rows)
            held = [one - loads(gone, rows, copied) for one, (copied, _) in zip(held, self._groups, strict=True)]
        yield _AFTER, after(first, held)

    def _rows(self) -> Iterator[tuple[int, Ints]]:
        order = np.argsort(self._batch, kind="stable")
        numbers = self._batch[order]
        for number in np.unique(numbers[numbers > 0]).tolist():
            yield number, order[np.searchsorted(numbers, number) : np.searchsorted(numbers, number, side="right")]

    def _sent(self) -> Iterator[tuple[int, Floats]]:
        before, after = (
            _Sent(self.problem, self.losses, lists, leaders)
            for lists, leaders in zip((self._before, self._after), self._leaders, strict=True)
        )
        every = np.arange(len(self._batch))
        table = before(every)
        yield _NOW, table
        for number, rows in self._rows():
            yield number, table
            table = table + after(rows) - before(rows)
        yield _AFTER, table

    def worst(self, kind: Resource, over: Floats, amounts: Floats, batch: int) -> list[LoadAfterLoss]:
        """The broker that is furthest over its limit, or nearest to it; none if none is looked at."""
        if not np.isfinite(over).any():
            return []
        number, at = np.unravel_index(int(over.argmax()), over.shape)
        loss, limits, share = self.losses[int(number)], self.limits[kind], self.asked[kind][number]
        lacks = float((amounts[number] - limits)[share].sum())  # of all that share the loss
        needed = max(0, math.ceil(lacks / float(np.median(limits[share])) - _ROUNDING))
        rack = None if kind is Resource.SENT else loss.rack
        broker, amount = int(self.problem.brokers[at]), float(amounts[number, at])
        return [LoadAfterLoss(kind, loss.name, broker, amount, float(limits[at]), batch, needed, rack)]


def _by_copied(some: Sequence[Loss]) -> Sequence[tuple[Bools | None, list[int]]]:
    """(which partitions are copied anew, the numbers of the losses of which that is so)"""
    groups: list[tuple[Bools | None, list[int]]] = []
    for number, loss in enumerate(some):
        for copied, numbers in groups:
            if copied is loss.copied or (
                copied is not None and loss.copied is not None and (copied == loss.copied).all()
            ):
                numbers.append(number)
                break
        else:
            groups.append((loss.copied, [number]))
    return groups


class _Sent:
    """[loss, broker] What brokers send after each loss, of some rows."""

    def __init__(self, problem: Problem, some: Sequence[Loss], lists: Ints, leaders: Ints) -> None:
        self._brokers, self._losses, self._leaders = len(problem.brokers), some, leaders
        sent = sent_bytes(problem, lists)
        self._sent = np.zeros(len(lists)) if sent is None else sent
        self._next = next_leaders(problem, lists, leaders)
        able = (lists >= 0) & problem.registered[np.maximum(lists, 0)] & ~lagging(problem, lists)
        self._of_racks: list[tuple[int, Ints, Floats]] = []  # (loss, [row] who leads then, [row] what it sends)
        self._of_broker = np.full(self._brokers, -1)
        rows = np.arange(len(lists))
        for number, loss in enumerate(some):
            if loss.copied is None and loss.lost.sum() == 1:
                self._of_broker[int(loss.lost.argmax())] = number
                continue
            there = (lists >= 0) & loss.lost[np.maximum(lists, 0)]
            others = able & ~there
            follows = np.where(others.any(axis=1), lists[rows, others.argmax(axis=1)], -1)
            leads = np.where(loss.lost[leaders], follows, leaders)
            waits = np.zeros(len(lists)) if loss.copied is None else np.where(loss.copied, 0, there.sum(axis=1))
            self._of_racks.append((number, leads, self._sent - waits * problem.rates.bytes_in))

    def __call__(self, rows: Ints) -> Floats:
        brokers, leaders = self._brokers, self._leaders[rows]
        base = np.bincount(leaders, self._sent[rows], brokers).astype(np.float64)
        table = np.repeat(base[None], len(self._losses), axis=0)
        taken = (self._next[rows] >= 0) & (self._of_broker[leaders] >= 0)
        cells = self._of_broker[leaders[taken]] * brokers + self._next[rows][taken]
        table += np.bincount(cells, self._sent[rows][taken], table.size).reshape(table.shape)
        for number, leads, sent in self._of_racks:
            some = leads[rows] >= 0
            table[number] = np.bincount(leads[rows][some], sent[rows][some], brokers)
        return table
