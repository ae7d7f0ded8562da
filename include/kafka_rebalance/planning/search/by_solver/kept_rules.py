"""What holds for all lists that the solver finds: limits, disks and crowding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafka_rebalance.planning.problem.arrays import Ints
from kafka_rebalance.planning.rules.crowding import Crowding
from kafka_rebalance.planning.search.frame import Frame, placement_of
from kafka_rebalance.planning.search.placement import Placement, spent


class Besides(NamedTuple):
    """What lists must keep besides bands and rules: only asked for if the fewest bytes do not keep it by themselves."""

    spreads_leaders: bool = False  # in their best order topics have no more excess leaders than now
    crowds_no_more: bool = False  # topics crowd brokers with no more replicas in total than now


NOTHING = Besides()


def keeps_rules(frame: Frame, new: Placement, old: Placement) -> bool:
    """Whether limits and disks hold, and topics crowd brokers no more in total than before, or in the old lists."""
    problem = frame.problem
    before = Crowding(problem.replicas, problem.topic, frame.topic_shares, frame.left_by_racks)
    keeps = new.crowding.replicas <= max(before.replicas, old.crowding.replicas)
    return keeps and not new.budget.exceeded() and (old.too_full or not new.too_full)


def placed(frame: Frame, lists: Ints) -> Placement:
    nothing = np.zeros(lists.shape, dtype=bool)
    return placement_of(frame, lists, frame.problem.replicas, nothing, spent(frame.problem, lists))


def crowds_more(frame: Frame, lists: Ints) -> bool:
    """Whether topics crowd brokers with more replicas in total than now."""
    problem = frame.problem
    before, after = (
        Crowding(some, problem.topic, frame.topic_shares, frame.left_by_racks) for some in (problem.replicas, lists)
    )
    return after.replicas > before.replicas
