"""Bytes that each broker receives and sends for a plan's copies: so far, in all, and a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafka_rebalance.documents.reassignment.progress import BrokerTraffic
from kafka_rebalance.execution.follow.move_progress import PartitionProgress, Phase
from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import ReplicaBytes

RATE_SECONDS = 60.0  # over which a broker's rate is taken, as the whole batch's


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes by broker, of copies that come in and that go out."""

    received: Counter[int]
    sent: Counter[int]

    def __add__(self, other: Flow) -> Flow:
        return Flow(self.received + other.received, self.sent + other.sent)


class FlowSample(NamedTuple):
    """What had flowed at a time, in seconds of any clock that does not go back."""

    seconds: float
    flow: Flow


def planned(moves: Iterable[Move]) -> Flow:
    """All of what these moves copy. The leader of before sends every copy, as in the plan."""
    flow = Flow(Counter(), Counter())
    for move in moves:
        for broker in move.added:
            flow.received[broker] += move.size_bytes
            flow.sent[move.source] += move.size_bytes
    return flow


class TrafficSeen(NamedTuple):
    """Moves under way: `copied` as it is; `done` of `total` as the plan counts, by which the whole plan adds up."""

    copied: Flow
    done: Flow
    total: Flow


def seen(each: Sequence[PartitionProgress], sizes: ReplicaBytes) -> TrafficSeen:
    """What is in the ISR has arrived, whatever its size says. Of a topic that has grown since the plan was made, the
    planned bytes are done in the share in which those that there are now have arrived.
    """
    found = TrafficSeen(Flow(Counter(), Counter()), Flow(Counter(), Counter()), Flow(Counter(), Counter()))
    for one in each:
        added = one.move.added
        if not added:
            continue
        size = one.bytes_total // len(added)
        # Who leads may already be one of the new replicas, which sent nothing.
        source = one.leader if one.leader in one.move.before else one.move.source
        held = sizes.get(one.move.topic_partition, {})
        for broker in added:
            arrived = size if broker not in one.missing else min(held.get(broker, 0), size)
            share = arrived / size if size else float(broker not in one.missing)
            if one.phase in (Phase.REFUSED, Phase.TAKEN_BACK) and not one.bytes_copied:
                arrived, share = 0, 0.0  # gone, or never begun
            planned_bytes = one.move.size_bytes
            for flow, amount in zip(found, (arrived, round(share * planned_bytes), planned_bytes), strict=True):
                flow.received[broker] += amount
                flow.sent[source] += amount
    return found


def kept(samples: Sequence[FlowSample], now: float, flow: Flow) -> list[FlowSample]:
    """The samples with this one, oldest first; of those before the time of the rate, none."""
    return [*(one for one in samples if now - one.seconds <= RATE_SECONDS), FlowSample(now, flow)]


def by_broker(
    earlier: Flow, later: Flow, done: Flow, total: Flow, samples: Sequence[FlowSample]
) -> list[BrokerTraffic]:
    """Each broker over the whole plan in planned bytes, those with most left first.

    `earlier` and `later`: of batches that are over and that come; `done` and `total`: of the one under way; `samples`:
    what that one has copied, oldest first.
    """
    so_far, in_all = earlier + done, earlier + total + later
    brokers = in_all.received.keys() | in_all.sent.keys()
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
        for broker in brokers
    ]
    return sorted(found, key=lambda one: (-one.left, one.broker))


def _rate(samples: Sequence[FlowSample], broker: int, of: Callable[[Flow], Counter[int]]) -> float | None:
    """Never below 0: bytes may fall, by a truncation or by retention."""
    if not samples or samples[-1].seconds <= samples[0].seconds:
        return None
    (then, first), (now, last) = samples[0], samples[-1]
    return max(0.0, (of(last)[broker] - of(first)[broker]) / (now - then))
