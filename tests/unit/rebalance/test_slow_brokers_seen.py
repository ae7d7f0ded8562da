"""A follower names brokers that copy slowly: in its findings, for later batches, and for the ledger."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_rebalance.documents.progress import Progress
from kafka_rebalance.model.candidate import Candidate, Status
from kafka_rebalance.model.cluster_view import BatchView
from kafka_rebalance.rebalance.batch_file import followed
from kafka_rebalance.rebalance.controller_findings import FindingKind
from kafka_rebalance.rebalance.observe_batch import Look, Reading, Sizes, State, Task, observe, progress_of_each
from kafka_rebalance.run.stop_and_cancel_requests import Control
from support.kafka.small_clusters import DIGEST, move, partition, view

THROTTLE = 50_000_000.0
BROKERS = range(1, 11)
# Brokers 1 to 5 send, 6 to 10 receive, each from two.
MOVES = [
    move(f"t-{number}", [1 + number % 5], [1 + number % 5, 6 + (number + number // 5) % 5], size=10**10)
    for number in range(10)
]
WHOLE = view(
    {f"t-{number}": partition(one.after, one.before, one.before[0]) for number, one in enumerate(MOVES)},
    brokers=BROKERS,
    reassigning={f"t-{number}": one.after for number, one in enumerate(MOVES)},
)
VIEW = BatchView(
    frozenset(BROKERS), WHOLE.partitions, WHOLE.reassignments, WHOLE.elections, WHOLE.controller, WHOLE.deletions
)


def looks(count: int, able: dict[int, float], state: State | None = None, earlier: Progress | None = None) -> Look:
    """So many looks, 10 s apart. Each broker receives what it is able to, in two copies."""
    plan = Candidate("balanced", DIGEST, Status.OK, tuple(MOVES))
    task = Task(followed(plan, 1), 600.0, 100.0, None, THROTTLE)
    state = state or State()
    for number in range(count):
        sizes: dict[Any, dict[int, int]] = {
            one.topic_partition: {one.after[1]: int(10 * number * able.get(one.after[1], 20e6))} for one in MOVES
        }
        each = progress_of_each(task.followed, VIEW, sizes, (), Control())
        reading = Reading(
            now=1000.0 + 10 * number,
            view=VIEW,
            each=each,
            sizes=Sizes(1000.0 + 10 * number, sizes),
            measured_bytes=None,
            control=Control(),
            throttle={},
            earlier=earlier,
        )
        state, look = observe(task, state, reading)
    return look


def test_a_broker_that_receives_less_than_half_of_its_peers_is_a_finding_and_noted() -> None:
    look = looks(9, {8: 2e6})
    assert look.state == "moving"
    text = look.odd[FindingKind.SLOW_BROKERS]
    assert text.startswith("Broker 8 receives 3.81 MiB/s of copies; the median of 4 others is 38.1 MiB/s. Look at")
    (slow,) = look.noted.slow_brokers
    assert (slow.broker, slow.bytes_per_second, slow.peers_bytes_per_second) == (8, 4_000_000, 40_000_000)


def test_a_later_batch_goes_on_from_the_paces_noted() -> None:
    first = looks(4, {8: 2e6})
    assert not first.noted.slow_brokers
    again = looks(5, {8: 2e6}, earlier=first.noted)
    assert [slow.broker for slow in again.noted.slow_brokers] == [8]


@pytest.mark.parametrize("able", [{}, dict.fromkeys(range(6, 11), 2e6)])
def test_where_all_are_alike_nobody_is_slow(able: dict[int, float]) -> None:
    look = looks(9, able)
    assert FindingKind.SLOW_BROKERS not in look.odd
    assert look.noted.slow_brokers == ()
