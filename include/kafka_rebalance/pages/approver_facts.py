"""The facts for an approver, in words, for the page and the approval request: why, the verdict, the risk, the cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_rebalance.documents.proposals import (
    NOT_ESTIMATED,
    Diagnosis,
    FurtherBrokers,
    Leaving,
    Off,
    Reason,
    Recommendation,
    StaysBehind,
    Strays,
    Why,
    WorstCase,
)
from kafka_rebalance.documents.snapshot import (
    AutomaticElections,
    Cordon,
    GivesBack,
    KeptAway,
    LastProposal,
    SnapshotTaken,
    TieredTopic,
    TieredTopics,
)
from kafka_rebalance.model.candidate import Metric, noun_of
from kafka_rebalance.model.finding import listed
from kafka_rebalance.model.policy import Policy
from kafka_rebalance.model.settings import LEADERS_ALONE, REPLACE_LOG_DIR
from kafka_rebalance.moves.slow_brokers import often_in_words
from kafka_rebalance.pages.candidate_report import (
    METRICS,
    TITLES,
    CandidateReport,
    above_least_words,
    broker_loss_words,
    fullest_words,
    off_share,
    worst_case_words,
)
from kafka_rebalance.pages.run_report import RunReport
from kafka_rebalance.pages.units import (
    Named,
    about,
    format_bytes,
    format_count,
    format_duration,
    format_factor,
    format_rate,
    format_rates,
    format_share,
    format_time,
)
from kafka_rebalance.pages.windows import policy_window_words, window_words
from kafka_rebalance.run.approval_rules import BUTTONS
from kafka_rebalance.throttle.rates import NIC_SHARE, CandidateRates, free_bytes_per_second

KAFKA_ELECTS = "Kafka's own elections"
WINDOW = "Window"
TIERED = "Tiered topics"
STAYS_BEHIND = "Stays on brokers to be emptied"

_TIERED_NAMED = 3
_LEFT_OUT_NAMED = 3
_NAMED, _BUSY_NAMED = 5, 8  # brokers of unknown disk size, and brokers whose network is full: at most

_WHY_STAYS = {
    Reason.NOT_SELECTED: "topics_in and topics_out of the run, or of the policy, keep these topics out",
    Reason.INTERNAL: "these topics are Kafka's own, and internal_topics is not ticked",
    Reason.PINNED: "pinned_topics keeps these replicas where they are",
    Reason.ONLY_REORDERED: "this candidate only re-orders lists",
    Reason.NOT_MOVED: "this candidate does not move them",
}


@dataclass(frozen=True, slots=True)
class Brief:
    """Sentences, and facts as (name, text). Each is empty if nothing is known."""

    why: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    verdict: tuple[tuple[str, str], ...] = ()
    worst: tuple[str, ...] = ()
    cost: tuple[tuple[str, str], ...] = ()


def brief(report: RunReport, named: Named = str) -> Brief:
    """About the candidate in focus. `named` quotes the names of racks and topics."""
    focus, outlook = report.focus, report.outlook
    worst, loss = (None, None) if focus is None else (focus.worst_case, focus.broker_loss)
    lost = broker_loss_words(loss) if loss is not None else ""
    return Brief(
        _why_words(outlook, report.settings.job) if outlook is not None else (),
        _otherwise_words(outlook, report.settings.job, worst, named) if outlook is not None else (),
        _verdict(report, focus, named) if focus is not None else (),
        (*(worst_case_words(worst, named) if worst is not None else ()), *filter(None, [lost])),
        _cost(report, focus) if focus is not None else (),
    )


def _verdict(report: RunReport, focus: CandidateReport, named: Named) -> tuple[tuple[str, str], ...]:
    moves = format_count(focus.partitions, "move", "moves")
    batches = format_count(focus.batches, "batch", "batches")
    least = above_least_words(focus)
    facts = [("Copies", f"{format_bytes(focus.moved_bytes)} in {moves}, {batches}{least and f'; {least}'}")]
    facts.append(("Preferred leaders", f"{format_count(focus.leader_changes)} change"))
    stays = stays_words(focus.stays_behind or (), named)
    facts += [(STAYS_BEHIND, stays)] if stays else []
    elections = report.taken.automatic_elections
    if elections is not None and elections.brokers:
        facts.append((KAFKA_ELECTS, _kafka_elects(elections)))
    facts += snapshot_facts(report.taken, focus, named)
    if focus.planned_seconds is not None:
        finishes = report.finishes_in(focus)
        facts.append(("Takes", finishes or f"{about(focus.planned_seconds)} by the plan"))
        # From the first batch on, the page compares their progress with the window instead.
        window = "" if report.execution.batches else _window(report, focus)
        facts += [(WINDOW, window)] if window else []
    if focus.peak_disk_fraction is not None:
        facts.append(("Fullest disk meanwhile", f"{format_share(focus.peak_disk_fraction)}{_of_unknown_size(focus)}"))
    log_dir = fullest_words(focus.log_dirs, named)
    facts += [("Fullest log dir meanwhile", log_dir)] if log_dir else []
    if focus.gain is not None:
        metric, before, after = focus.gain
        change = f"{format_factor(before)} → {format_factor(after)}"
        facts.append(("Gain", f"{noun_of(metric)} of the highest broker {change} of its share"))
    return tuple(facts)


def snapshot_facts(taken: SnapshotTaken, focus: CandidateReport, named: Named) -> tuple[tuple[str, str], ...]:
    """What the snapshot found that binds the plan, where there is something."""
    facts = (
        ("Slow", "; ".join(f"{often_in_words(slow)}: it receives nothing" for slow in taken.slow_brokers)),
        ("Stays away", "" if taken.kept_away is None else _kept_away_words(taken.kept_away)),
        ("Other policies", _other_policies_words(taken.other_policies) if taken.other_policies else ""),
        (TIERED, "" if taken.tiered is None else tiered_words(taken.tiered, named)),
        ("Cordon", "" if taken.cordon is None else _cordon_words(taken.cordon, named)),
        ("Give back", _give_back_words(taken)),
        ("Gives back", "" if taken.gives_back is None else _gives_back_words(taken.gives_back, named)),
        ("Last plan", _since_last_words(taken.last_proposal, focus, named)),
    )
    return tuple(fact for fact in facts if fact[1])


def _give_back_words(taken: SnapshotTaken) -> str:
    """Of a demote how its leaders come back, and whether its approval counts for that too; else empty."""
    asked = taken.asked
    if not asked.is_demote:
        return ""
    again = f"after the restart, a run with job give_back elects broker {listed(asked.drain)} again, by today's lists"
    if not taken.approves_give_back:
        return f"{again}. It asks for an approval of its own"
    seconds = (taken.policy or {}).get("approval_expires_after_seconds", Policy(()).approval_expires_after_seconds)
    return (
        f"{again}. Who approves this plan approves that too, for {format_duration(seconds)}: nobody is asked again "
        "(demote_approves_give_back of the policy)"
    )


def _gives_back_words(back: GivesBack, named: Named) -> str:
    words = [
        f"the lists before run {named(back.run_id)}, which took leadership from broker {listed(back.brokers)}, in "
        f"{format_count(back.partitions, 'partition', 'partitions')}"
    ]
    words += [f"{format_count(back.unchanged)} more have their list already"] if back.unchanged else []
    if back.left_out:
        shown = ", ".join(named(text) for text in back.left_out[:_LEFT_OUT_NAMED])
        more = f" and {len(back.left_out) - _LEFT_OUT_NAMED} more" if back.left_out[_LEFT_OUT_NAMED:] else ""
        words.append(f"{format_count(len(back.left_out))} stay as they are: {shown}{more}")
    return "; ".join(words)


def _other_policies_words(connections: Sequence[str]) -> str:
    return f"This cluster is also {', '.join(connections)}, with another policy. The stricter limit of each counts"


def _cordon_words(cordon: Cordon, named: Named) -> str:
    """`named`: as for other values that come from the cluster."""
    sentences = []
    if cordon.brokers:
        sentences.append(
            f"{_brokers(map(str, cordon.brokers))} cordoned while the run lasts, so Kafka puts no new replica there"
        )
    if unknown := [broker for broker, words in cordon.cannot.items() if not words]:
        sentences.append(
            f"this Kafka cannot cordon broker {', '.join(unknown)}, so topics made meanwhile may be put there"
        )
    for broker, words in cordon.cannot.items():
        if words:
            sentences.append(f"Kafka does not let broker {broker} be cordoned: {named(words)}")
    return ". ".join(f"{sentence[0].upper()}{sentence[1:]}" for sentence in sentences)


def _brokers(names: Iterable[str]) -> str:
    several = list(names)
    return f"brokers {', '.join(several)} are" if len(several) > 1 else f"broker {several[0]} is"


def _kept_away_words(kept_away: KeptAway) -> str:
    replicas = format_count(kept_away.replicas, "replica does", "replicas do")
    return f"{replicas} not go back to where plans of the last {kept_away.days} days took them from"


def tiered_words(tiered: TieredTopics, named: Named) -> str:
    """How much of the topics with most bytes on disk is in remote storage alone, and what that means for a move."""
    parts = [_tiers_of(topic, named) for topic in tiered.largest[:_TIERED_NAMED]]
    if (more := tiered.topics - len(parts)) > 0:
        parts.append(f"{format_count(more, 'more topic', 'more topics')}")
    if tiered.unknown:
        of = f"{tiered.unknown} of {format_count(tiered.topics, 'topic', 'topics')}"
        why = next((topic.untold for topic in tiered.largest if topic.untold is not None), None)
        parts.append(f"of {of} the remote part is unknown{f' ({why})' if why else ''}, so their bytes in are estimated")
    return f"{'; '.join(parts)}. A move copies no more than the {'part' if tiered.topics == 1 else 'parts'} on disk"


def _tiers_of(topic: TieredTopic, named: Named) -> str:
    on_disk = f"{named(topic.topic)}: {format_bytes(topic.local_bytes)} on disk a replica of each partition"
    local, remote = topic.local_records, topic.remote_records
    if local is None or remote is None:
        return f"{on_disk}, an unknown part in remote storage"
    if not remote:
        return f"{on_disk}, nothing in remote storage alone"
    # Kafka tells offsets, and no bytes of what is remote.
    size = f", about {format_bytes(topic.local_bytes * remote / local)}" if local else ""
    return f"{on_disk}, {format_share(remote / (local + remote))} of its records in remote storage alone{size}"


def _since_last_words(last: LastProposal | None, focus: CandidateReport, named: Named) -> str:
    """How the plan differs from the last one; empty if there was none with this candidate."""
    if last is not None and last.unread is not None:
        whose = "whether there was a plan before" if last.run_id is None else f"the plan of run {named(last.run_id)}"
        return f"{whose} cannot be read, so this one was searched without it"
    since = focus.since_last
    if last is None or since is None:
        return ""
    moves = format_count(since.same + since.changed + since.new, "move is", "moves are")
    further = ((since.changed, "changed"), (since.new, "new"), (since.dropped, "dropped"))
    differs = "".join(f", {format_count(count)} {how}" for count, how in further if count)
    return f"since the plan of {format_time(last.observed_at)}, {format_count(since.same)} of {moves} the same{differs}"


def _kafka_elects(elections: AutomaticElections) -> str:
    seconds = elections.check_seconds
    every = "" if seconds is None else f", which it checks every {format_duration(seconds)}"
    return (
        f"the controller also elects preferred leaders by itself between batches{every} "
        "(auto.leader.rebalance.enable). It may elect leaders of topics outside this plan. "
        "leader_changes_per_batch does not limit it"
    )


def _of_unknown_size(focus: CandidateReport) -> str:
    """Which brokers are not part of the figure."""
    unknown = [broker.broker for broker in focus.brokers if broker.after.replicas and not broker.disk_capacity_bytes]
    if not unknown:
        return ""
    named = ", ".join(map(str, unknown[:_NAMED])) + (f" and {len(unknown) - _NAMED} more" if unknown[_NAMED:] else "")
    return f" of the disks whose size is known; it is not known for broker {named}"


def _window(report: RunReport, focus: CandidateReport) -> str:
    return "; ".join(filter(None, (window_words(report, focus), policy_window_words(report, focus))))


def _cost(report: RunReport, focus: CandidateReport) -> tuple[tuple[str, str], ...]:
    throttle, cost = report.throttle_of(focus), report.costs.get(focus.name)
    if not focus.moved_bytes:
        return ()
    facts = []
    if throttle is not None:
        lowest, slowest = report.lowest_throttle_of(focus), report.slowest_seconds(focus)
        words = f"{format_rates(lowest, throttle)} in and {format_rates(lowest, throttle)} out"
        if lowest is not None:
            words += ". The run begins at the lowest rate and itself chooses each broker's rate by what it sees"
        if slowest is not None:
            words += f". At the lowest rate alone it would take {format_duration(slowest)}"
        facts.append(("Throttle of one broker", words))
    if cost is not None:
        least = format_rate(cost.least_bytes_per_second)
        known = cost.least_bytes_per_second > 1  # else no traffic was measured
        smallest = f"{least} ({cost.reason})" if known else f"not known: {cost.reason}"
        facts.append(("Smallest at which every copy can end", smallest))
        facts.append(("Networks", _network_words(cost, throttle)))
    if focus.peak_disk_fraction is not None:
        facts.append(("Disks", _disks(report, focus)))
    return tuple(facts)


def _disks(report: RunReport, focus: CandidateReport) -> str:
    """What the fullest disk has left at its peak, and which disks exceed `disk_headroom`."""
    known = [(disk, disk.fullest, disk.capacity_bytes) for disk in focus.fullest_disks if disk.capacity_bytes]
    if not known:
        return f"the fullest is at {format_share(focus.peak_disk_fraction)}"
    disk, (peak, batch), capacity = known[0]
    when = f"in batch {batch}" if batch else "before the first batch"
    room = format_bytes(max(0, capacity - peak))
    words = f"broker {disk.broker} is fullest, {format_share(peak / capacity)} {when}: {room} left"
    allowed = 1 - report.settings.disk_headroom
    full = ", ".join(str(disk.broker) for disk, (peak, _), capacity in known if peak > allowed * capacity)
    return f"{words}; beyond {format_share(allowed)}: broker {full}" if full else words


def _network_words(cost: CandidateRates, throttle: float | None) -> str:
    """The busiest network at that throttle, and the networks at their limit."""
    network = cost.network
    if network is None:
        return "not known, because no traffic has been measured yet"
    if not network.tightest:
        return "not known, because the Airflow connection has no network capacities (broker_capacities)"
    some = ""
    if network.known < network.brokers:
        some = f" (known of {network.known} of {format_count(network.brokers, 'broker', 'brokers')})"
    tightest = network.tightest[0]
    used, whole = tightest.used_bytes_per_second, tightest.network_bytes_per_second
    carries = f"{format_rate(used)} of {format_rate(whole)} {tightest.way} now"
    if throttle is None:
        return f"broker {tightest.broker} has least left: {carries}{some}"
    meanwhile = (used + throttle) / whole
    words = f"broker {tightest.broker} has least left: {carries}, up to {format_share(meanwhile)} with the copies{some}"
    full = [use for use in network.tightest if free_bytes_per_second(use) < throttle]
    if not full:
        who = "every one of these" if some else "every broker"
        return f"{words}; {who} stays within {format_share(NIC_SHARE)}"
    names = ", ".join(str(use.broker) for use in full[:_BUSY_NAMED])
    more = len(full) - _BUSY_NAMED
    are_more = len(full) == len(network.tightest) < network.known
    beyond = f" and {more}{' or more' if are_more else ''} others" if more > 0 else ""
    return f"{words}; beyond {format_share(NIC_SHARE)}: broker {names}{beyond}"


def stays_words(staying: tuple[StaysBehind, ...], named: Named) -> str:
    """A sentence for each broker and reason, and the effect on the verification; empty if nothing stays."""
    if not staying:
        return ""
    sentences = [f"{_stays_one(stay, named)}." for stay in staying]
    return " ".join([*sentences, "The verification fails while such a broker holds anything of topics_in."])


def _stays_one(stay: StaysBehind, named: Named) -> str:
    topics = ", ".join(named(topic) for topic in stay.topics)
    more = stay.topic_count - len(stay.topics)
    others = f" and {format_count(more)} more" if more else ""
    replicas = format_count(stay.replicas, "replica", "replicas")
    return (
        f"Broker {stay.broker} keeps {replicas} ({format_bytes(stay.size_bytes)}) of "
        f"{'topic' if stay.topic_count == 1 else 'topics'} {topics}{others}: {_WHY_STAYS[stay.reason]}"
    )


# Why a plan is proposed: what is uneven in the snapshot, and what happens if nobody does anything.


METRICS_SAID, BROKERS_SAID = 3, 10
# What each of these jobs evens out, in the order of the sentences.
JOB_METRICS = {
    "balance": METRICS,
    "leaders": (Metric.LEADERS, Metric.LEADER_BYTES_OUT),
    "relieve": (Metric.DISK, Metric.BYTES_IN),
}
_SOON_DAYS = 365.0


def _why_words(outlook: Diagnosis, job: str) -> tuple[str, ...]:
    """What is uneven or wrong, in sentences. Of the loads, only those that the job evens out."""
    sentences = []
    if outlook.leaving is not None:
        sentences.append(_leaving_words(outlook.leaving, job))
    if outlook.strays is not None:
        sentences.append(_stray_words(outlook.strays))
    if outlook.rack_violations:
        count = format_count(outlook.rack_violations, "partition has", "partitions have")
        sentences.append(f"{count} replicas on fewer racks than possible.")
    about = JOB_METRICS.get(job, ())
    ordered = sorted(
        (off for off in outlook.off if off.metric in about and (off.above or off.below)),
        key=lambda off: about.index(off.metric),
    )
    sentences += [_off_words(off, outlook.tolerance) for off in ordered[:METRICS_SAID]]
    if not sentences and about:
        sentences.append(f"Every broker is within {format_share(outlook.tolerance)} of its share.")
    if outlook.fullest_disk is not None:
        disk = outlook.fullest_disk
        share = format_share(disk.used_share)
        sentences.append(
            f"The fullest disk is that of broker {disk.broker}: {share} of {format_bytes(disk.capacity_bytes)}."
        )
    return tuple(sentences)


def _leaving_words(leaving: Leaving, job: str) -> str:
    brokers, is_one = ", ".join(map(str, leaving.brokers)), len(leaving.brokers) == 1
    begins = f"Broker {brokers} {'is' if is_one else 'are'} to"
    if job not in LEADERS_ALONE:
        replicas = format_count(leaving.replicas, "replica", "replicas")
        return f"{begins} be emptied and {'holds' if is_one else 'hold'} {replicas}, {format_bytes(leaving.bytes)}."
    led = ""
    if leaving.leaders is not None:
        led = f" and {'leads' if is_one else 'lead'} {format_count(leaving.leaders, 'partition', 'partitions')}"
    return f"{begins} lead nothing{led}. {'It keeps its' if is_one else 'They keep their'} replicas."


def _stray_words(strays: Strays) -> str:
    where = "outside the pool of"
    replicas = format_count(strays.replicas, f"replica lies {where} its topic", f"replicas lie {where} their topic")
    brokers = ", ".join(map(str, strays.brokers[:BROKERS_SAID]))
    more = len(strays.brokers) - BROKERS_SAID
    others = f" and {format_count(more, 'other', 'others')}" if more > 0 else ""
    return f"{replicas}, on broker {brokers}{others}."


def _off_words(off: Off, tolerance: float) -> str:
    high, low = off.highest, off.lowest
    carried = []
    if high.share is not None:
        carried.append(f"broker {high.broker} carries {format_factor(high.share)} times its fair share")
    if low.share is not None and low.broker != high.broker:
        carried.append(f"broker {low.broker} {f'{format_factor(low.share)} times' if low.share else 'nothing'}")
    is_are = {count: format_count(count, "broker is", "brokers are") for count in (off.above, off.below)}
    beyond = [f"{is_are[off.above]} more than {format_share(tolerance)} above it"] if off.above else []
    if off.below:
        below = f"{is_are[off.below]} more than {format_share(tolerance)} below it"
        beyond.append(f"{format_count(off.below)} below" if off.above else below)
    return f"{noun_of(off.metric).capitalize()}: {', '.join(carried)}; {', '.join(beyond)}."


def _otherwise_words(outlook: Diagnosis, job: str, worst: WorstCase | None, named: Named) -> tuple[str, ...]:
    """What happens if nobody does anything, in sentences."""
    sentences = []
    first = outlook.first_full
    if first is not None:
        grows = f"it grows by {format_bytes(first.growth_bytes_per_day)} a day by the ledger's samples"
        days = "a day" if first.days < 1.5 else format_count(first.days, "day", "days")
        if first.days <= _SOON_DAYS:
            sentences.append(f"The disk of broker {first.broker} is full in about {days}: {grows}.")
        else:
            sentences.append(f"No disk is full within a year; that of broker {first.broker} is first, {grows}.")
    needed = (outlook.further_brokers, *outlook.further_brokers_of_pools)
    sentences += [_further_words(further) for further in needed if further is not None and any(further.brokers)]
    rack = worst.rack if worst is not None else None
    if rack is not None and rack.today.partitions:
        lost = format_count(rack.today.partitions, "partition", "partitions")
        sentences.append(f"Losing rack {named(str(rack.today.lost))} takes the last replica in sync from {lost}.")
    if outlook.leaving is not None and job not in LEADERS_ALONE:
        brokers = ", ".join(map(str, outlook.leaving.brokers))
        sentences.append(f"Broker {brokers} cannot be switched off without losing replicas.")
    if not sentences:
        ordered = sorted(
            (off for off in outlook.off if off.metric in METRICS), key=lambda off: METRICS.index(Metric(off.metric))
        )
        off = max(ordered, key=lambda spread: spread.highest.share or 0.0, default=None)  # the first of equals
        if off is not None and off.above and off.highest.share is not None:
            carries = f"{format_factor(off.highest.share)} times its share of {noun_of(off.metric)}"
            sentences.append(f"Broker {off.highest.broker} goes on carrying {carries}.")
        else:
            sentences.append("By what is known of this cluster, nothing gets worse.")
    return tuple(sentences)


def _further_words(further: FurtherBrokers) -> str:
    """How many brokers to add, by days."""
    needed = [
        f"{format_count(count)} for {days} days" if count else f"none for {days} days"
        for days, count in zip(further.days, further.brokers, strict=True)
    ]
    who = "the cluster" if further.pool is None else f"the pool of {further.pool}"
    return (
        f"To keep evenly used disks below {format_share(further.share)}, {who} needs further brokers of "
        f"{format_bytes(further.capacity_bytes)}: {', '.join(needed)}."
    )


# Why a candidate is recommended, or why none is; what the next candidates offer, and what remains undone.


_NOBODY = {
    Why.NOTHING_CHANGES: "none of the planner's own candidates changes anything",
    Why.WITHIN_ALREADY: "the job is already done, and the brokers are within the tolerance",
    Why.NOT_POSSIBLE: "the job cannot be done. The notes of the candidates say why",
    Why.FAILED: "planning failed, so it is unknown whether the job can be done. The notes of the candidates have the "
    "errors",
    Why.NOTHING_NEARER: "no candidate brings the cluster nearer to what was asked for",
    Why.GIVEN_IS_LESS_EVEN: "the planner's own candidates change nothing, and the given plan ends less even than the "
    "cluster is now",
    Why.GIVEN_FALLS_SHORT: "the planner's own candidates change nothing, and the given plan does not do the job",
}
_UNDONE = {  # by job: the words for one thing that remains undone, and for several
    "drain": ("replica stays on brokers to be emptied", "replicas stay on brokers to be emptied"),
    "replace": ("replica stays on replaced brokers", "replicas stay on replaced brokers"),
    "replication_factor": ("partition keeps another factor", "partitions keep another factor"),
    REPLACE_LOG_DIR: ("replica stays on a log dir that is offline", "replicas stay on log dirs that are offline"),
    "relieve": ("disk stays above relieve_above", "disks stay above relieve_above"),
}

NEARLY_AS_EVEN = 0.005  # of a share: rounding hides a smaller difference


def why_aside(report: RunReport) -> dict[str, str]:
    """{candidate without a button: how it differs from the recommended one, and how to get a button}"""
    best = report.best
    rest = f"No button in the request, which has room for {BUTTONS}: name it in candidates to have one."
    reasons = {}
    for candidate in report.candidates:
        if candidate.name in report.aside:
            differences = _differences(candidate, best) if best is not None else []
            reasons[candidate.name] = (
                f"Against {best.name}: {', '.join(differences)}. {rest}" if best and differences else rest
            )
    return reasons


def _differences(candidate: CandidateReport, best: CandidateReport) -> list[str]:
    differences = []
    more = candidate.moved_bytes - best.moved_bytes
    if more:
        differences.append(f"copies {format_bytes(abs(more))} {'more' if more > 0 else 'less'}")
    ours, theirs = off_share(candidate), off_share(best)
    if ours is not None and theirs is not None and abs(ours - theirs) >= NEARLY_AS_EVEN:
        differences.append(
            f"{'less' if ours > theirs else 'more'} even (furthest broker {format_share(ours)} off its share, "
            f"not {format_share(theirs)})"
        )
    leaders = candidate.leader_changes - best.leader_changes
    if leaders:
        count = format_count(abs(leaders), "leader change", "leader changes")
        differences.append(f"{count} {'more' if leaders > 0 else 'fewer'}")
    return differences


def recommendation_words(report: RunReport) -> tuple[str, ...]:
    """Which candidate to take and why, then what the next ones offer; empty without a plan."""
    recommendation, chosen = report.recommendation, report.best
    if chosen is None:
        return (
            (f"Nothing is recommended: {_NOBODY[recommendation.why]}.",)
            if recommendation is not None and recommendation.why in _NOBODY
            else ()
        )
    gain = _gain(chosen)
    if recommendation is None:
        return (f"{chosen.title} is recommended" + (f": {gain}." if gain else "."),)
    sentences = [f"{chosen.title} is recommended: {_because(recommendation, chosen)}."]
    sentences += [f"{gain[0].upper()}{gain[1:]}."] if gain else []
    job, violations = report.settings.job, recommendation.rack_violations
    if recommendation.undone and job in _UNDONE:
        sentences.append(f"{format_count(recommendation.undone, *_UNDONE[job])}.")
    if violations:
        sentences.append(
            f"{format_count(violations, 'partition still breaks', 'partitions still break')} the rack rule."
        )
    for kind, other in (("cheaper", recommendation.cheaper), ("more even", recommendation.more_even)):
        if other is not None:
            sentences.append(
                f"{TITLES.get(other.candidate, other.candidate)} is the next {kind} one: it copies "
                f"{format_bytes(other.bytes)} and leaves the worst broker {format_share(other.furthest)} off its share."
            )
    return tuple(sentences)


def _because(recommendation: Recommendation, chosen: CandidateReport) -> str:
    tolerance, copies = format_share(recommendation.tolerance), format_bytes(chosen.moved_bytes)
    before, after = (
        (recommendation.furthest.before, recommendation.furthest.after) if recommendation.furthest else (0.0, 0.0)
    )
    if recommendation.why is Why.CHEAPEST:
        within = f"within {tolerance}" + (" or one replica" if after > recommendation.tolerance + 5e-4 else "")
        return f"of the candidates that do the job {within}, it copies the fewest bytes"
    if recommendation.why is Why.FEWEST_BYTES:
        return (
            "the run prefers the fewest bytes (prefer), and of the candidates that do the job it copies the fewest. It "
            f"leaves the worst broker {format_share(after)} off its share; the tolerance is {tolerance}"
        )
    if recommendation.why is Why.JOB_ALONE:
        return (
            "it does the job and no more: of the candidates that do it, and leave the cluster as even as it is, it "
            f"copies the fewest bytes. It leaves the worst broker {format_share(after)} off its share, now it is "
            f"{format_share(before)}"
        )
    if recommendation.why is Why.NEAREST:
        return (
            f"no candidate does the job within {tolerance}, and this one comes nearest. For {copies} copied, the worst "
            f"broker goes from {format_share(before)} to {format_share(after)} off its share"
        )
    return "the planner's own candidates change nothing, and it ends as even as the cluster is now"


def _gain(chosen: CandidateReport) -> str:
    """How far the load of the highest broker falls, for the resource where it falls most."""
    if chosen.gain is None:  # no load falls, as when a broker is emptied or racks are repaired
        return ""
    metric, before, after = chosen.gain
    return (
        f"for {format_bytes(chosen.moved_bytes)} copied, the highest broker goes from {before:.2f} to {after:.2f} of "
        f"its share of {noun_of(metric)}"
    )


def further_runs_words(report: RunReport, candidate: CandidateReport) -> str:
    """How many more runs with the same limit reach the tolerance; empty if none is needed."""
    more, limit = candidate.further_runs, report.settings.max_bytes
    if more is None or more == NOT_ESTIMATED or limit is None:
        return ""
    runs = format_count(more.runs, "more run", "more runs")
    return (
        f"max_bytes ({format_bytes(limit)}) stops this run short. About {runs} of that size are needed to be within "
        f"{format_share(report.settings.tolerance)}: at least {format_bytes(more.bytes)} are left to copy."
    )


def less_even_words(candidate: CandidateReport) -> str:
    """The warning for a plan that ends less even than the cluster is now; empty for others."""
    worse = candidate.less_even
    if worse is None:
        return ""
    before, after = (
        f"{format_factor(low)}–{format_factor(high)}"
        for low, high in ((worse.before.lowest, worse.before.highest), (worse.after.lowest, worse.after.highest))
    )
    name = noun_of(worse.metric)
    return f"This plan ends less even than the cluster is now: {name} {before} of the fair share become {after}."
