"""What goes between racks: while a plan copies, and in a second before and after it."""

from __future__ import annotations

import numpy as np

from kafka_rebalance.documents.proposals import BetweenRacks, RackTraffic
from kafka_rebalance.planning.problem.arrays import Floats, Ints, MovedLists, Problem, replication


def cross_rack_bytes(problem: Problem, lists: MovedLists) -> int | None:
    """Bytes that leaders send to brokers in another rack; None if a rack is unknown."""
    racks = _racks(problem)
    move, position = np.nonzero(lists.new)
    sent, received = racks[lists.source[move]], racks[lists.after[move, position]]
    if (sent < 0).any() or (received < 0).any():
        return None
    return int(lists.size_bytes[move][sent != received].sum())


def between_racks(problem: Problem, lists: MovedLists, replicas: Ints, leaders: Ints) -> BetweenRacks | None:
    """None if the rack of a broker is unknown, or if there is one rack alone.

    `replicas` are the lists after the plan, and `leaders` is [partition row], who leads then.
    """
    racks = _racks(problem)
    if (racks < 0).any() or len(np.unique(racks)) < 2:
        return None
    own_moves = ~(lists.after == lists.source[:, None]).any(axis=1)
    return BetweenRacks(
        _copied_by_chance(problem, racks, lists),
        int((own_moves & lists.new.any(axis=1)).sum()),
        _traffic(problem, racks, problem.replicas, problem.leader),
        _traffic(problem, racks, replicas, leaders),
    )


def _racks(problem: Problem) -> Ints:
    """[broker] Its rack, by number; -1: unknown."""
    number = {rack: index for index, rack in enumerate(dict.fromkeys(problem.racks))}
    return np.array([-1 if rack is None else number[rack] for rack in problem.racks], dtype=np.int64)


def _copied_by_chance(problem: Problem, racks: Ints, lists: MovedLists) -> int:
    """The bytes between racks to expect if each replica that goes were any of its broker's.

    A copy is expected to stay within its rack as often as a byte on this broker is the leader's. It also has to go to
    the same rack, of those in which the partition has no other replica.
    """
    led = np.bincount(problem.leader, problem.size_bytes, len(racks))
    row, position = np.nonzero(problem.replicas >= 0)
    held = np.bincount(problem.replicas[row, position], problem.size_bytes[row], len(racks))
    leads = np.divide(led, held, out=np.zeros_like(led), where=held > 0)
    gone = lists.gone & (lists.before >= 0)
    within = np.where(gone, leads[np.maximum(lists.before, 0)], 0.0).sum(axis=1) / np.maximum(1, gone.sum(axis=1))
    free_racks = np.maximum(1, len(np.unique(racks)) - replication(lists.before) + 1)
    replaced = np.minimum(gone.sum(axis=1), lists.new.sum(axis=1))
    return round(float(lists.copied_bytes.sum() - (lists.size_bytes * replaced * within / free_racks).sum()))


def _traffic(problem: Problem, racks: Ints, replicas: Ints, leaders: Ints) -> RackTraffic | None:
    rates = problem.rates
    if not rates.knows_in:
        return None
    clients = np.bincount(racks[problem.registered], minlength=int(racks.max()) + 1) / max(1, problem.registered.sum())
    there = replicas >= 0
    held, leads = racks[np.maximum(replicas, 0)], racks[leaders]
    followers = (there & (held != leads[:, None])).sum(axis=1)
    elsewhere: Floats = 1 - clients[leads]
    near: Floats = np.zeros(len(replicas))
    for rack, share in enumerate(clients.tolist()):
        near += share * np.any(there & (held == rack), axis=1)

    def a_second(rate: Floats, times: Floats | Ints) -> int:
        return round(float(rate @ times))

    reads = rates.knows_out
    return RackTraffic(
        a_second(rates.bytes_in, followers),
        a_second(rates.bytes_in, elsewhere),
        a_second(rates.bytes_out, elsewhere) if reads else None,
        a_second(rates.bytes_out, np.maximum(0.0, 1 - near)) if reads else None,
    )
