"""What each broker receives and sends while a plan runs: bytes so far, of how many, and a second."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from kafka_rebalance.model.candidate import Move
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.moves.move_progress import PartitionProgress, Phase
from kafka_rebalance.rebalance.broker_traffic import Flow, by_broker, planned, recent_samples, seen

NOTHING = Flow(Counter(), Counter())


def move(partition: int, before: tuple[int, ...], after: tuple[int, ...], size: int = 100) -> Move:
    return Move(TopicPartition("t", partition), before, after, size)


def copying(of: Move, missing: tuple[int, ...], leader: int, phase: Phase = Phase.COPYING) -> PartitionProgress:
    total = of.size_bytes * len(of.added)
    return PartitionProgress(of, phase, 1, total, leader=leader, missing=missing)


def test_the_leader_of_before_sends_each_copy_and_a_reorder_copies_nothing() -> None:
    flow = planned([move(0, (1, 2), (3, 4)), move(1, (2, 1), (1, 2)), move(2, (2, 1), (3, 1), 7)])
    assert flow.received == {3: 107, 4: 100}
    assert flow.sent == {1: 200, 2: 7}


def test_a_copy_counts_by_its_size_until_it_is_in_sync_and_then_whole() -> None:
    one = move(0, (1, 2), (3, 4))
    sizes = {one.topic_partition: {1: 100, 3: 99, 4: 40}}
    found = seen([copying(one, missing=(4,), leader=2)], sizes)
    assert found.copied == found.done
    assert (found.done.received, found.done.sent) == ({3: 100, 4: 40}, {2: 140})
    assert (found.total.received, found.total.sent) == ({3: 100, 4: 100}, {2: 200})


def test_what_has_grown_since_the_plan_is_done_by_its_share_and_copied_as_it_is() -> None:
    one, new = move(0, (1, 2), (3, 4)), move(1, (1, 2), (3, 2), size=0)
    grown = PartitionProgress(one, Phase.COPYING, 260, 400, leader=1, missing=(4,))
    found = seen([grown, copying(new, missing=(3,), leader=1)], {one.topic_partition: {3: 200, 4: 60}})
    assert found.copied.received == {3: 200, 4: 60}
    assert (found.done.received, found.total.received) == ({3: 100, 4: 30}, {3: 100, 4: 100})
    assert (found.done.sent, found.total.sent) == ({1: 130}, {1: 200})


def test_a_new_replica_that_leads_already_is_not_called_the_sender() -> None:
    found = seen([copying(move(0, (1, 2), (3, 2)), missing=(), leader=3, phase=Phase.TRIMMING)], {})
    assert found.done.sent == {1: 100}


def test_what_was_dropped_has_copied_nothing() -> None:
    gone = PartitionProgress(move(0, (1, 2), (3, 2)), Phase.REFUSED, 0, 100)
    found = seen([gone], {})
    assert (found.copied.received[3], found.done.received[3], found.total.received[3]) == (0, 0, 100)


def test_brokers_come_by_what_is_left_with_the_rate_of_the_last_minute() -> None:
    samples = recent_samples([], 0.0, Flow(Counter({3: 900}), Counter({1: 900})))
    for now, amount in ((30.0, 0), (80.0, 600), (90.0, 1200)):
        samples = recent_samples(samples, now, Flow(Counter({3: amount}), Counter({1: amount})))
    assert [sample.seconds for sample in samples] == [30.0, 80.0, 90.0]
    flow = samples[-1].flow
    found = by_broker(
        Flow(Counter({4: 50}), Counter({1: 50})),
        Flow(Counter({5: 5000}), Counter({1: 5000})),
        flow,
        Flow(Counter({3: 2000}), Counter({1: 2000})),
        samples,
    )
    assert [one.broker for one in found] == [1, 5, 3, 4]
    assert asdict(found[0]) == {
        "broker": 1,
        "received": 0,
        "to_receive": 0,
        "received_per_second": None,
        "sent": 1250,
        "to_send": 7050,
        "sent_per_second": 20.0,
    }
    assert (found[2].received, found[2].to_receive, found[2].received_per_second) == (1200, 2000, 20.0)
    assert found[3].left == 0


def test_bytes_that_fall_are_no_negative_rate() -> None:
    flow = Flow(Counter({3: 900}), Counter({1: 900}))
    less = Flow(Counter({3: 1}), Counter({1: 1}))
    samples = recent_samples(recent_samples([], 0.0, flow), 10.0, less)
    (sender, receiver) = by_broker(NOTHING, NOTHING, less, flow, samples)
    assert (sender.sent_per_second, receiver.received_per_second) == (0.0, 0.0)
    assert recent_samples([], 0.0, flow)[0].seconds == 0.0
    assert by_broker(NOTHING, NOTHING, less, flow, samples[:1])[0].sent_per_second is None
