"""Every write is checked once more where it happens, and a lost connection leaves no doubt about what was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, OperationTimeoutError, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from kafka_rebalance.errors import ApprovalError, CorruptZnodeError, WriteError
from kafka_rebalance.model.candidate import Batch
from kafka_rebalance.model.cluster_writes import Outcome
from kafka_rebalance.model.partition import TopicPartition
from kafka_rebalance.zookeeper import writer
from kafka_rebalance.zookeeper.reader import read_cluster_view
from kafka_rebalance.zookeeper.writer import create_election, create_reassignment
from support.kafka.small_clusters import move
from support.zookeeper.fake_zookeeper import ELECTION, REASSIGN, SimulatedController, fake_cluster, put_topic

DIGEST = "d" * 64
BROKERS = {1, 2, 3, 4}
MOVES = (move("orders-0", [1, 2], [3, 4]), move("orders-1", [2, 3], [2, 4]))
BATCH = Batch(1, MOVES, DIGEST)


@pytest.fixture(params=["2.0", "2.8"])
def version(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def fake(version: Any) -> Any:
    return fake_cluster({"orders": {0: [1, 2], 1: [2, 3]}, "audit": {0: [3, 1]}}, version=version)


def on_create(fake: Any, path: Any, act: Any) -> None:
    """Calls `act` right after the first creation of a znode, before the caller sees that it succeeded."""
    done = []

    def listener(call: Any, written: Any) -> None:
        if (call, written) == ("create", path) and not done:
            done.append(True)
            act()

    fake.after_write.append(listener)


# --- reassignment ---


def test_a_batch_is_requested_by_one_creation(fake: Any) -> None:
    assert create_reassignment(fake, BATCH, DIGEST, BROKERS) is Outcome.CREATED
    assert fake.writes == [("create", REASSIGN)]
    assert fake.json(REASSIGN) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [3, 4]},
            {"topic": "orders", "partition": 1, "replicas": [2, 4]},
        ],
    }


@pytest.mark.parametrize(("batch", "approved"), [(DIGEST, "e" * 64), (DIGEST, ""), (DIGEST, "d" * 63), ("", "")])
def test_a_batch_of_another_digest_than_the_approved_or_of_none_is_not_written(
    fake: Any, batch: str, approved: str
) -> None:
    with pytest.raises(ApprovalError, match="approve what it proposes" if batch else None):
        create_reassignment(fake, Batch(1, MOVES, batch), approved, BROKERS)
    assert fake.writes == []


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        ((), "no partition"),
        ((move("orders-0", [1, 2], []),), "empty"),
        ((move("orders-0", [1, 2], [3, 3]),), "more than once"),
        ((move("orders-0", [1, 2], ["3", "4"]),), "integers"),  # type: ignore[list-item]
        ((move("orders-0", [1, 2], [3, 77]),), "broker 77 is not registered"),
        ((move("orders-0", [1, 2], [3, 4]), move("orders-0", [1, 2], [4, 3])), "twice"),
    ],
    ids=["nothing", "empty list", "duplicate", "text ids", "unregistered", "partition twice"],
)
def test_a_batch_that_would_harm_the_cluster_is_not_written(fake: Any, moves: Any, said: str) -> None:
    with pytest.raises(WriteError, match=said):
        create_reassignment(fake, Batch(1, moves, DIGEST), DIGEST, BROKERS)
    assert fake.writes == []


def test_a_batch_beyond_zookeepers_limit_is_refused_with_the_figures(fake: Any) -> None:
    moves = tuple(move(f"{'x' * 200}-{partition}", [1, 2], [3, 4]) for partition in range(5_000))
    with pytest.raises(WriteError, match=r"1,\d{3},\d{3} bytes, but ZooKeeper takes 1,048,511") as refused:
        create_reassignment(fake, Batch(1, moves, DIGEST), DIGEST, BROKERS)
    assert "smaller batches" in str(refused.value)
    assert fake.writes == []


@pytest.mark.parametrize(
    "entries",
    [
        [{"topic": "audit", "partition": 0, "replicas": [2, 1]}],
        [{"topic": "orders", "partition": 0, "replicas": [3, 4]}],
        [],
    ],
    ids=["others", "some of ours", "none"],
)
def test_another_reassignment_is_never_overwritten(fake: Any, entries: list[dict[str, object]]) -> None:
    fake.put_json(REASSIGN, {"version": 1, "partitions": entries})
    fake.writes.clear()
    with pytest.raises(WriteError, match="Another reassignment is running"):
        create_reassignment(fake, BATCH, DIGEST, BROKERS)
    assert fake.json(REASSIGN)["partitions"] == entries
    assert fake.writes == []


def test_a_corrupt_request_in_the_way_is_named_and_left_alone(fake: Any) -> None:
    fake.create(REASSIGN, b'{"partitions":[{"topic":"orders","partition":"0"}]}')
    with pytest.raises(CorruptZnodeError, match=REASSIGN):
        create_reassignment(fake, BATCH, DIGEST, BROKERS)


def test_requesting_the_same_batch_again_is_success_at_every_stage_of_it(fake: Any, version: Any) -> None:
    controller = SimulatedController(fake, version)
    create_reassignment(fake, BATCH, DIGEST, BROKERS)
    stages = 0
    while REASSIGN in fake.znodes:
        assert create_reassignment(fake, BATCH, DIGEST, BROKERS) is Outcome.ALREADY_THERE
        controller.step()
        stages += 1
    assert stages > 3
    assert [call for call, path in fake.writes if path == REASSIGN].count("create") == 1


@pytest.mark.parametrize(("took_effect", "outcome"), [(True, Outcome.ALREADY_THERE), (False, Outcome.CREATED)])
@pytest.mark.parametrize("error", [ConnectionLoss, SessionExpiredError, OperationTimeoutError])
def test_a_connection_lost_over_the_creation_leaves_one_request(
    fake: Any, error: Any, took_effect: bool, outcome: Outcome
) -> None:
    fake.fail_next("create", REASSIGN, took_effect=took_effect, error=error())
    assert create_reassignment(fake, BATCH, DIGEST, BROKERS) is outcome
    assert fake.writes == [("create", REASSIGN)]


@pytest.mark.parametrize("steps", [1, 2, 3, 50])
def test_a_request_taken_up_while_the_connection_was_lost_is_not_made_twice(
    fake: Any, version: Any, steps: int
) -> None:
    controller = SimulatedController(fake, version)
    on_create(fake, REASSIGN, lambda: [controller.step() for _ in range(steps)])
    fake.fail_next("create", REASSIGN, took_effect=True)
    assert create_reassignment(fake, BATCH, DIGEST, BROKERS) is Outcome.ALREADY_THERE
    assert fake.writes.count(("create", REASSIGN)) == 1


def test_a_union_list_in_hash_order_still_shows_that_the_request_was_taken_up(fake: Any) -> None:
    # 2.0 writes the union of five and more brokers in hash order; the znode was deleted by hand meanwhile.
    put_topic(fake, "wide", {0: [5, 1, 6, 2, 3, 4]}, version="2.0")
    wide = Batch(1, (move("wide-0", [1, 2, 3], [4, 5, 6]),), DIGEST)
    on_create(fake, REASSIGN, lambda: fake.delete(REASSIGN))
    fake.fail_next("create", REASSIGN, took_effect=True)
    assert create_reassignment(fake, wide, DIGEST, range(1, 7)) is Outcome.ALREADY_THERE


@pytest.mark.parametrize("after", [[2, 1], [2]])
def test_a_list_that_only_loses_or_reorders_replicas_does_not_look_taken_up_before_it_is(fake: Any, after: Any) -> None:
    """The union of both lists is the old one."""
    fake.fail_next("create", REASSIGN, took_effect=False)
    batch = Batch(1, (move("orders-0", [1, 2], after),), DIGEST)
    assert create_reassignment(fake, batch, DIGEST, BROKERS) is Outcome.CREATED


@pytest.mark.parametrize("version", ["2.8"], indirect=True)
def test_a_move_of_somebody_else_is_no_sign_that_ours_was_taken_up(fake: Any) -> None:
    document = fake.json("/brokers/topics/orders")
    document["partitions"]["0"] = [4, 1, 2]
    fake.put_json(
        "/brokers/topics/orders", {**document, "adding_replicas": {"0": [4]}, "removing_replicas": {"0": [1]}}
    )
    fake.fail_next("create", REASSIGN, took_effect=False)
    batch = Batch(1, (move("orders-0", [1, 2], [3, 4]),), DIGEST)
    assert create_reassignment(fake, batch, DIGEST, BROKERS) is Outcome.CREATED


def test_a_request_that_vanished_without_effect_is_made_again(fake: Any) -> None:
    on_create(fake, REASSIGN, lambda: fake.delete(REASSIGN))
    fake.fail_next("create", REASSIGN, took_effect=True)
    assert create_reassignment(fake, BATCH, DIGEST, BROKERS) is Outcome.CREATED
    assert fake.writes.count(("create", REASSIGN)) == 2


@pytest.mark.parametrize(
    ("error", "times", "outcome"),
    [(ConnectionLoss, writer.ATTEMPTS, "unknown"), (NoAuthError, 1, "does not let this client write")],
)
def test_a_write_that_cannot_be_made_is_told_with_its_outcome(fake: Any, error: Any, times: int, outcome: str) -> None:
    for _ in range(times):
        fake.fail_next("create", REASSIGN, took_effect=False, error=error())
    with pytest.raises(WriteError, match=outcome):
        create_reassignment(fake, BATCH, DIGEST, BROKERS)


def test_the_request_is_open_where_kafka_is_and_protected_like_its_siblings_where_it_is_not(fake: Any) -> None:
    create_reassignment(fake, BATCH, DIGEST, BROKERS)
    assert fake.znodes[REASSIGN].acl == list(OPEN_ACL_UNSAFE)
    fake.delete(REASSIGN)
    protected = [make_acl("sasl", "kafka", all=True), make_acl("world", "anyone", read=True)]
    fake.znodes["/admin/delete_topics"].acl = protected
    create_reassignment(fake, BATCH, DIGEST, BROKERS)
    assert fake.znodes[REASSIGN].acl == protected


# --- election ---


def test_an_election_names_exactly_the_partitions_asked_for(fake: Any) -> None:
    wanted = [TopicPartition("orders", 1), TopicPartition("audit", 0)]
    assert create_election(fake, wanted, read_cluster_view(fake)) is Outcome.CREATED
    assert fake.json(ELECTION) == {
        "version": 1,
        "partitions": [{"topic": "audit", "partition": 0}, {"topic": "orders", "partition": 1}],
    }


def in_motion(fake: Any) -> None:
    create_reassignment(fake, BATCH, DIGEST, BROKERS)
    SimulatedController(fake).step()


@pytest.mark.parametrize(
    ("change", "wanted", "why"),
    [
        (lambda fake: None, TopicPartition("orders", 9), "does not exist"),
        (lambda fake: None, TopicPartition("gone", 0), "does not exist"),
        (lambda fake: fake.create("/admin/delete_topics/orders"), TopicPartition("orders", 0), "deleted"),
        (in_motion, TopicPartition("orders", 0), "is being reassigned"),
    ],
)
def test_a_partition_that_would_block_elections_is_refused(
    fake: Any, change: Callable[[Any], object], wanted: TopicPartition, why: str
) -> None:
    change(fake)
    with pytest.raises(WriteError, match=why):
        create_election(fake, [TopicPartition("audit", 0), wanted], read_cluster_view(fake))
    assert ELECTION not in fake.znodes
    create_election(fake, [TopicPartition("audit", 0)], read_cluster_view(fake))


def test_another_election_is_never_overwritten_and_our_own_is_recognised(fake: Any) -> None:
    wanted = [TopicPartition("orders", 0)]
    view = read_cluster_view(fake)
    create_election(fake, wanted, view)
    assert create_election(fake, wanted, view) is Outcome.ALREADY_THERE
    with pytest.raises(WriteError, match="Another preferred leader election"):
        create_election(fake, [TopicPartition("audit", 0)], view)
    assert fake.writes == [("create", ELECTION)]


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_election_survives_a_lost_connection(fake: Any, took_effect: bool) -> None:
    fake.fail_next("create", ELECTION, took_effect=took_effect)
    create_election(fake, [TopicPartition("orders", 0)], read_cluster_view(fake))
    assert fake.writes == [("create", ELECTION)]
