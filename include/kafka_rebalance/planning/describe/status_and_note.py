"""A candidate's status and note: where it stopped, what is missing, and what is unknown of the cluster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafka_rebalance.documents.proposals import LeftWaiting, Reason, StaysBehind
from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_PLACES
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.finding import SHOWN, some_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import BALANCED, LEADERS_ALONE, LIGHT
from kafka_rebalance.planning.batches.controller_bytes import ZNODE_BYTES
from kafka_rebalance.planning.bounds.lp_bound import moved_bytes_bound
from kafka_rebalance.planning.bounds.targets import Bands, band, leader_targets
from kafka_rebalance.planning.evenness import outside_band
from kafka_rebalance.planning.problem.arrays import (
    DISK,
    LEADERS,
    METRICS,
    REPLICAS,
    Bools,
    Floats,
    Ints,
    Problem,
    known_metrics,
    lagging,
    leader_weights,
    led_first,
    replica_weights,
    replication,
    shares,
    widened,
)
from kafka_rebalance.planning.problem.pools import parts_of, strays
from kafka_rebalance.planning.rules import leaders as min_insync
from kafka_rebalance.planning.rules.crowding import Crowding, left_by_racks
from kafka_rebalance.planning.rules.disk_limits import disk_shares, held_bytes, sized_disks
from kafka_rebalance.planning.rules.goals import Goal, goal_of
from kafka_rebalance.planning.rules.leaders import wrongly_elected
from kafka_rebalance.planning.rules.rack_rule import RackRule, rack_rule, rackless
from kafka_rebalance.planning.rules.where_replicas_may_go import BROKER_LIMITS, NotBack, limits_in_the_end, move_rules
from kafka_rebalance.planning.search.excused_brokers import Led, Outside
from kafka_rebalance.planning.search.fewest_bytes import Optimum, Proof, Within
from kafka_rebalance.planning.search.frame import FoundLists, Frame, Relief, relief_of, wanted_factor
from kafka_rebalance.planning.search.optimal import PROVEN_TO
from kafka_rebalance.planning.search.placement import Budget, Limit, Placement

_LISTED = 3  # figures in a note, at most
_MEANS = {  # column: (its meaning, with the field of the connection; the consequence)
    "disk_capacity_bytes": (
        "the size of the disk (disk_bytes in broker_capacities)",
        "disks and replicas are planned as equal shares, and only disks of known size keep their headroom",
    ),
    "disk_used_bytes": ("the used bytes of the disk", "other bytes than those of replicas are unknown"),
    "nic_in_bytes_per_second": (
        "the network's capacity in (nic_in_bytes_per_second in broker_capacities)",
        "bytes in are planned as equal shares",
    ),
    "nic_out_bytes_per_second": (
        "the network's capacity out (nic_out_bytes_per_second in broker_capacities)",
        "leaders and what they send are planned as equal shares",
    ),
}


def status_and_note(
    problem: Problem,
    found: FoundLists,
    end: Ending,
    off: Sequence[str],
    broken: int,
    limited: Sequence[str],
) -> tuple[Status, str]:
    """`broken` partitions break the rack rule after. `limited` says what it costs that only some brokers receive."""
    goal, budget = found.goal, found.budget
    notes, status = list(found.notes), Status.OK
    limits = {
        Limit.BYTES: budget.bytes,
        Limit.LEADER_CHANGES: end.leader_changes(problem),
    }
    reached_limits = budget.reached | ({Limit.LEADER_CHANGES} if end.beyond else set())
    outside = outside_pools(problem, found.replicas) if goal.repairs_racks else 0
    unfinished = bool(off) or (goal.repairs_racks and broken > 0) or outside > 0 or end.beyond > 0
    if reached_limits and unfinished:
        status = Status.PARTIAL
        reached = (
            f"{limit} {getattr(problem.settings, limit):,} ({limits[limit]:,} used)" for limit in sorted(reached_limits)
        )
        notes.append(f"stopped at {', '.join(reached)}")
    elif off:
        # Only searched moves of replicas promise a band.
        status = Status.PARTIAL if goal.moves_replicas and goal.searched else Status.OK
        if not goal.to_limit:
            notes.append(f"within {share_in_words(goal.tolerance)} is not reached")
    notes += off[:_LISTED]
    if goal.repairs_racks and broken:
        notes.append(f"{broken} partitions still break the rack rule")
    if unfinished and goal.moves_replicas:
        notes += [words for limit in BROKER_LIMITS for words in limit.reached_by(problem, found.replicas)]
    if outside:
        status = Status.PARTIAL if goal.searched else status
        notes.append(f"{outside} replicas stay outside the pools of their topics")
    factor = problem.settings.replication_factor
    if factor is not None and goal.moves_replicas and goal.searched:
        same = int((problem.movable & problem.pinned & (found.wanted != factor)).sum())
        if same:
            notes.append(f"{same} partitions of pinned_topics keep their replication factor")
        more = int((problem.relocatable & (found.wanted > factor)).sum())
        if more:
            notes.append(f"{more} partitions keep more than {factor} replicas, because replicas on brokers_out stay")
    stays = list(_stays(problem, found, end))
    status, notes = Status.PARTIAL if stays else status, notes + stays
    notes += min_insync.warnings(problem, replication(found.replicas))
    left = _left_behind(problem, found.replicas)
    if left:
        status = Status.PARTIAL
        why = "are kept where they are" if goal.moves_replicas else "stay: this candidate only re-orders lists"
        notes.append(f"{left} replicas on brokers that are to be emptied {why}")
    if problem.waits:
        status = Status.PARTIAL
        notes += waiting_words(problem)
    if end.impossible:
        some = "1 partition does" if end.impossible == 1 else f"{end.impossible:,} partitions do"
        notes.append(f"{some} not get the preferred leader: that broker is not in sync now, or brokers_out forbids it")
    text = "; ".join([*notes, *limited, *_caveats(problem)])
    return status, f"{text[0].upper()}{text[1:]}." if text else ""


def _stays(problem: Problem, found: FoundLists, end: Ending) -> Iterator[str]:
    """Lists and leaders that the plan leaves as they are, though the job or the tolerance asks for more."""
    allowed = share_in_words(1 - problem.settings.disk_headroom)
    if found.no_room:
        yield (
            f"{found.no_room:,} lists stay as they are: while both copies exist, theirs would fill a disk beyond the "
            f"{allowed} of disk_headroom, and no order of the moves avoids that"
        )
    if end.left_out:
        yield (
            f"{end.left_out:,} lists stay as they are: each replica that could lead instead is out of the ISR or in "
            "brokers_out"
        )
    leaders = _leaders_that_stay(problem, end.leaders(problem))
    if leaders:
        yield f"{leaders:,} leaders stay on brokers that are to lead nothing: no other replica may lead there"


def off_words(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> list[str]:
    """Disks above `relieve_above`, and metrics with a broker outside the tolerance and the range of all brokers."""
    off, relative = _off_cells(problem, held, replicas, loads)
    cells, found = asked_cells(problem, held), []
    limit, above = problem.settings.relieve_above, _disks_above(problem, loads[:, DISK])
    if limit is not None and len(above):
        full = 100 * _disk_fullness(problem, loads[:, DISK])[above[0]]
        first = f"the fullest of broker {problem.brokers[above[0]]} at {full:.1f} %"
        found.append(f"{len(above)} disks stay above relieve_above {share_in_words(limit)}, {first}")
    for k, metric in enumerate(METRICS):
        if off[:, k].any():
            reached = relative[cells[:, k], k]
            found.append(f"{metric} {reached.min():.2f} to {reached.max():.2f} of the reachable share")
    return found


def too_large_words(partition: TopicPartition, now: int, moving: int) -> str:
    """Why the planner does not offer a move; `now` and `moving` are bytes of its topic's znode."""
    return (
        f"The znode of topic {partition.topic} has {now:,} bytes, and {moving:,} while {partition} moves. "
        f"ZooKeeper accepts {ZNODE_BYTES:,} (jute.maxbuffer). Name the topic in topics_out. {JUTE_MAXBUFFER_PLACES}."
    )


def optimum_words(frame: Frame, found: Optimum) -> str:
    """What is proven about the cheapest lists, or that there are none."""
    aside, tolerance = "", frame.goal.tolerance
    if any(isinstance(rule, NotBack) for rule in frame.others):
        aside += "; plans that send replicas back to brokers that they left lately do not count"
    if found.besides.spreads_leaders:
        aside += "; plans that spread leaders of topics worse than now do not count"
    if found.besides.crowds_no_more:
        aside += "; plans in which topics crowd brokers more than now do not count"
    within = f"within {share_in_words(tolerance)}"
    if found.within is None:
        certain = "exists" if found.proof is Proof.NONE_EXISTS else "was found"
        return f"No plan {within} or one replica of every share {certain}{aside}."
    words = {
        Within.TOLERANCE: within,
        Within.ONE_REPLICA: f"{within} or one replica and as near to it",
        Within.ONE_REPLICA_BUT_BYTES_IN: f"{within} or one replica and as near to it in disks and replicas, and in "
        "bytes in as near as these allow,",
    }[found.within]
    later = f"; leaders are placed afterwards{aside}"
    if found.proof in (Proof.PROVEN, Proof.UNDERCUT):
        full = ", without moves to disks beyond disk_headroom," if found.keeps_headroom else ""
        saves = f"no plan {words} in all but leaders{full} saves more than {PROVEN_TO} of these bytes"
        if found.proof is Proof.PROVEN:
            return f"proven: {saves}{later}"
        near = "is within one replica of the tolerance" if found.undercut_by == BALANCED else "is as near"
        return f"{saves}, but {found.undercut_by} copies fewer and {near}{later}"
    if found.not_ruled_out is None:
        return f"the best found, but not proven: it is the plan of balanced{later}"
    fewer = f"{100 * found.not_ruled_out:.1f} %"
    return f"the best found, but not proven: a plan {words} with {fewer} fewer bytes may exist{later}"


def no_room_words(problem: Problem, broker: int, count: int | None = None) -> str:
    """Why a plan is not offered whose copies fill the disk of this broker while both copies exist."""
    allowed = share_in_words(1 - problem.settings.disk_headroom)
    some = "Copies of the plan" if count is None else f"The copies of {count:,} lists"
    return (
        f"{some} would fill disks beyond the {allowed} of disk_headroom while both copies exist, first that of broker "
        f"{problem.brokers[broker]}. No order of the moves avoids that. Free space there, or add a broker."
    )


def stranded_words(frame: Frame, placement: Placement, replicas: int) -> str:
    """Why replicas that have to leave their brokers find no place."""
    problem = frame.problem
    open_brokers = int(problem.receivers.sum())
    text = f"{replicas:,} replicas find no place on the {open_brokers} brokers that may receive replicas. "
    if placement.is_any_at_its_most:
        most = problem.settings.replicas_per_broker
        return f"{text}Some have all that replicas_per_broker {most} allows. Add brokers, or have the policy changed."
    left = (placement.limits - placement.loads)[:, DISK][problem.receivers] * frame.scale[DISK]
    left = left[np.isfinite(left)]
    if not len(left):
        return text + "The other brokers of their racks already have a replica of the partition, or may receive none."
    kept, most = problem.settings.disk_headroom, max(0, int(left.max()))
    return text + (
        "The rack rule leaves few brokers for them, and these replicas would fill the disks there beyond "
        f"{share_in_words(1 - kept)} (disk_headroom {kept:g}). The most room left on one of them is {most:,} bytes. "
        "The search found no way, which does not prove that none exists. Add brokers in those racks, or empty fewer."
    )


def beyond_words(budget: Budget) -> str:
    """That the moves that the job requires are beyond the limits."""
    figures = ", ".join(f"{spent:,} against {name} {limit:,}" for name, spent, limit in budget.exceeded())
    return f"The moves that the job requires are beyond the limits: {figures}. Raise the limit, or ask for less."


def _caveats(problem: Problem) -> Iterator[str]:
    """What is unknown of the cluster, with the brokers or partitions in question."""
    staying, nets = int(problem.staying.sum()), problem.networks
    stated = {
        "disk_capacity_bytes": problem.disk_capacity,
        "disk_used_bytes": problem.disk_used,
        "nic_in_bytes_per_second": nets[:, 0],
        "nic_out_bytes_per_second": nets[:, 1],
    }
    for column, values in stated.items():
        where = problem.staying & np.isnan(values)
        if 0 < where.sum() < staying:
            what, consequence = _MEANS[column]
            known = f"{staying - int(where.sum())} of {staying} brokers only"
            yield f"{what} is known for {known} (unknown: {_ids(problem, where)}): {consequence}"
    without = rackless(problem)
    if without.any():
        yield f"{_ids(problem, without)} without a rack count as one rack together; set broker.rack to avoid this"
    yield from receive_nothing(problem)
    contents = problem.dir_contents
    for number in np.flatnonzero(~contents.is_open & problem.staying[contents.broker]).tolist():
        if (broker := int(contents.broker[number])) not in problem.shut:
            yield f"{contents.path[number]} of broker {problem.brokers[broker]} is cordoned: its room does not count"
    dirs = problem.log_dirs
    unknown = problem.receivers & dirs.unknown
    if unknown.any():
        yield f"{_ids(problem, unknown)} with several log dirs of unknown size: a new replica may go to a full one"
    # The smallest room is less than half of the room that each of the dirs would have if they were even.
    uneven = (
        problem.receivers & (dirs.count > 0) & (2 * dirs.count * np.where(dirs.count > 0, dirs.room, 0.0) < dirs.rooms)
    )
    if uneven.any():
        worst = int(np.where(uneven, dirs.room, np.inf).argmin())
        yield (
            f"{_ids(problem, uneven)} with uneven log dirs, which Kafka fills by number and not by size: "
            f"{dirs.fullest[worst]} of broker {problem.brokers[worst]} has room for {int(dirs.room[worst]):,} bytes. "
            f"The broker gets no larger replica, and at most {int(dirs.count[worst] * dirs.room[worst]):,} bytes"
        )
    if problem.unknown_sizes:
        yield f"{problem.unknown_sizes} partitions of unknown size count as 0 bytes"


def waiting_words(problem: Problem) -> Iterator[str]:
    """What is left out because it waits for brokers that are away."""
    for one in left_waiting(problem):
        broker = f"broker{'s' * (len(one.brokers) > 1)} {', '.join(map(str, one.brokers))}"
        named = some_of(one.named, one.count)
        if one.being_deleted:
            yield f"left out: {named}, being deleted, which waits for {broker}"
        else:
            yield f"left out: {named}, lost unless {broker} {'returns' if len(one.brokers) == 1 else 'return'}"


def receive_nothing(problem: Problem) -> Iterator[str]:
    """Brokers that stay and to which Kafka gives no new replica."""
    for broker, why in problem.shut.items():
        if problem.staying[broker]:
            held = int((problem.replicas == broker).any(axis=1).sum()) if why is Shut.CORDONED else 0
            stays = f", and {held} partitions stay as they are: Kafka refuses every new list with it" if held else ""
            yield f"broker {problem.brokers[broker]} {shut_in_words(why)}: it receives nothing{stays}"


def _ids(problem: Problem, brokers: Bools) -> str:
    ids = problem.brokers[brokers].tolist()
    shown = ", ".join(map(str, ids[:10])) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
    return f"broker{'s' if len(ids) > 1 else ''} {shown}"


# How far lists are from the request: the part of the job that is not done, and brokers outside the tolerance.
#
# All candidates have the same measure: the job, and the tolerance of the settings. It does not count that `light`
# searches with a wider band, or that other candidates promise no band.


TOPICS_NAMED = 5
_ROUNDING = 2e-4  # of a share: the search stops slightly outside the band


@dataclass(frozen=True, slots=True)
class Shortfall:
    """If all are 0, the job is done, within the tolerance."""

    undone: int  # replicas on wrong brokers, partitions with a wrong factor or leader, disks too full
    rack_violations: int  # partitions that the job could spread over more racks
    excess: float  # squared shares by which brokers are outside the tolerance, summed over brokers and metrics
    furthest: float  # how far the worst broker is from its reachable share, as a share of it
    tolerance: float

    @property
    def does_the_job(self) -> bool:
        return not self.undone and not self.rack_violations

    @property
    def is_met(self) -> bool:
        """Whether the job is done and every broker is within the tolerance, or one replica outside."""
        return self.does_the_job and not self.excess

    @property
    def is_met_exactly(self) -> bool:
        """Whether every broker is within the tolerance itself."""
        return self.is_met and self.furthest <= self.tolerance + _ROUNDING

    def is_as_good_as(self, other: Shortfall) -> bool:
        """Whether it is as near to the request in every respect."""
        return self.distance <= other.distance and self.is_met_exactly >= other.is_met_exactly

    @property
    def distance(self) -> tuple[int, int, float]:
        """To compare plans: the job comes before how even the brokers are."""
        return self.undone, self.rack_violations, self.excess


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """The measure for lists: a goal, and the load that each broker should carry."""

    goal: Goal
    targets: Floats  # [broker, METRICS] each in its own unit
    relief: Relief | None  # of job `relieve`; its loads are in units of `scale`
    scale: Floats  # [REPLICA_METRICS]


def held_to_the_job(problem: Problem, targets: Floats, scale: Floats) -> Held:
    """`targets` is [broker, METRICS]; `scale` is the unit of a relief's loads."""
    goal = goal_of(problem.settings, LIGHT if problem.settings.relieve_above is not None else BALANCED)
    relief = None
    if goal.one_sided:
        raw = replica_weights(problem)
        weights = np.divide(raw, scale, out=np.zeros_like(raw), where=scale > 0)
        units = np.divide(targets[:, : len(scale)], scale, out=np.zeros((len(targets), len(scale))), where=scale > 0)
        relief = relief_of(problem, goal, units, weights, scale)
    return Held(goal, targets, relief, scale)


def held_now(problem: Problem, targets: Floats, scale: Floats) -> Held:
    """The measure for the lists now. `targets` is [broker, REPLICA_METRICS] in units of `scale`."""
    led = led_first(problem.replicas, problem.leader)
    return held_to_the_job(problem, np.hstack([targets * scale, leader_targets(problem, led)]), scale)


def shortfall(problem: Problem, held: Held, replicas: Ints, leaders: Ints, loads: Floats, broken: Bools) -> Shortfall:
    """The shortfall of these lists.

    `leaders` is [partition row], broker indices; `loads` is [broker, METRICS]; `broken` is [partition row], whether the
    list breaks the rack rule.
    """
    off, relative = _off_cells(problem, held, replicas, loads)
    apart = relative - 1
    beyond = np.where(off, np.maximum(0.0, np.abs(apart) - held.goal.tolerance), 0.0)
    # A load on a target of 0 has no finite share.
    beyond = np.where(np.isfinite(beyond), beyond, 1.0)
    away = (np.abs(apart) if held.relief is None else np.maximum(0.0, apart))[asked_cells(problem, held)]
    repairs = int(may_be_repaired(problem, broken).sum()) if held.goal.repairs_racks else 0
    undone = _left_behind(problem, replicas) + len(_disks_above(problem, loads[:, DISK]))
    if held.goal.repairs_racks:
        undone += outside_pools(problem, replicas)
    undone += _leaders_that_stay(problem, leaders)
    if problem.settings.job == "elect":
        undone += int((problem.movable & (leaders != replicas[:, 0])).sum())
    if problem.settings.replication_factor is not None:
        undone += int((replication(replicas) != wanted_factor(problem)).sum())
    furthest = float(away[np.isfinite(away)].max(initial=0.0))
    excess = float((beyond * beyond).sum())
    # Rounded, so that the last bits decide nothing. Any load that is off counts for at least 1e-6.
    rounded = max(round(excess, 6), 1e-6) if off.any() else 0.0
    # With `relieve_above` the goal asks no broker for a share.
    tolerance = math.inf if held.goal.to_limit else held.goal.tolerance
    return Shortfall(undone, repairs, rounded, round(furthest, 4), tolerance)


def _off_cells(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> tuple[Bools, Floats]:
    """[broker, METRICS] (whether the load is outside the tolerance and another plan could improve it, load over target)

    A broker within one replica of its band is excused only if no single move and no swap would help it.
    """
    parts = [_off_cells_of_pool(part.problem, held, replicas[part.rows], loads) for part in parts_of(problem)]
    relative = np.divide(loads, held.targets, out=np.ones_like(loads), where=held.targets > 0)
    return np.logical_or.reduce(parts), relative


def _off_cells_of_pool(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> Bools:
    goal, targets = held.goal, held.targets
    weights = np.hstack([replica_weights(problem), leader_weights(problem, replicas)])
    own = _heaviest_of_each(replicas, weights, len(problem.brokers))
    off = outside_band(loads, targets, weights.max(axis=0, initial=0.0), own, goal.tolerance, problem.evened)
    if held.relief is not None:
        off[:, :LEADERS] &= loads[:, :LEADERS] > held.relief.high * held.scale * (1 + 1e-9)
        off[:, LEADERS:] &= loads[:, LEADERS:] > targets[:, LEADERS:]
    cells = asked_cells(problem, held)
    off &= cells
    excused = cells & ~off
    off[:, :LEADERS] |= _could_be_finer(problem, held, replicas, loads[:, :LEADERS], excused[:, :LEADERS])
    off[:, LEADERS:] |= _could_be_led_finer(problem, held, replicas, loads[:, LEADERS:], excused[:, LEADERS:])
    return off


def _heaviest_of_each(replicas: Ints, weights: Floats, brokers: int) -> Floats:
    """[broker, METRICS] The heaviest replica that each broker holds, and the heaviest partition that it leads."""
    found = np.zeros((brokers, weights.shape[1]))
    rows, columns = np.nonzero(replicas >= 0)
    for k in range(weights.shape[1]):
        some = slice(None) if k < LEADERS else columns == 0
        np.maximum.at(found[:, k], replicas[rows, columns][some], weights[rows, k][some])
    return found


def _could_be_finer(problem: Problem, held: Held, replicas: Ints, loads: Floats, excused: Bools) -> Bools:
    """[broker, REPLICA_METRICS] Which of the excused loads another plan could improve."""
    targets, counts = held.targets[:, : loads.shape[1]], loads.shape[1]
    asked = asked_cells(problem, held)[:, :counts]
    bands = band(targets, held.goal.tolerance)
    if held.relief is not None:
        bands = Bands(np.zeros_like(targets), np.maximum(held.relief.high * held.scale, bands.high))
    outside = excused & _outside(bands, targets, loads)
    if not outside.any():
        return outside
    rule = rack_rule(problem, problem.settings.replication_factor)
    placement = free_placement(problem, rule, replicas, targets[:, REPLICAS])
    placement.loads = loads  # with pools, replicas of other topics count as well
    looked_at = Outside(placement, bands, asked)
    found = np.zeros_like(outside)
    for broker, resource in np.argwhere(outside).tolist():
        found[broker, resource] = looked_at.is_helped(broker, resource)
    return found


def _could_be_led_finer(problem: Problem, held: Held, replicas: Ints, loads: Floats, excused: Bools) -> Bools:
    """[broker, LEADER_METRICS] The same for leaders. Lists may change their order, except for replicas that lag."""
    targets = held.targets[:, -loads.shape[1] :]
    bands = band(targets, held.goal.tolerance)
    if held.relief is not None:
        bands = Bands(np.zeros_like(targets), bands.high)
    outside = excused & _outside(bands, targets, loads)
    if not outside.any():
        return outside
    listed = np.maximum(replicas, 0)
    before = problem.replicas[:, :1]
    led = Led(
        replicas,
        loads,
        leader_weights(problem, replicas),
        bands,
        (replicas >= 0) & problem.evened[listed] & (~lagging(problem, replicas) | (replicas == before)),
        problem.movable & (problem.evened | problem.leaving)[replicas[:, 0]],
    )
    return led.helped(outside)


def _outside(bands: Bands, targets: Floats, loads: Floats) -> Bools:
    outside: Bools = (loads < bands.low - _ROUNDING * targets) | (loads > bands.high + _ROUNDING * targets)
    return outside


def free_placement(problem: Problem, rule: RackRule, replicas: Ints, targets: Floats) -> Placement:
    """These lists without limits: every replica may move that the settings let move.

    `targets` is [broker], how many replicas each should hold.
    """
    held, sizes = np.maximum(replicas, 0), problem.size_bytes
    left = left_by_racks(problem, rule, replication(replicas), targets)
    return Placement(
        replicas,
        replicas,
        replica_weights(problem),
        sizes,
        sizes.astype(np.float64)[:, None],
        rule,
        move_rules(problem, rule),
        problem.relocatable[:, None] & (replicas >= 0) & ~problem.closed[held],
        problem.evened,
        problem.receivers,
        limits_in_the_end(problem),
        Crowding(replicas, problem.topic, shares(problem)[:, REPLICAS], left),
        Budget(),
    )


def asked_cells(problem: Problem, held: Held) -> Bools:
    """[broker, METRICS] Which loads the goal makes even: known metrics of the evened brokers."""
    known = known_metrics(problem)
    asked = np.array(
        [
            metric in known and (held.goal.balances if k < LEADERS else held.goal.all_leaders)
            for k, metric in enumerate(METRICS)
        ]
    )
    cells: Bools = problem.evened[:, None] & asked & (held.targets > 0)  # a load near 0 has no shares
    return cells


def may_be_repaired(problem: Problem, broken: Bools) -> Bools:
    """[partition row] Which of the lists that break the rack rule a plan may bring into other racks."""
    may_be: Bools = broken & problem.relocatable & ~problem.rack_pinned
    return may_be


def _left_behind(problem: Problem, replicas: Ints) -> int:
    """Replicas that stay on brokers to be emptied."""
    if problem.settings.job in LEADERS_ALONE:
        return 0
    return int(np.isin(replicas, np.flatnonzero(problem.leaving)).sum())


def _leaders_that_stay(problem: Problem, leaders: Ints) -> int:
    """Of job `leaders`, the leaders on brokers that are to lead nothing. `leaders` is [partition row]."""
    return int((problem.movable & problem.leaving[leaders]).sum()) if problem.settings.job == "leaders" else 0


def outside_pools(problem: Problem, replicas: Ints) -> int:
    """Replicas outside the pools of their topics that a plan may move."""
    free = problem.relocatable[:, None] & ~problem.closed[np.maximum(replicas, 0)]
    return int((strays(problem, replicas) & free).sum())


def _disks_above(problem: Problem, after: Floats) -> Ints:
    """Brokers whose disk stays above `relieve_above`, the fullest first. `after` is [broker] bytes of replicas."""
    limit, full = problem.settings.relieve_above, _disk_fullness(problem, after)
    if limit is None:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(-full, kind="stable")
    return order[full[order] > limit + 1e-9]


def _disk_fullness(problem: Problem, after: Floats) -> Floats:
    """[broker] The used share of its disk with `after` bytes of replicas; 0 if its size is unknown."""
    known = sized_disks(problem)
    moved = (after - held_bytes(problem)) / np.where(known, problem.disk_capacity, np.inf)
    return np.where(known, disk_shares(problem) + moved, 0.0)


def bytes_left(problem: Problem, held: Held, after: Floats) -> int:
    """The bound on bytes of plans that bring disks from `after` ([broker] bytes) within the tolerance."""
    target, tolerance = held.targets[:, DISK], held.goal.tolerance
    here = problem.evened & (target > 0)
    bands = target * (1 - tolerance), target * (1 + tolerance)
    if held.relief is not None:
        bands = np.zeros(len(target)), held.relief.high[:, DISK] * held.scale[DISK]
        here &= held.relief.givers
    return moved_bytes_bound(after, bands, here, 0.0, same_factor=True)


def left_waiting(problem: Problem) -> tuple[LeftWaiting, ...]:
    """What waits for brokers that are away, by these brokers."""
    kinds: dict[tuple[tuple[int, ...], bool], list[TopicPartition]] = {}
    for one in problem.waits:
        kinds.setdefault((one.brokers, one.being_deleted), []).append(one.partition)
    found = []
    for (brokers, being_deleted), partitions in kinds.items():
        named = sorted({tp.topic for tp in partitions}) if being_deleted else list(map(str, partitions))
        found.append(LeftWaiting(brokers, being_deleted, tuple(named[:SHOWN]), len(named)))
    return tuple(found)


def stays_behind(problem: Problem, replicas: Ints, *, moves_replicas: bool) -> tuple[StaysBehind, ...]:
    """The replicas on brokers to be emptied, by broker and reason; `replicas` are the lists after."""
    if problem.settings.job in LEADERS_ALONE:
        return ()
    rows, positions = np.nonzero((replicas >= 0) & problem.leaving[replicas])
    if not len(rows):
        return ()
    brokers = replicas[rows, positions]
    selected = np.array([problem.settings.selects(topic) for topic in problem.topics], dtype=bool)[problem.topic[rows]]
    kinds, last = tuple(Reason), Reason.NOT_MOVED if moves_replicas else Reason.ONLY_REORDERED
    reasons = np.select(
        [~selected, ~problem.movable[rows], problem.pinned[rows]],
        [kinds.index(Reason.NOT_SELECTED), kinds.index(Reason.INTERNAL), kinds.index(Reason.PINNED)],
        kinds.index(last),
    )
    order = np.lexsort((reasons, brokers))
    edges = np.flatnonzero(np.diff(brokers[order] * len(kinds) + reasons[order])) + 1
    found = []
    for some in np.split(order, edges):
        own, broker, reason = rows[some], int(problem.brokers[brokers[some[0]]]), kinds[reasons[some[0]]]
        topics = sorted({problem.topics[number] for number in np.unique(problem.topic[own])})
        size, named = int(problem.size_bytes[own].sum()), tuple(topics[:TOPICS_NAMED])
        found.append(StaysBehind(broker, reason, len(own), size, named, len(topics)))
    return tuple(found)


# The preferred leaders that a plan elects, and the leaders after it.
#
# The preferred leader is the first replica of a list. The run elects it for every partition of the plan. So the plan
# may contain a partition whose list stays the same, if another broker leads it now.


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """The lists after and their leaders; all are [partition row]."""

    replicas: Ints  # [partition row, position]
    changed: Bools  # the list changes
    elected: Bools  # the list stays the same, and the run elects its first replica
    beyond: int  # elections above `max_leader_changes`
    impossible: int  # partitions whose first replica is not in sync now, or must not lead by `brokers_out`
    left_out: int = 0  # lists that stay as they are, because no replica of the new list may be elected

    def lists(self, problem: Problem) -> Ints:
        """The lists after the plan: one that stays keeps its order."""
        width = max(self.replicas.shape[1], problem.replicas.shape[1])
        now, was = (widened(lists, width) for lists in (self.replicas, problem.replicas))
        return np.where(self.changed[:, None], now, was)

    def leaders(self, problem: Problem) -> Ints:
        """The first replica of each partition in the plan, and today's leader of the others."""
        leaders: Ints = np.where(self.changed | self.elected, self.replicas[:, 0], problem.leader)
        return leaders

    def leader_changes(self, problem: Problem) -> int:
        """Partitions that another broker leads after the plan."""
        return int((self.leaders(problem) != problem.leader).sum())


def ending(problem: Problem, replicas: Ints, *, searched: bool, elects: bool) -> Ending:
    """The end of a plan with these lists.

    `searched`: a list with the same replicas and the same first one does not change, whatever the order of the others.
    Nor does one of which only today's leader would come first, if leader changes are limited, or one whose first
    replica must not be elected. `elects`: the plan also elects preferred leaders of lists that stay the same.
    """
    most, left_out, led_on = problem.settings.max_leader_changes, 0, np.zeros(len(replicas), dtype=bool)
    changed = _changed(problem, replicas, searched)
    if searched:
        wrong = list(wrongly_elected(problem, replicas, changed))
        left_out, stays = len(wrong), np.zeros(len(replicas), dtype=bool)
        stays[wrong] = True
        if most is not None:
            # The search has decided who leads these: today's leader goes on, and nobody is elected.
            led_on = changed & (replicas[:, 0] == problem.leader) & _same_replicas(problem, replicas)
            stays |= led_on
        width = max(replicas.shape[1], problem.replicas.shape[1])
        now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
        replicas, changed = np.where(stays[:, None], was, now), changed & ~stays
    first = problem.replicas[:, 0]
    wanting = problem.movable & ~changed & ~led_on & (problem.leader != first) & elects
    able = wanting & problem.evened[first] & problem.in_sync[:, 0] & ~problem.closed[problem.leader]
    room = len(able) if most is None else max(0, most - int((changed & (replicas[:, 0] != problem.leader)).sum()))
    elected = able & (np.cumsum(able) <= room)
    return Ending(replicas, changed, elected, int((able & ~elected).sum()), int((wanting & ~able).sum()), left_out)


def _changed(problem: Problem, replicas: Ints, searched: bool) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (widened(lists, width) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    if searched:
        same |= _same_replicas(problem, replicas) & (now[:, 0] == was[:, 0])
    return ~same


def _same_replicas(problem: Problem, replicas: Ints) -> Bools:
    width = max(replicas.shape[1], problem.replicas.shape[1])
    now, was = (np.sort(widened(lists, width), axis=1) for lists in (replicas, problem.replicas))
    same: Bools = (now == was).all(axis=1)
    return same
