"""Requests that are impossible, found before any search, with the figures that show it."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.kafka.who_may_receive import remedy_for, shut_in_words
from kafka_rebalance.model.finding import broker_ids, listed, some
from kafka_rebalance.model.settings import LEADERS_ALONE, NEW, ONE_RACK, pools_with
from kafka_rebalance.planning.problem.arrays import Bools, Problem, known_of_all, replication
from kafka_rebalance.planning.problem.pools import parts_of
from kafka_rebalance.planning.rules.leaders import cut_below, topics_and_least
from kafka_rebalance.planning.rules.rack_rule import distinct, domains_of, rack_rule, rackless, violations
from kafka_rebalance.planning.rules.survival import check_losses
from kafka_rebalance.planning.rules.where_replicas_may_go import BROKER_LIMITS
from kafka_rebalance.planning.search.frame import check_replacement_racks, replaced, wanted_factor

_NOTHING = "Nothing was planned."


def check_problem(problem: Problem) -> None:
    """Raises PlanningError that names what is impossible, and what would have to change."""
    for rows, what in ((problem.registered.any(), "brokers"), (len(problem.partition), "partitions")):
        if not rows:
            raise PlanningError(f"The snapshot has no {what}. {_NOTHING} Check the cluster's connection.")
    _check_lists(problem)
    _check_brokerbroker_ids(problem)
    _check_topics(problem)
    _check_pools(problem)
    if problem.settings.job not in LEADERS_ALONE:
        _check_rackless(problem)
    for part in parts_of(problem):
        try:
            _check_moves(part.problem)
        except PlanningError as wrong:
            if not part.name:
                raise
            raise PlanningError(f"In the pool of {part.name}: {wrong}") from wrong


def _check_moves(problem: Problem) -> None:
    """What the moves of the job need; with pools, those of one pool."""
    if problem.settings.job not in LEADERS_ALONE:
        _check_pinned(problem)
    check_losses(problem)
    _check_room(problem)
    _check_min_insync(problem)
    if problem.settings.replace and problem.settings.job not in LEADERS_ALONE:
        after, rule = replaced(problem, problem.replicas, problem.settings.replace), rack_rule(problem)
        check_replacement_racks(problem, violations(rule, problem.replicas), violations(rule, after))
    _check_disks(problem)


def _check_lists(problem: Problem) -> None:
    ordered = np.sort(problem.replicas, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    for wrong, what in ((replication(problem.replicas) == 0, "has no replicas"), (repeated, "lists a broker twice")):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            brokers = problem.brokers[problem.replicas[row][problem.replicas[row] >= 0]].tolist()
            raise PlanningError(
                f"{problem.name_of(row)} {what} (replicas {brokers}). The same is wrong with {int(wrong.sum())} of "
                f"{len(wrong)} partitions. {_NOTHING} Repair the assignment first."
            )


def _check_brokerbroker_ids(problem: Problem) -> None:
    settings = problem.settings
    existing, registered = problem.brokers.tolist(), problem.brokers[problem.registered].tolist()
    exist = ("does not exist", "do not exist")
    for setting, named, known, words in (
        ("drain:", settings.drain, existing, exist),
        ("replace:", settings.replace, existing, exist),
        ("brokers_out:", settings.brokers_out, existing, exist),
        ("broker_pools:", [broker for pool in settings.broker_pools for broker in pool.brokers], existing, exist),
        ("brokers_in:", settings.named_receivers, registered, ("is not registered", "are not registered")),
        ("replace: the new", settings.replace.values(), registered, ("is not registered", "are not registered")),
    ):
        unknown = [broker for broker in named if broker not in known]
        if unknown:
            raise PlanningError(
                f"{setting} {broker_ids(unknown, *words)}. Brokers are {some(known, most=40)}. {_NOTHING}"
            )
    racks = sorted({rack for rack, here in zip(problem.racks, problem.registered, strict=True) if rack and here})
    if unknown_racks := [rack for rack in settings.leader_racks if rack not in racks]:
        raise PlanningError(
            f"leader_racks: no broker is registered in rack {listed(unknown_racks)}. Racks are {some(racks, most=40)}. "
            f"{_NOTHING}"
        )
    both = sorted(set(settings.brokers_out) & (settings.leaving | set(settings.replace.values())))
    if both:
        raise PlanningError(
            f"{broker_ids(both, 'is', 'are')} in brokers_out, and in drain or replace. {_NOTHING} A plan cannot empty "
            "or fill a broker that it must leave alone. Remove the broker from one of them."
        )
    _check_open(problem)
    _check_receivers(problem)
    there = problem.registered | problem.leaving
    held = problem.movable & ((problem.replicas >= 0) & ~there[np.maximum(problem.replicas, 0)]).any(axis=1)
    if held.any():
        absent = np.setdiff1d(problem.replicas[held], np.flatnonzero(there))
        absent = absent[absent >= 0]
        raise PlanningError(
            f"{broker_ids(problem.brokers[absent].tolist(), 'holds', 'hold')} replicas of {int(held.sum())} partitions "
            f"without a row in the table of brokers. {_NOTHING} Start the broker, or name it in drain or replace."
        )


def _check_receivers(problem: Problem) -> None:
    """What alone may receive has to exist, and agree with the settings and the table's states."""
    settings = problem.settings
    if not settings.brokers_in:
        return
    others = "drain, the state drain in the table of brokers, or brokers_out of the settings or the policy"
    closed = "".join(f"; broker {problem.brokers[broker]} {shut_in_words(why)}" for broker, why in problem.shut.items())
    shut = [broker for broker in settings.named_receivers if broker in problem.brokers[~problem.evened]]
    if shut:
        raise PlanningError(
            f"brokers_in: {broker_ids(shut, 'is', 'are')} to be emptied or left alone by {others}. {_NOTHING} Remove "
            "the broker from one of them."
        )
    if settings.brokers_in == NEW and not problem.receivers.any():
        raise PlanningError(
            "brokers_in is new: no broker may receive replicas, because each one holds replicas already, or is kept "
            f"out by {others}{closed}. {_NOTHING} Start a new broker, or name in brokers_in those that are to receive."
        )
    used = sorted(set(settings.replace.values()) & set(problem.brokers[~problem.only_receivers].tolist()))
    if used:
        raise PlanningError(
            f"replace: the new {broker_ids(used, 'holds', 'hold')} replicas already, and brokers_in lets only "
            f"new brokers receive. {_NOTHING} Choose an empty broker, or leave brokers_in out."
        )


def _check_open(problem: Problem) -> None:
    """Kafka has to take what the job must copy, and give it to the brokers that the settings name."""
    settings, shut = problem.settings, {int(problem.brokers[broker]): why for broker, why in problem.shut.items()}
    if settings.job in LEADERS_ALONE:
        return
    for setting, named in (("brokers_in", settings.named_receivers), ("replace: the new", settings.replace.values())):
        for broker in named:
            if broker in shut:
                raise PlanningError(
                    f"{setting}: broker {broker} {shut_in_words(shut[broker])}. {_NOTHING} Name another broker. To use "
                    f"this one again, {remedy_for(shut[broker])}."
                )
    if shut and problem.leaving.any() and problem.staying.any() and not problem.receivers.any():
        why = "; ".join(f"broker {broker} {shut_in_words(one)}" for broker, one in shut.items())
        leaving = problem.brokers[problem.leaving].tolist()
        raise PlanningError(
            f"No broker may receive what {broker_ids(leaving, 'holds', 'hold')}: {why}. "
            f"{_NOTHING} Start a new broker. To use one of these again, {remedy_for(next(iter(shut.values())))}."
        )


def _check_topics(problem: Problem) -> None:
    settings, topics = problem.settings, problem.topics
    empty = [glob for glob in settings.topics_in if not any(fnmatchcase(topic, glob) for topic in topics)]
    if empty:
        raise PlanningError(
            f"topics_in: {', '.join(map(repr, empty))} matches none of the cluster's {len(topics)} topics. {_NOTHING}"
        )
    if not any(settings.selects(topic) for topic in topics):
        raise PlanningError(
            f"topics_in ({', '.join(settings.topics_in)}) less topics_out ({', '.join(settings.topics_out)}) leaves "
            f"none of the cluster's {len(topics)} topics. {_NOTHING}"
        )


def _check_pools(problem: Problem) -> None:
    """A topic is in one pool at most. A pool has brokers and racks enough, and a replacement for its own brokers."""
    pools, settings = problem.pools, problem.settings
    if not pools.are_several:
        return
    for topic in problem.topics:
        named = [settings.broker_pools[number].name for number in pools_with(topic, settings.broker_pools)]
        if len(named) > 1:
            raise PlanningError(
                f"broker_pools: topic {topic} is in the pools of {' and '.join(map(repr, named))}. {_NOTHING} Change "
                "their globs in the policy, so that no topic is in two pools."
            )
    of = dict(zip(problem.brokers.tolist(), pools.of_broker.tolist(), strict=True))
    for old, new in settings.replace.items():
        if of[old] != of[new]:
            raise PlanningError(
                f"replace: broker {old} is in the pool of {pools.names[of[old]]}, and broker {new} in that of "
                f"{pools.names[of[new]]}. {_NOTHING} Choose a broker of the same pool, or change broker_pools of the "
                "policy."
            )
    racks = rack_rule(problem)
    for part in parts_of(problem):
        counts, rule = replication(part.problem.replicas), rack_rule(part.problem)
        brokers = int((part.problem.registered & ~part.problem.pools.foreign).sum())
        in_racks = rule.racks if rule.known else 1
        for more, what in (
            (counts > brokers, f"{brokers} brokers"),
            (np.minimum(counts, racks.racks) > (in_racks if racks.known else brokers), f"brokers in {in_racks} racks"),
        ):
            if more.any() and not (what.endswith("racks") and settings.more_replicas_than_racks):
                raise PlanningError(
                    f"broker_pools: the pool of {part.name} has {what}, but {_count_and_first(part.problem, more)}, "
                    f"have more replicas. {_NOTHING} Give the pool more brokers in the policy."
                )


def _check_rackless(problem: Problem) -> None:
    """One broker without a rack would end the rack rule, or count as a rack that it may share with others."""
    without = rackless(problem)
    if problem.settings.rackless_brokers == ONE_RACK or not without.any():
        return
    racked, ids = int((problem.staying & ~without).sum()), problem.brokers[without].tolist()
    raise PlanningError(
        f"{broker_ids(ids, 'has', 'have')} no rack, but {racked} other brokers that stay have "
        f"one. So it is unknown which replicas would share a rack. {_NOTHING} Set broker.rack there and restart the "
        f"broker, or name it in drain. To count these brokers as one rack, set rackless_brokers: {ONE_RACK} in the "
        "policy."
    )


def _check_pinned(problem: Problem) -> None:
    """Pinned replicas cannot leave a broker. Those that keep their rack need one, with a broker left in it."""
    confined: Bools = problem.relocatable & problem.rack_pinned
    rule = rack_rule(problem)
    if confined.any() and not rule.known:
        without = problem.staying & np.array([rack is None for rack in problem.racks])
        raise PlanningError(
            f"rack_pinned_topics names {_count_and_first(problem, confined)}, but the rack of "
            f"{broker_ids(problem.brokers[without].tolist())} is unknown. {_NOTHING} Give every broker a rack "
            "(broker.rack), or use pinned_topics."
        )
    last = problem.leaving & rule.has_rack & ~np.isin(rule.domain, np.unique(rule.domain[problem.receivers]))
    for rows, brokers, why in (
        (problem.movable & problem.pinned, problem.leaving, "pinned_topics, whose replicas stay where they are"),
        (confined, last, "rack_pinned_topics, and no other broker of its rack may receive replicas"),
    ):
        held: Bools = rows[:, None] & (problem.replicas >= 0) & brokers[np.maximum(problem.replicas, 0)]
        if held.any():
            ids = problem.brokers[np.unique(problem.replicas[held])].tolist()
            raise PlanningError(
                f"Emptying {broker_ids(ids)} would move {int(held.sum())} replicas of {why}: first "
                f"{problem.name_of(np.flatnonzero(held.any(axis=1))[0])}. {_NOTHING} Unpin these topics, or leave the "
                "broker as it is."
            )


def _check_room(problem: Problem) -> None:
    """Enough brokers and racks for every list that has to change."""
    staying = int(problem.staying.sum())
    if not staying:
        brokers = int((~problem.pools.foreign).sum())
        raise PlanningError(f"All {brokers} brokers are to be emptied. {_NOTHING} Name fewer in drain.")
    factor = problem.settings.replication_factor
    rule = rack_rule(problem, factor)
    racks = len(np.unique(rule.domain[problem.staying]))
    if factor is not None and factor > staying:
        raise PlanningError(f"Replication factor {factor} is larger than the {staying} brokers that stay. {_NOTHING}")
    if factor is not None and rule.known and factor > racks and not problem.settings.more_replicas_than_racks:
        raise PlanningError(
            f"Replication factor {factor} is larger than the {racks} racks of the {staying} brokers that stay. "
            f"{_NOTHING} To let racks hold several replicas of a partition, set more_replicas_than_racks in the policy."
        )
    if problem.settings.job in LEADERS_ALONE:
        return
    leaves = np.isin(problem.replicas, np.flatnonzero(problem.leaving)).any(axis=1) & problem.relocatable
    counts = replication(problem.replicas) if factor is None else np.full(len(problem.replicas), factor)
    spread = np.minimum(distinct(domains_of(rule, problem.replicas)), counts)
    for crowded, left, why in (
        (leaves & (counts > staying), f"{staying} brokers", "have more replicas"),
        (leaves & rule.known & (spread > racks), f"{racks} racks", "lie on more racks than that"),
    ):
        if crowded.any():
            raise PlanningError(
                f"Emptying {broker_ids(problem.brokers[problem.leaving].tolist())} leaves {left}, but "
                f"{_count_and_first(problem, crowded)}, {why}. {_NOTHING} Empty fewer brokers. Keep one in each rack."
            )


def _check_min_insync(problem: Problem) -> None:
    """A factor that leaves a topic fewer replicas than min.insync.replicas stops its producers with acks=all."""
    if problem.settings.replication_factor is None:
        return
    below = cut_below(problem, wanted_factor(problem))
    if below.any():
        raise PlanningError(
            f"Replication factor {problem.settings.replication_factor} would leave {int(below.sum())} partitions with "
            f"fewer replicas than min.insync.replicas: {topics_and_least(problem, below)}, first "
            f"{_first(problem, below)}. Producers with acks=all would fail. {_NOTHING} Ask for a higher factor, leave "
            "the topics out, or lower their min.insync.replicas first."
        )


def _check_disks(problem: Problem) -> None:
    """What the job must copy has to fit the brokers that stay, by every limit of theirs."""
    for name, capacity in (
        ("disk_capacity_bytes", problem.disk_capacity),
        ("nic_in_bytes_per_second", known_of_all(problem, problem.networks[:, 0])),
        ("nic_out_bytes_per_second", known_of_all(problem, problem.networks[:, 1])),
    ):
        if capacity is not None and (capacity[problem.staying] <= 0).any():
            none = problem.brokers[problem.staying & (capacity <= 0)].tolist()
            raise PlanningError(
                f"{name} of {broker_ids(none)} is not above 0. {_NOTHING} Leave it empty if it is unknown."
            )
    settings, wanted = problem.settings, wanted_factor(problem)
    if settings.relieve_above is not None and np.isnan(problem.disk_capacity[problem.staying]).any():
        known, staying = int((~np.isnan(problem.disk_capacity[problem.staying])).sum()), int(problem.staying.sum())
        raise PlanningError(
            f"relieve_above {settings.relieve_above:g} is a share of each disk, but the disk size is known for only "
            f"{known} of the {staying} brokers that stay. {_NOTHING} Name the others' disk_bytes in broker_capacities "
            "of the Airflow connection, or leave relieve_above out."
        )
    if settings.job in LEADERS_ALONE or not (problem.leaving.any() or settings.replication_factor is not None):
        return
    for limit in BROKER_LIMITS:
        limit.check(problem, wanted)


def _first(problem: Problem, rows: Bools) -> str:
    return str(problem.name_of(np.flatnonzero(rows)[0]))


def _count_and_first(problem: Problem, rows: Bools) -> str:
    return f"{int(rows.sum())} partitions, first {_first(problem, rows)}"
