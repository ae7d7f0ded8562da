"""Bytes that each broker receives and sends for a plan's copies: so far, in all, and per second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_rebalance.documents.progress import BrokerTraffic
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import ReplicaBytes
from kafka_rebalance.moves.eta import received_and_sent
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase

RATE_SECONDS = 60.0  # a broker's rate is that of the last minute, as the whole batch's


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes of copies, by broker."""

    received: Counter[int]
    sent: Counter[int]

    def __add__(self, other: Flow) -> Flow:
        return Flow(self.received + other.received, self.sent + other.sent)


class FlowSample(NamedTuple):
    seconds: float  # of any clock that does not go back
    flow: Flow


def planned(moves: Iterable[Move]) -> Flow:
    return Flow(*received_and_sent(moves))


class TrafficSeen(NamedTuple):
    """Of the moves under way."""

    copied: Flow  # in bytes as they are now
    done: Flow  # in bytes as the plan counts them, so that the whole plan adds up
    total: Flow  # as `done`


def seen(each: Sequence[PartitionProgress], sizes: ReplicaBytes) -> TrafficSeen:
    """A copy in the ISR has arrived, whatever its size is. If a topic has grown since the plan was made, the share of
    its planned bytes that is done is the share of today's bytes that has arrived.
    """
    found = TrafficSeen(Flow(Counter(), Counter()), Flow(Counter(), Counter()), Flow(Counter(), Counter()))
    for one in each:
        added = one.move.added
        if not added:
            continue
        size = one.bytes_total // len(added)
        # The leader may already be one of the new replicas, which sent nothing.
        source = one.leader if one.leader in one.move.before else one.move.source
        held = sizes.get(one.move.topic_partition, {})
        for broker in added:
            arrived = size if broker not in one.missing else min(held.get(broker, 0), size)
            share = arrived / size if size else float(broker not in one.missing)
            if one.phase in (Phase.REFUSED, Phase.TAKEN_BACK) and not one.bytes_copied:
                arrived, share = 0, 0.0  # thrown away, or never begun
            planned_bytes = one.move.size_bytes
            for flow, amount in zip(found, (arrived, round(share * planned_bytes), planned_bytes), strict=True):
                flow.received[broker] += amount
                flow.sent[source] += amount
    return found


def recent_samples(samples: Sequence[FlowSample], now: float, flow: Flow) -> list[FlowSample]:
    """The samples of the last RATE_SECONDS with this one, oldest first."""
    return [*(sample for sample in samples if now - sample.seconds <= RATE_SECONDS), FlowSample(now, flow)]


def by_broker(
    earlier: Flow, later: Flow, done: Flow, total: Flow, samples: Sequence[FlowSample]
) -> list[BrokerTraffic]:
    """Each broker over the whole plan in planned bytes, those with most left first.

    `earlier` and `later`: of earlier and later batches. `done` and `total`: of the batch under way. `samples`: its
    copies, oldest first.
    """
    so_far, in_all = earlier + done, earlier + total + later
    found = [
        BrokerTraffic(
            broker,
            so_far.received[broker],
            in_all.received[broker],
            _rate(samples, broker, lambda flow: flow.received) if total.received[broker] else None,
            so_far.sent[broker],
            in_all.sent[broker],
            _rate(samples, broker, lambda flow: flow.sent) if total.sent[broker] else None,
        )
        for broker in in_all.received.keys() | in_all.sent.keys()
    ]
    return sorted(found, key=lambda one: (-one.left, one.broker))


def _rate(samples: Sequence[FlowSample], broker: int, of: Callable[[Flow], Counter[int]]) -> float | None:
    copied = [Sample(seconds, of(flow)[broker]) for seconds, flow in samples]
    return rate_and_eta(copied, 0, window_seconds=RATE_SECONDS).bytes_per_second


# When the batch under way will be over, by the pace of the last minute.


class Sample(NamedTuple):
    seconds: float  # of any clock that does not go back
    bytes_copied: int


class Rate(NamedTuple):
    """None: not known."""

    bytes_per_second: float | None
    eta_seconds: float | None


def rate_and_eta(samples: Sequence[Sample], bytes_total: int, *, window_seconds: float = 60.0) -> Rate:
    """The rate over the last `window_seconds` of samples, oldest first, and the time left.

    Bytes may fall (truncation, retention, a replica that is copied again): then the rate is 0 and the end is not known.
    """
    if not samples:
        return Rate(None, None)
    now, copied = samples[-1]
    start, first = next(sample for sample in samples if sample.seconds >= now - window_seconds)
    if now <= start:
        return Rate(None, None)
    rate = max(0.0, (copied - first) / (now - start))
    left = max(0, bytes_total - copied)
    if not left:
        return Rate(rate, 0.0)
    return Rate(rate, left / rate if rate > 0 else None)
