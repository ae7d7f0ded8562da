"""Whole rebalances of clusters that ask who a client is, by a user who may do what the documentation asks for."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.kafka.documented_permissions import rules_to_move, rules_to_plan
from support.kafka.secured_cluster import CERTIFICATE, PASSWORD, SecuredCluster, secured_cluster
from support.runs.rebalance_run import InProcessRun

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def with_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("3.9.2", tmp_path_factory.mktemp("security")) as running:
        running.permit(*rules_to_plan(with_zookeeper=True))
        yield running


@pytest.fixture(scope="module")
def without_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("4.4.0", tmp_path_factory.mktemp("security"), kraft=True) as running:
        running.permit(*rules_to_plan(with_zookeeper=False), *rules_to_move())
        yield running


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Everything, also what the clients would tell a debugger."""
    caplog.set_level(logging.DEBUG)
    return caplog


def carry_out(secured: SecuredCluster, run: InProcessRun, topic: str) -> None:
    """A topic of its own moves to another broker, under a throttle."""
    secured.local.create_topic(topic, {0: (1, 2), 1: (2, 3)})
    secured.local.produce(topic, dict.fromkeys((0, 1), MEGABYTE))
    run.plan_lists(topic, {0: (4, 2), 1: (2, 1)})
    verification = run.carry_out("given")
    assert verification["passed"] is True, verification


def secrets_in(fields: Mapping[str, Any]) -> list[str]:
    key = json.loads(fields["extra"]["kafka_secret_config"]).get("ssl.key.pem", "")
    return [PASSWORD, *filter(None, (fields.get("password"), *key.splitlines()[1:-1]))]


def check_no_secret_is_told(fields: Mapping[str, Any], run: InProcessRun, folder: Path, logged: str) -> None:
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert len(files) > 10
    told = f"{run.xcom} {run.decision} {run.said} {logged}"
    for secret in secrets_in(fields):
        assert secret not in told
        assert [path for path, content in files.items() if secret.encode() in content] == []


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "PLAIN", CERTIFICATE])
def test_a_rebalance_with_zookeepers_digest_tls_and_protected_znodes_ends_as_approved(
    with_zookeeper: SecuredCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: pytest.LogCaptureFixture,
    way: str,
) -> None:
    fields = with_zookeeper.connection(way)
    run = InProcessRun(tmp_path, with_zookeeper.local, monkeypatch, connection=fields)
    carry_out(with_zookeeper, run, f"orders-{way}")
    check_no_secret_is_told(fields, run, tmp_path, logged.text)


def test_a_rebalance_without_zookeeper_by_a_user_with_the_documented_rights_ends_as_approved(
    without_zookeeper: SecuredCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logged: pytest.LogCaptureFixture,
) -> None:
    fields = without_zookeeper.connection()
    run = InProcessRun(tmp_path, without_zookeeper.local, monkeypatch, connection=fields)
    carry_out(without_zookeeper, run, "orders")
    check_no_secret_is_told(fields, run, tmp_path, logged.text)
