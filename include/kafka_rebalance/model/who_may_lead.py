"""Which first replica a plan may elect: no broker of `brokers_out`, and no replica that is out of the ISR.

The run elects the first broker of every list that it changes. The planner, given plans and the checks before a write
all ask here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum


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
