"""Broker pools: a cluster with pools as one problem for each pool, because pools share neither brokers nor topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kafka_rebalance.model.settings import BrokerPool, pools_with
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Pools, Problem

REST = "all other topics"


class Part(NamedTuple):
    """The partitions of one pool. Replicas of other pools on its brokers are other files there, which need not leave.

    Brokers of other pools are `foreign` to it: they hold its strays, and may only lose them.
    """

    name: str
    rows: Ints  # of the whole problem
    problem: Problem


def pools_of(given: Sequence[BrokerPool], topics: Sequence[str], brokers: Ints) -> Pools:
    """The last pool has the topics and the brokers of no other."""
    rest = len(given)
    of_topic = [(*pools_with(topic, given), rest)[0] for topic in topics]
    number = {broker: at for at, pool in enumerate(given) for broker in pool.brokers}
    of_broker = [number.get(broker, rest) for broker in brokers.tolist()]
    names = (*(pool.name for pool in given), REST)
    return _pools(names, np.array(of_topic, dtype=np.int64), np.array(of_broker, dtype=np.int64))


def _pools(names: tuple[str, ...], of_topic: Ints, of_broker: Ints) -> Pools:
    return Pools(names, of_topic, of_broker, np.zeros(len(of_broker), dtype=bool), np.zeros_like(of_broker))


def parts_of(problem: Problem) -> tuple[Part, ...]:
    """One problem for each pool that has partitions; the whole problem if there are no pools."""
    pools = problem.pools
    if not pools.are_several:
        return (Part("", np.arange(len(problem.partition)), problem),)
    of_row = pools.of_topic[problem.topic]
    return tuple(
        Part(name, rows, _part(problem, pools, number, rows))
        for number, name in enumerate(pools.names)
        if len(rows := np.flatnonzero(of_row == number))
    )


def part_for(problem: Problem, topic: str) -> Problem:
    """The problem of the pool that has the topic, whether it exists or not."""
    if not problem.pools.are_several:
        return problem
    settings = problem.settings
    number = (*pools_with(topic, settings.broker_pools), len(settings.broker_pools))[0]
    rows = np.flatnonzero(problem.pools.of_topic[problem.topic] == number)
    return _part(problem, problem.pools, number, rows)


def strays(problem: Problem, replicas: Ints) -> Bools:
    """[row, column] Whether the replica is outside the pool of its topic."""
    pools, held = problem.pools, np.maximum(replicas, 0)
    outside: Bools = pools.foreign[held] | (pools.of_broker[held] != pools.of_topic[problem.topic][:, None])
    return (replicas >= 0) & outside


def _part(problem: Problem, pools: Pools, number: int, rows: Ints) -> Problem:
    whole = _pools(("",), np.zeros_like(pools.of_topic), np.zeros_like(pools.of_broker))
    others = _held(problem, np.ones_like(problem.topic), _others(problem, rows)).astype(np.int64)
    return replace(
        problem,
        topic=problem.topic[rows],
        partition=problem.partition[rows],
        replicas=problem.replicas[rows],
        leader=problem.leader[rows],
        size_bytes=problem.size_bytes[rows],
        rates=problem.rates.of(rows),
        movable=problem.movable[rows],
        pinned=problem.pinned[rows],
        rack_pinned=problem.rack_pinned[rows],
        in_sync=problem.in_sync[rows],
        min_insync=problem.min_insync[rows],
        dir_contents=replace(problem.dir_contents, holding=problem.dir_contents.holding[rows]),
        failed=problem.failed[rows],
        disk_used=_used_with_others(problem, rows),
        pools=replace(whole, foreign=pools.of_broker != number, foreign_replicas=others),
        earlier=problem.earlier.of(rows),
    )


def _used_with_others(problem: Problem, rows: Ints) -> Floats:
    """[broker] `disk_used`, where replicas of other rows are among the used bytes.

    A stray gets a place elsewhere only if the limits allow it, so until then its bytes stay where they are.
    """
    others = _others(problem, rows)
    own, more = _held(problem, problem.rates.lasting_bytes, ~others), _held(problem, problem.size_bytes, others)
    return np.where(more > 0, np.fmax(problem.disk_used, own + more), problem.disk_used)


def _others(problem: Problem, rows: Ints) -> Bools:
    """[partition row] All rows but these."""
    others = np.ones(len(problem.partition), dtype=bool)
    others[rows] = False
    return others


def _held(problem: Problem, sizes: Ints, rows: Bools) -> Floats:
    """[broker] The sum of the sizes of these rows' replicas."""
    there = (problem.replicas >= 0) & rows[:, None]
    held: Ints = np.bincount(problem.replicas[there], sizes[np.nonzero(there)[0]], len(problem.brokers))
    return held.astype(np.float64)


class Spent(NamedTuple):
    """Of one limit, by a cluster or by one of its pools."""

    required: int  # by the moves that the job requires
    wished: int  # by a search that nothing limits


def share_of(allowed: int, cluster: Spent, pool: Spent) -> int:
    """A pool's share of a limit that all pools together would exceed.

    That is what its job requires, and a part of the rest in proportion to what it would like to spend.
    """
    rest = allowed - cluster.required
    wished_by_all = max(1, cluster.wished - cluster.required)
    return pool.required + min(rest, rest * max(0, pool.wished - pool.required) // wished_by_all)
