"""Servers that do not let a connection in: why is told in seconds and for good, without a secret."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from kafka_rebalance.admin import clients
from kafka_rebalance.admin.cluster_view import read_cluster_id
from kafka_rebalance.admin.wire import open_wire
from kafka_rebalance.errors import AuthenticationError, ReadError
from kafka_rebalance.local_cluster.security.certificates import Authority
from kafka_rebalance.model.connection import ClusterConnection, cluster_connection
from kafka_rebalance.run.retried_errors import is_final
from kafka_rebalance.zookeeper import client
from kafka_rebalance.zookeeper.client import open_client
from support.kafka.secured_cluster import CERTIFICATE, PASSWORD, SecuredCluster, secured_cluster, with_extra
from support.runs.rebalance_run import InProcessRun

SECONDS = 15.0
BRIEF_SECONDS = 1.0
Fields = Mapping[str, Any]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("3.9.2", tmp_path_factory.mktemp("security"), brokers=2) as running:
        yield running


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of servers that may yet come up, a task waits ten seconds for the first answer."""
    assert max(clients.FIRST_SECONDS, client.REFUSED_SECONDS) < SECONDS
    monkeypatch.setattr(clients, "FIRST_SECONDS", BRIEF_SECONDS)
    monkeypatch.setattr(client, "REFUSED_SECONDS", BRIEF_SECONDS)


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A certificate authority that nobody of the cluster trusts."""
    return Authority(tmp_path_factory.mktemp("strange"), "strange")


def made(fields: Fields) -> ClusterConnection:
    empty = dict.fromkeys(("port", "schema", "login", "password"))
    return cluster_connection(SimpleNamespace(**empty | dict(fields), conn_id="kafka_eu", extra_dejson=fields["extra"]))


def refusal(read: Callable[[], object]) -> ReadError:
    began = time.monotonic()
    with pytest.raises(ReadError) as refused:
        read()
    assert time.monotonic() - began < SECONDS
    assert PASSWORD not in str(refused.value)
    return refused.value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c, s: c.connection(sasl_password="wrong"), "invalid credentials with SASL mechanism SCRAM-SHA-512"),
        (lambda c, s: c.connection("PLAIN", sasl_password="wrong"), "Invalid username or password"),
        (lambda c, s: c.connection(sasl_mechanism="SCRAM-SHA-256"), "supported mechanisms: PLAIN,SCRAM-SHA-512"),
        (lambda c, s: c.connection(ssl_ca_location=str(s.certificate)), "certificate"),
        (lambda c, s: c.connection(servers=c.servers("STRANGER")), "not valid for '127.0.0.4'"),
        (
            lambda c, s: c.connection(CERTIFICATE, ssl_certificate_pem=None, ssl_key_pem=None, ssl_key_password=None),
            "BAD_CERTIFICATE|CERTIFICATE_REQUIRED",
        ),
        (
            lambda c, s: c.connection(
                CERTIFICATE,
                ssl_key_password=None,
                ssl_certificate_pem=s.issue("rebalancer").certificate.read_text(),
                ssl_key_pem=(s.certificate.parent / "rebalancer-key.pem").read_text(),
            ),
            "CERTIFICATE_UNKNOWN|UNKNOWN_CA",
        ),
    ],
    ids=["SCRAM", "PLAIN", "mechanism", "CA", "host name", "no client certificate", "strange client certificate"],
)
def test_brokers_that_refuse_a_connection_say_why_to_both_clients(
    secured: SecuredCluster, strange: Authority, change: Callable[..., Fields], said: str
) -> None:
    kafka = made(change(secured, strange)).kafka

    def read_log_dirs() -> None:
        with open_wire(kafka):
            pytest.fail("it must not open")

    for read in (lambda: read_cluster_id(kafka), read_log_dirs):
        refused = refusal(read)
        assert isinstance(refused, AuthenticationError)
        assert is_final(refused)
        assert any(one in str(refused) for one in said.split("|")), refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.connection(servers="127.0.0.1:1"), "Connection refused"),
        (lambda c: c.connection(servers="broker.invalid:9092"), "Failed to resolve"),
        (
            lambda c: c.connection(servers=c.local.bootstrap_servers),
            "ends the TLS handshake: its listener may be one without TLS",
        ),
        (lambda c: with_extra(c.connection(), kafka_secret_config={}), "another security.protocol"),
    ],
    ids=["nobody listens", "no such host", "TLS to a plain listener", "plain to a TLS listener"],
)
@pytest.mark.usefixtures("brief")
def test_brokers_that_cannot_be_reached_are_asked_again_by_a_retry(
    secured: SecuredCluster, change: Callable[[SecuredCluster], Fields], said: str
) -> None:
    refused = refusal(lambda: read_cluster_id(made(change(secured)).kafka))
    assert said in str(refused)
    assert not is_final(refused)


def of_zookeeper(secured: SecuredCluster, **changed: object) -> dict[str, Any]:
    return with_extra(
        secured.connection(),
        zookeeper_secret_config={"use_ssl": True, "ca": str(secured.security.authority.certificate), **changed},
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c, s: {**c.connection(), "password": "wrong"}, "refuses the login of the user kafka"),
        (lambda c, s: {**c.connection(), "login": None, "password": None}, "refuses a client without a user"),
        (lambda c, s: of_zookeeper(c, ca=str(s.certificate)), "certificate"),
        (lambda c, s: {**c.connection(), "host": c.local.zookeeper.replace("127.0.0.1", "localhost")}, "localhost"),
    ],
    ids=["password", "no user", "CA", "host name"],
)
def test_a_zookeeper_that_refuses_a_connection_says_why(
    secured: SecuredCluster, strange: Authority, change: Callable[..., Fields], said: str
) -> None:
    refused = refusal(lambda: open_client(made(change(secured, strange)).zookeeper).__enter__())
    assert isinstance(refused, AuthenticationError)
    assert is_final(refused)
    assert said in str(refused)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: {**c.connection(), "host": "127.0.0.1:1"}, "Connection refused"),
        (lambda c: of_zookeeper(c, ca="/no/such/file"), "No such file"),
    ],
    ids=["nobody listens", "no file"],
)
@pytest.mark.usefixtures("brief")
def test_a_zookeeper_that_cannot_be_reached_is_asked_again_by_a_retry(
    secured: SecuredCluster, change: Callable[[SecuredCluster], Fields], said: str
) -> None:
    refused = refusal(lambda: open_client(made(change(secured)).zookeeper).__enter__())
    assert said in str(refused)
    assert not is_final(refused)


def test_no_file_stays_where_a_key_was_given_as_text(
    secured: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert read_cluster_id(made(secured.connection(CERTIFICATE)).kafka)
    with open_wire(made(secured.connection(CERTIFICATE)).kafka) as wire:
        assert wire.known_brokers() == {1, 2}
    assert list(tmp_path.iterdir()) == []


def test_a_task_with_a_wrong_password_is_not_tried_again(
    secured: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured.local.create_topic("orders", {0: (1, 2)})
    run = InProcessRun(tmp_path, secured.local, monkeypatch, connection=secured.connection(sasl_password="wrong"))
    with pytest.raises(AirflowFailException, match=r"^AuthenticationError: .*invalid credentials"):
        run.plan()
