"""The risk of one candidate: the worst single loss, and the way back."""

from __future__ import annotations

from kafka_rebalance.documents.proposals.candidate_figures import Course, Loss, WorstCase
from kafka_rebalance.documents.proposals.proposals import ProposedCandidate
from kafka_rebalance.execution.eta import with_controller
from kafka_rebalance.report.units import Named, about, format_bytes, format_count


def worst_case_words(worst: WorstCase, named: Named) -> tuple[str, ...]:
    """A text on the loss of a broker, and one on the loss of a rack. `named` quotes a rack or topic."""
    brokers = _broker_words(worst, named)
    if worst.broker is not None and worst.min_insync_unknown:
        brokers.append(f"Not counted: {_partitions(worst.min_insync_unknown)} with unknown min.insync.replicas.")
    return (" ".join(brokers), *_rack_words(worst.rack, named))


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
