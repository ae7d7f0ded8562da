"""One run holds a cluster; it may take the lock again, and nobody else may release it."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError
from kazoo.security import READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, WriteError
from kafka_rebalance.model.lock_owner import LockOwner
from kafka_rebalance.zookeeper import cluster_lock
from kafka_rebalance.zookeeper.writer import ATTEMPTS
from support.zookeeper.fake_zookeeper import fake_cluster

RUN = "/kafka_rebalance/run"
OURS = LockOwner("kafka_rebalance/manual__1", "d" * 64, "airflow-a", "2026-11-21T04:00:00Z")
OTHER_RUN = LockOwner("kafka_rebalance/manual__2", "d" * 64, "airflow-a")
OTHER_AIRFLOW = LockOwner(OURS.run, OURS.digest, "airflow-b")


@pytest.fixture
def fake() -> Any:
    return fake_cluster({"orders": {0: [1, 2]}})


def test_nobody_holds_a_new_cluster(fake: Any) -> None:
    assert cluster_lock.read(fake) is None


def test_the_lock_says_who_holds_it(fake: Any) -> None:
    cluster_lock.acquire(fake, OURS)
    assert cluster_lock.read(fake) == OURS
    assert fake.znodes[RUN].owner == 0, "not ephemeral: it outlives the worker"


def test_the_run_that_holds_it_may_take_it_again(fake: Any) -> None:
    cluster_lock.acquire(fake, OURS)
    fake.writes.clear()
    cluster_lock.acquire(fake, OURS)
    assert cluster_lock.read(fake) == OURS
    assert fake.writes == [("set", "/kafka_rebalance")], "only the fence, which its other workers then stand behind"


def test_a_run_approved_anew_holds_it_with_the_newer_digest(fake: Any) -> None:
    cluster_lock.acquire(fake, OURS)
    cluster_lock.acquire(fake, LockOwner(OURS.run, "e" * 64, OURS.owner))
    assert cluster_lock.read(fake).digest == "e" * 64


@pytest.mark.parametrize("other", [OTHER_RUN, OTHER_AIRFLOW], ids=["run", "airflow"])
def test_another_run_neither_gets_it_nor_releases_it_and_is_told_who_holds_it(fake: Any, other: Any) -> None:
    cluster_lock.acquire(fake, OURS)
    fake.writes.clear()
    with pytest.raises(LockHeldError, match=r"manual__1 of airflow-a since 2026-11-21T04:00:00Z"):
        cluster_lock.acquire(fake, other)
    with pytest.raises(LockHeldError, match="not released"):
        cluster_lock.release(fake, other)
    assert fake.writes == []


def test_released_it_can_be_taken_by_the_next(fake: Any) -> None:
    cluster_lock.acquire(fake, OURS)
    assert cluster_lock.release(fake, OURS)
    assert not cluster_lock.release(fake, OURS), "released twice does no harm"
    cluster_lock.acquire(fake, OTHER_RUN)
    assert cluster_lock.read(fake) == OTHER_RUN


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_lost_connection_leaves_no_doubt(fake: Any, took_effect: bool) -> None:
    fake.fail_next("create", RUN, took_effect=took_effect)
    cluster_lock.acquire(fake, OURS)
    assert cluster_lock.read(fake) == OURS
    fake.fail_next("delete", RUN, took_effect=took_effect)
    cluster_lock.release(fake, OURS)
    assert cluster_lock.read(fake) is None


def test_a_race_for_it_has_one_winner(fake: Any) -> None:
    def other_is_faster(call: Any, path: Any) -> None:
        if (call, path) == ("create", "/kafka_rebalance"):
            fake.create(RUN, cluster_lock.encode_lock(OTHER_RUN))

    fake.after_write.append(other_is_faster)
    with pytest.raises(LockHeldError, match="manual__2"):
        cluster_lock.acquire(fake, OURS)
    assert cluster_lock.read(fake) == OTHER_RUN


def test_a_connection_that_stays_lost_is_an_unknown_outcome(fake: Any) -> None:
    for _ in range(ATTEMPTS):
        fake.fail_next("create", RUN, took_effect=False, error=ConnectionLoss())
    with pytest.raises(WriteError, match="unknown"):
        cluster_lock.acquire(fake, OURS)


def test_without_the_right_to_write_it_is_said_what_to_grant(fake: Any) -> None:
    fake.fail_next("create", "/kafka_rebalance", took_effect=False, error=NoAuthError())
    with pytest.raises(WriteError, match="/kafka_rebalance"):
        cluster_lock.acquire(fake, OURS)


def test_where_kafka_protects_its_znodes_the_lock_is_its_creators(fake: Any) -> None:
    fake.znodes["/admin/delete_topics"].acl = [make_acl("sasl", "kafka", all=True)]
    cluster_lock.acquire(fake, OURS)
    assert fake.znodes[RUN].acl == [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]


def test_a_lock_that_cannot_be_read_is_neither_free_nor_taken(fake: Any) -> None:
    fake.put_json(RUN, {"version": 1, "run": 5})
    for act in (
        cluster_lock.read,
        lambda fake: cluster_lock.acquire(fake, OURS),
        lambda fake: cluster_lock.release(fake, OURS),
    ):
        with pytest.raises(CorruptZnodeError, match=RUN):
            act(fake)


@pytest.mark.parametrize("owner", [LockOwner("", "d", "o"), LockOwner("r", "", "o"), LockOwner("r", "d", "")], ids=repr)
def test_an_owner_without_a_name_gets_nothing(fake: Any, owner: Any) -> None:
    with pytest.raises(WriteError):
        cluster_lock.acquire(fake, owner)
    assert fake.writes == []
