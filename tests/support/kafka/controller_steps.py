"""A model of what the controller writes while it carries out one move, one ZooKeeper state after the other.

Not a controller: it makes the sequences that were recorded from 2.0.1, 2.8.2 and 3.9.2 for any pair of lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafka_rebalance.model.partition import PartitionView
from support.kafka.small_clusters import partition


class Step(NamedTuple):
    """What the znodes say: the partition, and whether `/admin/reassign_partitions` lists it."""

    partition: PartitionView
    listed: bool


def steps(before: Sequence[int], after: Sequence[int], *, marks: bool) -> Iterator[Step]:
    """From the creation of the znode to the end. `marks`: adding and removing are written (2.4+); else 2.0, whose union
    of more than four brokers is in hash order, here reversed.
    """
    before, after = tuple(before), tuple(after)
    added = [broker for broker in after if broker not in before]
    removed = [broker for broker in before if broker not in after]
    union = [*after, *removed]
    if not marks and len(union) > 4:
        union.reverse()
    isr, leader = list(before), before[0]
    yield Step(partition(before, isr, leader), listed=True)

    def moving() -> PartitionView:
        if marks:
            return partition([*after, *removed], isr, leader, adding=added, removing=removed)
        # 2.0 leaves the list alone where nothing is to be copied
        return partition(union if added else before, isr, leader)

    yield Step(moving(), listed=True)
    for broker in added:
        isr.append(broker)
        yield Step(moving(), listed=True)
    if leader not in after:
        leader = after[0]
        yield Step(moving(), listed=True)
    for broker in removed:
        isr.remove(broker)
        yield Step(moving(), listed=True)
    yield Step(partition(after, isr, leader), listed=True)
    yield Step(partition(after, isr, leader), listed=False)
