"""One run holds a cluster, and whoever was frozen between reading and writing writes nothing when it wakes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError
from kazoo.security import READ_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import CorruptZnodeError, LockHeldError, LockLostError, ReadError, WriteError
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.lock_owner import Fence, LockOwner
from kafka_rebalance.model.partition import TopicPartition, topic_identities
from kafka_rebalance.zookeeper import writer
from kafka_rebalance.zookeeper.cluster_lock import ZooKeeperLock, encode_lock
from kafka_rebalance.zookeeper.config_writes import merge_config
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.topic_writes import delete_topic, write_more_partitions
from kafka_rebalance.zookeeper.writer import ATTEMPTS, create_reassignment
from support.kafka.small_clusters import move
from support.zookeeper.fake_zookeeper import REASSIGN, FakeZooKeeper, fake_cluster

RUN_ZNODE = "/kafka_rebalance/run"
DIGEST = "d" * 64
RUN = LockOwner("kafka_rebalance/one", DIGEST, "airflow", "2026-11-21T04:00:00Z")
OTHER = LockOwner("kafka_rebalance/two", DIGEST, "airflow")
OTHER_AIRFLOW = LockOwner(RUN.run, RUN.digest, "airflow-b")
BATCH = Batch(1, (move("orders-0", [1, 2], [3, 4]), move("audit-0", [3, 1], [2, 4])), DIGEST)
THEIRS = Batch(1, (move("idle-0", [1, 2], [3, 4]),), DIGEST)
COPIES = {2: {TopicPartition("orders", 0): "/b", TopicPartition("audit", 1): "/c"}}
RATE = {"leader.replication.throttled.rate": "1000"}
LISTED = {"leader.replication.throttled.replicas": "0:1"}


@pytest.fixture
def fake() -> FakeZooKeeper:
    return fake_cluster({"orders": {0: [1, 2]}, "audit": {0: [3, 1]}, "idle": {0: [1, 2]}})


def given_back(fake: Any) -> None:
    ZooKeeperLock(fake).release(RUN)


def retaken_by_the_run(fake: Any) -> None:
    ZooKeeperLock(fake).release(RUN)
    ZooKeeperLock(fake).acquire(RUN)


def taken_by_another(fake: Any) -> None:
    ZooKeeperLock(fake).release(RUN)
    ZooKeeperLock(fake).acquire(OTHER)


def held_by_a_retry(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)


def throttle_is_put_back(fake: Any) -> None:
    ZooKeeperLock(fake).raise_fence()


def moves_are_about_to_be_requested(fake: Any) -> None:
    ZooKeeperLock(fake).raise_held(RUN)


def moves_are_requested(fake: Any) -> None:
    create_reassignment(fake, THEIRS, DIGEST, {1, 2, 3, 4}, fence=ZooKeeperLock(fake).raise_held(RUN))
    fake.delete(REASSIGN)


MEANWHILE = (
    given_back,
    retaken_by_the_run,
    taken_by_another,
    held_by_a_retry,
    throttle_is_put_back,
    moves_are_about_to_be_requested,
    moves_are_requested,
)


def request(fake: Any, fence: Fence, view: Any = None) -> None:
    create_reassignment(fake, BATCH, DIGEST, {1, 2, 3, 4}, view=view, fence=fence)


def test_a_lock_that_another_run_has_taken_looks_like_the_first_ones_and_the_fence_does_not(fake: Any) -> None:
    ours = ZooKeeperLock(fake).acquire(RUN)
    taken_by_another(fake)
    theirs = ZooKeeperLock(fake).raise_held(OTHER)
    assert theirs.versions[RUN_ZNODE] == ours.versions[RUN_ZNODE], "a znode that is made again begins at version 0"
    assert theirs != ours


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda act: act.__name__)
def test_no_request_is_made_behind_the_fence(fake: Any, meanwhile: Callable[[Any], None]) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    fence = ZooKeeperLock(fake).raise_held(RUN)
    meanwhile(fake)
    with pytest.raises(WriteError, match="Clear this task"):
        request(fake, fence, read_cluster_view(fake))
    assert REASSIGN not in fake.znodes


@pytest.mark.parametrize("topic", ["orders", "audit"])
def test_no_request_is_made_where_a_topic_of_it_changed_after_it_was_read(fake: Any, topic: str) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    view = read_cluster_view(fake)
    path = f"/brokers/topics/{topic}"
    fake.put_json(path, fake.json(path))  # not even another list: it moved and came back
    with pytest.raises(WriteError, match="changed between reading and writing"):
        request(fake, fence, view)
    assert REASSIGN not in fake.znodes


def many_topics() -> tuple[Any, Batch]:
    names = [f"topic-{number:03}" for number in range(150)]
    fake = fake_cluster({name: {0: [1, 2]} for name in names})
    return fake, Batch(1, tuple(move(f"{name}-0", [1, 2], [3, 4]) for name in names), DIGEST)


@pytest.mark.parametrize("number", [0, 149])
def test_every_topic_of_a_large_batch_is_held(number: int) -> None:
    fake, batch = many_topics()
    fence, view = ZooKeeperLock(fake).acquire(RUN), read_cluster_view(fake)
    path = f"/brokers/topics/topic-{number:03}"
    fake.put_json(path, fake.json(path))
    with pytest.raises(WriteError, match="changed between reading and writing"):
        create_reassignment(fake, batch, DIGEST, {1, 2, 3, 4}, view=view, fence=fence)
    assert REASSIGN not in fake.znodes


@pytest.mark.parametrize("limit", [15_000, 18_000, 20_000])
def test_checks_leave_a_request_the_room_that_zookeeper_gives(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """The request alone is of 9,629 bytes, and its checks are of 7,000."""
    fake, batch = many_topics()
    monkeypatch.setattr(writer, "JUTE_MAXBUFFER_BYTES", limit)
    fence, view = ZooKeeperLock(fake).acquire(RUN), read_cluster_view(fake)
    create_reassignment(fake, batch, DIGEST, {1, 2, 3, 4}, view=view, fence=fence)
    assert REASSIGN in fake.znodes


def test_a_topic_that_is_not_in_the_batch_may_change(fake: Any) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    view = read_cluster_view(fake)
    fake.put_json("/brokers/topics/idle", fake.json("/brokers/topics/idle"))
    request(fake, fence, view)
    assert REASSIGN in fake.znodes


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda act: act.__name__)
@pytest.mark.parametrize(("entity", "values"), [("brokers/1", RATE), ("topics/orders", LISTED)])
def test_no_throttle_is_set_behind_the_fence(
    fake: Any, entity: str, values: dict[str, str], meanwhile: Callable[[Any], None]
) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    before = copy.deepcopy(fake.znodes.get(f"/config/{entity}"))
    meanwhile(fake)
    with pytest.raises(LockLostError, match=f"config of {entity}: another worker has taken the cluster"):
        merge_config(fake, entity, values, fence=fence)
    assert fake.znodes.get(f"/config/{entity}") == before
    assert not [path for path in fake.znodes if path.startswith("/config/changes/")]


def test_no_throttle_is_taken_off_behind_the_fence(fake: Any) -> None:
    """A worker that was to put a throttle back, frozen while the run went on, would lift it from copies."""
    ZooKeeperLock(fake).acquire(RUN)
    merge_config(fake, "topics/orders", LISTED)
    fence = ZooKeeperLock(fake).raise_fence()
    moves_are_requested(fake)
    with pytest.raises(LockLostError):
        merge_config(fake, "topics/orders", dict.fromkeys(LISTED), fence=fence)
    assert fake.json("/config/topics/orders")["config"] == LISTED


def test_a_request_that_was_dropped_while_the_connection_was_lost_is_not_said_to_be_unwritten(fake: Any) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    fake.after_write.append(lambda call, path: path == REASSIGN and fake.znodes.pop(REASSIGN, None))
    fake.fail_next("create", REASSIGN, took_effect=True)
    with pytest.raises(WriteError, match="whether the request was made is unknown") as unknown:
        request(fake, fence, read_cluster_view(fake))
    assert "changed nothing" not in str(unknown.value)
    assert fake.writes.count(("create", REASSIGN)) == 1


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_lost_connection_is_not_taken_for_a_lost_lock(fake: Any, took_effect: bool) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    fake.fail_next("commit", "/config/topics/orders", took_effect=took_effect)
    merge_config(fake, "topics/orders", LISTED, fence=fence)
    assert fake.json("/config/topics/orders")["config"] == LISTED


def test_a_config_that_somebody_else_changes_meanwhile_is_no_lost_lock(fake: Any) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    real, raced = fake.get, []

    def racing(path: str) -> Any:
        answer = real(path)
        if path == "/config/topics/orders" and not raced:
            raced.append(True)
            fake.put_json(path, {"version": 1, "config": {"retention.ms": "7"}})
        return answer

    fake.get = racing
    merge_config(fake, "topics/orders", LISTED, fence=fence)
    assert fake.json("/config/topics/orders")["config"] == {"retention.ms": "7", **LISTED}


def between_reading_and_writing(fake: Any, act: Callable[[], None]) -> None:
    """`act` happens when the lock has been read the next time, before anything is made of it."""
    real, done = fake.get, []

    def racing(path: str) -> Any:
        answer = real(path)
        if path == RUN_ZNODE and not done:
            done.append(True)
            act()
        return answer

    fake.get = racing


@pytest.mark.parametrize("act", [ZooKeeperLock.release, ZooKeeperLock.acquire])
def test_a_worker_that_was_frozen_neither_gives_back_the_lock_of_another_run_nor_takes_it(
    fake: Any, act: Callable[..., object]
) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    between_reading_and_writing(fake, lambda: taken_by_another(fake))
    with pytest.raises(LockHeldError, match="held by run kafka_rebalance/two"):
        act(ZooKeeperLock(fake), LockOwner(RUN.run, "e" * 64, RUN.owner))
    assert ZooKeeperLock(fake).read() == OTHER


@pytest.mark.slow
def test_a_connection_lost_while_it_is_asked_what_is_gone_is_an_error_of_our_own(fake: Any) -> None:
    fence, view = ZooKeeperLock(fake).acquire(RUN), read_cluster_view(fake)
    fake.delete("/brokers/topics/orders", recursive=True)
    for _ in range(6):
        fake.fail_next("exists", "/admin", took_effect=False)
    with pytest.raises(ReadError, match="cannot be read"):
        request(fake, fence, view)
    assert REASSIGN not in fake.znodes


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_no_topic_is_deleted_or_expanded_behind_the_fence(fake: Any, meanwhile: Callable[[Any], None]) -> None:
    """A rebalance that has taken the cluster since may be about to move it."""
    identity = topic_identities(read_cluster_view(fake).partitions)["audit"]
    fence = ZooKeeperLock(fake).acquire(RUN)
    meanwhile(fake)
    before = fake.znodes["/brokers/topics/audit"].version
    with pytest.raises(WriteError, match="somebody else changed it"):
        delete_topic(fake, "audit", expected=identity, fence=fence)
    with pytest.raises(WriteError, match="somebody else changed it"):
        write_more_partitions(fake, "audit", {1: (2, 1)}, expected=identity, registered={1, 2, 3}, fence=fence)
    assert "/admin/delete_topics/audit" not in fake.znodes
    assert fake.znodes["/brokers/topics/audit"].version == before


def test_a_topic_is_changed_under_a_fence_that_nobody_has_raised(fake: Any) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    audit = topic_identities(read_cluster_view(fake).partitions)["audit"]
    write_more_partitions(fake, "audit", {1: (2, 1)}, expected=audit, registered={1, 2, 3}, fence=fence)
    delete_topic(fake, "audit", expected=dataclasses.replace(audit, znode_version=None), fence=fence)
    assert fake.json("/brokers/topics/audit")["partitions"] == {"0": [3, 1], "1": [2, 1]}
    assert "/admin/delete_topics/audit" in fake.znodes


# --- the lock ---


def test_nobody_holds_a_new_cluster(fake: Any) -> None:
    assert ZooKeeperLock(fake).read() is None


def test_the_lock_says_who_holds_it(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).read() == RUN
    assert fake.znodes[RUN_ZNODE].owner == 0, "not ephemeral: it outlives the worker"


def test_the_run_that_holds_it_may_take_it_again(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    fake.writes.clear()
    ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).read() == RUN
    assert fake.writes == [("set", "/kafka_rebalance")], "only the fence, which its other workers then stand behind"


def test_a_run_approved_anew_holds_it_with_the_newer_digest(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    ZooKeeperLock(fake).acquire(LockOwner(RUN.run, "e" * 64, RUN.owner))
    assert ZooKeeperLock(fake).read().digest == "e" * 64


@pytest.mark.parametrize("other", [OTHER, OTHER_AIRFLOW], ids=["run", "airflow"])
def test_another_run_neither_gets_it_nor_releases_it_and_is_told_who_holds_it(fake: Any, other: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    fake.writes.clear()
    with pytest.raises(LockHeldError, match="kafka_rebalance/one of airflow since 2026-11-21T04:00:00Z"):
        ZooKeeperLock(fake).acquire(other)
    with pytest.raises(LockHeldError, match="not released"):
        ZooKeeperLock(fake).release(other)
    assert fake.writes == []


def test_released_it_can_be_taken_by_the_next(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).release(RUN)
    assert not ZooKeeperLock(fake).release(RUN), "released twice does no harm"
    ZooKeeperLock(fake).acquire(OTHER)
    assert ZooKeeperLock(fake).read() == OTHER


@pytest.mark.parametrize("took_effect", [False, True])
def test_a_lost_connection_leaves_no_doubt(fake: Any, took_effect: bool) -> None:
    fake.fail_next("create", RUN_ZNODE, took_effect=took_effect)
    ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).read() == RUN
    fake.fail_next("delete", RUN_ZNODE, took_effect=took_effect)
    ZooKeeperLock(fake).release(RUN)
    assert ZooKeeperLock(fake).read() is None


def test_a_race_for_it_has_one_winner(fake: Any) -> None:
    def other_is_faster(call: Any, path: Any) -> None:
        if (call, path) == ("create", "/kafka_rebalance"):
            fake.create(RUN_ZNODE, encode_lock(OTHER))

    fake.after_write.append(other_is_faster)
    with pytest.raises(LockHeldError, match="kafka_rebalance/two"):
        ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).read() == OTHER


@pytest.mark.parametrize(
    ("path", "error", "times", "outcome"),
    [(RUN_ZNODE, ConnectionLoss, ATTEMPTS, "unknown"), ("/kafka_rebalance", NoAuthError, 1, "/kafka_rebalance")],
)
def test_a_lock_that_cannot_be_written_is_told_with_its_outcome(
    fake: Any, path: str, error: Any, times: int, outcome: str
) -> None:
    for _ in range(times):
        fake.fail_next("create", path, took_effect=False, error=error())
    with pytest.raises(WriteError, match=outcome):
        ZooKeeperLock(fake).acquire(RUN)


def test_where_kafka_protects_its_znodes_the_lock_is_its_creators(fake: Any) -> None:
    fake.znodes["/admin/delete_topics"].acl = [make_acl("sasl", "kafka", all=True)]
    ZooKeeperLock(fake).acquire(RUN)
    assert fake.znodes[RUN_ZNODE].acl == [make_acl("auth", "", all=True), *READ_ACL_UNSAFE]


def test_a_lock_that_cannot_be_read_is_neither_free_nor_taken(fake: Any) -> None:
    fake.put_json(RUN_ZNODE, {"version": 1, "run": 5})
    for act in (
        ZooKeeperLock.read,
        lambda lock: lock.acquire(RUN),
        lambda lock: lock.release(RUN),
    ):
        with pytest.raises(CorruptZnodeError, match=RUN_ZNODE):
            act(ZooKeeperLock(fake))


@pytest.mark.parametrize("owner", [LockOwner("", "d", "o"), LockOwner("r", "", "o"), LockOwner("r", "d", "")], ids=repr)
def test_an_owner_without_a_name_gets_nothing(fake: Any, owner: Any) -> None:
    with pytest.raises(WriteError):
        ZooKeeperLock(fake).acquire(owner)
    assert fake.writes == []


# Announcements: made under the fence alone, read as they were written, and gone at their end.


def test_an_announcement_raises_the_fence_and_is_read_until_its_end(fake: Any) -> None:
    before = ZooKeeperLock(fake).acquire(RUN)
    fence, name = ZooKeeperLock(fake).open_intent(RUN, before, {}, 0, COPIES)
    assert fence.generation > before.generation
    assert fence.generation == ZooKeeperLock(fake).read_fence().generation
    (intent,) = ZooKeeperLock(fake).read_open_intents()
    assert (intent.id, intent.run, intent.owner, intent.copies, intent.targets) == (
        name,
        RUN.run,
        RUN.owner,
        COPIES,
        {},
    )
    assert 0 <= (ZooKeeperLock(fake).read_time() - intent.at).total_seconds() < 60
    assert ZooKeeperLock(fake).end_intent(name, fence=fence)
    assert ZooKeeperLock(fake).read_open_intents() == []
    assert ZooKeeperLock(fake).end_intent(name), "again it changes nothing"


def test_the_clock_raises_no_fence(fake: Any) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    assert ZooKeeperLock(fake).read_time() <= ZooKeeperLock(fake).read_time()
    assert ZooKeeperLock(fake).read_fence().generation == fence.generation


@pytest.mark.parametrize("meanwhile", [ZooKeeperLock.raise_fence, lambda lock: lock.release(RUN)])
def test_nothing_is_announced_behind_the_fence_or_without_the_cluster(
    fake: Any, meanwhile: Callable[[Any], object]
) -> None:
    fence = ZooKeeperLock(fake).acquire(RUN)
    meanwhile(ZooKeeperLock(fake))
    with pytest.raises(LockLostError, match="No further copy was requested"):
        ZooKeeperLock(fake).open_intent(RUN, fence, {}, 0, COPIES)
    assert ZooKeeperLock(fake).read_open_intents() == []


def test_an_announcement_stays_open_if_the_fence_has_risen_meanwhile(fake: Any) -> None:
    fence, name = ZooKeeperLock(fake).open_intent(RUN, ZooKeeperLock(fake).acquire(RUN), {}, 0, COPIES)
    ZooKeeperLock(fake).raise_fence()
    assert not ZooKeeperLock(fake).end_intent(name, fence=fence)
    assert [intent.id for intent in ZooKeeperLock(fake).read_open_intents()] == [name]


def test_a_damaged_announcement_is_an_error_and_not_none(fake: Any) -> None:
    ZooKeeperLock(fake).acquire(RUN)
    for copies in ("x", [["b"]], [[1, 2]], 7):
        fake.put_json("/kafka_rebalance/announced-1", {"version": 1, "run": "a", "owner": "b", "copies": copies})
        with pytest.raises(CorruptZnodeError, match="announced-1"):
            ZooKeeperLock(fake).read_open_intents()
