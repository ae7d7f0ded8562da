"""The hard rules of a replica list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from kafka_rebalance.model.finding import listed


def replica_list_problem(replicas: Sequence[object], registered: Collection[int] | None = None) -> str | None:
    """Why no run may request this list, or None.

    An empty list destroys the partition. A duplicate lowers its redundancy without a warning. An id that is not an
    integer costs the cluster its controller (seen on 2.0.1 and 2.8.2). Kafka waits forever for an unregistered broker.
    """
    if not replicas:
        return "the replica list is empty"
    wrong = [broker for broker in replicas if type(broker) is not int or broker < 0]
    if wrong:
        return f"broker ids must be non-negative integers, not {', '.join(map(repr, wrong))}"
    repeated = sorted({broker for broker, count in Counter(replicas).items() if count > 1})  # type: ignore[type-var]
    if repeated:
        return f"broker {listed(repeated)} is listed more than once"
    unknown = [] if registered is None else [broker for broker in replicas if broker not in registered]
    return f"broker {listed(unknown)} is not registered" if unknown else None


def is_uneven_over(racks: Mapping[int, str | None], replicas: Sequence[int]) -> bool:
    """Whether a rack holds two replicas more than another one that has a broker for one more.

    `racks` are of the brokers that may hold the partition. Those without a rack count as one rack together.
    """
    room = Counter(racks.values())
    held = Counter(racks[broker] for broker in replicas if broker in racks)
    most = max(held.values(), default=0)
    return any(most - held[rack] > 1 for rack in room if held[rack] < room[rack])


class MayNotLead(Enum):
    """Why the first replica of a list must not be elected."""

    CLOSED = "brokers_out"
    OUT_OF_ISR = "out_of_isr"


def may_not_lead(
    before: Sequence[int], after: Sequence[int], leader: int, isr: Collection[int] | None, closed: Collection[int]
) -> MayNotLead | None:
    """Why `after` must not elect its first replica. None: it may, or that replica leads today.

    `isr` is None if nobody knows it. A replica that is not in `before` is in sync when its copy ends. `closed` are the
    brokers that must stay as they are.
    """
    first = after[0] if after else leader
    if first == leader:
        return None
    if first in closed:
        return MayNotLead.CLOSED
    lags = isr is not None and first in before and first not in isr
    return MayNotLead.OUT_OF_ISR if lags else None
