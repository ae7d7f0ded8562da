"""What may not be written is found without writing. `tests/integration/secured` has real servers."""

from __future__ import annotations

import copy

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError

from kafka_rebalance.errors import ReadError
from kafka_rebalance.zookeeper.missing_rights import read_missing_rights
from support.zookeeper.fake_zookeeper import FakeZooKeeper, fake_cluster


@pytest.fixture
def fake() -> FakeZooKeeper:
    return fake_cluster({"orders": {0: [1, 2]}, "audit": {0: [2, 1]}})


@pytest.mark.parametrize("has_had_a_run", [False, True])
def test_to_ask_for_rights_changes_nothing(fake: FakeZooKeeper, has_had_a_run: bool) -> None:
    if has_had_a_run:
        fake.create("/kafka_rebalance", b"")
    before = copy.deepcopy(fake.znodes)
    assert read_missing_rights(fake, {1, 2}, {"orders", "audit"}) == ()
    assert fake.znodes == before


@pytest.mark.parametrize(
    ("path", "subject", "right"),
    [
        ("/kafka_rebalance_right", "/", "create a znode below"),
        ("/admin/kafka_rebalance_right", "/admin", "create a znode below"),
        ("/config/changes/kafka_rebalance_right", "/config/changes", "create a znode below"),
        ("/config/brokers/kafka_rebalance_right", "/config/brokers", "create a znode below"),
        ("/config/topics/orders", "/config/topics/orders", "write"),
    ],
)
def test_a_right_that_is_missing_names_znode_and_operation(
    fake: FakeZooKeeper, path: str, subject: str, right: str
) -> None:
    fake.fail_next("commit", path, took_effect=False, error=NoAuthError())
    (missing,) = read_missing_rights(fake, {1, 2}, {"orders"})
    assert missing.subject == subject
    assert missing.problem == f"this ZooKeeper user may not {right} it"


def test_a_connection_that_is_lost_meanwhile_is_no_missing_right(fake: FakeZooKeeper) -> None:
    fake.fail_next("commit", "/admin/kafka_rebalance_right", took_effect=False, error=ConnectionLoss())
    with pytest.raises(ReadError, match="cannot be read"):
        read_missing_rights(fake, {1, 2}, {"orders"})
