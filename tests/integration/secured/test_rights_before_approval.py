"""What a connection may not write is known before anybody is asked; and taking a documented row away is noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from confluent_kafka.admin import AclOperation
from kazoo.client import KazooClient
from kazoo.security import make_acl

from kafka_rebalance.documents import json_files
from kafka_rebalance.rebalance.request import CandidateApproval
from kafka_rebalance.run.approval_request import EndsHere, RunLinks, ask
from kafka_rebalance.workflow.hooks import KafkaClusterHook
from kafka_rebalance.workflow.run_step import step_inputs
from support.kafka.documented_permissions import rules_to_plan
from support.kafka.permissions import forbid
from support.kafka.secured_cluster import PASSWORD, USER, SecuredCluster, secured_cluster
from support.runs.rebalance_run import CONNECTION, InProcessRun
from support.waiting import wait

GIVEN = {
    "plan": json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 2]}]}),
    "candidates": [],
}


@pytest.fixture(scope="module")
def with_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with secured_cluster("3.9.2", tmp_path_factory.mktemp("security"), brokers=3) as running:
        running.permit(*rules_to_plan(with_zookeeper=True))
        running.local.create_topic("orders", {0: (1, 2)})
        yield running


def as_own_user(secured: SecuredCluster) -> dict[str, Any]:
    """A connection whose ZooKeeper user is not the brokers'."""
    return {**secured.connection(), "login": USER, "password": PASSWORD}


def asked(run: InProcessRun) -> object:
    task = SimpleNamespace(xcom_push=lambda key, value: None)
    return ask(
        step_inputs(run.dag_run, task), CandidateApproval(), str(run.folder), run.xcom["nonce"], RunLinks("", "")
    )


def tree(zookeeper: KazooClient) -> dict[str, tuple[bytes, int]]:
    """Every znode that a run could write."""
    found, waiting = {}, ["/admin", "/config", "/brokers/topics"]
    while waiting:
        path = waiting.pop()
        content, stat = zookeeper.get(path)
        found[path] = content, stat.version
        waiting += [f"{path}/{child}" for child in zookeeper.get_children(path)]
    return found


@pytest.fixture
def zookeeper(with_zookeeper: SecuredCluster) -> Iterator[KazooClient]:
    """As the brokers' own user."""
    client = KazooClient(with_zookeeper.local.zookeeper, **with_zookeeper.security.kazoo_options)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def readable_configs(zookeeper: KazooClient) -> Iterator[None]:
    """Kafka lets nobody else read the configs of brokers."""
    before = zookeeper.get_acls("/config/brokers")[0]
    zookeeper.set_acls("/config/brokers", [*before, make_acl("sasl", USER, read=True)])
    yield
    zookeeper.set_acls("/config/brokers", before)


@pytest.mark.usefixtures("readable_configs")
def test_a_zookeeper_user_who_may_only_read_gets_a_plan_and_nobody_is_asked(
    with_zookeeper: SecuredCluster, zookeeper: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(zookeeper)
    run = InProcessRun(tmp_path, with_zookeeper.local, monkeypatch, connection=as_own_user(with_zookeeper))
    proposals = run.plan(**GIVEN)
    assert [one["name"] for one in proposals["candidates"]] == ["given"]
    snapshot = json_files.read_json(run.folder, json_files.SNAPSHOT)
    missing = {one["subject"] for one in snapshot["missing_rights"]}
    assert missing == {"/admin", "/config/changes", "/config/brokers", "/config/topics/orders"}
    ends = asked(run)
    assert isinstance(ends, EndsHere)
    assert "/config/topics/orders: this ZooKeeper user may not write it" in ends.why
    assert "may not write what a rebalance needs" in (run.folder / "report.html").read_text()
    assert tree(zookeeper) == before


def test_the_brokers_own_user_may_write_all_of_it(
    with_zookeeper: SecuredCluster, zookeeper: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(zookeeper)
    run = InProcessRun(tmp_path, with_zookeeper.local, monkeypatch, connection=with_zookeeper.connection())
    run.plan(**GIVEN)
    assert "missing_rights" not in json_files.read_json(run.folder, json_files.SNAPSHOT)
    assert not isinstance(asked(run), EndsHere)
    assert tree(zookeeper) == before


def test_configs_of_brokers_that_may_not_be_read_are_named(
    with_zookeeper: SecuredCluster, zookeeper: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protected = [make_acl("sasl", "kafka", all=True)]  # as Kafka gives it to a broker's config
    zookeeper.create("/config/brokers/1", b'{"version":1,"config":{}}', acl=protected)
    run = InProcessRun(tmp_path, with_zookeeper.local, monkeypatch, connection=as_own_user(with_zookeeper))
    with pytest.raises(AirflowFailException, match=r"ReadDeniedError: /config/brokers.*may not read it"):
        run.plan(**GIVEN)
    zookeeper.delete("/config/brokers/1")


@pytest.mark.usefixtures("readable_configs")
def test_airflows_button_test_says_what_is_reached_and_what_is_missing(
    with_zookeeper: SecuredCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(connection: dict[str, Any]) -> tuple[bool, str]:
        InProcessRun(tmp_path, with_zookeeper.local, monkeypatch, connection=connection)
        return KafkaClusterHook(CONNECTION).test_connection()

    works, text = said(with_zookeeper.connection())
    assert works
    assert "3 brokers, 1 partitions. This connection has every right" in text
    works, text = said(as_own_user(with_zookeeper))
    assert works
    assert "may plan, but not rebalance. " in text
    assert "/admin: this ZooKeeper user may not create a znode below it" in text
    works, text = said(with_zookeeper.connection(sasl_password="wrong"))
    assert not works
    assert "invalid credentials" in text
    (rule,) = (rule for rule in rules_to_plan(with_zookeeper=True) if rule.operation == AclOperation.DESCRIBE_CONFIGS)
    forbid(with_zookeeper.superuser, rule)
    try:
        wait(
            "the right is named", lambda: "needs DescribeConfigs on the cluster" in said(with_zookeeper.connection())[1]
        )
    finally:
        with_zookeeper.permit(rule)
