"""Announcements in ZooKeeper: made under the fence alone, read as they were written, and gone at their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_rebalance.errors import CorruptZnodeError, LockLostError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import announcements, cluster_lock
from support.zookeeper.fake_zookeeper import FakeZooKeeper, fake_cluster

RUN = LockOwner("kafka_log_dirs/one", "d" * 64, "airflow (a1)")
COPIES = {2: {TopicPartition("orders", 0): "/b", TopicPartition("audit", 1): "/c"}}


@pytest.fixture
def fake() -> FakeZooKeeper:
    return fake_cluster({"orders": {0: [1, 2]}})


def test_an_announcement_raises_the_fence_and_is_read_until_its_end(fake: Any) -> None:
    before = cluster_lock.acquire(fake, RUN)
    fence, name = announcements.open_intent(fake, RUN, before, COPIES)
    assert fence.generation > before.generation
    assert fence.generation == cluster_lock.read_fence(fake).generation
    (intent,) = announcements.read_open_intents(fake)
    assert (intent.id, intent.run, intent.owner, intent.copies, intent.targets) == (
        name,
        RUN.run,
        RUN.owner,
        COPIES,
        {},
    )
    assert 0 <= (announcements.read_time(fake) - intent.at).total_seconds() < 60
    assert announcements.end_intent(fake, name, fence=fence)
    assert announcements.read_open_intents(fake) == []
    assert announcements.end_intent(fake, name), "again it changes nothing"


def test_the_clock_raises_no_fence(fake: Any) -> None:
    fence = cluster_lock.acquire(fake, RUN)
    assert announcements.read_time(fake) <= announcements.read_time(fake)
    assert cluster_lock.read_fence(fake).generation == fence.generation


@pytest.mark.parametrize("meanwhile", [cluster_lock.raise_fence, lambda fake: cluster_lock.release(fake, RUN)])
def test_nothing_is_announced_behind_the_fence_or_without_the_cluster(
    fake: Any, meanwhile: Callable[[Any], object]
) -> None:
    fence = cluster_lock.acquire(fake, RUN)
    meanwhile(fake)
    with pytest.raises(LockLostError, match="No further copy was requested"):
        announcements.open_intent(fake, RUN, fence, COPIES)
    assert announcements.read_open_intents(fake) == []


def test_an_announcement_stays_open_if_the_fence_has_risen_meanwhile(fake: Any) -> None:
    fence, name = announcements.open_intent(fake, RUN, cluster_lock.acquire(fake, RUN), COPIES)
    cluster_lock.raise_fence(fake)
    assert not announcements.end_intent(fake, name, fence=fence)
    assert [intent.id for intent in announcements.read_open_intents(fake)] == [name]


def test_a_damaged_announcement_is_an_error_and_not_none(fake: Any) -> None:
    cluster_lock.acquire(fake, RUN)
    for copies in ("x", [["b"]], [[1, 2]], 7):
        fake.put_json("/kafka_rebalance/announced-1", {"version": 1, "run": "a", "owner": "b", "copies": copies})
        with pytest.raises(CorruptZnodeError, match="announced-1"):
            announcements.read_open_intents(fake)
