"""Why a next batch waits for the cluster, and until when."""

from __future__ import annotations

import pytest

from builders import move, partition, tp, view
from kafka_rebalance.execution.pausing import pause_before, still_missing

BEGUN = [move("t-0", [1, 2], [2, 3], batch=1)]
NEXT = [move("t-1", [1, 2], [4, 2], batch=2)]
WELL = {"t-0": partition([2, 3]), "t-1": partition([1, 2])}


def pause(partitions, *, brokers=(1, 2, 3, 4), **options):
    now = view(WELL | partitions, brokers=brokers)
    options.setdefault("min_in_sync", {tp("t-1"): 2})
    return pause_before(NEXT, BEGUN, now, **options)


def test_a_cluster_that_is_well_is_not_waited_for():
    assert not pause({})


@pytest.mark.parametrize(
    ("partitions", "brokers", "wanted"),
    [
        ({}, (1, 2, 3), ((4,), ())),  # a target of the next batch
        ({}, (1, 2, 4), ((3,), ())),  # a broker that was moved to
        ({"t-0": partition([2, 3], [2], 2)}, (1, 2, 3, 4), ((), ((tp("t-0"), 2),))),  # moved, and fell out of sync
        ({"t-1": partition([1, 2], [1], 1)}, (1, 2, 3, 4), ((), ((tp("t-1"), 2),))),  # under min.insync.replicas
        ({"u-0": partition([1, 4], [1], 1)}, (1, 2, 3, 4), ((), ((tp("u-0"), 2),))),  # the target is catching up
        ({"t-0": partition([2, 3], [2], 2)}, (1, 2, 4), ((3,), ((tp("t-0"), 2),))),
    ],
)
def test_what_is_not_well_is_named_and_waited_for(partitions, brokers, wanted):
    found = pause(partitions, brokers=brokers)
    assert (found.brokers, found.in_sync) == wanted
    assert len(found.reasons) == bool(wanted[0]) + bool(wanted[1])
    then = view(WELL | partitions, brokers=brokers)
    assert still_missing(found, then) == found
    healed = WELL | {name: partition(state.replicas) for name, state in partitions.items()}
    assert not still_missing(found, view(healed))
    assert not pause(healed)


def test_a_broker_that_is_being_emptied_may_be_away():
    assert not pause({"t-1": partition([1, 2], [2], 2)}, brokers=(2, 3, 4), may_be_down={1}, min_in_sync={})


def test_fewer_replicas_than_min_insync_asks_for_are_not_waited_for():
    assert not pause({}, min_in_sync={tp("t-1"): 3}), "two replicas can never be three in sync"


def test_a_partition_that_is_gone_is_not_waited_for():
    found = pause({"t-0": partition([2, 3], [2], 2)})
    assert not still_missing(found, view({"t-1": partition([1, 2])}))
