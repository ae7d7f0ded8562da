"""When each broker receives and sends while a plan runs, and when each batch begins. Times are shares of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

# One broker: bytes, the first and last batch in which it works, and [slot] shares of the throttle that it uses.
# `busy`: of the time, the share that it needs at the throttle. (`in` is no name of a dataclass's field.)
BrokerLane = TypedDict(
    "BrokerLane",
    {
        "broker": int,
        "received_bytes": int,
        "sent_bytes": int,
        "first_batch": int,
        "last_batch": int,
        "busy": float,
        "in": tuple[float, ...],
        "out": tuple[float, ...],
    },
)


@dataclass(frozen=True, slots=True)
class BatchSlot:
    """One batch, from `begins` on for `lasts`; `busiest` None: it copies nothing."""

    number: int
    partitions: int
    bytes: int
    begins: float
    lasts: float
    busiest: int | None


@dataclass(frozen=True, slots=True)
class Timetable:
    """The brokers with most to do, and the first batches, of so many."""

    broker_count: int
    brokers: tuple[BrokerLane, ...]
    batch_count: int
    batches: tuple[BatchSlot, ...]
