"""The values behind one candidate of a page: figures, risks, limits, and its fullest log dirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.proposals import (
    BetweenRacks,
    BrokerLoss,
    Course,
    DiskAfterLoss,
    LogDirPeak,
    LogDirPeaks,
    Loss,
    NetworkAfterLoss,
    ProposedCandidate,
    Score,
    WorstCase,
)
from kafka_rebalance.model.candidate import Metric, Move
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import OPTIMAL, Settings
from kafka_rebalance.moves.eta import with_controller
from kafka_rebalance.pages.tables import BrokerChange
from kafka_rebalance.pages.units import (
    Named,
    about,
    format_bytes,
    format_count,
    format_factor,
    format_rate,
    format_share,
)

# The values that pages and requests show of one candidate.


# In the order of the page.
METRICS = (Metric.DISK, Metric.BYTES_IN, Metric.LEADER_BYTES_OUT, Metric.LEADERS, Metric.REPLICAS)
TITLES = {  # of candidates; any other name is its own title
    "leaders_only": "Leaders only",
    "light": "Light",
    "balanced": "Balanced",
    "optimal": "Optimal",
    "as_kafka": "As Kafka's tool",
    "given": "Given",
}


@dataclass(frozen=True, slots=True)
class DiskCourse:
    """One disk while the batches run. `steps`: (batch, peak bytes, bytes after it); batch 0 is before the first."""

    broker: int
    capacity_bytes: int | None
    steps: tuple[tuple[int, int, int], ...]

    @property
    def fullest(self) -> tuple[int, int]:
        """(bytes at the highest peak, the first batch that has it)"""
        batch, peak, _ = max(self.steps, key=lambda step: (step[1], -step[0]))
        return peak, batch


@dataclass(frozen=True, slots=True)
class CandidateReport(ProposedCandidate):
    """One candidate of `proposals.json`, with its brokers and its largest moves by bytes to copy.

    All seconds are at the throttle that was approved, or found for this candidate.
    """

    brokers: tuple[BrokerChange, ...] = ()
    partitions: int = 0  # that change
    largest_moves: tuple[Move, ...] = ()
    most_partitions_in_a_batch: int = 0
    most_leader_changes_in_a_batch: int = 0
    fullest_disks: tuple[DiskCourse, ...] = ()

    @property
    def spreads(self) -> tuple[tuple[Metric, Score | None, Score | None], ...]:
        """(metric, before, after) of each known metric, in the order of the page."""
        before, after = self.scores.before, self.scores.after
        scores = ((metric, before.get(metric), after.get(metric)) for metric in METRICS)
        return tuple(score for score in scores if score[1:] != (None, None))

    @property
    def planned_seconds(self) -> float | None:
        """From the first request to the end of the last batch, with the controller's time for each batch."""
        return self.seconds_of(1.0, self.batches)

    def seconds_of(self, share: float, batches: int) -> float | None:
        """The time of `batches` batches that do this share of the copying."""
        return None if self.makespan_seconds is None else with_controller(share * self.makespan_seconds, batches)

    @property
    def batch_seconds(self) -> tuple[float, ...]:
        """Of each batch by the plan. Batches that the timetable does not list share the rest. Empty: not known."""
        if self.makespan_seconds is None or not self.batches:
            return ()
        listed = [slot.lasts for slot in self.timetable.batches] if self.timetable else []
        others = self.batches - len(listed)
        shares = [*listed, *[max(0.0, 1 - sum(listed)) / others for _ in range(others)]]
        return tuple(with_controller(share * self.makespan_seconds, 1) for share in shares)

    @property
    def least_seconds(self) -> float | None:
        """No plan with as many batches takes less."""
        bound = self.makespan_bound_seconds
        return None if bound is None else with_controller(bound, self.batches)

    @property
    def gain(self) -> tuple[str, float, float] | None:
        """(metric, highest broker before, and after) of the metric where it falls most, the first of equals.

        None if it falls nowhere.
        """
        falls = [
            (metric, before.max_over_mean, after.max_over_mean)
            for metric, before, after in self.spreads
            if before and after and before.max_over_mean and after.max_over_mean
        ]
        metric, high, low = max(falls, key=lambda fall: round(fall[1] - fall[2], 2), default=("", 0.0, 0.0))
        return (metric, high, low) if high - low >= 0.005 else None

    @property
    def fullest_sized_disk(self) -> DiskCourse | None:
        """The first of the fullest disks whose capacity is known."""
        return next((disk for disk in self.fullest_disks if disk.capacity_bytes), None)

    @property
    def above_least(self) -> float | None:
        """How far its bytes are above the least possible, as a share of that; None without bytes or without a bound."""
        if not self.moved_bytes or not self.moved_bytes_bound:
            return None
        return max(0.0, self.moved_bytes / self.moved_bytes_bound - 1)

    @property
    def title(self) -> str:
        """A claim only where it is proven: of the candidate `optimal`, that no plan as near copies fewer bytes."""
        if self.is_proven:
            return f"{TITLES.get(self.name, self.name)} (proven: no plan as near copies a thousandth less)"
        title = TITLES.get(self.name, self.name)
        return f"{title} (best found, not proven)" if self.name == OPTIMAL and self.moved_bytes else title


def above_least_words(candidate: CandidateReport) -> str:
    """`the least possible`, or `within 3 % of the least possible`; empty if nobody knows."""
    above = candidate.above_least
    if above is None:
        return ""
    up = max(0.01, -(-round(above * 1e6) // 10_000) / 100)  # the next whole percent
    return "the least possible" if above <= 0 else f"within {format_share(up)} of the least possible"


def off_share(candidate: CandidateReport) -> float | None:
    """How far the furthest broker ends from its fair share, as a share of it; None is unknown."""
    return furthest_off([after for _, _, after in candidate.spreads])


def furthest_off(scores: Sequence[Score | None]) -> float | None:
    known = [max(1 - score.min_over_mean, score.max_over_mean - 1) for score in scores if score is not None]
    return max(known) if known and len(known) == len(scores) else None


# The risk of one candidate: the worst single loss, and the way back.


def worst_case_words(worst: WorstCase, named: Named) -> tuple[str, ...]:
    """A text on the loss of a broker, and one on the loss of a rack. `named` quotes a rack or topic."""
    brokers = _broker_words(worst, named)
    if worst.broker is not None and worst.min_insync_unknown:
        brokers.append(f"Not counted: {_partitions(worst.min_insync_unknown)} with unknown min.insync.replicas.")
    return (" ".join(brokers), *_rack_words(worst.rack, named))


def broker_loss_words(loss: BrokerLoss) -> str:
    """How far the loss of one broker loads the others, today and after the plan; empty if nobody knows."""
    sentences = []
    network, disk = _networks(loss), _disks(loss)
    if network is not None:
        of_what, (now, then) = _sends(*network)
        sentences.append(
            f"Without one broker, the busiest other sends {now} of {of_what} today ({_pair(network[0])}), and {then} "
            f"afterwards ({_pair(network[1])})."
        )
    if disk is not None:
        now, then = (format_share(after_loss.used_share) for after_loss in disk)
        sentences.append(
            f"New copies of its replicas in the same rack fill the fullest disk to {now} today ({_pair(disk[0])}), and "
            f"to {then} afterwards ({_pair(disk[1])})."
        )
    return " ".join(sentences)


def broker_loss_changes(loss: BrokerLoss | None) -> tuple[tuple[str, str, str], ...]:
    """(what, today, after the plan) of the worst loss of one broker, where it is known."""
    if loss is None:
        return ()
    changes = []
    network, disk = _networks(loss), _disks(loss)
    if network is not None:
        of_what, (now, then) = _sends(*network)
        changes.append((f"busiest, of {of_what}", now, then))
    if disk is not None:
        changes.append(("fullest disk", format_share(disk[0].used_share), format_share(disk[1].used_share)))
    return tuple(changes)


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


def rack_traffic_changes(racks: BetweenRacks | None) -> tuple[tuple[str, str, str], ...]:
    """(what, today, after the plan) of what goes between racks in a second, where it is known."""
    if racks is None or racks.before is None or racks.after is None:
        return ()
    before, after = racks.before, racks.after
    changes = [
        ("replication", before.replication, after.replication),
        ("producers", before.producers, after.producers),
        ("consumers that fetch from leaders", before.consumers, after.consumers),
        ("or from the nearest replica", before.nearest_consumers, after.nearest_consumers),
    ]
    known = [(what, now, then) for what, now, then in changes if now is not None and then is not None]
    return tuple((what, format_rate(now), format_rate(then)) for what, now, then in known)


def copied_within_racks(candidate: ProposedCandidate) -> str:
    """`by chance about 1.17 TB; 85 leaders move themselves`; empty if nobody knows."""
    racks = candidate.between_racks
    if racks is None or not candidate.moved_bytes:
        return ""
    count = racks.leaders_copied
    leaders = "1 leader moves itself" if count == 1 else f"{format_count(count)} leaders move themselves"
    return f"by chance about {format_bytes(racks.copied_by_chance)}; {leaders}"


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
        sentences = [f"Lose broker {loss.lost} in batch {loss.batch}: {what} ({today}), {_topics(loss, named)}."]
    else:
        where = f"broker {loss.lost}, {_topics(loss, named)}" if loss.partitions else "any one broker"
        sentences = [f"While it runs, no loss of one broker is worse than today's worst: {what} ({where})."]
    after = course.after
    lost = f" (broker {after.lost})" if after.partitions else ""
    worse = ": worse than today" if course.ends_worse else ""
    sentences.append(f"Afterwards it is {_partitions(after.partitions)} at most{lost}{worse}.")
    for count, when in ((worst.under_now, "today"), (worst.under_after or 0, "afterwards")):
        if count:
            sentences.append(
                f"{_partitions(count)} {'is' if count == 1 else 'are'} under it {when} with every broker up."
            )
    return sentences


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


# The limits of a run, beside what a candidate uses of them.


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One limit in words. `share` is how much of it is used; None if a share says nothing."""

    name: str
    allowed: str
    used: str
    share: float | None


def limit_uses(
    policy: Policy | None, settings: Settings, candidate: CandidateReport, throttle: float | None
) -> tuple[LimitUse, ...]:
    """Each limit that binds this run: its settings, tightened by the policy, and limits of policy and controller.

    Without a policy: the limits that the requester set, and the controller's. `throttle` is in bytes per second.
    """
    uses = []
    if settings.max_bytes is not None:
        allowed, used = format_bytes(settings.max_bytes), candidate.moved_bytes
        if policy is not None:
            share, most = format_share(policy.max_bytes_share), format_bytes(policy.max_bytes)
            allowed += f" (policy: {share} of the cluster, at most {most})"
        uses.append(LimitUse("Bytes copied", allowed, format_bytes(used), _share(used, settings.max_bytes)))
    for name, limit, used in (
        ("Leader changes", settings.max_leader_changes, candidate.leader_changes),
        ("Replicas on a broker that gets some", settings.replicas_per_broker, _most_replicas(candidate)),
        ("Partitions in one batch", settings.partitions_per_batch or None, candidate.most_partitions_in_a_batch),
        ("Leader changes in one batch", settings.leader_changes_per_batch, candidate.most_leader_changes_in_a_batch),
    ):
        if limit is not None:
            uses.append(LimitUse(name, format_count(limit), format_count(used), _share(used, limit)))
    if candidate.controller_bytes is not None:
        bearable, rewritten = candidate.controller_bytes_allowed, candidate.controller_bytes
        name = "Znodes that the controller rewrites for one batch"
        allowed, part = f"{format_bytes(bearable)}, fixed", _share(rewritten, bearable)
        uses.append(LimitUse(name, allowed, format_bytes(rewritten), part))
    if candidate.copies_at_once is not None:
        limit, used = settings.copies[1], candidate.copies_at_once
        name = "Copies at once on one broker"
        uses.append(LimitUse(name, format_count(limit), format_count(used), _share(used, limit)))
    if policy is not None:
        fastest = policy.max_throttle_bytes_per_second
        allowed = f"{format_rate(policy.min_throttle_bytes_per_second)} to {format_rate(fastest)}"
        share_of_rate = None if throttle is None else _share(throttle, fastest)
        uses.append(LimitUse("Throttle of one broker", allowed, format_rate(throttle), share_of_rate))
    return tuple(uses)


def _most_replicas(candidate: CandidateReport) -> int:
    """On a broker that ends with more than it holds now: `replicas_per_broker` allows what others hold already."""
    ends = (broker.after.replicas for broker in candidate.brokers if broker.after.replicas > broker.before.replicas)
    return max(ends, default=0)


def _share(used: float, limit: float) -> float | None:
    """None if the limit is 0, and nothing is used."""
    if limit > 0:
        return used / limit
    return 1.0 if used else None


# The log dirs that may get fullest while a plan runs, on brokers with several.


def amount(peak: LogDirPeak, size_bytes: int) -> str:
    """In bytes, and as a share of the log dir if its size is known."""
    share = f" ({format_share(size_bytes / peak.total_bytes)})" if peak.total_bytes else ""
    return f"{format_bytes(size_bytes)}{share}"


def fullest_words(peaks: LogDirPeaks | None, named: Named) -> str:
    """The log dir that may get fullest, in a sentence; empty if there is none."""
    if peaks is None or not peaks.listed:
        return ""
    fullest = peaks.listed[0]
    where = f"{named(fullest.path)} of broker {fullest.broker}"
    expected, most = format_bytes(fullest.expected_bytes), format_bytes(fullest.nine_of_ten_bytes)
    if fullest.total_bytes:
        expected = format_share(fullest.expected_bytes / fullest.total_bytes)
        most = format_share(fullest.nine_of_ten_bytes / fullest.total_bytes)
    if expected == most:
        return f"{where}, {expected}"
    return f"{where}, {expected} expected, in nine of ten cases {most} at most"
