"""When each broker receives and sends while a plan runs, and when each batch begins. Times are shares of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_rebalance.documents.json_object import Document


@dataclass(frozen=True, slots=True)
class BrokerLane:
    """One broker: bytes, the first and last batch in which it works, and [slot] shares of the throttle that it uses.

    `busy`: of the time, the share that it needs at the throttle.
    """

    broker: int
    received_bytes: int
    sent_bytes: int
    first_batch: int
    last_batch: int
    busy: float
    received: tuple[float, ...]
    sent: tuple[float, ...]


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

    brokers: tuple[BrokerLane, ...] = ()
    broker_count: int = 0
    batches: tuple[BatchSlot, ...] = ()
    batch_count: int = 0


def read_timetable(candidate: Document) -> Timetable:
    """Of a candidate of `proposals.json`; empty where the plan is of a version that did not write it."""
    if "timetable" not in candidate.content:
        return Timetable()
    part = candidate.part("timetable")
    return Timetable(
        tuple(_lane(one) for one in part.parts("brokers")),
        part.count("broker_count"),
        tuple(_slot(one) for one in part.parts("batches")),
        part.count("batch_count"),
    )


def _lane(one: Document) -> BrokerLane:
    return BrokerLane(
        one.count("broker"),
        one.count("received_bytes"),
        one.count("sent_bytes"),
        one.count("first_batch"),
        one.count("last_batch"),
        one.number("busy"),
        one.numbers("in"),
        one.numbers("out"),
    )


def _slot(one: Document) -> BatchSlot:
    return BatchSlot(
        one.count("number"),
        one.count("partitions"),
        one.count("bytes"),
        one.number("begins"),
        one.number("lasts"),
        one.optional_count("busiest"),
    )
