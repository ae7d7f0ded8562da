"""What makes a request impossible, found before any search, with the numbers that say so."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from kafka_rebalance.errors import PlanningError
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.settings import LEADERS_ALONE, ONE_RACK
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication
from kafka_rebalance.planning.problem.loads import DISK, known_of_all, replica_loads, replica_weights
from kafka_rebalance.planning.rules.disk_limits import disk_limits_in_the_end, held_bytes
from kafka_rebalance.planning.rules.min_insync import cut_below, topics_and_least
from kafka_rebalance.planning.rules.rack_rule import distinct, domains_of, rack_rule, rackless, violations
from kafka_rebalance.planning.search.drain_and_replace import check_replacement_racks, replaced
from kafka_rebalance.planning.search.replication_factor import wanted_factor

_NOTHING = "Nothing was planned."


def check_problem(problem: Problem) -> None:
    """Raises PlanningError that names what cannot be, and what would have to change."""
    if not problem.registered.any():
        raise PlanningError(f"The snapshot has no brokers. {_NOTHING} Check the cluster's connection.")
    if not len(problem.partition):
        raise PlanningError(f"The snapshot has no partitions. {_NOTHING} Check the cluster's connection.")
    _check_lists(problem)
    _check_broker_ids(problem)
    _check_topics(problem)
    _check_rackless(problem)
    _check_pinned(problem)
    _check_room(problem)
    _check_min_insync(problem)
    _check_replaced(problem)
    _check_disks(problem)


def _check_lists(problem: Problem) -> None:
    ordered = np.sort(problem.replicas, axis=1)
    repeated = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    for wrong, what in ((replication(problem.replicas) == 0, "has no replicas"), (repeated, "lists a broker twice")):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            brokers = problem.brokers[problem.replicas[row][problem.replicas[row] >= 0]].tolist()
            raise PlanningError(
                f"{problem.name_of(row)} {what} (replicas {brokers}): one of {int(wrong.sum())} such, out of "
                f"{len(wrong)} partitions. {_NOTHING} Repair the assignment first."
            )


def _check_broker_ids(problem: Problem) -> None:
    settings = problem.settings
    existing = problem.brokers.tolist()
    registered = problem.brokers[problem.registered].tolist()
    named = {"drain": settings.drain, "replace": tuple(settings.replace), "brokers_out": settings.brokers_out}
    for setting, brokers in named.items():
        unknown = [broker for broker in brokers if broker not in existing]
        if unknown:
            raise PlanningError(
                f"{setting}: {_ids(unknown)} does not exist. Brokers are {_listed(existing)}. {_NOTHING}"
            )
    unknown = [broker for broker in settings.replace.values() if broker not in registered]
    if unknown:
        raise PlanningError(
            f"replace: the new {_ids(unknown)} is not registered. Brokers are {_listed(registered)}. {_NOTHING}"
        )
    both = sorted(set(settings.brokers_out) & (settings.leaving | set(settings.replace.values())))
    if both:
        raise PlanningError(
            f"{_ids(both)} is in brokers_out, and in drain or replace. {_NOTHING} A broker that is to be left alone "
            "cannot be emptied or filled."
        )
    absent = np.flatnonzero(~problem.registered & ~problem.leaving)
    if len(absent):
        held = np.isin(problem.replicas, absent).any(axis=1)
        raise PlanningError(
            f"{_ids(problem.brokers[absent].tolist())} holds replicas of {int(held.sum())} partitions, and is not "
            f"in the table of brokers. {_NOTHING} Start it, or name it in drain or replace."
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


def _check_rackless(problem: Problem) -> None:
    """One broker without a rack would end the rack rule, or stand for a rack that it may share with others."""
    settings, without = problem.settings, rackless(problem)
    if settings.job in LEADERS_ALONE or settings.rackless_brokers == ONE_RACK or not without.any():
        return
    ids, racked = problem.brokers[without].tolist(), int((problem.staying & ~without).sum())
    raise PlanningError(
        f"{_ids(ids)} {'has' if len(ids) == 1 else 'have'} no rack, and {racked} other brokers that stay have one: "
        f"which replicas would share a rack is unknown. {_NOTHING} Set broker.rack there and restart the broker, name "
        f"it in drain, or set rackless_brokers: {ONE_RACK} in the policy (they count as one rack together then)."
    )


def _check_pinned(problem: Problem) -> None:
    """Pinned replicas cannot leave a broker, and those that keep their rack need one, with a broker left in it."""
    if problem.settings.job in LEADERS_ALONE:
        return
    confined: Bools = problem.relocatable & problem.rack_pinned
    rule = rack_rule(problem)
    if confined.any() and not rule.known:
        without = [
            int(broker)
            for broker, rack, stays in zip(problem.brokers, problem.racks, problem.staying, strict=True)
            if stays and rack is None
        ]
        raise PlanningError(
            f"rack_pinned_topics names {int(confined.sum())} partitions, first {_first(problem, confined)}, but the "
            f"rack of {_ids(without)} is unknown. {_NOTHING} Give every broker a rack (broker.rack), or use "
            "pinned_topics."
        )
    pinned: Bools = problem.movable & problem.pinned
    _check_may_leave(problem, pinned, problem.leaving, "pinned_topics, whose replicas stay where they are")
    open_domains = np.unique(rule.domain[problem.receivers])
    last = problem.leaving & (rule.domain >= 0) & ~np.isin(rule.domain, open_domains)
    _check_may_leave(problem, confined, last, "rack_pinned_topics, and no other broker of its rack may receive")


def _check_may_leave(problem: Problem, rows: Bools, brokers: Bools, why: str) -> None:
    """Raises PlanningError where one of these rows has a replica on one of these brokers."""
    held: Bools = rows[:, None] & (problem.replicas >= 0) & brokers[np.maximum(problem.replicas, 0)]
    holding = np.flatnonzero(held.any(axis=1))
    if len(holding):
        ids = problem.brokers[np.unique(problem.replicas[held])].tolist()
        raise PlanningError(
            f"Emptying {_ids(ids)} would move {int(held.sum())} replicas of {why}: first "
            f"{problem.name_of(holding[0])}. {_NOTHING} Unpin these topics, or leave the broker as it is."
        )


def _check_room(problem: Problem) -> None:
    """Enough brokers and racks for every list that has to change."""
    staying = int(problem.staying.sum())
    if not staying:
        raise PlanningError(f"All {len(problem.brokers)} brokers are to be emptied. {_NOTHING} Name fewer in drain.")
    factor = problem.settings.replication_factor
    rule = rack_rule(problem, factor)
    racks = len(np.unique(rule.domain[problem.staying]))
    if factor is not None and factor > staying:
        raise PlanningError(f"Replication factor {factor} is larger than the {staying} brokers that stay. {_NOTHING}")
    if factor is not None and rule.known and factor > racks:
        raise PlanningError(
            f"Replication factor {factor} is larger than the {racks} racks of the {staying} brokers that stay. "
            + _NOTHING
        )
    if problem.settings.job in LEADERS_ALONE:
        return
    leaves = np.isin(problem.replicas, np.flatnonzero(problem.leaving)).any(axis=1) & problem.relocatable
    counts = replication(problem.replicas) if factor is None else np.full(len(problem.replicas), factor)
    crowded = leaves & (counts > staying)
    if crowded.any():
        raise PlanningError(
            f"Emptying {_ids(problem.brokers[problem.leaving].tolist())} leaves {staying} brokers, and "
            f"{int(crowded.sum())} partitions have more replicas, first {_first(problem, crowded)}. {_NOTHING}"
        )
    spread = distinct(domains_of(rule, problem.replicas))
    spread = np.minimum(spread, counts)
    too_few = leaves & rule.known & (spread > racks)
    if too_few.any():
        raise PlanningError(
            f"Emptying {_ids(problem.brokers[problem.leaving].tolist())} leaves {racks} racks, and "
            f"{int(too_few.sum())} partitions lie on more than that, first {_first(problem, too_few)}: the rack rule "
            f"would be broken. {_NOTHING} Keep a broker in each rack."
        )


def _check_min_insync(problem: Problem) -> None:
    """A factor that leaves a topic fewer replicas than min.insync.replicas stops its producers with acks=all."""
    factor = problem.settings.replication_factor
    if factor is None:
        return
    below = cut_below(problem, wanted_factor(problem))
    if below.any():
        raise PlanningError(
            f"Replication factor {factor} would leave {int(below.sum())} partitions with fewer replicas than "
            f"min.insync.replicas: {topics_and_least(problem, below)}, first {_first(problem, below)}. Producers with "
            f"acks=all would be refused. {_NOTHING} Ask for a higher factor, leave the topics out, or lower their "
            "min.insync.replicas first."
        )


def _check_replaced(problem: Problem) -> None:
    """Said here, before candidates are searched elsewhere."""
    replacements = problem.settings.replace
    if replacements and problem.settings.job not in LEADERS_ALONE:
        after, rule = replaced(problem, problem.replicas, replacements), rack_rule(problem)
        check_replacement_racks(problem, violations(rule, problem.replicas), violations(rule, after))


def _check_disks(problem: Problem) -> None:
    """What must be copied has to fit the disks that stay: all of it, each rack's part, each replica."""
    for name, capacity in (
        ("disk_capacity_bytes", problem.disk_capacity),
        ("nic_in_bytes_per_second", known_of_all(problem, problem.networks[:, 0])),
        ("nic_out_bytes_per_second", known_of_all(problem, problem.networks[:, 1])),
    ):
        if capacity is not None and (capacity[problem.staying] <= 0).any():
            none = problem.brokers[problem.staying & (capacity <= 0)].tolist()
            raise PlanningError(
                f"{name} of {_ids(none)} is not above 0. {_NOTHING} Leave it empty where it is unknown."
            )
    settings = problem.settings
    if settings.relieve_above is not None and np.isnan(problem.disk_capacity[problem.staying]).any():
        known, staying = int((~np.isnan(problem.disk_capacity[problem.staying])).sum()), int(problem.staying.sum())
        raise PlanningError(
            f"relieve_above {settings.relieve_above:g} is a share of each disk, and the size of the disk is known for "
            f"{known} of the {staying} brokers that stay. {_NOTHING} Name the others' disk_bytes in broker_capacities "
            "of the Airflow connection, or leave relieve_above out."
        )
    if settings.job in LEADERS_ALONE or not (problem.leaving.any() or settings.replication_factor is not None):
        return
    limits, held = disk_limits_in_the_end(problem), held_bytes(problem)
    # A disk beyond its limit keeps what it has.
    room = np.where(problem.receivers, np.maximum(limits, held), np.where(problem.staying, held, 0.0))
    wanted = wanted_factor(problem)
    _check_total(problem, wanted, room)
    _check_racks(problem, wanted, room)
    _check_largest(problem, wanted, limits)
    _check_replacements(problem, limits, held)


def _kept_free(problem: Problem) -> str:
    return f"with {share_in_words(problem.settings.disk_headroom)} kept free"


def _staying_bytes(problem: Problem, rows: Bools) -> Floats:
    """[broker] Bytes of these rows' replicas on brokers that stay."""
    loads = replica_loads(problem.replicas[rows], replica_weights(problem)[rows], len(problem.brokers))[:, DISK]
    return np.where(problem.staying, loads, 0.0)


def _check_total(problem: Problem, wanted: Ints, room: Floats) -> None:
    moves = problem.relocatable
    total = float((wanted * problem.size_bytes)[moves].sum() + _staying_bytes(problem, ~moves).sum())
    if total > room.sum():
        raise PlanningError(
            f"{int(total):,} bytes of replicas do not fit the {int(problem.staying.sum())} brokers that stay: they "
            f"hold {int(room.sum()):,} bytes {_kept_free(problem)}. {_NOTHING} Add brokers, or empty fewer."
        )


def _check_racks(problem: Problem, wanted: Ints, room: Floats) -> None:
    """A partition with as many replicas as there are racks needs one in each."""
    rule, moves = rack_rule(problem, problem.settings.replication_factor), problem.relocatable
    if not rule.known:
        return
    everywhere = moves & (wanted >= rule.racks) & ~violations(rule, problem.replicas)
    needed, fixed = float(problem.size_bytes[everywhere].sum()), _staying_bytes(problem, ~moves)
    for domain in np.unique(rule.domain[problem.staying]):
        here = problem.staying & (rule.domain == domain)
        total = needed + fixed[here].sum()
        if total > room[here].sum():
            rack = problem.racks[int(np.flatnonzero(here)[0])]
            where = "What counts as one rack, the brokers without one," if rack is None else f"Rack {rack}"
            raise PlanningError(
                f"{where} has to hold {int(total):,} bytes, as one replica of each of {int(everywhere.sum())} "
                f"partitions belongs there: its {_ids(problem.brokers[here].tolist())} hold {int(room[here].sum()):,} "
                f"bytes {_kept_free(problem)}. {_NOTHING} Add brokers to the rack, or empty fewer of "
                "it."
            )


def _check_largest(problem: Problem, wanted: Ints, limits: Floats) -> None:
    """The largest replica that has to be copied fits at least one disk, were it empty, and its log dirs."""
    leaves = ((problem.replicas >= 0) & problem.leaving[np.maximum(problem.replicas, 0)]).any(axis=1)
    copied = problem.relocatable & (leaves | (wanted > replication(problem.replicas)))
    if not copied.any() or not problem.receivers.any():
        return
    most = float(np.minimum(limits, problem.log_dirs.room)[problem.receivers].max())
    row = int(np.where(copied, problem.size_bytes, -1).argmax())
    if problem.size_bytes[row] > most:
        raise PlanningError(
            f"{problem.name_of(row)} has {int(problem.size_bytes[row]):,} bytes and has to be copied, and of the "
            f"{int(problem.receivers.sum())} brokers that may receive, none takes a replica above {int(most):,} bytes "
            f"{_kept_free(problem)} on its disk and in each of its log dirs. {_NOTHING} Make room, or leave the topic "
            "out."
        )


def _check_replacements(problem: Problem, limits: Floats, held: Floats) -> None:
    moved = replica_loads(problem.replicas, replica_weights(problem) * problem.relocatable[:, None], len(held))[:, DISK]
    for old, new in problem.settings.replace.items():
        source, target = (int(np.searchsorted(problem.brokers, broker)) for broker in (old, new))
        if moved[source] > 0 and held[target] + moved[source] > limits[target]:
            raise PlanningError(
                f"Broker {new} cannot replace broker {old}, which holds {int(moved[source]):,} bytes: it holds "
                f"{int(held[target]):,} itself, and takes {int(limits[target]):,} in all {_kept_free(problem)}. "
                f"{_NOTHING} Choose another broker, or job 'drain' for {old}."
            )


def _first(problem: Problem, rows: Bools) -> str:
    return str(problem.name_of(np.flatnonzero(rows)[0]))


def _ids(brokers: list[int]) -> str:
    return ("broker " if len(brokers) == 1 else "brokers ") + _listed(brokers)


def _listed(brokers: list[int]) -> str:
    """Ids, shortened where there are many."""
    if len(brokers) <= 40:
        return ", ".join(map(str, brokers))
    return f"{', '.join(map(str, brokers[:40]))} and {len(brokers) - 40} more"
