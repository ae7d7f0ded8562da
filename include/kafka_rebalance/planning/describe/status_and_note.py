"""A candidate's status and note: where it stopped, what is missing, and what is unknown of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafka_rebalance.kafka.who_may_receive import Shut, shut_in_words
from kafka_rebalance.kafka.znode_limits import JUTE_MAXBUFFER_PLACES
from kafka_rebalance.model.amounts_in_words import share_in_words
from kafka_rebalance.model.candidate import Status
from kafka_rebalance.model.finding import some_of
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.model.settings import BALANCED
from kafka_rebalance.planning.batches.controller_bytes import ZNODE_BYTES
from kafka_rebalance.planning.describe.planned_elections import Ending
from kafka_rebalance.planning.describe.shortfall import (
    Held,
    asked_cells,
    disk_fullness,
    disks_above,
    leaders_that_stay,
    left_behind,
    left_waiting,
    off_cells,
    outside_pools,
)
from kafka_rebalance.planning.problem.arrays import Bools, Floats, Ints, Problem, replication
from kafka_rebalance.planning.problem.loads import DISK, METRICS
from kafka_rebalance.planning.rules import min_insync
from kafka_rebalance.planning.rules.rack_rule import rackless
from kafka_rebalance.planning.rules.replica_limits import at_their_limit
from kafka_rebalance.planning.search.by_solver.fewest_bytes import Optimum, Proof, Within
from kafka_rebalance.planning.search.by_solver.optimal import PROVEN_TO
from kafka_rebalance.planning.search.frame import FoundLists, Frame
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
        Limit.REPLICAS: budget.replicas,
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
        notes += at_their_limit(problem, found.replicas)
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
    left = left_behind(problem, found.replicas)
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
    leaders = leaders_that_stay(problem, end.leaders(problem))
    if leaders:
        yield f"{leaders:,} leaders stay on brokers that are to lead nothing: no other replica may lead there"


def off_words(problem: Problem, held: Held, replicas: Ints, loads: Floats) -> list[str]:
    """Disks above `relieve_above`, and metrics with a broker outside the tolerance and the range of all brokers."""
    off, relative = off_cells(problem, held, replicas, loads)
    cells, found = asked_cells(problem, held), []
    limit, above = problem.settings.relieve_above, disks_above(problem, loads[:, DISK])
    if limit is not None and len(above):
        full = 100 * disk_fullness(problem, loads[:, DISK])[above[0]]
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
    if frame.rule.left is not None:
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
