"""A password that is rotated while a run is under way: the connection is read anew, and nobody hammers the old one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafka_rebalance.admin import clients
from kafka_rebalance.errors import AuthenticationError
from kafka_rebalance.model.connection import ClusterConnection, cluster_connection
from kafka_rebalance.run.watch_batch import BatchSeen, Watcher, look_with_new_connection
from support.kafka.permissions import CLUSTER, permission
from support.kafka.secured_cluster import PASSWORD, USER, SecuredCluster, secured_cluster

pytestmark = pytest.mark.long
log = logging.getLogger(__name__)
ROTATED = "hunter3-of-the-rebalancer"


class Looker(Watcher):
    said: str | None = None

    def look(self, now: float, say: Callable[[str], object]) -> BatchSeen | None:
        self._cluster().has_request()
        self.said = None
        return None

    def away(self, now: float, why: str, say: Callable[[str], object]) -> BatchSeen | None:
        self.close()
        self.said = why
        return None

    def seconds_to_next_look(self, quickest: float, slowest: float) -> float:
        return slowest


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    from confluent_kafka.admin import AclOperation

    with secured_cluster("4.4.0", tmp_path_factory.mktemp("security"), kraft=True, brokers=2) as running:
        running.permit(permission(*CLUSTER, AclOperation.DESCRIBE, USER))
        yield running


def rotate(secured: SecuredCluster, password: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    change = UserScramCredentialUpsertion(USER, info, password.encode())
    for answer in secured.superuser.alter_user_scram_credentials([change]).values():
        answer.result()


def connection_of(secured: SecuredCluster, password: str) -> ClusterConnection:
    fields: dict[str, Any] = secured.connection(sasl_password=password)
    empty = dict.fromkeys(("port", "schema", "login", "password"))
    return cluster_connection(SimpleNamespace(**empty | fields, conn_id="kafka_eu", extra_dejson=fields["extra"]))


def test_a_follower_takes_the_new_password_and_waits_while_there_is_none(
    secured: SecuredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    describe = clients.describe_cluster
    monkeypatch.setattr(clients, "describe_cluster", lambda kafka: tried.append("login") or describe(kafka))
    old, new = connection_of(secured, PASSWORD), connection_of(secured, ROTATED)
    looker = Looker(old)
    look_with_new_connection(looker, time.time(), log, lambda: old)
    assert looker.said is None
    rotate(secured, ROTATED)
    looker.close()
    give_up = time.monotonic() + 30
    while looker.said is None and time.monotonic() < give_up:  # brokers hear of it a moment later
        looker.close()
        look_with_new_connection(looker, time.time(), log, lambda: old)
    assert looker.is_refused
    assert looker.said is not None
    assert "does not let this connection in" in looker.said
    assert PASSWORD not in looker.said
    before = len(tried)
    for _ in range(20):
        look_with_new_connection(looker, time.time(), log, lambda: old)
        assert looker.is_refused
    assert len(tried) == before, "the same password is not tried again at once"
    look_with_new_connection(looker, time.time(), log, lambda: new)
    assert not looker.is_refused
    assert looker.said is None
    looker.close()
    rotate(secured, PASSWORD)


def test_a_login_that_was_refused_is_tried_again_after_a_rest(
    secured: SecuredCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_REST_SECONDS", 0.0)
    wrong = connection_of(secured, "not-yet").kafka
    with pytest.raises(AuthenticationError):
        clients.check_enters(wrong)
    rotate(secured, "not-yet")
    give_up = time.monotonic() + 30
    while True:
        try:
            clients.check_enters(wrong)
            break
        except AuthenticationError:
            assert time.monotonic() < give_up
    rotate(secured, PASSWORD)
