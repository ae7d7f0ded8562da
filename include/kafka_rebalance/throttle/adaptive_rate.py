"""Which rate each broker gets, of a run whose approval has a range of rates: the rules, without any client.

A look gives a `Sight` of the whole cluster. Signs in it are judged by the table `RULES`. Each rule asks for a step, of
all brokers or of those that the sign is about. For each broker the lowest step counts. So rates fall fast, and rise by
one rung at a time, after looks that showed nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from kafka_rebalance.documents.rate_steps import BrokerPace, GroupPast, Memory, Reason, Sign
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.run.approval_rules import Decision
from kafka_rebalance.throttle.rates import NIC_SHARE

# The rates that a broker may have. The lease has them before the first one is set, so that each is known to be ours.


RUNG = math.sqrt(2)  # the most that one rate is above the one below it
MOST_RUNGS = 64


def rate_ladder(lowest: int, highest: int) -> tuple[int, ...]:
    """The rates of a range, both ends among them, ascending by equal factors of at most RUNG; empty if it has one rate.

    Raises ValueError if the ends are in the wrong order.
    """
    if lowest > highest:
        raise ValueError(f"a range from {lowest} to {highest}")
    if lowest == highest:
        return ()
    steps = min(MOST_RUNGS - 1, max(1, math.ceil(math.log(highest / lowest) / math.log(RUNG) - 1e-9)))
    between = (round(lowest * (highest / lowest) ** (step / steps)) for step in range(1, steps))
    return tuple(sorted({lowest, *between, highest}))


def ladder_of(decision: Decision) -> tuple[int, ...]:
    """Of the approved range; empty if the approval has one rate, or has none because nothing is copied."""
    return () if decision.throttle_from_bytes_per_second is None else rate_ladder(decision.lowest_rate, decision.rate)


# What one look has seen.


ISR, ANSWERS, LAGS, NETWORK, LATENCY = "isr", "answers", "lags", "network_use", "produce_latency"  # parts of a look


@dataclass(frozen=True, slots=True)
class ShortPartition:
    """A partition that lacks replicas in its ISR, besides those that the run's own moves explain."""

    topic_partition: TopicPartition
    leader: int
    missing: tuple[int, ...]  # brokers whose replica is out of the ISR
    in_sync: int
    min_in_sync: int | None  # min.insync.replicas; None: nobody told it
    eligible: int = 0  # replicas that Kafka keeps beside the ISR as eligible leaders (KIP-966)

    @property
    def is_under_min(self) -> bool:
        """Kafka keeps eligible leaders only of a partition that has fewer in sync than it must have."""
        return self.eligible > 0 or (self.min_in_sync is not None and self.in_sync < self.min_in_sync)

    @property
    def is_at_min(self) -> bool:
        return self.min_in_sync is None or self.in_sync <= self.min_in_sync


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has committed in all, and the records that it has yet to read."""

    committed: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The whole cluster at one moment. Times are in seconds. A part that is None could not be read (`unread`)."""

    at: float  # seconds since 1970
    copying: frozenset[int] = frozenset()  # brokers between which the run copies now
    short: tuple[ShortPartition, ...] | None = ()
    answers: Mapping[int, float | None] = field(default_factory=dict)  # by broker; None: it does not answer
    lags: Mapping[str, GroupLag] | None = field(default_factory=dict)  # by group
    network: Mapping[int, float] | None = field(default_factory=dict)  # share in use, of brokers that are measured
    latency: Mapping[int, float] | None = field(default_factory=dict)  # of produce requests
    unread: Mapping[str, str] = field(default_factory=dict)  # what could not be read: why


# What a sign asks for.


class Step(StrEnum):
    """From the lowest on. Of several, the first counts."""

    LOWEST = "lowest"
    HALVE = "halve"
    DOWN = "down"
    STAY = "stay"
    UP = "up"


_ORDER = tuple(Step)
_RUNGS = {Step.HALVE: -2, Step.DOWN: -1, Step.STAY: 0, Step.UP: 1}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a sign asks for. `waits`: no new move begins while it is seen. `is_load`: the rate itself may cause it, so
    the broker does not return to that rate for `PROBE_SECONDS`.
    """

    sign: Sign
    step: Step
    waits: bool = False
    is_load: bool = False


RULES = (
    Rule(Sign.UNDER_MIN_ISR, Step.LOWEST, waits=True),
    Rule(Sign.AT_MIN_ISR, Step.LOWEST, waits=True),
    Rule(Sign.ISR_UNREAD, Step.STAY),
    Rule(Sign.FELL_OUT, Step.HALVE, is_load=True),
    Rule(Sign.UNDER_REPLICATED, Step.STAY),
    Rule(Sign.SLOW_ANSWER, Step.HALVE, is_load=True),
    Rule(Sign.NO_ANSWER, Step.HALVE, is_load=True),
    Rule(Sign.FULL_NETWORK, Step.DOWN, is_load=True),
    Rule(Sign.SLOW_PRODUCE, Step.HALVE, is_load=True),
    Rule(Sign.LAG_GROWS, Step.DOWN, is_load=True),
    Rule(Sign.UNREAD, Step.STAY),
    Rule(Sign.IDLE, Step.STAY),
    Rule(Sign.SETTLING, Step.STAY),
    Rule(Sign.PROBED, Step.STAY),
    Rule(Sign.CALM, Step.UP),
)
_RULE_OF = {rule.sign: rule for rule in RULES}

# An answer counts as slow, and a produce request too, if it takes so many times its quiet time and is so much longer.
SLOW_FACTOR, SLOW_SECONDS = 3.0, 0.05
PRODUCE_FACTOR, PRODUCE_SECONDS = 2.0, 0.01
LAG_LOOKS = 3  # a group's lag grows if it has grown at so many looks in a row
LAG_FACTOR = 2.0  # and is so many times the most that it was while the run was quiet
SETTLE_LOOKS = 2  # that show nothing, after a fall, before a rate rises again
PROBE_SECONDS = 600.0  # after a fall for load, a broker does not get the rate again at which that was seen,
MOST_PROBE_SECONDS = 4800.0  # and for twice as long each time that the rate proves too high again
QUIET_KEPT, LEAST_QUIET = 9, 3  # looks by which a quiet time is known: at the lowest rate, and the first ones
GROUPS_KEPT = 200  # those with the largest lags


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rates after a look. `reasons`: why, of each broker that gets another one. `held_by`: why no rate rises that
    could. `waiting_for`: the partitions that new moves wait for; None: new moves may begin.
    """

    rates: Mapping[int, int]
    reasons: Mapping[int, tuple[Reason, ...]]
    held_by: tuple[Reason, ...]
    waiting_for: tuple[ShortPartition, ...] | None


def choose(ladder: Sequence[int], memory: Memory, sight: Sight, now: Mapping[int, int]) -> tuple[Memory, Chosen]:
    """What the next look has to know, and the rates that brokers get after this one.

    `now`: the rates that brokers have, each one of the ladder. Without any, only new moves are judged.
    """
    paces = {pace.broker: pace for pace in memory.paces}
    groups = _groups_after(memory, sight, is_quiet=all(rate == ladder[0] for rate in now.values()))
    signs = tuple(_signs(memory, paces, groups, sight))
    rates: dict[int, int] = {}
    reasons: dict[int, tuple[Reason, ...]] = {}
    held: dict[Reason, None] = {}
    slow = frozenset(sign.reason.broker for sign in signs)
    for broker, rate in sorted(now.items()):
        of_broker = [sign.reason for sign in signs if sign.brokers is None or broker in sign.brokers]
        if broker not in sight.copying:
            of_broker.append(Reason(Sign.IDLE))
        if memory.looked_at is None:
            of_broker.append(Reason(Sign.SETTLING))
        pace = paces.get(broker, BrokerPace(broker))
        rates[broker], paces[broker], why = _next_rate(ladder, pace, rate, of_broker, sight.at)
        if rates[broker] != rate:
            reasons[broker] = why
        elif rate != ladder[-1]:
            held.update(dict.fromkeys(why))
    for broker in sight.answers.keys() | paces.keys():
        is_quiet = rates.get(broker, ladder[0]) == ladder[0] and broker not in slow
        paces[broker] = _heard(paces.get(broker, BrokerPace(broker)), sight, is_quiet=is_quiet)
    behind = memory.behind if sight.short is None else tuple(sorted(_behind(sight.short).items()))
    after = replace(
        memory,
        looked_at=sight.at,
        behind=behind,
        paces=tuple(paces[broker] for broker in sorted(paces)),
        groups=groups,
    )
    return after, Chosen(rates, reasons, tuple(held), _waiting_for(sight, signs))


def _next_rate(
    ladder: Sequence[int], pace: BrokerPace, rate: int, reasons: Sequence[Reason], at: float
) -> tuple[int, BrokerPace, tuple[Reason, ...]]:
    """(the broker's rate, its pace, the reasons that decided)"""
    asked = [(_RULE_OF[reason.sign].step, reason) for reason in reasons]
    step = min((step for step, _ in asked), key=_ORDER.index, default=Step.UP)
    why = tuple(reason for of_reason, reason in asked if of_reason is step)
    rung = ladder.index(rate)
    if step is Step.STAY:
        return rate, pace, why
    if step is Step.UP:
        if pace.settle > 0:
            return rate, replace(pace, settle=pace.settle - 1), (Reason(Sign.SETTLING),)
        above = ladder[min(len(ladder) - 1, rung + 1)]
        if pace.ceiling is not None and at < pace.ceiling_until and above >= pace.ceiling:
            return rate, pace, (Reason(Sign.PROBED, float(pace.ceiling)),)
        return above, pace, (Reason(Sign.CALM),)
    pace = replace(pace, settle=SETTLE_LOOKS)
    if rung and any(_RULE_OF[reason.sign].is_load for reason in why):
        again = pace.ceiling is not None and rate <= pace.ceiling and at < pace.ceiling_until + pace.ceiling_seconds
        seconds = min(2 * pace.ceiling_seconds, MOST_PROBE_SECONDS) if again else PROBE_SECONDS
        pace = replace(pace, ceiling=rate, ceiling_seconds=seconds, ceiling_until=at + seconds)
    return ladder[0 if step is Step.LOWEST else max(0, rung + _RUNGS[step])], pace, why


def _heard(pace: BrokerPace, sight: Sight, *, is_quiet: bool) -> BrokerPace:
    """With the times that later ones are held against: slow ones are none of them."""
    answer, latency = sight.answers.get(pace.broker), (sight.latency or {}).get(pace.broker)
    return replace(
        pace,
        answers=_quiet_times(pace.answers, answer, is_quiet=is_quiet),
        latencies=_quiet_times(pace.latencies, latency, is_quiet=is_quiet),
    )


def _quiet_times(before: tuple[float, ...], seconds: float | None, *, is_quiet: bool) -> tuple[float, ...]:
    if seconds is None or (not is_quiet and len(before) >= LEAST_QUIET):
        return before
    return (*before, seconds)[-QUIET_KEPT:]


def _groups_after(memory: Memory, sight: Sight, *, is_quiet: bool) -> tuple[GroupPast, ...]:
    """Only groups that commit: the lag of a group that nobody reads in grows without end. As before if unread."""
    if sight.lags is None:
        return memory.groups
    before = {past.group: past for past in memory.groups}
    groups = []
    for group, lag in sight.lags.items():
        past = before.get(group, GroupPast(group, lag.committed, (), lag.records))
        grows = lag.committed > past.committed and bool(past.looks) and lag.records > past.looks[-1]
        looks = (*past.looks, lag.records)[-LAG_LOOKS - 1 :] if grows else (lag.records,)
        quiet = max(past.quiet, lag.records) if is_quiet else past.quiet
        groups.append(GroupPast(group, lag.committed, looks, quiet))
    return tuple(sorted(groups, key=lambda past: (-past.looks[-1], past.group))[:GROUPS_KEPT])


# Which signs a look shows.


@dataclass(frozen=True, slots=True)
class _Seen:
    reason: Reason
    brokers: frozenset[int] | None = None  # that it is about; None: all


def _signs(
    memory: Memory, paces: Mapping[int, BrokerPace], groups: Sequence[GroupPast], sight: Sight
) -> Iterator[_Seen]:
    if sight.short is None:
        yield _Seen(Reason(Sign.ISR_UNREAD, what=sight.unread.get(ISR, "")))
    else:
        yield from _of_partitions(memory, sight.short)
    for broker in sorted({*sight.answers, *(sight.network or ()), *(sight.latency or ())}):
        yield from _of_broker(paces.get(broker, BrokerPace(broker)), sight)
    for past in groups:
        if len(past.looks) > LAG_LOOKS and past.looks[-1] > LAG_FACTOR * past.quiet:
            yield _Seen(Reason(Sign.LAG_GROWS, float(past.looks[-1]), float(past.quiet), what=past.group))
    for what in sorted(sight.unread.keys() - {ISR}):
        yield _Seen(Reason(Sign.UNREAD, what=what))


def _of_partitions(memory: Memory, short: Sequence[ShortPartition]) -> Iterator[_Seen]:
    under = [one for one in short if one.is_under_min]
    at_min = [one for one in short if one.is_at_min and not one.is_under_min]
    for sign, partitions in ((Sign.UNDER_MIN_ISR, under), (Sign.AT_MIN_ISR, at_min), (Sign.UNDER_REPLICATED, short)):
        if partitions:
            yield _Seen(_named(sign, partitions))
    before = dict(memory.behind)
    fell = {broker for broker, count in _behind(short).items() if count > before.get(broker, 0)}
    if fell and memory.looked_at is not None:
        out = [one for one in short if fell & set(one.missing)]
        yield _Seen(_named(Sign.FELL_OUT, out), frozenset(fell | {one.leader for one in out}))


def _named(sign: Sign, partitions: Sequence[ShortPartition]) -> Reason:
    return Reason(sign, float(len(partitions)), what=str(min(one.topic_partition for one in partitions)))


def _behind(short: Iterable[ShortPartition]) -> Counter[int]:
    """The replicas of each broker that are out of the ISR."""
    return Counter(broker for one in short for broker in one.missing)


def _of_broker(pace: BrokerPace, sight: Sight) -> Iterator[_Seen]:
    broker, alone = pace.broker, frozenset((pace.broker,))
    if broker in sight.answers:
        answer = sight.answers[broker]
        if answer is None:
            yield _Seen(Reason(Sign.NO_ANSWER, broker=broker), alone)
        elif _is_slow(answer, pace.answers, SLOW_FACTOR, SLOW_SECONDS):
            yield _Seen(Reason(Sign.SLOW_ANSWER, answer, median(pace.answers), broker), alone)
    use, latency = (sight.network or {}).get(broker), (sight.latency or {}).get(broker)
    if use is not None and use > NIC_SHARE:
        yield _Seen(Reason(Sign.FULL_NETWORK, use, NIC_SHARE, broker), alone)
    if latency is not None and _is_slow(latency, pace.latencies, PRODUCE_FACTOR, PRODUCE_SECONDS):
        yield _Seen(Reason(Sign.SLOW_PRODUCE, latency, median(pace.latencies), broker), alone)


def _is_slow(seconds: float, quiet: Sequence[float], factor: float, more: float) -> bool:
    return bool(quiet) and seconds > max(factor * median(quiet), median(quiet) + more)


def _waiting_for(sight: Sight, signs: Iterable[_Seen]) -> tuple[ShortPartition, ...] | None:
    if not any(_RULE_OF[sign.reason.sign].waits for sign in signs):
        return None
    return tuple(one for one in sight.short or () if one.is_at_min or one.is_under_min)
