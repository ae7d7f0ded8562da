"""Bad input on a real cluster: the error says what, which object, what was not changed and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from kafka_rebalance.local_cluster import LocalCluster
from kafka_rebalance.local_cluster.machine.ports import free_port
from kafka_rebalance.rebalance.snapshot import take_snapshot
from kafka_rebalance.workflow.run_step import run_step
from support.runs.rebalance_run import CONNECTION, POLICY

Tree = dict[str, tuple[bytes, int]]


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    """Four brokers in three racks, of one version: what is refused here never reaches a version's own code."""
    with LocalCluster(brokers=4, racks=3) as cluster:
        cluster.create_topic("orders", {0: (1, 2, 3), 1: (2, 3, 4)})
        cluster.produce("orders", {0: 50_000, 1: 50_000})
        yield cluster


@pytest.fixture(scope="module")
def zookeeper(running: LocalCluster) -> Iterator[KazooClient]:
    client = KazooClient(running.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


def tree(client: KazooClient) -> Tree:
    """Every znode with its version, ZooKeeper's own and the brokers' sessions left out."""
    found: Tree = {}
    waiting = ["/admin", "/brokers/topics", "/config", "/controller_epoch", "/isr_change_notification"]
    while waiting:
        path = waiting.pop()
        content, stat = client.get(path)
        found[path] = (content or b"", stat.version)
        waiting += [f"{path}/{child}" for child in client.get_children(path)]
    assert client.exists("/kafka_rebalance") is None
    return found


@pytest.fixture
def snapshot(
    running: LocalCluster, zookeeper: KazooClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Calls the snapshot task, which must refuse, and gives the error's text; the cluster must be as it was."""
    before = tree(zookeeper)
    monkeypatch.setattr("kafka_rebalance.run.snapshot_reader.STORM_PAUSE_SECONDS", 0.1)

    def attempt(
        *,
        connection: dict[str, Any] | None = None,
        extra: dict[str, Any] | None = None,
        policy: str | None = POLICY,
        runs: Path = tmp_path / "runs",
        **params: Any,
    ) -> str:
        given = {
            "conn_type": "kafka_zookeeper",
            "host": running.zookeeper,
            **(connection or {}),
            "extra": {"bootstrap_servers": running.bootstrap_servers, **(extra or {})},
        }
        monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(given))
        monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__RUNS_URL", str(runs))
        monkeypatch.setenv("AIRFLOW__KAFKA_REBALANCE__POLICIES_FOLDER", str(tmp_path))
        if policy is not None:
            (tmp_path / f"{CONNECTION}.yaml").write_text(policy)
        run = SimpleNamespace(dag_id="kafka_rebalance", run_id="bad", triggering_user_name="olive", run_type="manual")
        pushed: dict[str, Any] = {}
        with pytest.raises(Exception) as caught:
            run_step(
                take_snapshot,
                run,
                {"kafka_conn_id": CONNECTION, **params},
                ti=SimpleNamespace(xcom_push=pushed.__setitem__),
            )
        return str(caught.value)

    yield attempt
    assert tree(zookeeper) == before


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"topics_in": ["no-such-*"]}, r"topics_in \['no-such-\*'\].* matches none of 1 topics"),
        ({"job": "drain", "drain": [77]}, "drain names broker 77, which does not exist.*Brokers are 1, 2, 3, 4"),
        ({"job": "replace", "replace": {"1": 78}}, "replace puts replicas on broker 78, which is not registered"),
        ({"brokers_out": [79]}, "brokers_out names broker 79"),
        (
            {"job": "replication_factor", "replication_factor": 4},
            "replication_factor 4 is larger than the 3 racks",
        ),
        (
            {"job": "replication_factor", "replication_factor": 9},
            "replication_factor 9 is larger than the 4 brokers that stay",
        ),
        ({"job": "drain"}, "job 'drain' needs the brokers to empty"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"tolerance": 7}, "tolerance must be a number above 0 and below 1"),
        ({"max_byte": 3}, "'max_byte' is not a setting; settings are job, tolerance"),
        ({"throttle_bytes_per_second": 10**12}, "a throttle of 1000000000000 bytes/s is outside the policy's"),
        ({"internal_topics": True}, "the policy does not allow internal topics"),
    ],
)
def test_params_that_cannot_be_used(snapshot: Callable[..., str], params: dict[str, Any], named: str) -> None:
    text = snapshot(**params)
    assert re.search(named, text), text
    assert re.search(
        r"Nothing was (read or |planned or )?(written|planned)|had changed nothing in the cluster", text
    ), text


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"connection": {"host": ""}}, f"The connection '{CONNECTION}' cannot be used: host is empty"),
        ({"extra": {"bootstrap_servers": ""}}, "bootstrap_servers is empty"),
        ({"extra": {"expected_cluster_id": "another"}}, "the connection expects cluster another"),
        ({"policy": "approvers: []"}, rf"{CONNECTION}\.yaml: approvers must be a non-empty list"),
        ({"policy": "approvers: [uma]\nmax_bites: 1"}, "'max_bites' is not a key of a policy"),
        ({"policy": "approvers: [uma"}, rf"{CONNECTION}\.yaml is not YAML"),
    ],
)
def test_a_connection_or_policy_that_cannot_be_used(
    snapshot: Callable[..., str], given: dict[str, Any], named: str
) -> None:
    text = snapshot(**given)
    assert re.search(named, text), text
    assert re.search(r"[Nn]othing was (read or |planned or )?written|had changed nothing in the cluster", text), text


def test_a_zookeeper_that_is_away(snapshot: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_rebalance.zookeeper.client.START_SECONDS", 1.0)
    host = f"127.0.0.1:{free_port()}"
    text = snapshot(connection={"host": host})
    assert f"ZooKeeper {host} cannot be read" in text
    assert "This try of the task had changed nothing in the cluster." in text


def test_brokers_that_are_away(snapshot: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_rebalance.admin.clients.FIRST_SECONDS", 1.0)
    text = snapshot(extra={"bootstrap_servers": f"127.0.0.1:{free_port()}"})
    assert "cannot be read (" in text
    assert "Connection refused" in text
    assert "Check that this host can reach the brokers" in text


def test_a_chroot_that_does_not_exist(snapshot: Callable[..., str], running: LocalCluster) -> None:
    text = snapshot(connection={"host": f"{running.zookeeper}/elsewhere"})
    assert "the chroot /elsewhere does not exist" in text


def test_a_run_folder_that_cannot_be_written(snapshot: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    text = snapshot(runs=tmp_path / "file" / "runs")
    assert "cannot be read" in text
    assert "changed nothing in the cluster" in text
