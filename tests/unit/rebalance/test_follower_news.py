"""When a follower in a worker looks before its time, and when it need not look at the throttle."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.rebalance import follow
from kafka_rebalance.rebalance.follow import BatchFollower, ThrottleWatch
from kafka_rebalance.throttle.put_back import LOOK_SECONDS

FLYING = frozenset(TopicPartition("orders", number) for number in range(4))


def follower(left: int, *, beside: object) -> Any:
    """Of a batch of four moves, of which this many are still listed, beside one of somebody else."""
    listed = [*sorted(FLYING)[:left], TopicPartition("others", 0)]
    cluster = SimpleNamespace(read_moving=lambda besides: listed, has_request=lambda: bool(left))
    return SimpleNamespace(
        _followed=SimpleNamespace(beside=beside), _flying=FLYING, _requested=True, _cluster=lambda: cluster
    )


@pytest.mark.parametrize(("left", "is_news"), [(4, False), (3, False), (2, True), (0, True)])
def test_where_more_may_be_requested_the_end_of_half_of_the_moves_is_news(left: int, is_news: bool) -> None:
    assert BatchFollower._has_news(follower(left, beside=object())) is is_news


@pytest.mark.parametrize(("left", "is_news"), [(4, False), (1, False), (0, True)])
def test_where_nothing_is_requested_meanwhile_only_the_end_of_the_batch_is_news(left: int, is_news: bool) -> None:
    assert BatchFollower._has_news(follower(left, beside=None)) is is_news


def test_a_throttle_that_was_checked_before_the_request_is_looked_at_again_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[float] = []

    def read(folder: object) -> None:
        reads.append(now)
        raise follow.ReadError("not now")

    monkeypatch.setattr(follow, "read_copy", read)
    move = SimpleNamespace(topic_partition=TopicPartition("orders", 0), added=(2,))
    each: Any = [SimpleNamespace(move=move, phase=None)]
    view: Any = SimpleNamespace(partitions={move.topic_partition})
    nothing: Any = None
    watch = ThrottleWatch(nothing)
    watch.found_in_force(100.0)
    for now in (100.0, 100.0 + LOOK_SECONDS - 1, 100.0 + LOOK_SECONDS):
        assert watch.look(nothing, now, view, each) == {}
    assert reads == [100.0 + LOOK_SECONDS]
