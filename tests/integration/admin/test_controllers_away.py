"""A cluster whose controllers have no leader: brokers answer, and nobody blames the password."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial

import pytest

from kafka_rebalance.admin import quorum, wire
from kafka_rebalance.admin.cluster_view import read_moves
from kafka_rebalance.admin.quorum import read_quorum
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.errors import ClusterNotReadyError, ReadError
from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.model.connection import KafkaConnection


@pytest.mark.long
def test_a_quorum_without_a_majority_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum, "ANOTHER_SECONDS", 3.0)
    monkeypatch.setattr(wire, "ANOTHER_SECONDS", 3.0)
    with LocalCluster("4.4.0", brokers=3, racks=0, kraft=True, one_jvm=False) as cluster:
        survivor = cluster.bootstrap_servers.split(",")[0]
        with open_wire(KafkaConnection(survivor)) as opened:
            read_quorum(opened)
            cluster.kill_broker(2)
            cluster.kill_broker(3)
            for read in (read_quorum, read_moves):
                told = error_of(partial(read, opened))
                assert re.search(r"quorum.* (has|may have) no leader", told), told
                assert "password" not in told


def error_of(read: Callable[[], object]) -> str:
    """The controllers notice the loss of their majority a moment later."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        try:
            read()
        except (ReadError, ClusterNotReadyError) as told:
            return str(told)
    raise AssertionError("it can still be read")
