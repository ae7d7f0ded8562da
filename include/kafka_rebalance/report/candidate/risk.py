"""What is at stake with one candidate: the worst single loss, the way back, and the topics that it holds up."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document
from kafka_rebalance.documents.proposals.worst_case import Course, Loss, WorstCase
from kafka_rebalance.execution.eta import with_controller
from kafka_rebalance.report.units import Named, about, format_bytes, format_count


@dataclass(frozen=True, slots=True)
class HeldUp:
    """One topic that can be neither expanded nor deleted while its batches run."""

    topic: str
    partitions: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True, slots=True)
class Stakes:
    """None of what the plan was made without."""

    worst_case: WorstCase
    back_bytes: int
    back_seconds: float | None  # copying alone, at the throttle that was approved, or found for the candidate
    batches: int
    topics: int  # that are held up
    internal: tuple[str, ...]  # those of them that are Kafka's own
    listed: tuple[HeldUp, ...]  # those with most moves


def read_stakes(candidate: Document) -> Stakes | None:
    """Of a candidate in proposals.json; None where it was planned by a version that did not look at this."""
    worst, back, held_up = (candidate.optional_part(key) for key in ("worst_case", "way_back", "held_up"))
    if worst is None or back is None or held_up is None:
        return None
    return Stakes(
        WorstCase(
            _course(worst.optional_part("broker")),
            _course(worst.optional_part("rack")),
            worst.count("min_insync_unknown"),
            worst.count("under_now"),
            worst.optional_count("under_after"),
        ),
        back.count("bytes"),
        back.optional_number("seconds"),
        candidate.count("batches"),
        held_up.count("topics"),
        held_up.texts("internal"),
        tuple(
            HeldUp(part.text("topic"), part.count("partitions"), part.count("first_batch"), part.count("last_batch"))
            for part in held_up.parts("listed")
        ),
    )


def _course(part: Document | None) -> Course | None:
    if part is None:
        return None
    during = part.optional_part("during")
    return Course(
        _loss(part.part("today")),
        None if during is None else _loss(during),
        _loss(part.part("after")),
        part.count("batches_worse"),
    )


def _loss(part: Document) -> Loss:
    lost = part.content.get("lost")
    return Loss(
        part.count("batch"),
        part.count("lost") if type(lost) is int else part.text("lost"),
        part.count("partitions"),
        part.texts("topics"),
        part.count("topic_count"),
    )


def worst_case_words(worst: WorstCase, named: Named) -> tuple[str, ...]:
    """A text on the loss of a broker, and one on that of a rack. `named` puts a rack or topic into them."""
    brokers = _broker_words(worst, named)
    if worst.broker is not None and worst.min_insync_unknown:
        brokers.append(f"Not counted: {_partitions(worst.min_insync_unknown)} of unknown min.insync.replicas.")
    return (" ".join(brokers), *_rack_words(worst.rack, named))


def way_back_words(stakes: Stakes) -> str:
    """What going back from the end takes: `copies 287 GiB and takes about 1 h 33 min in the same batches`."""
    if stakes.back_seconds is None:
        return f"copies {format_bytes(stakes.back_bytes)}"
    seconds = with_controller(stakes.back_seconds, stakes.batches)
    return f"copies {format_bytes(stakes.back_bytes)} and takes {about(seconds)} in the same batches"


def _broker_words(worst: WorstCase, named: Named) -> list[str]:
    course = worst.broker
    if course is None:
        return ["min.insync.replicas is not known here, so what the loss of a broker would stop cannot be told."]
    if not max(course.today.partitions, course.worst.partitions, course.after.partitions, worst.under_after or 0):
        return ["The loss of any one broker leaves no partition under min.insync.replicas, before, meanwhile or after."]
    said = []
    if course.is_worse:
        loss = course.worst
        said.append(
            f"Lose broker {loss.lost} in batch {loss.batch}: {_partitions(loss.partitions)} under min.insync.replicas "
            f"(today {format_count(course.today.partitions)}, broker {course.today.lost}), {_topics(loss, named)}."
        )
    else:
        loss = course.today
        what = f"{_partitions(loss.partitions)} under min.insync.replicas"
        where = f"broker {loss.lost}, {_topics(loss, named)}" if loss.partitions else "any one broker"
        said.append(f"While it runs no loss of one broker is worse than today's worst: {what} ({where}).")
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
        return ["The loss of any one rack leaves every partition a replica in sync, all the time."]
    loss = course.worst
    when = f" in batch {loss.batch}" if course.is_worse else ""
    lost = f"Lose rack {named(str(loss.lost))}{when}" if loss.partitions else "Lose any one rack"
    topics = f", {_topics(loss, named)}" if loss.partitions else ""
    return [
        f"{lost}: {_partitions(loss.partitions)} without a replica in sync (today "
        f"{format_count(course.today.partitions)}, afterwards {format_count(course.after.partitions)}){topics}."
    ]


def _topics(loss: Loss, named: Named) -> str:
    names = ", ".join(named(topic) for topic in loss.topics)
    more = (
        f" and {format_count(loss.topic_count - len(loss.topics))} more" if loss.topic_count > len(loss.topics) else ""
    )
    return f"of {'topic' if loss.topic_count == 1 else 'topics'} {names}{more}"


def _partitions(count: int) -> str:
    return format_count(count, "partition", "partitions")
