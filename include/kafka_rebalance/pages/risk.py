"""The risk of one candidate: the worst single loss, and the way back."""

from __future__ import annotations

from kafka_rebalance.documents.candidate_figures import (
    BrokerLoss,
    Course,
    DiskAfterLoss,
    Loss,
    NetworkAfterLoss,
    WorstCase,
)
from kafka_rebalance.documents.proposals import ProposedCandidate
from kafka_rebalance.moves.eta import with_controller
from kafka_rebalance.pages.units import Named, about, format_bytes, format_count, format_factor, format_share


def worst_case_words(worst: WorstCase, named: Named) -> tuple[str, ...]:
    """A text on the loss of a broker, and one on the loss of a rack. `named` quotes a rack or topic."""
    brokers = _broker_words(worst, named)
    if worst.broker is not None and worst.min_insync_unknown:
        brokers.append(f"Not counted: {_partitions(worst.min_insync_unknown)} with unknown min.insync.replicas.")
    return (" ".join(brokers), *_rack_words(worst.rack, named))


def broker_loss_words(loss: BrokerLoss) -> str:
    """How far the loss of one broker loads the others, today and after the plan; empty if nobody knows."""
    said = []
    network, disk = _networks(loss), _disks(loss)
    if network is not None:
        of_what, (now, then) = _sends(*network)
        said.append(
            f"Without one broker, the busiest other sends {now} of {of_what} today ({_pair(network[0])}), and {then} "
            f"afterwards ({_pair(network[1])})."
        )
    if disk is not None:
        now, then = (format_share(one.used_share) for one in disk)
        said.append(
            f"New copies of its replicas in the same rack fill the fullest disk to {now} today ({_pair(disk[0])}), and "
            f"to {then} afterwards ({_pair(disk[1])})."
        )
    return " ".join(said)


def broker_loss_changes(loss: BrokerLoss | None) -> tuple[tuple[str, str, str], ...]:
    """(what, today, after the plan) of the worst loss of one broker, where it is known."""
    if loss is None:
        return ()
    found = []
    network, disk = _networks(loss), _disks(loss)
    if network is not None:
        of_what, (now, then) = _sends(*network)
        found.append((f"busiest, of {of_what}", now, then))
    if disk is not None:
        found.append(("fullest disk", format_share(disk[0].used_share), format_share(disk[1].used_share)))
    return tuple(found)


def _networks(loss: BrokerLoss) -> tuple[NetworkAfterLoss, NetworkAfterLoss] | None:
    now, then = loss.before.network, loss.after.network
    return None if now is None or then is None else (now, then)


def _disks(loss: BrokerLoss) -> tuple[DiskAfterLoss, DiskAfterLoss] | None:
    now, then = loss.before.disk, loss.after.disk
    return None if now is None or then is None else (now, then)


def _sends(now: NetworkAfterLoss, then: NetworkAfterLoss) -> tuple[str, tuple[str, str]]:
    """(of what, the parts of it today and afterwards)"""
    if now.used_share is None or then.used_share is None:
        return "its fair share", (format_factor(now.over_share), format_factor(then.over_share))
    return "its network", (format_share(now.used_share), format_share(then.used_share))


def _pair(one: NetworkAfterLoss | DiskAfterLoss) -> str:
    return f"broker {one.broker} without broker {one.lost}"


def way_back_words(candidate: ProposedCandidate) -> str:
    """`copies 287 GiB and takes about 1 h 33 min in the same batches`, from the end of the plan."""
    back = candidate.way_back
    if back is None:
        return "is not known"
    if back.seconds is None:
        return f"copies {format_bytes(back.bytes)}"
    seconds = with_controller(back.seconds, candidate.batches)
    return f"copies {format_bytes(back.bytes)} and takes {about(seconds)} in the same batches"


def _broker_words(worst: WorstCase, named: Named) -> list[str]:
    course = worst.broker
    if course is None:
        return ["min.insync.replicas is not known here, so nobody can say what the loss of a broker would stop."]
    if not max(course.today.partitions, course.worst.partitions, course.after.partitions, worst.under_after or 0):
        return [
            "The loss of any one broker leaves no partition under min.insync.replicas, today, meanwhile or afterwards."
        ]
    loss = course.worst if course.is_worse else course.today
    what = f"{_partitions(loss.partitions)} under min.insync.replicas"
    if course.is_worse:
        today = f"today {format_count(course.today.partitions)}, broker {course.today.lost}"
        said = [f"Lose broker {loss.lost} in batch {loss.batch}: {what} ({today}), {_topics(loss, named)}."]
    else:
        where = f"broker {loss.lost}, {_topics(loss, named)}" if loss.partitions else "any one broker"
        said = [f"While it runs, no loss of one broker is worse than today's worst: {what} ({where})."]
    after = course.after
    lost = f" (broker {after.lost})" if after.partitions else ""
    worse = ": worse than today" if course.ends_worse else ""
    said.append(f"Afterwards it is {_partitions(after.partitions)} at most{lost}{worse}.")
    for count, when in ((worst.under_now, "today"), (worst.under_after or 0, "afterwards")):
        if count:
            said.append(f"{_partitions(count)} {'is' if count == 1 else 'are'} under it {when} with every broker up.")
    return said


def _rack_words(course: Course | None, named: Named) -> list[str]:
    if course is None:
        return []
    if not max(course.today.partitions, course.worst.partitions, course.after.partitions):
        return ["The loss of any one rack leaves every partition a replica in sync, at all times."]
    loss = course.worst
    when = f" in batch {loss.batch}" if course.is_worse else ""
    lost = f"Lose rack {named(str(loss.lost))}{when}" if loss.partitions else "Lose any one rack"
    topics = f", {_topics(loss, named)}" if loss.partitions else ""
    return [
        f"{lost}: {_partitions(loss.partitions)} without a replica in sync (today "
        f"{format_count(course.today.partitions)}, afterwards {format_count(course.after.partitions)}){topics}."
    ]


def _topics(loss: Loss, named: Named) -> str:
    names, more = ", ".join(named(topic) for topic in loss.topics), loss.topic_count - len(loss.topics)
    others = f" and {format_count(more)} more" if more > 0 else ""
    return f"of {'topic' if loss.topic_count == 1 else 'topics'} {names}{others}"


def _partitions(count: int) -> str:
    return format_count(count, "partition", "partitions")
